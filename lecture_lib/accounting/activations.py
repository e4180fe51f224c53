"""What a forward pass keeps for its backward, tensor by tensor, and the published closed forms beside it.

The lists are those of `measuring.saved_tensors` on `networks.mlp` and `networks.transformer` with a cross
entropy loss, each storage once: `steps` runs the forward, `eager` knows what each operation saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from lecture_lib.accounting import steps
from lecture_lib.accounting.dtypes import bytes_per_element
from lecture_lib.accounting.eager import Machine, Tensor
from lecture_lib.accounting.inputs import amount, chain_widths, one_of, segment_length, whole
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.quantity import Ledger, Quantity

KORTHIKANTI = "Korthikanti et al. 2022 (2205.05198)"
KINDS = ("activation", "input", "parameter")


@dataclass(frozen=True)
class Kept:
    """One tensor that autograd saves.

    keeper: the module and the backward node, and the tensor's name in it
    kind:   "activation" (made by the forward), "input" (made before it) or "parameter"
    bytes:  of its storage; 0 where an earlier row already counts it
    """

    keeper: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    bytes: int


class Saved(tuple[Kept, ...]):
    """Every tensor that autograd saves, in that order; `bytes` counts each storage once."""

    @property
    def by_kind(self) -> Ledger:
        """Bytes of activations, inputs and parameters."""
        sums = {kind: sum(row.bytes for row in self if row.kind == kind) for kind in KINDS}
        return Ledger(
            {f"{kind}s": Quantity(size, "B", name=f"saved {kind}s") for kind, size in sums.items()},
            name="Saved for the backward pass",
        )

    @property
    def activations(self) -> Ledger:
        """A row for each storage that lives only because the backward is still to come."""
        rows: dict[str, Quantity] = {}
        for row in self:
            if row.kind != "activation" or not row.bytes:
                continue
            size = int(bytes_per_element(row.dtype))
            symbols = {f"n_{axis}": extent for axis, extent in enumerate(row.shape)}
            symbols["bytes"] = size
            whole_storage = row.bytes == prod(row.shape) * size
            label, number = row.keeper, 1
            while label in rows:
                number += 1
                label = f"{row.keeper} ({number})"
            rows[label] = Quantity(
                row.bytes,
                "B",
                name=label,
                formula="·".join(symbols) if whole_storage else "",
                inputs=symbols if whole_storage else {},
                conventions=(row.dtype,),
            )
        return Ledger(rows, name="Activations kept for the backward pass", unit="B")


def mlp_saved(
    batch: int,
    widths: Sequence[int],
    *,
    bias: bool = False,
    activation: str = "relu",
    dtype: object = "fp32",
    autocast: object | None = None,
    segment: int | None = None,
) -> Saved:
    """What autograd saves in `cross_entropy(networks.mlp(widths)(x), target)`.

    batch: rows of x; widths: (d_in, …, d_out); activation: "relu", "gelu" or "silu"; dtype: of parameters and
    x; autocast: dtype of matrix products under autocast, None for none; segment: layers under one checkpoint
    """
    chain = chain_widths(widths)
    one_of("activation", activation, steps.ACTIVATIONS)
    if segment is not None:
        segment_length(segment, len(chain) - 1)
    name, cast = steps.precision(dtype, autocast)
    machine = Machine()
    network = steps.MLP(machine, chain, bias, activation, name)
    rows = whole("batch", batch)
    inputs = machine.empty((rows, chain[0]), name, "inputs", "inputs")
    return _saved(machine, network, (inputs, _targets(machine, rows)), cast, segment)


def transformer_saved(
    config: ModelConfig,
    batch: int,
    seq: int,
    *,
    fused: bool = True,
    dtype: object = "fp32",
    autocast: object | None = None,
    segment: int | None = None,
    device: str = "cpu",
) -> Saved:
    """What autograd saves in the cross entropy of `networks.transformer(config, fused=fused)`.

    batch, seq: sequences and tokens in each; segment: blocks under one checkpoint; the rest as `mlp_saved`.
    device: "cuda" for its kernels (an RMSNorm is one there, softmax and LayerNorm are FP32 under autocast)
    """
    steps.check_config(config)
    one_of("device", device, ["cpu", "cuda"])
    if segment is not None:
        segment_length(segment, config.num_hidden_layers)
    rows, length = whole("batch", batch), whole("seq", seq)
    name, cast = steps.precision(dtype, autocast)
    steps.check_attention(device, fused, name, cast)
    machine = Machine(device)
    network = steps.Transformer(machine, config, fused, name)
    tokens = machine.empty((rows, length), "int64", "tokens", "inputs")
    return _saved(machine, network, (tokens, _targets(machine, rows * length)), cast, segment)


def _targets(machine: Machine, rows: int) -> Tensor:
    return machine.empty((rows,), "int64", "targets", "inputs")


def _saved(
    machine: Machine,
    network: steps.Network,
    batch: tuple[Tensor, Tensor],
    autocast: str | None,
    segment: int | None,
) -> Saved:
    found: list[tuple[str, Tensor]] = []
    machine.saved = found
    with machine.during("forward"), machine.autocasting(autocast):
        loss = network.loss(batch, segment)
    counted: set[int] = set()
    kinds = {"parameters": "parameter", "inputs": "input"}
    rows = []
    for keeper, tensor in found:
        record, number = tensor.record, tensor.storage.number
        size = 0 if number in counted else record.nbytes
        counted.add(number)
        kind = kinds.get(record.category, "activation")
        rows.append(Kept(keeper, tensor.shape, tensor.dtype, kind, size))
    machine.saved = None
    del loss
    return Saved(rows)


# -- published closed forms

RECOMPUTE = {
    "none": "every activation kept",
    "selective": "attention's scores, softmax and dropout computed again",
    "full": "a layer's input kept, the rest computed again",
}


def layer_activations(
    seq: int,
    batch: int,
    hidden: int,
    heads: int,
    *,
    recompute: str = "none",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
) -> Quantity:
    """Bytes kept for one layer of a GPT in 16 bit with dropout: s·b·h·(34 + 5·a·s/h) without parallelism.

    seq s, batch b (of a microbatch), hidden h, heads a, tensor_parallel t. Selective recomputation drops the
    second term, full recomputation leaves 2·s·b·h. Tensor parallelism divides 24 of the 34, and with sequence
    parallelism all of it.
    """
    n = {
        "s": whole("seq", seq),
        "b": whole("batch", batch),
        "h": whole("hidden", hidden),
        "a": whole("heads", heads),
        "t": whole("tensor_parallel", tensor_parallel),
    }
    one_of("recompute", recompute, RECOMPUTE)
    s, b, h, a, t = n.values()
    if recompute == "full":
        # Korthikanti et al. keep the whole input on every rank; sequence parallelism would divide it.
        value, formula = Fraction(2 * s * b * h, t if sequence_parallel else 1), "2·s·b·h"
        formula += "/t" if sequence_parallel else ""
    else:
        scores = Fraction(5 * a * s * s * b, t) if recompute == "none" else 0
        last = " + 5·a·s/(h·t)" if recompute == "none" else ""
        if sequence_parallel:
            value, formula = Fraction(34 * s * b * h, t) + scores, f"s·b·h·(34/t{last})"
        else:
            value = 10 * s * b * h + Fraction(24 * s * b * h, t) + scores
            formula = f"s·b·h·(10 + 24/t{last})"
        if t == 1:
            formula = f"s·b·h·(34{' + 5·a·s/h' if recompute == 'none' else ''})"
    return Quantity(
        value,
        "B",
        name="activations of a layer",
        formula=formula,
        inputs=n,
        conventions=("16-bit activations, dropout masks of 1 byte, eager attention", RECOMPUTE[recompute]),
        source=f"{KORTHIKANTI}, equations 1, 2, 4 and 6, section 5",
    )


def pipeline_activations(
    layer: Quantity, layers: int, pipeline_parallel: int = 1, interleave: int = 1
) -> Quantity:
    """Bytes on the first pipeline stage, which has the most: A·L, interleaved A·L·(1 + (p − 1)/(p·m)).

    layer: A, of `layer_activations`; layers: L of the whole model; pipeline_parallel p; interleave m. A stage
    has L/p layers, and p microbatches in flight.
    """
    each = Fraction(amount("layer", layer, "B"))
    L = whole("layers", layers)
    p, m = whole("pipeline_parallel", pipeline_parallel), whole("interleave", interleave)
    factor = 1 + Fraction(p - 1, p * m) if m > 1 else Fraction(1)
    return Quantity(
        each * L * factor,
        "B",
        name="activations of the first stage",
        formula="A·L·(1 + (p - 1)/(p·m))" if m > 1 else "A·L",
        inputs={"A": float(each), "L": L, "p": p, "m": m},
        conventions=layer.conventions,
        source=f"{KORTHIKANTI}, section 4.2.3",
    )


def scores_ratio(seq: int, hidden: int, heads: int) -> Quantity:
    """5·a·s/h: attention's own activations over s·b·h, beside 34 for the rest of the layer."""
    n = {"s": whole("seq", seq), "h": whole("hidden", hidden), "a": whole("heads", heads)}
    return Quantity(
        Fraction(5 * n["a"] * n["s"], n["h"]),
        "1",
        name="attention's share over s·b·h",
        formula="5·a·s/h",
        inputs=n,
        source=f"{KORTHIKANTI}, section 5",
    )


def selective_saving(seq: int, hidden: int, heads: int) -> Quantity:
    """(5·a·s/h)/(34 + 5·a·s/h): share of a layer's activations that selective recomputation drops."""
    ratio = scores_ratio(seq, hidden, heads)
    scores = Fraction(ratio.value)
    return Quantity(
        scores / (34 + scores),
        "1",
        name="share of activations not kept",
        formula="(5·a·s/h)/(34 + 5·a·s/h)",
        inputs=ratio.inputs,
        source=ratio.source,
    )


def selective_overhead_as_published(seq: int, hidden: int, layers: int, vocab: int) -> Quantity:
    """(s/(6·h))/(1 + s/(6·h) + V/(12·h·L)): FLOPs that selective recomputation adds, as its authors count.

    They charge attention's two products three times; one repeated forward is a third of that
    (`flops.recomputation`).
    """
    n = {
        "s": whole("seq", seq),
        "h": whole("hidden", hidden),
        "L": whole("layers", layers),
        "V": whole("vocab", vocab),
    }
    scores = Fraction(n["s"], 6 * n["h"])
    return Quantity(
        scores / (1 + scores + Fraction(n["V"], 12 * n["h"] * n["L"])),
        "1",
        name="FLOPs added by selective recomputation, as published",
        formula="(s/(6·h))/(1 + s/(6·h) + V/(12·h·L))",
        inputs=n,
        source=f"{KORTHIKANTI}, section 5, equations 7 and 8",
    )
