"""The roofline: a time that no run can beat, and which budget sets it.

F is work in FLOPs, Q traffic in bytes, C a compute ceiling in FLOP/s, β a bandwidth in B/s. Each may be a
Quantity or a number in those units; whole and rational inputs give exact results. A sparse peak is refused.
"""

from __future__ import annotations

import math
from fractions import Fraction

from lecture_lib.accounting.dtypes import bytes_per_element
from lecture_lib.accounting.hardware import dense_rate
from lecture_lib.accounting.inputs import amount, whole
from lecture_lib.quantity import Quantity

OVERLAP = "lower bound: peak rates and perfect overlap of arithmetic and traffic"
SOURCE = "Williams, Waterman, Patterson 2009, Roofline"


def time_bound(flops: object, traffic: object, peak: object, bandwidth: object) -> Quantity:
    """Seconds that work and traffic take at least: max(F/C, Q/β). Launches and re-reads come on top."""
    F, Q = amount("flops", flops, "FLOP", zero=True), amount("traffic", traffic, "B", zero=True)
    C, beta = dense_rate(peak), amount("bandwidth", bandwidth, "B/s")
    return Quantity(
        max(_ratio(F, C), _ratio(Q, beta)),
        "s",
        name="time bound",
        formula="max(F/C, Q/β)",
        inputs={
            "F": Quantity(F, "FLOP"),
            "Q": Quantity(Q, "B"),
            "C": Quantity(C, "FLOP/s"),
            "β": Quantity(beta, "B/s"),
        },
        conventions=(OVERLAP, *_conventions(flops, traffic, peak, bandwidth)),
        source=SOURCE,
    )


def limit(flops: object, traffic: object, peak: object, bandwidth: object) -> str:
    """Which budget sets the bound: "arithmetic" (at the ridge and beyond it) or "bandwidth"."""
    F, Q = amount("flops", flops, "FLOP", zero=True), amount("traffic", traffic, "B", zero=True)
    C, beta = dense_rate(peak), amount("bandwidth", bandwidth, "B/s")
    return "arithmetic" if _ratio(F, C) >= _ratio(Q, beta) else "bandwidth"


def intensity(flops: object, traffic: object) -> Quantity:
    """Arithmetic intensity I = F/Q in FLOP/B."""
    F, Q = amount("flops", flops, "FLOP", zero=True), amount("traffic", traffic, "B")
    return Quantity(
        _ratio(F, Q),
        "FLOP/B",
        name="arithmetic intensity",
        formula="F/Q",
        inputs={"F": Quantity(F, "FLOP"), "Q": Quantity(Q, "B")},
        conventions=_conventions(flops, traffic),
    )


def ridge(peak: object, bandwidth: object) -> Quantity:
    """The intensity I* = C/β at which both budgets take the same time; below it bandwidth is the limit."""
    C, beta = dense_rate(peak), amount("bandwidth", bandwidth, "B/s")
    return Quantity(
        _ratio(C, beta),
        "FLOP/B",
        name="ridge",
        formula="C/β",
        inputs={"C": Quantity(C, "FLOP/s"), "β": Quantity(beta, "B/s")},
        conventions=_conventions(peak, bandwidth),
        source=SOURCE,
    )


def attainable(intensity: object, peak: object, bandwidth: object) -> Quantity:
    """The rate that the roofline allows at an intensity: min(C, β·I) in FLOP/s."""
    I = amount("intensity", intensity, "FLOP/B", zero=True)  # noqa: E741 - the lecture's symbol
    C, beta = dense_rate(peak), amount("bandwidth", bandwidth, "B/s")
    return Quantity(
        min(C, beta * I),
        "FLOP/s",
        name="attainable rate",
        formula="min(C, β·I)",
        inputs={"C": Quantity(C, "FLOP/s"), "β": Quantity(beta, "B/s"), "I": Quantity(I, "FLOP/B")},
        conventions=(OVERLAP, *_conventions(peak, bandwidth)),
        source=SOURCE,
    )


def rows_to_ridge(
    d_in: int, d_out: int, peak: object, bandwidth: object, dtype: object = "bf16"
) -> Quantity | None:
    """Fewest rows M of X (M, d_in) at which X·W, W (d_in, d_out), is limited by arithmetic; None if never.

    Ideal traffic and leading FLOPs: 2·M·d_in·d_out ≥ I*·s·(M·d_in + d_in·d_out + M·d_out), solved for M, with
    s bytes a value. As M grows the intensity nears 2·d_in·d_out/(s·(d_in + d_out)) and never reaches it: a
    ridge at or above that is never met.
    """
    d_in, d_out = whole("d_in", d_in), whole("d_out", d_out)
    star, s = _star(peak, bandwidth), Fraction(bytes_per_element(dtype))
    gain = 2 * d_in * d_out - star * s * (d_in + d_out)
    if gain <= 0:
        return None
    return Quantity(
        math.ceil(star * s * d_in * d_out / gain),
        name="rows to the ridge",
        formula="⌈I*·s·d_in·d_out / (2·d_in·d_out - I*·s·(d_in + d_out))⌉",
        inputs={"I*": Quantity(star, "FLOP/B"), "s": s, "d_in": d_in, "d_out": d_out},
        conventions=("ideal traffic: each matrix moved once", *_conventions(peak, bandwidth)),
    )


def square_at_ridge(peak: object, bandwidth: object, dtype: object = "bf16") -> Quantity:
    """Smallest n at which an n × n product is limited by arithmetic: its intensity is 2·n/(3·s)."""
    star, s = _star(peak, bandwidth), Fraction(bytes_per_element(dtype))
    return Quantity(
        math.ceil(3 * s * star / 2),
        name="square size at the ridge",
        formula="⌈3·s·I*/2⌉",
        inputs={"s": s, "I*": Quantity(star, "FLOP/B")},
        conventions=("ideal traffic: each matrix moved once", *_conventions(peak, bandwidth)),
    )


def _star(peak: object, bandwidth: object) -> Fraction:
    # Exact even from floats: a rounded ridge can be one row off.
    return Fraction(dense_rate(peak)) / Fraction(amount("bandwidth", bandwidth, "B/s"))


def _ratio(over: int | float | Fraction, under: int | float | Fraction) -> int | float | Fraction:
    if isinstance(over, float) or isinstance(under, float):
        return over / under
    return Fraction(over) / Fraction(under)


def _conventions(*given: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c for q in given if isinstance(q, Quantity) for c in q.conventions))
