from __future__ import annotations

from fractions import Fraction

import pytest

from lecture_lib.exercises.units import UnitProblem, describe, dimension_slip, from_quantity, read
from lecture_lib.quantity import UNITS, Quantity

GB = 10**9


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("84 GB", 84 * GB),
        ("84GB", 84 * GB),
        ("84e9 bytes", 84 * GB),
        ("84e9B", 84 * GB),
        ("8.4×10^10 B", 84 * GB),
        ("8.4 x 10^10 B", 84 * GB),
        ("8.4 * 10**10 B", 84 * GB),
        ("8.4·10¹⁰ B", 84 * GB),
        ("10^9 B", GB),
        ("2**30 B", 2**30),
        ("3 · 2^20 B", 3 * 2**20),
        ("78.23 GiB", Fraction(7823, 100) * 2**30),
        ("1,234,567 B", 1_234_567),
        ("1_234_567 B", 1_234_567),
        ("1 234 567 B", 1_234_567),
        ("1\u202f234\u00a0567\u2009B", 1_234_567),
        ("≈ 84 GB.", 84 * GB),
        ("−5 kB", -5_000),
        (".5 MB", 500_000),
        ("84. MB", 84_000_000),
        ("84 gigabytes", 84 * GB),
        ("84 gibibyte", 84 * 2**30),
        ("84 Gigabytes", 84 * GB),
        ("84 GBytes", 84 * GB),
        ("84 Gbyte", 84 * GB),
        ("84 GiByte", 84 * 2**30),
        ("672 GBit", 84 * GB),
        ("672 Gigabits", 84 * GB),
        ("84000 Bytes", 84_000),
        ("84 Billion Bytes", 84 * GB),
        ("84 Gb", 84 * GB // 8),
        ("84 Gbit", 84 * GB // 8),
        ("16 bits", 2),
        ("1 thousand bytes", 1_000),
    ],
)
def test_amounts_of_bytes(text: str, bytes_: int | Fraction) -> None:
    measure = read(text)
    assert measure.dimensions == {"B": 1} and measure.magnitude * measure.factor == bytes_


@pytest.mark.parametrize(
    ("text", "dimensions", "value"),
    [
        ("3 TFLOP", {"FLOP": 1}, 3 * 10**12),
        ("3 TFLOPs", {"FLOP": 1}, 3 * 10**12),
        ("3 flops", {"FLOP": 1}, 3),
        ("3 Tflop", {"FLOP": 1}, 3 * 10**12),
        ("3 TFlops/Second", {"FLOP": 1, "s": -1}, 3 * 10**12),
        ("7 Million Tokens", {"token": 1}, 7 * 10**6),
        ("3 GBps", {"B": 1, "s": -1}, 3 * GB),
        ("16 Gbps", {"B": 1, "s": -1}, 2 * GB),
        ("3 B^2", {"B": 2}, 3),
        ("3 TFLOP/s", {"FLOP": 1, "s": -1}, 3 * 10**12),
        ("3 TFLOPs/s", {"FLOP": 1, "s": -1}, 3 * 10**12),
        ("3 TFLOP s^-1", {"FLOP": 1, "s": -1}, 3 * 10**12),
        ("3 TFLOP·s⁻¹", {"FLOP": 1, "s": -1}, 3 * 10**12),
        ("3 FLOP per second", {"FLOP": 1, "s": -1}, 3),
        ("2 B/(s*device)", {"B": 1, "s": -1, "device": -1}, 2),
        ("100 Gbit/s", {"B": 1, "s": -1}, Fraction(100 * GB, 8)),
        ("7 billion parameters", {"parameter": 1}, 7 * GB),
        ("7e9 params", {"parameter": 1}, 7 * GB),
        ("1 token", {"token": 1}, 1),
        ("3 µs", {"s": 1}, Fraction(3, 10**6)),
        ("3 μs", {"s": 1}, Fraction(3, 10**6)),
        ("2 hours", {"s": 1}, 7_200),
        ("1 PFLOP-day", {"FLOP": 1}, 86_400 * 10**15),
        ("5 GPU·h", {"device": 1, "s": 1}, 18_000),
        ("84", {}, 84),
        ("35 %", {}, Fraction(35, 100)),
    ],
)
def test_other_dimensions(text: str, dimensions: dict[str, int], value: int | Fraction) -> None:
    measure = read(text)
    assert measure.dimensions == dimensions and measure.magnitude * measure.factor == value


@pytest.mark.parametrize("name", [name for table in UNITS.values() for name in table])
def test_every_unit_of_the_course_is_read_as_the_library_reads_it(name: str) -> None:
    measure = read(f"3 {name}")
    one = Quantity(1, name)
    assert measure.dimensions == one.dimensions and measure.factor == one.base_value
    assert from_quantity(Quantity(3, name)).factor == measure.factor


@pytest.mark.parametrize(
    ("text", "slug", "words"),
    [
        ("78,23 GiB", "comma", "after a point"),
        ("1,23,456 B", "comma", "after a point"),
        ("84 KB", "kb", "kB (1000) or KiB (1024)"),
        ("3 TFLOPS", "flops", "TFLOP or TFLOP/s"),
        ("3 FLOPS", "flops", "FLOP or FLOP/s"),
        ("7B parameters", "billion", "not billions"),
        ("84 gb", "unit-unknown", "did you mean GB or Gb"),
        ("84 KByte", "kb", "kB (1000) or KiB (1024)"),
        ("84 gigabites", "unit-unknown", "gigabit"),
        ("84 mb", "unit-unknown", "did you mean MB or Mb"),
        ("84e9 B**1.5", "unreadable", "more than one number"),
        ("84 B**0.5", "unreadable", "more than one number"),
        ("84 B^(1/2)", "unreadable", "more than one number"),
        ("3 kWh", "unit-unknown", "not known"),
        ("12 12 GB", "unreadable", "two numbers"),
        ("1e999 B", "unreadable", "exponent"),
        ("", "unreadable", "number"),
        ("GB", "unreadable", "number"),
        ("nan GB", "unreadable", "number"),
        ("12*7e9 B", "unreadable", "let Python compute it, like (12 * 7e9, 'B')"),
        ("12 B/parameter * 7e9 parameters", "unreadable", "more than one number"),
        ("83-85 GB", "unreadable", "more than one number"),
        ("84 GB = 84e9 B", "unreadable", "more than one number"),
        ("1/2 TB", "unreadable", "more than one number"),
        ("84 GB; import os", "unit-unknown", "not known"),
        ("3 B**99999999", "unit-unknown", "not known"),
        ("3 kB**9**9**9", "unit-unknown", "not known"),
        ("3 kB^(9^9)", "unit-unknown", "not known"),
        ("3 ((((kB^9)^9)^9)^9)", "unit-unknown", "not known"),
        ("3 kB^99", "unit-unknown", "not known"),
        ("3 GB*99", "unreadable", "more than one number"),
        ("3 " + "(" * 50 + "B", "unit-unknown", "not known"),
        ("3 " + "B*" * 30 + "B", "unit-unknown", "not known"),
        ("9" * 300, "unreadable", "characters"),
        ("\x00", "unreadable", "number"),
    ],
)
def test_what_is_refused_says_why(text: str, slug: str, words: str) -> None:
    with pytest.raises(UnitProblem) as caught:
        read(text)
    assert caught.value.slug == slug and words in str(caught.value)


def test_how_it_was_understood_is_said() -> None:
    assert "gigabits; a byte is a capital B" in read("84 Gb").note
    assert "megabits" in read("84 Mb/s").note
    assert "comma between thousands" in read("1,234 GB").note
    assert read("84 GB").note == ""


@pytest.mark.parametrize(
    ("wanted", "got", "slug", "words"),
    [
        ({"B": 1}, {}, "unit-missing", "Unit missing"),
        ({}, {"B": 1}, "unit-unwanted", "plain number"),
        (
            {"B": 1},
            {"B": 1, "s": -1},
            "rate-for-amount",
            "a rate (B/s); the exercise asks for an amount, in GB",
        ),
        (
            {"B": 1, "s": -1},
            {"B": 1},
            "amount-for-rate",
            "an amount, bytes or bits; the exercise asks for a rate",
        ),
        ({"parameter": 1}, {"token": 1}, "other-dimension", "tokens; the exercise asks for parameters"),
        ({"B": 1}, {"FLOP": 1}, "other-dimension", "a count of FLOPs; the exercise asks for bytes"),
        ({"B": 1}, {"parameter": 1}, "other-dimension", "parameters"),
        ({"FLOP": 1}, {"FLOP": 1, "B": -1}, "other-dimension", "FLOP/B"),
        ({"B": 1}, {"B": 2}, "other-dimension", "You gave B^2; the exercise asks for bytes"),
    ],
)
def test_dimensions_that_differ(wanted: dict[str, int], got: dict[str, int], slug: str, words: str) -> None:
    found = dimension_slip(wanted, got, "GB")
    assert found[0] == slug and words in found[1]


def test_dimensions_in_words() -> None:
    assert describe({}) == "a plain number"
    assert describe({"device": 1, "s": 1}) == "device·s"
