"""Checkpointing every k layers: what is kept, what is computed again, and the k that keeps least.

Bytes at the peak are `peak.mlp_peak(…, segment=k)` and `peak.transformer_peak(…, segment=k)`; `by_segment`
gives them for every k. What `checkpoint` computes again is counted by the same walk: torch stops a segment's
second forward at its last saved tensor, so a segment's last product is not repeated where nothing after it is
saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from lecture_lib.accounting import steps
from lecture_lib.accounting.eager import Machine, Tensor, backward
from lecture_lib.accounting.inputs import whole
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.accounting.peak import PeakMemory
from lecture_lib.quantity import LectureError, Ledger, Quantity

CHEN = "Chen et al. 2016 (1604.06174), section 4"


def segment_units(layers: int, segment: int) -> Quantity:
    """ceil(L/k) + k: layers' activations at the peak, one boundary for each segment and one segment again."""
    n = {"L": whole("layers", layers), "k": whole("segment", segment)}
    steps.check_segment(n["k"], n["L"])
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


def by_segment(
    peak: Callable[[int | None], PeakMemory], segments: Iterable[int | None]
) -> dict[int | None, Quantity]:
    """k -> predicted peak bytes, for `peak = lambda k: transformer_peak(config, 8, 64, segment=k)`.

    segments: the lengths asked for, such as range(1, L + 1); None is no checkpointing
    """
    return {segment: peak(segment).total for segment in segments}


def mlp_checkpoint_flops(batch: int, widths: Sequence[int], segment: int | None) -> Ledger:
    """Matrix products of a training step of `networks.mlp(widths)`: forward, computed again, backward.

    batch: rows; segment: linear layers under one checkpoint. The input gets no gradient.
    """
    chain = steps.check_widths(widths)
    steps.check_segment(segment, len(chain) - 1)
    machine = Machine()
    network = steps.MLP(machine, chain, False, "relu", "fp32")
    rows = whole("batch", batch)
    data = machine.empty((rows, chain[0]), "fp32", "inputs"), machine.empty((rows,), "int64", "targets")
    backward(_forward(machine, network, data, segment))
    return _flops(machine, "MLP " + " → ".join(map(str, chain)), segment)


def transformer_checkpoint_flops(
    config: ModelConfig, batch: int, seq: int, segment: int | None, *, fused: bool = True
) -> Ledger:
    """Matrix products of a training step of `networks.transformer`: forward, computed again, backward.

    batch, seq: sequences and tokens in each; segment: blocks under one checkpoint. Attention counts all S²
    pairs; fused attention forms its scores again in the backward, which counts there.
    """
    steps.check_config(config)
    steps.check_segment(segment, config.num_hidden_layers)
    machine = Machine()
    network = steps.Transformer(machine, config, fused, "fp32")
    shape = whole("batch", batch), whole("seq", seq)
    data = machine.empty(shape, "int64", "tokens"), machine.empty((math.prod(shape),), "int64", "targets")
    backward(_forward(machine, network, data, segment))
    return _flops(machine, config.name or "Transformer", segment)


def _forward(
    machine: Machine, network: steps.Network, batch: tuple[Tensor, Tensor], segment: int | None
) -> Tensor:
    with machine.during("forward"):
        return network.loss(batch, segment)


def _flops(machine: Machine, name: str, segment: int | None) -> Ledger:
    counted = {
        "forward": machine.flops["forward"],
        "computed again": machine.flops.get("recompute", 0),
        "backward": machine.flops["backward"],
    }
    conventions = ("FMA = 2 FLOPs", "matrix products only", "a checkpoint stops at its last saved tensor")
    rows = {
        label: Quantity(flops, "FLOP", name=label, conventions=conventions)
        for label, flops in counted.items()
    }
    return Ledger(rows, name=f"{name}: a training step, {segment or 'no'} layers a checkpoint")


def forwards_of_a_chain(segment: int, ends_in: str = "activation") -> Quantity:
    """Forwards that a step of a long chain of equal layers costs: 4, or 3 + (k − 1)/k.

    segment: k layers under one checkpoint; ends_in: "activation", whose result is saved, so that all is
    computed again; "linear" for a segment that ends in a bare product, which is not. The backward is two.
    """
    k = whole("segment", segment)
    if ends_in not in ("activation", "linear"):
        raise LectureError(f"expected ends_in 'activation' or 'linear'; got {ends_in!r}")
    bare = ends_in == "linear"
    return Quantity(
        3 + Fraction(k - 1, k) if bare else 4,
        "1",
        name="forwards in all",
        formula="3 + (k - 1)/k" if bare else "1 + 1 + 2",
        inputs={"k": k},
        conventions=("a checkpoint stops at its last saved tensor", "backward = 2 forwards"),
    )
