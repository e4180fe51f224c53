"""FLOPs of linear layers, their backward products, networks, Transformers and training runs.

A multiply and its add are two FLOPs. The leading count, which counters report, gives every term of a sum
an add; `exact=True` drops the add that the first term does not need.
"""

from __future__ import annotations

from collections.abc import Sequence

from lecture_lib.accounting.contraction import FMA
from lecture_lib.accounting.inputs import sizes, whole
from lecture_lib.quantity import LectureError, Ledger, Quantity

MATMULS = "matrix products only (no bias, no activation)"


def linear_forward(M: int, d_in: int, d_out: int, exact: bool = False) -> Quantity:
    """FLOPs of Y = X·W, X (M, d_in), W (d_in, d_out): 2·M·d_in·d_out, or M·d_out·(2·d_in−1) exactly."""
    return _product("forward", M, d_in, d_out, ("M", "d_out"), "d_in", exact)


def linear_input_gradient(M: int, d_in: int, d_out: int, exact: bool = False) -> Quantity:
    """FLOPs of dX = G·Wᵀ, G (M, d_out): 2·M·d_in·d_out, or M·d_in·(2·d_out−1) exactly."""
    return _product("input gradient", M, d_in, d_out, ("M", "d_in"), "d_out", exact)


def linear_weight_gradient(M: int, d_in: int, d_out: int, exact: bool = False) -> Quantity:
    """FLOPs of dW = Xᵀ·G: 2·M·d_in·d_out, or d_in·d_out·(2·M−1) exactly."""
    return _product("weight gradient", M, d_in, d_out, ("d_in", "d_out"), "M", exact)


def _product(
    name: str, M: int, d_in: int, d_out: int, kept: tuple[str, str], summed: str, exact: bool
) -> Quantity:
    inputs = {"M": whole("M", M), "d_in": whole("d_in", d_in), "d_out": whole("d_out", d_out)}
    rows, columns, terms = inputs[kept[0]], inputs[kept[1]], inputs[summed]
    if exact:
        value, formula, order = (
            rows * columns * (2 * terms - 1),
            f"{kept[0]}·{kept[1]}·(2·{summed} - 1)",
            "exact",
        )
    else:
        value, formula, order = 2 * rows * columns * terms, "2·M·d_in·d_out", "leading order"
    return Quantity(value, "FLOP", name=name, formula=formula, inputs=inputs, conventions=(FMA, order))


def linear_step(M: int, d_in: int, d_out: int, input_gradient: bool = True, exact: bool = False) -> Ledger:
    """Forward and backward products of a linear layer over M rows: 6·M·P, P = d_in·d_out.

    At a fixed boundary (`input_gradient=False`) the row "input gradient" is absent, and 4·M·P remain.
    """
    rows = {"forward": linear_forward(M, d_in, d_out, exact)}
    if input_gradient:
        rows["input gradient"] = linear_input_gradient(M, d_in, d_out, exact)
    rows["weight gradient"] = linear_weight_gradient(M, d_in, d_out, exact)
    return Ledger(rows, name=f"linear layer {d_in} -> {d_out}, {M} rows")


def mlp_step(M: int, widths: Sequence[int], input_gradient: bool = False, exact: bool = False) -> Ledger:
    """Matrix products of a training step of a chain of linear layers.

    M: rows; widths: (d_0, d_1, …, d_L), so L layers. The data need no gradient, so the first layer computes
    no input gradient unless asked. Rows are named "layer 1: forward" and so on.
    """
    chain = sizes("widths", widths)
    if len(chain) < 2:
        raise LectureError(
            f"expected at least two widths, input and output; got {tuple(chain)}; write (784, 256, 10)"
        )
    rows: dict[str, Quantity] = {}
    for number, (d_in, d_out) in enumerate(zip(chain, chain[1:], strict=False), 1):
        step = linear_step(M, d_in, d_out, input_gradient or number > 1, exact)
        for row, quantity in step.items():
            rows[f"layer {number}: {row}"] = quantity.with_(conventions=(*quantity.conventions, MATMULS))
    return Ledger(rows, name="MLP " + " -> ".join(map(str, chain)) + f", {M} rows")


def training_run(parameters: int | Quantity, tokens: int | Quantity) -> Quantity:
    """FLOPs of training P parameters on T tokens, repeats included: 6·P·T.

    P: parameters that act on every token (for a mixture of experts the active ones).
    """
    P, T = whole("parameters", parameters), whole("tokens", tokens)
    return Quantity(
        6 * P * T,
        "FLOP",
        name="training run",
        formula="6·P·T",
        inputs={"P": P, "T": T},
        conventions=(FMA, "every parameter acts once on every token; no attention scores, no recomputation"),
        source="Kaplan et al. 2020, section 2.1",
    )
