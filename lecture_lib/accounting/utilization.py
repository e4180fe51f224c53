"""How much of a device's peak a run uses, and what that makes of days.

MFU counts the work that the model needs, HFU also what is done again (recomputation). Numerator and
denominator must agree on precision, and the peak be dense: `dtype` is what the matrix products ran in, and a
peak for other operands, a sparse peak or one that does not say what it is (a bare number) is refused.
"""

from __future__ import annotations

from fractions import Fraction

from lecture_lib.accounting.flops import RECOMPUTE
from lecture_lib.accounting.hardware import DENSE, dense_rate, operands
from lecture_lib.accounting.inputs import amount, whole
from lecture_lib.quantity import LectureError, Ledger, Quantity

MODEL = "MFU: model FLOPs only, recomputation not counted"
HARDWARE = "HFU: recomputation counted"
_DONE_AGAIN = {words for policy, words in RECOMPUTE.items() if policy != "none"}
_MFU_SOURCE = "Chowdhery et al. 2022, PaLM, section 4.1 and appendix B"


def achieved(flops: object, seconds: object, devices: int) -> Quantity:
    """FLOP/s that each of G devices achieved: F/(t·G)."""
    F, t, G = amount("flops", flops, "FLOP"), amount("seconds", seconds, "s"), whole("devices", devices)
    return Quantity(
        F / t / G if isinstance(F, float) or isinstance(t, float) else Fraction(F) / (Fraction(t) * G),
        "FLOP/s",
        name="achieved rate per device",
        formula="F/(t·G)",
        inputs={"F": Quantity(F, "FLOP"), "t": Quantity(t, "s"), "G": G},
        conventions=flops.conventions if isinstance(flops, Quantity) else (),
    )


def fraction_of_peak(rate: object, peak: Quantity, dtype: object) -> Quantity:
    """Achieved over peak rate of one device, X/C: of a matrix product, or of a whole step."""
    X, C = _achieved_rate(rate), _matching_peak(peak, dtype)
    return Quantity(
        _over(X, C),
        name="fraction of peak",
        formula="X/C",
        inputs={"X": Quantity(X, "FLOP/s"), "C": peak},
        conventions=_conventions(rate, peak),
    )


def mfu(model_flops: object, seconds: object, devices: int, peak: Quantity, *, dtype: object) -> Quantity:
    """Model-FLOPs utilization F_model/(t·G·C).

    model_flops: of what took `seconds`, FLOP; peak: of one device, from `device(...).peak(dtype)`,
    `stated_peak` or a measured ceiling. LectureError where the FLOPs count recomputation, or the peak does
    not belong to them.
    """
    if isinstance(model_flops, Quantity) and _DONE_AGAIN & set(model_flops.conventions):
        raise LectureError(
            f"expected model FLOPs for MFU; got {model_flops.name or 'FLOPs'} with recomputation; use hfu"
        )
    C = _matching_peak(peak, dtype)
    X = achieved(model_flops, seconds, devices)
    return Quantity(
        _over(X.value, C),
        name="MFU",
        formula="F_model/(t·G·C)",
        inputs={"F_model": X.inputs["F"], "t": X.inputs["t"], "G": X.inputs["G"], "C": peak},
        conventions=(MODEL, *_conventions(model_flops, peak)),
        source=_MFU_SOURCE,
    )


def mfu_from_throughput(
    flops_per_token: object, tokens_per_second: object, devices: int, peak: Quantity, *, dtype: object
) -> Quantity:
    """MFU of a run that reads R tokens a second on G devices: f·R/(G·C), f the model FLOPs of a token."""
    f = amount("flops_per_token", flops_per_token, "FLOP/token")
    R = amount("tokens_per_second", tokens_per_second, "token/s")
    figure = mfu(_with(flops_per_token, f * R), 1, devices, peak, dtype=dtype)
    return figure.with_(
        formula="f·R/(G·C)",
        inputs={"f": Quantity(f, "FLOP/token"), "R": Quantity(R, "token/s"), "G": devices, "C": peak},
    )


def hfu(
    model_flops: object,
    recomputed_flops: object,
    seconds: object,
    devices: int,
    peak: Quantity,
    *,
    dtype: object,
) -> Quantity:
    """Hardware-FLOPs utilization (F_model + F_recomputed)/(t·G·C): what the device did.

    Recomputing the whole forward adds a third of 6PT: HFU is then 4/3 of MFU.
    """
    F = amount("model_flops", model_flops, "FLOP")
    again = amount("recomputed_flops", recomputed_flops, "FLOP", zero=True)
    C = _matching_peak(peak, dtype)
    X = achieved(F + again, seconds, devices)
    return Quantity(
        _over(X.value, C),
        name="HFU",
        formula="(F_model + F_recomputed)/(t·G·C)",
        inputs={
            "F_model": Quantity(F, "FLOP"),
            "F_recomputed": Quantity(again, "FLOP"),
            "t": X.inputs["t"],
            "G": X.inputs["G"],
            "C": peak,
        },
        conventions=(HARDWARE, *_conventions(model_flops, recomputed_flops, peak)),
        source=_MFU_SOURCE,
    )


def against_wrong_peak(figure: Quantity, right: Quantity, wrong: Quantity) -> Quantity:
    """What a utilization reads when it is taken against a wrong peak: MFU·C_right/C_wrong.

    wrong: a sparse peak, or one of another precision; the conventions of the result say which. It is for
    seeing the trap: the result is no utilization.
    """
    u, C = amount("figure", figure, "1"), dense_rate(right)
    Z = amount("wrong", wrong, "FLOP/s")
    if set(right.conventions) == set(wrong.conventions):
        raise LectureError(
            "expected a wrong peak that differs from the right one in sparsity or precision; got "
            f"{wrong.name or wrong} for both; take sparse_peak(dtype) or another dtype's peak"
        )
    return Quantity(
        u * C / Z if isinstance(u * C, float) or isinstance(Z, float) else Fraction(u * C) / Fraction(Z),
        name="misread utilization",
        formula="MFU·C_right/C_wrong",
        inputs={"MFU": u, "C_right": right, "C_wrong": wrong},
        conventions=("not a utilization: the denominator does not belong to the run", *wrong.conventions),
    )


# -- days of a run


def run_time(flops: object, devices: int, peak: Quantity, mfu: object, *, dtype: object) -> Quantity:
    """Days that G devices take for F FLOPs at a sustained MFU: F/(G·C·MFU).

    Inefficiency that the MFU was measured with (communication, stragglers) is in it already; interruptions
    are not: see `run_ledger`.
    """
    u = _at_most_one(mfu)
    F, G, C = amount("flops", flops, "FLOP"), whole("devices", devices), _matching_peak(peak, dtype)
    return _days(
        _over(F, G * C * u),
        "F/(G·C·MFU)",
        {"F": Quantity(F, "FLOP"), "G": G, "C": peak, "MFU": u},
        ("MFU sustained; interruptions not in it", *_conventions(flops, peak)),
    )


def run_flops(time: Quantity, devices: int, peak: Quantity, mfu: object, *, dtype: object) -> Quantity:
    """FLOPs that G devices do in a time at a sustained MFU: G·C·MFU·t."""
    u, t = _at_most_one(mfu), amount("time", _a_time(time), "s")
    G, C = whole("devices", devices), _matching_peak(peak, dtype)
    return Quantity(
        G * C * u * t,
        "FLOP",
        name="work of the run",
        formula="G·C·MFU·t",
        inputs={"G": G, "C": peak, "MFU": u, "t": Quantity(t, "s")},
        conventions=("MFU sustained; interruptions not in it", *peak.conventions),
    )


def run_time_at_rate(flops: object, devices: int, rate: object) -> Quantity:
    """Days that G devices take for F FLOPs at an achieved X FLOP/s each: F/(G·X)."""
    F, G, X = amount("flops", flops, "FLOP"), whole("devices", devices), _achieved_rate(rate)
    return _days(
        _over(F, G * X),
        "F/(G·X)",
        {"F": Quantity(F, "FLOP"), "G": G, "X": Quantity(X, "FLOP/s")},
        ("rate sustained; interruptions not in it", *_conventions(flops, rate)),
    )


def run_time_at_throughput(tokens: object, devices: int, tokens_per_second: object) -> Quantity:
    """Days for T tokens at r tokens a second on each of G devices: T/(G·r)."""
    T, G = amount("tokens", tokens, "token"), whole("devices", devices)
    r = amount("tokens_per_second", tokens_per_second, "token/s")
    return _days(
        _over(T, G * r),
        "T/(G·r)",
        {"T": Quantity(T, "token"), "G": G, "r": Quantity(r, "token/s")},
        ("throughput sustained; interruptions not in it",),
    )


def run_ledger(training: Quantity, interruptions: int, lost_each: Quantity) -> Ledger:
    """Days on the calendar, interruptions apart: what the training takes, and n stops that lose L each.

    training: time of the work alone; lost_each: time from the last checkpoint to running again, per stop.
    """
    n = whole("interruptions", interruptions, least=0)
    amount("training", _a_time(training), "s")
    lost = amount("lost_each", _a_time(lost_each), "s", zero=True)
    stops = _days(
        n * lost, "n·L", {"n": n, "L": Quantity(lost, "s")}, ("work lost since a checkpoint, and restart",)
    )
    return Ledger(
        {"training": training.to("day"), "interruptions": stops.with_(name="interruptions")},
        name="days of the run",
    )


def device_hours(time: Quantity, devices: int) -> Quantity:
    """Device-hours that G devices are held for a time: G·t."""
    t, G = amount("time", _a_time(time), "s"), whole("devices", devices)
    return Quantity(
        _over(t * G, 3_600),
        "device·h",
        name="device-hours",
        formula="G·t",
        inputs={"G": G, "t": Quantity(t, "s")},
        conventions=time.conventions,
    )


def days_of_device_hours(device_hours: object, devices: int) -> Quantity:
    """Days that G devices take to spend H device-hours: H/G. A number is meant in device-hours."""
    given = (
        device_hours
        if isinstance(device_hours, Quantity)
        else Quantity(amount("H", device_hours, "1"), "device·h")
    )
    H, G = amount("device_hours", given, "device·s"), whole("devices", devices)
    return _days(_over(H, G), "H/G", {"H": given, "G": G}, given.conventions)


def tokens_per_day(tokens_per_step: object, seconds: object) -> Quantity:
    """Tokens that a run reads in a day of steps without stops: T_step/t."""
    T, t = amount("tokens_per_step", tokens_per_step, "token"), amount("seconds", seconds, "s")
    return Quantity(
        _over(T * 86_400, t),
        "token/day",
        name="tokens per day",
        formula="T_step/t",
        inputs={"T_step": Quantity(T, "token"), "t": Quantity(t, "s")},
        conventions=("no interruptions",),
    )


# -- checks


def _matching_peak(peak: object, dtype: object) -> int | float | Fraction:
    """The peak in FLOP/s, if it says that it is dense and for operands of `dtype`."""
    if not isinstance(peak, Quantity):
        raise LectureError(
            f"expected a peak that says what it is; got {peak!r}; take device(...).peak({dtype!r}), or "
            "stated_peak(Quantity(…, 'TFLOP/s'), dtype, source)"
        )
    rate, wanted = dense_rate(peak), operands(dtype)
    said = [convention for convention in peak.conventions if convention.endswith(" operands")]
    if said and wanted not in said:
        raise LectureError(
            f"expected a peak for {wanted}, which the run had; got {peak.name or peak} for {said[0]}; "
            f"take device(...).peak({dtype!r})"
        )
    if not said or DENSE not in peak.conventions:
        raise LectureError(
            f"expected a peak whose conventions say '{DENSE}' and '{wanted}'; got {peak.name or peak} with "
            f"{list(peak.conventions)}; take device(...).peak({dtype!r}) or wrap it in stated_peak"
        )
    return rate


def _achieved_rate(rate: object) -> int | float | Fraction:
    amount("rate", rate, "FLOP/s")
    return dense_rate(rate)  # nor does anything achieve a sparse peak


def _at_most_one(mfu: object) -> int | float | Fraction:
    u = amount("mfu", mfu, "1")
    if u > 1:
        raise LectureError(f"expected an MFU of at most 1; got {mfu!r}; write 0.5 for 50%")
    return u


def _a_time(time: object) -> Quantity:
    if not isinstance(time, Quantity) or time.dimensions != {"s": 1}:
        raise LectureError(f"expected a time with its unit; got {time!r}; write Quantity(3, 'h')")
    return time


def _days(
    seconds: int | float | Fraction, formula: str, inputs: dict[str, object], conventions: tuple[str, ...]
) -> Quantity:
    days = Quantity(seconds, "s").to("day")
    return days.with_(name="time of the run", formula=formula, inputs=inputs, conventions=conventions)


def _over(a: int | float | Fraction, b: int | float | Fraction) -> int | float | Fraction:
    return a / b if isinstance(a, float) or isinstance(b, float) else Fraction(a) / Fraction(b)


def _with(given: object, value: int | float | Fraction) -> Quantity:
    conventions = given.conventions if isinstance(given, Quantity) else ()
    return Quantity(value, "FLOP", conventions=conventions)


def _conventions(*given: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c for q in given if isinstance(q, Quantity) for c in q.conventions))
