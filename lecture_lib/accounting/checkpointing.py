"""Checkpointing every k layers: what is kept, what is computed again, and the k that keeps least.

Bytes at the peak are `peak.mlp_peak(…, segment=k)` and `peak.transformer_peak(…, segment=k)`; the products
of a Transformer that are computed again are `flops.recomputation(…, segment=k)`. torch stops a segment's
second forward at its last saved tensor: its last product is not repeated where nothing after it is saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from lecture_lib.accounting.flops import mlp_recomputation, mlp_step
from lecture_lib.accounting.inputs import one_of, segment_length, whole
from lecture_lib.quantity import Ledger, Quantity

CHEN = "Chen et al. 2016 (1604.06174), section 4"


def segment_units(layers: int, segment: int) -> Quantity:
    """ceil(L/k) + k: layers' activations at the peak, one boundary for each segment and one segment again."""
    n = {"L": whole("layers", layers), "k": whole("segment", segment)}
    segment_length(n["k"], n["L"])
    return Quantity(
        -(-n["L"] // n["k"]) + n["k"],
        "1",
        name="layers' activations at the peak",
        formula="ceil(L/k) + k",
        inputs=n,
        conventions=("a layer's boundary and its other activations count alike",),
        source=CHEN,
    )


def square_root_segment(layers: int) -> Quantity:
    """√L: where L/k + k is least, k taken as a real number."""
    L = whole("layers", layers)
    return Quantity(
        math.sqrt(L), "1", name="segment that keeps least", formula="sqrt(L)", inputs={"L": L}, source=CHEN
    )


def best_segment(layers: int, cost: Callable[[int], int | Quantity] | None = None) -> int:
    """The k of 1 to L with the least cost, the smallest of several; every k is tried.

    cost: of a segment length, such as `lambda k: transformer_peak(config, 8, 64, segment=k).total`; units
    ceil(L/k) + k if left out
    """
    L = whole("layers", layers)
    of = cost if cost is not None else lambda k: segment_units(L, k)

    def bytes_of(k: int) -> object:
        found = of(k)
        return found.base_value if isinstance(found, Quantity) else found

    return min(range(1, L + 1), key=bytes_of)  # type: ignore[arg-type]


def mlp_checkpoint_flops(batch: int, widths: Sequence[int], segment: int | None) -> Ledger:
    """Matrix products of a training step of `networks.mlp(widths)`: forward, computed again, backward.

    batch: rows; segment: linear layers under one checkpoint. The input gets no gradient. The rows are sums of
    `flops.mlp_step` and `flops.mlp_recomputation`, which count layer by layer.
    """
    step = mlp_step(batch, widths)
    forward = sum(int(row) for label, row in step.items() if label.endswith(": forward"))
    again = 0 if segment is None else int(mlp_recomputation(batch, widths, segment).total)
    counted = {"forward": forward, "computed again": again, "backward": int(step.total) - forward}
    conventions = ("FMA = 2 FLOPs", "matrix products only", "a checkpoint stops at its last saved tensor")
    rows = {
        label: Quantity(flops, "FLOP", name=label, conventions=conventions)
        for label, flops in counted.items()
    }
    chain = " → ".join(map(str, widths))
    return Ledger(rows, name=f"MLP {chain}: a training step, {segment or 'no'} layers a checkpoint")


def forwards_of_a_chain(segment: int, ends_in: str = "activation") -> Quantity:
    """Forwards that a step of a long chain of equal layers costs: 4, or 3 + (k − 1)/k.

    segment: k layers under one checkpoint; ends_in: "activation", whose result is saved, so that all is
    computed again; "linear" for a segment that ends in a bare product, which is not. The backward is two.
    """
    k = whole("segment", segment)
    one_of("ends_in", ends_in, ("activation", "linear"))
    bare = ends_in == "linear"
    return Quantity(
        3 + Fraction(k - 1, k) if bare else 4,
        "1",
        name="forwards in all",
        formula="3 + (k - 1)/k" if bare else "1 + 1 + 2",
        inputs={"k": k},
        conventions=("a checkpoint stops at its last saved tensor", "backward = 2 forwards"),
    )
