"""Checks that every accounting function makes of what it is given, and the words for what is wrong."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Set
from fractions import Fraction

from lecture_lib.quantity import LectureError, Quantity

# No count of the course comes near it; a slip beyond it would only fill the page with digits.
_LARGEST_COUNT = 10**30
_COUNTS: tuple[dict[str, int], ...] = ({}, {"parameter": 1}, {"token": 1}, {"element": 1})


def whole(name: str, value: object, least: int = 1, unit: str = "") -> int:
    """`value` as an int of at least `least`.

    A float without a fraction (7e9) is taken as well, and a Quantity in `unit` (or, without one, of any
    kind of count). Anything else is a LectureError, and so is what no device or model has (above 10^30).
    """
    number = value
    if isinstance(value, Quantity):
        if value.dimensions not in (({}, {unit: 1}) if unit else _COUNTS):
            raise LectureError(
                f"expected {name} as {f'a count in {unit!r}' if unit else 'a count'}; got {value.exact}; "
                "give the number that is meant"
            )
        number = value.base_value
    if isinstance(number, bool):
        raise LectureError(
            f"expected a whole number for {name}; got {value!r}; write 1 or 0 if that is meant"
        )
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    try:
        count = operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        raise LectureError(
            f"expected a whole number for {name}; got {value!r}; give a count of at least {least}"
        ) from None
    if count < least:
        allowed = "positive" if least else "non-negative"
        raise LectureError(
            f"expected {name} of at least {least}; got {_in_words(count)}; give a {allowed} count"
        )
    if count > _LARGEST_COUNT:
        raise LectureError(f"expected {name} of at most 10^30; got {_in_words(count)}; give a real count")
    return count


def _in_words(count: int) -> str:
    """A count with all its digits, or how large it is if they would fill a page."""
    size = abs(count)
    sign = "-" if count < 0 else ""
    return f"{count:,}" if size <= _LARGEST_COUNT else f"about {sign}2^{size.bit_length() - 1}"


def several(name: str, values: object, of: str, such_as: str) -> list[object]:
    """The members of a sequence (a list, a tuple, an array, a generator), in order.

    A text, a mapping or a set, whose members have no such order, is a LectureError, and so is no sequence.
    """
    if isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
        raise LectureError(f"expected {name} as a sequence of {of}; got {values!r}; write {such_as}")
    return list(values)


def sizes(name: str, values: object, least: int = 1) -> tuple[int, ...]:
    """Several whole numbers, as a shape or a list of widths."""
    found = several(name, values, "whole numbers", "(2, 128) or (5,)")
    return tuple(whole(f"{name}[{position}]", value, least) for position, value in enumerate(found))


def chain_widths(values: object) -> tuple[int, ...]:
    """Widths (d_in, …, d_out) of a chain of linear layers: two or more."""
    chain = sizes("widths", values)
    if len(chain) < 2:
        raise LectureError(
            f"expected at least two widths, input and output; got {chain}; write (784, 256, 10)"
        )
    return chain


def segment_length(value: object, layers: int) -> int:
    """Layers under one checkpoint: 1 to all of them."""
    k = whole("segment", value)
    if k > layers:
        raise LectureError(
            f"expected a segment of 1 to {layers} layers; got {k}; None stands for no checkpoint"
        )
    return k


def one_of(name: str, value: str, known: Iterable[str]) -> None:
    """LectureError unless `value` is one of the known words."""
    names = list(known)
    if value not in names:
        raise unknown(f"{name} of {', '.join(map(repr, names))}", value, names)


def unknown(what: str, got: object, known: Iterable[str], add: str = "") -> LectureError:
    """The error for a name that is not known: the close ones first, then how to add it."""
    names = list(known)
    near = closest(str(got), names)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known are {', '.join(names)}"
    return LectureError(f"expected {what}; got {got!r}; {hint} {add}".rstrip())


def closest(got: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that look like `got`."""
    import difflib  # only an error needs it

    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(got.lower(), by_lower, n=3, cutoff=0.6)
    near += [name for name in by_lower if name.startswith(got.lower()) or got.lower().startswith(name)]
    return [by_lower[match] for match in dict.fromkeys(near)][:3] if got else []


def amount(name: str, value: object, unit: str, zero: bool = False) -> int | float | Fraction:
    """`value` as a number above 0 (or at least 0) in `unit`, which is made of base units: "FLOP/s", "B".

    A Quantity of that dimension, or a number meant in `unit`. A Quantity of another dimension, NaN, infinity
    or text is a LectureError.
    """
    number = value
    if isinstance(value, Quantity):
        if value.dimensions != Quantity(1, unit).dimensions:
            raise LectureError(f"expected {name} in {unit}; got {value}, which is another dimension")
        number = value.base_value
    if isinstance(number, bool) or not isinstance(number, int | float | Fraction):
        raise LectureError(
            f"expected {name} in {unit}; got {value!r}; give a Quantity, or a number meant in {unit}"
        )
    try:
        finite = math.isfinite(number)
    except OverflowError:  # an int or a Fraction beyond what a float holds
        raise LectureError(f"expected {name} in {unit}; got more than 10^308; give a real amount") from None
    if not finite or number < 0 or (number == 0 and not zero):
        raise LectureError(f"expected {name} {'of at least' if zero else 'above'} 0 {unit}; got {value!r}")
    return number
