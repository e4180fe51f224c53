"""What is said of numbers that no known slip gives, and of two slips at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from lecture_lib.exercises import patterns

INPUTS = [
    {"M": 3, "bits": 16, "full": True},
    {"M": 5, "bits": 32, "full": False},
    {"M": 11, "bits": 4, "full": True},
]
WANTED = [Fraction(3 * 16 * 7), Fraction(5 * 32 * 13), Fraction(11 * 4 * 2)]


def said(got: Sequence[Any], unit: str | None = "B", wanted: Sequence[Any] = WANTED) -> str:
    found = patterns.facts([Fraction(g) for g in got], [Fraction(w) for w in wanted], INPUTS, unit)
    return " ".join(found)


@pytest.mark.parametrize(
    ("got", "unit", "words"),
    [
        (
            [8 * w for w in WANTED],
            "B",
            "8 times the value wanted: it would be right in bits, and B is asked for.",
        ),
        ([w / 10**9 for w in WANTED], "FLOP", "a billionth of the value wanted: it would be right in GFLOP"),
        ([w / 1024 for w in WANTED], "B", "it would be right in KiB"),
        ([w * 2**30 / 10**9 for w in WANTED], "GB", "GiB for GB"),
        ([w * 2 for w in WANTED], "B", "2 times the value wanted."),
        ([w + 1 for w in WANTED], "B", "1 more than wanted"),
        (
            [w / m["M"] for w, m in zip(WANTED, INPUTS, strict=True)],
            "B",
            "the value wanted divided by M.",
        ),
        ([w * m["M"] for w, m in zip(WANTED, INPUTS, strict=True)], "B", "M times the value wanted"),
        ([w * 16 / m["bits"] for w, m in zip(WANTED, INPUTS, strict=True)], "B", "bits = 16 on every case"),
        (
            [w / m["M"] / 2 for w, m in zip(WANTED, INPUTS, strict=True)],
            "FLOP",
            "1/2 of the value wanted, divided",
        ),
        (
            [w * m["M"] / m["bits"] for w, m in zip(WANTED, INPUTS, strict=True)],
            "FLOP",
            "M/bits times the value wanted.",
        ),
        ([12, 12, 12], "B", "the same on every case"),
        ([WANTED[0], 77, WANTED[2]], "B", "right where full is True and wrong where it is False"),
        ([1, 2, 3], "B", ""),
        ([0, 0, 1], "B", ""),
    ],
)
def test_what_is_common_to_all_cases_is_said(got: list[Any], unit: str, words: str) -> None:
    found = said(got, unit)
    assert words in found and bool(found) == bool(words)


def test_rounded_values_are_told() -> None:
    wanted = [Fraction("1.237"), Fraction("0.716"), Fraction("12.361")]
    assert "rounded to 1 digit after the point" in said(
        [Fraction("1.2"), Fraction("0.7"), Fraction("12.4")], "ms", wanted
    )
    assert "rounded up to whole numbers" in said([2, 1, 13], "ms", wanted)
    assert said([1, 0, 12], "ms", wanted).startswith("Your values are the right ones, rounded down")


def _known() -> dict[str, list[Fraction]]:
    return {
        "no-M": [w / m["M"] for w, m in zip(WANTED, INPUTS, strict=True)],
        "less-one": [w - m["M"] for w, m in zip(WANTED, INPUTS, strict=True)],
        "bits": [8 * w for w in WANTED],
    }


def test_two_slips_are_found_where_they_add_or_multiply() -> None:
    known = _known()
    assert patterns.pair([8 * v for v in known["no-M"]], WANTED, known) == ("no-M", "bits")
    both = [a + b - w for a, b, w in zip(known["no-M"], known["less-one"], WANTED, strict=True)]
    assert patterns.pair(both, WANTED, known) == ("no-M", "less-one")
    assert patterns.pair([Fraction(1), Fraction(2), Fraction(3)], WANTED, known) is None


def test_two_plain_factors_never_add_up() -> None:
    known = {"forward": [w / 3 for w in WANTED], "again": [w * 4 / 3 for w in WANTED]}
    assert patterns.pair([w * 2 / 3 for w in WANTED], WANTED, known) is None
    assert patterns.pair([w * 4 / 9 for w in WANTED], WANTED, known) == ("forward", "again")


def test_a_slip_in_another_unit() -> None:
    known = {"less-one": _known()["less-one"]}
    got = [v / 10**9 for v in known["less-one"]]
    assert patterns.with_unit(got, WANTED, known, "B") == ("less-one", "And it counts GB; B is asked for.")
    assert patterns.with_unit([3 * v for v in got], WANTED, known, "B") is None


def test_a_case_whose_value_is_zero_breaks_nothing() -> None:
    wanted = [Fraction(0), Fraction(12), Fraction(20)]  # as of an optimizer that keeps nothing
    known = {"more": [Fraction(2), Fraction(14), Fraction(22)]}
    assert patterns.with_unit([8 * v for v in known["more"]], wanted, known, "B") == (
        "more",
        "And it counts bits; B is asked for.",
    )


@pytest.mark.parametrize(
    ("number", "given", "words"),
    [
        ("104", "GiB", "right in GB"),
        ("96.9", "GB", "right in GiB"),
        ("832", "GB", "right in Gbit"),
        ("50", "GB", ""),
    ],
)
def test_the_unit_in_which_a_number_is_right(number: str, given: str, words: str) -> None:
    found = " ".join(patterns.unit_facts(Fraction(number), given, Fraction(104), "GB"))
    assert words in found and bool(found) == bool(words)
