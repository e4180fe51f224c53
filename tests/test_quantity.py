"""Quantities and ledgers: exact values, units, how they show themselves, and what they refuse."""

from __future__ import annotations

import pickle
import random
from fractions import Fraction

import pytest

from lecture_lib.quantity import UNITS, LectureError, Ledger, Quantity

GB84 = Quantity(84, "GB", name="model states", formula="12·P", inputs={"P": 7 * 10**9})


# -- values and units


def test_whole_values_stay_whole() -> None:
    assert type(Quantity(Fraction(6, 2), "B").value) is int
    assert Quantity(6 * 70 * 10**9 * 15 * 10**12, "FLOP").to("ZFLOP").value == 6_300
    assert Quantity(1, "bit").base_value == Fraction(1, 8)
    assert Quantity(84, "GB").to("GiB").value == Fraction(84 * 10**9, 2**30)
    assert float(f"{GB84:.1f GiB}".split()[0]) == 78.2


def test_every_named_unit_comes_back() -> None:
    for base, names in UNITS.items():
        for name in names:
            assert Quantity(7, base).to(name).to(base).value == 7


@pytest.mark.parametrize(
    ("unit", "dimensions", "multiple"),
    [
        ("B", {"B": 1}, 1),
        ("TFLOP/s", {"FLOP": 1, "s": -1}, 10**12),
        ("GB/ms", {"B": 1, "s": -1}, 10**12),
        ("FLOP/B", {"FLOP": 1, "B": -1}, 1),
        ("PFLOP-day", {"FLOP": 1}, 86_400 * 10**15),
        ("device·h", {"device": 1, "s": 1}, 3_600),
        ("B/token/s", {"B": 1, "token": -1, "s": -1}, 1),
        ("s^2", {"s": 2}, 1),
        ("1/s", {"s": -1}, 1),
        ("B/B", {}, 1),
        ("1", {}, 1),
    ],
)
def test_units(unit: str, dimensions: dict[str, int], multiple: int) -> None:
    q = Quantity(1, unit)
    assert (q.dimensions, q.base_value) == (dimensions, multiple)


def test_arithmetic() -> None:
    assert Quantity(1, "KiB") + Quantity(24, "B") == Quantity(1048, "B")
    assert (Quantity(2, "GB") - Quantity(500, "MB")).value == Fraction(3, 2)
    assert (3 * Quantity(7, "FLOP")).value == 21
    assert (Quantity(7, "FLOP") / 2).value == Fraction(7, 2)
    assert Quantity(6, "TFLOP") / Quantity(3, "TFLOP/s") == Quantity(2, "s")
    assert (Quantity(6, "FLOP") / Quantity(3, "B")).unit == "FLOP/B"
    assert Quantity(6, "B/token") * Quantity(2, "token") == Quantity(12, "B")
    assert (Quantity(6, "B") / Quantity(4, "B")).unit == "1"
    assert (2 / Quantity(4, "s")).unit == "1/s"
    assert sum([Quantity(1, "B"), Quantity(2, "B")], Quantity(0, "B")).value == 3
    assert sum([Quantity(1, "B"), Quantity(2, "B")]).value == 3  # type: ignore[arg-type]
    assert -Quantity(3, "B") < Quantity(0, "B") <= Quantity(0, "MB") < Quantity(1, "bit")
    assert Quantity(10, "B") > Quantity(79, "bit") >= Quantity(79, "bit")


def test_arithmetic_is_exact_on_drawn_values() -> None:
    rng = random.Random(5)
    names = list(UNITS["B"])
    for _ in range(200):
        a, b = (Quantity(rng.randint(-(10**15), 10**15), rng.choice(names)) for _ in range(2))
        assert (a + b - b) == a
        assert (a + b).base_value == a.base_value + b.base_value
        assert hash(a) == hash(a.to("bit"))
        if b.value:
            assert (a / b) * b == a


def test_conventions_travel() -> None:
    a = Quantity(1, "FLOP", conventions=("FMA = 2 FLOPs",))
    b = Quantity(1, "FLOP", conventions=("dense peak", "FMA = 2 FLOPs"))
    assert (a + b).conventions == ("FMA = 2 FLOPs", "dense peak")
    assert (a / b).conventions == ("FMA = 2 FLOPs", "dense peak")
    assert (2 * a).conventions == a.conventions


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Quantity(True, "B"), "expected a number"),
        (lambda: Quantity("84", "GB"), "expected a number"),  # type: ignore[arg-type]
        (lambda: Quantity(1, "Gb"), "got 'Gb'"),
        (lambda: Quantity(1, "byte"), "got 'byte'"),
        (lambda: Quantity(1, "FLOPS"), "got 'FLOPS'"),
        (lambda: Quantity(1, "B").to("FLOP"), "got 'FLOP', which is another"),
        (lambda: Quantity(1, "FLOP").to("FLOP/s"), "another"),
        (lambda: Quantity(1, "token") + Quantity(1, "parameter"), "another"),
        (lambda: Quantity(1, "B") < Quantity(1, "s"), "another"),
        (lambda: Quantity(1, "B") == 1, "bare number"),
        (lambda: Quantity(1, "B") < 1, "expected a quantity"),
        (lambda: Quantity(1, "B") / Quantity(0, "s"), "non-zero"),
        (lambda: Quantity(1, "B") + 1, r"to add, in B; got the bare number 1; write Quantity\(1, 'B'\)"),
        (lambda: 1.5 + Quantity(1, "B"), "got the bare number 1.5"),
        (lambda: Quantity(1, "B") - 1, "to subtract, in B; got the bare number 1"),
        (lambda: 1 - Quantity(1, "B"), "to subtract from, in B; got the bare number 1"),
        (lambda: Quantity(1, "B") / 0, "other than 0 to divide 1 B by; got 0"),
        (lambda: Quantity(1, "B") / 0.0, "other than 0"),
        (lambda: Quantity(1, None), "the name of a unit; got None"),  # type: ignore[arg-type]
        (lambda: Quantity(1, "B").to(["B"]), "the name of a unit"),  # type: ignore[arg-type]
        (lambda: Quantity(1, "B^x"), "a whole power in a unit; got 'x'"),
        (lambda: f"{Quantity(1, 'B'):zz GiB}", "a number format, a unit, or both"),
        (lambda: int(Quantity(Fraction(1, 2), "B")), "whole number"),
        (lambda: int(Quantity(float("nan"), "B")), "whole number"),
        (lambda: int(Quantity(float("inf"), "B")), "whole number"),
    ],
)
def test_refused(call, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LectureError, match=said):
        call()


def test_other_types_are_not_implemented() -> None:
    with pytest.raises(TypeError):
        Quantity(1, "B") + "1 B"
    with pytest.raises(TypeError):
        Quantity(1, "B") * "2"
    assert (Quantity(1, "B") == "1 B") is False


def test_dimension_is_part_of_equality() -> None:
    assert Quantity(1, "token") != Quantity(1, "parameter")
    assert Quantity(1024, "B") == Quantity(1, "KiB")
    assert len({Quantity(1024, "B"), Quantity(1, "KiB"), Quantity(8192, "bit")}) == 1


# -- how it shows itself


@pytest.mark.parametrize(
    ("q", "shown"),
    [
        (Quantity(524_288, "B"), "524,288 B (512 KiB)"),
        (Quantity(84 * 10**9, "B"), "84 GB (78.23 GiB)"),
        (Quantity(512, "B"), "512 B"),
        (Quantity(0, "B"), "0 B"),
        (Quantity(989_500_000_000_000, "FLOP/s"), "989.5 TFLOP/s"),
        (Quantity(4_194_304, "FLOP"), "4,194,304 FLOP"),
        (Quantity(63 * 10**23, "FLOP"), "6.3 × 10^24 FLOP"),
        (Quantity(Fraction(2048, 3), "FLOP/B"), "682.7 FLOP/B"),
        (Quantity(131_072, "element"), "131,072 element"),
        (Quantity(143.926593, "day").to("s"), "143.9 days"),
        (Quantity(Fraction(1, 4000), "s"), "250 µs"),
        (Quantity(90, "s"), "90 s"),
        (Quantity(0.4567891), "0.4568"),
        (Quantity(-5_250, "B"), "-5,250 B (-5.127 KiB)"),
        (Quantity(Fraction(17, 4), "bit"), "4.25 bit"),
    ],
)
def test_text(q: Quantity, shown: str) -> None:
    assert str(q) == shown


def test_formats() -> None:
    assert f"{GB84:GiB}" == "78.23 GiB"
    assert f"{GB84:.3f GiB}" == "78.231 GiB"
    assert f"{GB84:,.1f}" == "84.0 GB"
    assert f"{Quantity(3, 'FLOP')}" == "3 FLOP"


def test_numbers_replace_whole_symbols_only() -> None:
    q = Quantity(1, formula="2·M·d_in·d_out + d·M2", inputs={"M": 3, "d": 2, "d_in": 5, "d_out": 7})
    assert q.numbers == "2·3·5·7 + 2·M2"
    assert Quantity(1, formula="6·P·T").numbers == ""


def test_explain_says_all() -> None:
    q = GB84.with_(conventions=("GB is 10^9 B",), source="the lecture")
    assert q.explain().splitlines() == [
        "model states = 84 GB",
        "  formula: 12·P",
        "  numbers: 12·7,000,000,000",
        "  conventions: GB is 10^9 B",
        "  source: the lecture",
    ]
    assert "  exact: 84,000,000,000 B" in Quantity(84 * 10**9, "B").explain()


def test_html_is_escaped_and_unfolds() -> None:
    text = Quantity(1, "B", name="a<b", formula="x & y")._repr_html_()
    assert "a&lt;b" in text and "x &amp; y" in text and text.startswith("<details>")
    assert Quantity(1, "B")._repr_html_() == "<div>1 B</div>"


# -- ledgers


def test_a_ledger_adds_up_exactly() -> None:
    ledger = Ledger({"a": Quantity(1, "GB"), "b": Quantity(1, "bit")}, name="two")
    assert ledger.unit == "GB"
    assert ledger.total == Quantity(8 * 10**9 + 1, "bit")
    assert list(ledger) == ["a", "b"] and len(ledger) == 2 and "a" in ledger
    assert ledger["b"].to("bit").value == 1


def test_drawn_ledgers_add_up() -> None:
    rng = random.Random(6)
    for _ in range(50):
        rows = [
            (str(i), Quantity(rng.randint(-(10**18), 10**18), rng.choice(["B", "MiB", "bit"])))
            for i in range(9)
        ]
        assert Ledger(rows).total.base_value == sum(q.base_value for _, q in rows)


def test_a_missing_row_names_the_rows() -> None:
    ledger = Ledger({"weights": Quantity(1, "B")})
    assert ledger.get("gradients") is None
    with pytest.raises(LectureError, match="^expected one of the rows weights; got 'gradients'$"):
        ledger["gradients"]


def test_bad_ledgers() -> None:
    with pytest.raises(LectureError, match="at least one row"):
        Ledger({})
    with pytest.raises(LectureError, match="'a' twice"):
        Ledger([("a", Quantity(1, "B")), ("a", Quantity(1, "B"))])
    with pytest.raises(LectureError, match="another"):
        Ledger({"a": Quantity(1, "B"), "b": Quantity(1, "FLOP")})
    with pytest.raises(LectureError, match="a quantity in the row 'a'; got 3"):
        Ledger({"a": 3})  # type: ignore[dict-item]
    assert Ledger({}, unit="B").total == Quantity(0, "B")


def test_a_number_beyond_every_float_still_shows_itself() -> None:
    assert str(Quantity(10**400, "B")) == "about 10^400 B"
    assert str(Quantity(-(10**5000), "token")) == "about -10^5000 token"
    assert "about 10^400" in Quantity(10**400, "FLOP", name="work").explain()


def test_a_ledger_shows_itself() -> None:
    ledger = Ledger({"weights": Quantity(14, "GB"), "moments <two>": Quantity(56, "GB")}, name="states")
    assert str(ledger).splitlines() == [
        "states",
        "weights        14 GB   20.0%",
        "moments <two>  56 GB   80.0%",
        "----------------------------",
        "total          70 GB  100.0%",
    ]
    text = ledger._repr_html_()
    assert "<caption>states</caption>" in text and "moments &lt;two&gt;" in text
    assert text.count('scope="row"') == 3 and text.count('scope="col"') == 3


def test_they_survive_pickling() -> None:
    ledger = Ledger({"a": GB84}, name="one")
    again = pickle.loads(pickle.dumps(ledger))
    assert again == ledger and again["a"].formula == "12·P" and again.name == "one"
