"""What the numbers of a wrong answer have in common with the wanted ones: pure arithmetic on fractions.

`facts` says what holds on every case and never why; `pair` finds the two known slips that together
give every value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from lecture_lib.exercises import units
from lecture_lib.quantity import LectureError, Quantity

_NEAR = Fraction(1, 10**12)  # the same formula in floats
_NEAR_RATIO = Fraction(1, 10**9)  # of values that may have been cut to whole numbers
_UNCHANGED = ("unchanged", "as-found")  # ids of answers that hold several slips already
_SIMPLE = tuple(Fraction(n) for n in (2, 3, 4, 6, 8, 12, 16))
_NAMED_UNITS = (
    *("bit", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "B"),
    *("ns", "µs", "ms", "s", "min", "h", "day"),
    *("kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "FLOP"),
)
_POWERS = {3: "thousand", 6: "million", 9: "billion", 12: "trillion", 15: "quadrillion", 18: "quintillion"}


def same(a: Fraction, b: Fraction, near: Fraction = _NEAR) -> bool:
    """Equal but for the rounding of floats."""
    return abs(a - b) <= near * abs(b)


def _constant(values: Sequence[Fraction]) -> Fraction | None:
    return values[0] if all(same(value, values[0], _NEAR_RATIO) for value in values) else None


# -- facts


def facts(
    got: Sequence[Fraction],
    wanted: Sequence[Fraction],
    inputs: Sequence[Mapping[str, Any]],
    unit: str | None,
    one_cause: bool = False,
) -> list[str]:
    """The most telling sentence on what all cases have in common, or []; with `one_cause` only what a single
    slip may leave.
    """
    if len(got) < 2 or all(map(same, got, wanted)):
        return []
    for found in (_always_the_same, _rounded, _conversion, _shifted, _factor):
        said = found(got, wanted, inputs, unit)
        if said:
            return [said]
    for found in () if one_cause else (_ratio, _factor_and_more, _two_factors, _split):
        said = found(got, wanted, inputs, unit)
        if said:
            return [said]
    return []


def _always_the_same(
    got: Sequence[Fraction], wanted: Sequence[Fraction], inputs: Sequence[Mapping[str, Any]], unit: str | None
) -> str:
    if len(set(got)) == 1 and len(set(wanted)) > 1:
        return "Your value is the same on every case: it has to follow from what the function is given."
    return ""


def _rounded(
    got: Sequence[Fraction], wanted: Sequence[Fraction], inputs: Sequence[Mapping[str, Any]], unit: str | None
) -> str:
    if all(value.denominator == 1 for value in wanted):
        return ""
    for name, cut in (("down", math.floor), ("up", math.ceil)):
        if any(got) and all(cut(right) == value for value, right in zip(got, wanted, strict=True)):
            return f"Your values are the right ones, rounded {name} to whole numbers: leave them as they are."
    for digits in range(5):
        if 0 not in got and all(
            abs(right - value) <= Fraction(1, 2 * 10**digits) * (1 + _NEAR)
            and same(Fraction(round(value, digits)), value)
            for value, right in zip(got, wanted, strict=True)
        ):
            places = (
                f"to {digits} digit{'s' * (digits > 1)} after the point" if digits else "to whole numbers"
            )
            return f"Your values are the right ones, rounded {places}: leave them as they are."
    return ""


def _conversion(
    got: Sequence[Fraction], wanted: Sequence[Fraction], inputs: Sequence[Mapping[str, Any]], unit: str | None
) -> str:
    ratio = _common_ratio(got, wanted)
    return "" if ratio is None or not conversion(ratio, unit, one=True) else _ratio(got, wanted, inputs, unit)


def _ratio(
    got: Sequence[Fraction], wanted: Sequence[Fraction], inputs: Sequence[Mapping[str, Any]], unit: str | None
) -> str:
    ratio = _common_ratio(got, wanted)
    if ratio is None:
        return ""
    return f"On every case your value is {ratio_words(ratio)} the value wanted{conversion(ratio, unit)}."


def _common_ratio(got: Sequence[Fraction], wanted: Sequence[Fraction]) -> Fraction | None:
    if 0 in wanted or 0 in got:
        return None
    ratio = _constant([value / right for value, right in zip(got, wanted, strict=True)])
    return None if ratio is None or abs(ratio - 1) < Fraction(1, 100) else ratio


def _shifted(
    got: Sequence[Fraction], wanted: Sequence[Fraction], inputs: Sequence[Mapping[str, Any]], unit: str | None
) -> str:
    gaps = {value - right for value, right in zip(got, wanted, strict=True)}
    if len(gaps) == 1 and len(set(wanted)) > 1:
        gap = gaps.pop()
        if gap.denominator == 1 and abs(gap) <= 16:
            return f"On every case your value is {abs(gap)} {'more' if gap > 0 else 'less'} than wanted."
    return ""


def _factor(
    got: Sequence[Fraction], wanted: Sequence[Fraction], inputs: Sequence[Mapping[str, Any]], unit: str | None
) -> str:
    scalars = dict(_scalars(inputs))
    found = []
    for name, power, rest in _powers(got, wanted, inputs):
        words = _alone(name, power, rest, scalars[name], unit)
        if words:
            found.append(words)
    return found[0] if len(found) == 1 else ""


def _alone(name: str, power: int, rest: Fraction, values: Sequence[Fraction], unit: str | None) -> str:
    if same(rest, Fraction(1), _NEAR_RATIO):
        yours = "On every case your value is"
        return {
            -1: f"{yours} the value wanted divided by {name}.",
            1: f"{yours} {name} times the value wanted.",
            -2: f"{yours} the value wanted divided by {name} twice.",
            2: f"{yours} the value wanted times {name} twice.",
        }[power]
    value = 1 / rest if power > 0 else rest
    whole = Fraction(round(value))
    near = min(values) / 2 <= whole <= 2 * max(values)
    bits = whole == 8 and _of_bytes(unit) and "bit" not in name  # it may as well be bits for bytes
    if abs(power) == 1 and whole > 1 and near and not bits and same(value, whole, _NEAR_RATIO):
        return f"Your values are those for {name} = {int(whole):,} on every case."
    return ""


def _factor_and_more(
    got: Sequence[Fraction], wanted: Sequence[Fraction], inputs: Sequence[Mapping[str, Any]], unit: str | None
) -> str:
    found = []
    for name, power, rest in _powers(got, wanted, inputs):
        if abs(power) == 1 and (conversion(rest, unit) or rest in _SIMPLE or 1 / rest in _SIMPLE):
            found.append(
                f"On every case your value is {ratio_words(rest)} the value wanted, "
                f"{'divided by' if power < 0 else 'times'} {name}{conversion(rest, unit)}."
            )
    return found[0] if len(found) == 1 else ""


def _powers(
    got: Sequence[Fraction], wanted: Sequence[Fraction], inputs: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, int, Fraction]]:
    """Inputs a power of which, times a constant, is what the values are of the wanted ones."""
    if 0 in wanted or 0 in got or len(got) < 3:
        return
    ratios = [value / right for value, right in zip(got, wanted, strict=True)]
    for name, values in _scalars(inputs):
        for power in (-1, 1, -2, 2):
            rest = _constant([r / value**power for r, value in zip(ratios, values, strict=True)])
            if rest is not None:
                yield name, power, rest


def _two_factors(
    got: Sequence[Fraction], wanted: Sequence[Fraction], inputs: Sequence[Mapping[str, Any]], unit: str | None
) -> str:
    if 0 in wanted or 0 in got or len(got) < 3:
        return ""
    ratios = [value / right for value, right in zip(got, wanted, strict=True)]
    found = []
    for (a, first), (b, second) in itertools.combinations(_scalars(inputs), 2):
        for p, q in itertools.product((-1, 1), repeat=2):
            if all(same(x**p * y**q, ratio) for x, y, ratio in zip(first, second, ratios, strict=True)):
                if p == q:
                    found.append(
                        f"On every case your value is the value wanted "
                        f"{'divided by' if p < 0 else 'times'} {a} and {b}."
                    )
                else:
                    there, belongs = (a, b) if p > 0 else (b, a)
                    found.append(f"On every case your value is {there}/{belongs} times the value wanted.")
    return found[0] if len(found) == 1 else ""


def _split(
    got: Sequence[Fraction], wanted: Sequence[Fraction], inputs: Sequence[Mapping[str, Any]], unit: str | None
) -> str:
    right = [same(value, goal) for value, goal in zip(got, wanted, strict=True)]
    if not any(right):
        return ""
    for name in inputs[0]:
        values = [case.get(name) for case in inputs]
        good = {value for value, ok in zip(values, right, strict=True) if ok and isinstance(value, bool)}
        bad = {value for value, ok in zip(values, right, strict=True) if not ok and isinstance(value, bool)}
        if len(good) == len(bad) == 1 and good != bad:
            return f"Your values are right where {name} is {good.pop()} and wrong where it is {bad.pop()}."
    return ""


def _scalars(inputs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Fraction]]]:
    """Inputs that are a positive number on every case, and not the same one."""
    for name in inputs[0] if inputs else ():
        values = [case.get(name) for case in inputs]
        if all(
            isinstance(v, int | float) and not isinstance(v, bool) and v > 0 and math.isfinite(v)
            for v in values
        ):
            numbers = [Fraction(v) for v in values if v is not None]
            if len(set(numbers)) > 1:
                yield name, numbers


# -- words for a ratio


def ratio_words(ratio: Fraction) -> str:
    """ "8 times", "2/3 of", "a billionth of", "1.074 times"."""
    for power, name in _POWERS.items():
        if same(ratio, Fraction(10**power), _NEAR_RATIO):
            return f"a {name} times"
        if same(ratio, Fraction(1, 10**power), _NEAR_RATIO):
            return f"a {name}th of"
    simple = ratio.limit_denominator(64)
    if simple and abs(simple - ratio) <= abs(ratio) / 10**6:
        return f"{simple.numerator} times" if simple.denominator == 1 else f"{simple} of"
    return f"{float(ratio):.4g} times"


def _of_bytes(unit: str | None) -> bool:
    return unit is not None and unit.partition("/")[0].endswith("B")


def conversion(ratio: Fraction, unit: str | None, one: bool = False) -> str:
    """What two units of this kind have that ratio, as the end of a sentence; "" if none is known. With `one`
    only what a single slip may be.
    """
    other = counted_in(ratio, unit)
    if other and unit:
        return f": it would be right in {'bits' if other == 'bit' else other}, and {unit} is asked for"
    if not _of_bytes(unit):
        return ""
    several = (Fraction(1),) if one else (Fraction(1), Fraction(8), Fraction(1, 8))
    for eights, up in itertools.product(several, (1, -1)):
        for k, short, long in ((1, "kB", "KiB"), (2, "MB", "MiB"), (3, "GB", "GiB")):
            if same(ratio, eights * Fraction(2 ** (10 * k), 10 ** (3 * k)) ** up, _NEAR_RATIO):
                eight = "" if eights == 1 else f"{ratio_words(eights)} it and "
                return f": {eight}2^{10 * k} for 10^{3 * k}, {long} for {short}, or the other way about"
    eights_alone = {
        Fraction(8): ", as many as a byte has bits",
        Fraction(1, 8): ", and a byte has 8 bits",
        Fraction(64): ", 8 · 8, and a byte has 8 bits",
        Fraction(1, 64): ", 1/(8 · 8), and a byte has 8 bits",
    }
    return next((words for eights, words in eights_alone.items() if same(ratio, eights, _NEAR_RATIO)), "")


def counted_in(ratio: Fraction, unit: str | None) -> str:
    """The unit in which `ratio` times the number would be right, if it has a name."""
    if not unit:
        return ""
    here = _unit(unit)
    if here is None:
        return ""
    for name in (*_NAMED_UNITS, *(prefix + unit for prefix in "kMGTPE")):
        other = _unit(name)
        if other and name != unit and other[0] == here[0] and same(other[1] * ratio, here[1], _NEAR_RATIO):
            return name
    return ""


def _unit(name: str) -> tuple[Any, Fraction] | None:
    try:
        one = units.from_quantity(Quantity(1, name))
    except LectureError:
        try:
            one = units.read(f"1 {name}")
        except LectureError:
            return None
    return one.dimensions, Fraction(one.factor)


# -- two slips at once


def pair(
    got: Sequence[Fraction], wanted: Sequence[Fraction], mistaken: Mapping[str, Sequence[Fraction]]
) -> tuple[str, str] | None:
    """The two slips that together give these values, each as large as it is alone; None unless they are the
    only two.

    Two slips add up where they touch different terms and multiply where they touch different factors.
    """
    if len(got) < 3 or 0 in wanted:
        return None
    found: dict[tuple[Fraction, ...], tuple[str, str]] = {}
    known = [(name, values) for name, values in mistaken.items() if _counts(name, values, wanted)]
    for (a, first), (b, second) in itertools.combinations(known, 2):
        cases = list(zip(got, wanted, first, second, strict=True))
        if (
            not _only_twos(first, second, wanted)
            and all(same(x * y / right, value) for value, right, x, y in cases)
        ) or (
            not (_plain_factor(first, wanted) and _plain_factor(second, wanted))  # 2 + 8 - 6 is no evidence
            and _one_way(first, wanted)
            and _one_way(second, wanted)
            and all(same(x + y - right, value) for value, right, x, y in cases)
        ):
            found.setdefault(tuple(sorted((*first, *second))), (a, b))
    return next(iter(found.values())) if len(found) == 1 else None


def _counts(name: str, mistaken: Sequence[Fraction], wanted: Sequence[Fraction]) -> bool:
    return name not in _UNCHANGED and not all(map(same, mistaken, wanted))


def _only_twos(first: Sequence[Fraction], second: Sequence[Fraction], wanted: Sequence[Fraction]) -> bool:
    """Whether both are off by powers of two, another on each case: many pairs then have one product."""
    ratios = [
        value / right for values in (first, second) for value, right in zip(values, wanted, strict=True)
    ]
    twos = all(r > 0 and r.numerator.bit_count() == r.denominator.bit_count() == 1 for r in ratios)
    return twos and not (_plain_factor(first, wanted) or _plain_factor(second, wanted))


def _one_way(mistaken: Sequence[Fraction], wanted: Sequence[Fraction]) -> bool:
    """Whether the slip only adds something or only leaves something out."""
    gaps = [value - right for value, right in zip(mistaken, wanted, strict=True)]
    return min(gaps) >= 0 or max(gaps) <= 0


def _plain_factor(mistaken: Sequence[Fraction], wanted: Sequence[Fraction]) -> bool:
    if 0 in wanted:
        return False  # no factor makes anything of 0, or 0 of anything but 0
    return _constant([value / right for value, right in zip(mistaken, wanted, strict=True)]) is not None


def with_unit(
    got: Sequence[Fraction],
    wanted: Sequence[Fraction],
    mistaken: Mapping[str, Sequence[Fraction]],
    unit: str | None,
) -> tuple[str, str] | None:
    """A known slip whose values came in another unit: its id and the words for the unit; None unless one."""
    found = []
    for name, values in mistaken.items():
        if len(got) < 3 or 0 in values or 0 in got or not _counts(name, values, wanted):
            continue
        ratio = _constant([value / wrong for value, wrong in zip(got, values, strict=True)])
        other = "" if ratio is None else counted_in(ratio, unit)
        if ratio is not None and other and not _plain_factor(values, wanted):
            found.append((name, f"And it counts {'bits' if other == 'bit' else other}; {unit} is asked for."))
    return found[0] if len(found) == 1 else None


# -- one number and its unit


def unit_facts(number: Fraction, given: str, wanted: Fraction, unit: str) -> list[str]:
    """The unit in which a typed number is right to three digits, if another came; `wanted` is in `unit`."""
    here = _unit(unit)
    for name in (*_NAMED_UNITS, "kbit", "Mbit", "Gbit", "Tbit"):
        other = _unit(name)
        if here is None or other is None or other[0] != here[0] or name == given:
            continue
        goal = wanted * here[1] / other[1]
        if abs(number - goal) * 200 <= abs(goal):
            return [f"The number is right in {name}; you wrote {given}."]
    return []
