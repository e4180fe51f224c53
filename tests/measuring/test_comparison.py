import pytest

from lecture_lib.measuring.comparison import compare
from lecture_lib.quantity import LectureError, Ledger, Quantity


def B(value: float, unit: str = "B") -> Quantity:
    return Quantity(value, unit, name="storage")


def test_equal_is_said_only_of_equal() -> None:
    same = compare(B(1000), B(1, "kB"))
    assert same.error == 0.0 and same.remainder == B(0) and "equal" in str(same)
    near = compare(B(10**9), B(10**9 + 1))
    assert near.error is not None and near.error < 0 and near.remainder == B(1)
    assert "equal" not in str(near) and "−1e-07%" in str(near)


def test_the_error_is_of_the_prediction_and_the_remainder_unexplained() -> None:
    low = compare(B(90), B(100))
    assert low.error == pytest.approx(-0.1) and low.remainder == B(10)
    assert "−10.00%" in str(low) and "+10 B" in str(low)
    high = compare(B(120), B(100))
    assert high.error == pytest.approx(0.2) and "−20 B" in str(high)


def test_units_of_one_dimension_meet_and_others_are_refused() -> None:
    assert compare(B(2, "kB"), B(2000)).error == 0.0
    with pytest.raises(LectureError, match="one dimension; got 2 B predicted and 2 FLOP measured"):
        compare(B(2), Quantity(2, "FLOP"))
    with pytest.raises(LectureError, match="expected a Quantity or a Ledger to compare; got 2"):
        compare(B(2), 2)  # type: ignore[arg-type]


def test_nothing_measured_gives_no_ratio() -> None:
    none = compare(B(5), B(0))
    assert none.error is None and none.remainder == B(-5)
    assert compare(B(0), B(0)).error == 0.0


def test_ledgers_meet_row_by_row() -> None:
    predicted = Ledger({"weights": B(100), "gradients": B(20)}, name="State")
    measured = Ledger({"weights": B(100), "moments": B(50)})
    rows = {row.label: row for row in compare(predicted, measured).rows}
    assert list(rows) == ["weights", "gradients", "moments", "total"]
    assert rows["weights"].error == 0.0
    assert rows["gradients"].measured is None and rows["gradients"].remainder is None
    assert rows["moments"].predicted is None
    assert rows["total"].remainder == B(30)
    text = str(compare(predicted, measured))
    assert text.startswith("State\n") and "not measured" in text and "not predicted" in text


def test_a_ledger_against_one_measured_total() -> None:
    text = str(compare(Ledger({"weights": B(100), "gradients": B(20)}), B(130)))
    assert "not measured" not in text and "+10 B" in text


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        (..., "no guess yet"),
        (None, "no guess yet"),
        ("84 GB", "84 GB"),
        (84_000_000_000, "84 GB"),
        (B(84, "GB"), "84 GB"),
        ("78.23 GiB", "78.23 GiB"),
        ("lots", "not a number with a unit"),
        ("84 apples", "not a number with a unit"),
        ("3 FLOP", "another dimension than"),
        ([1], "not a number with a unit"),
        (True, "not a number with a unit"),
    ],
)
def test_a_guess_is_shown_and_never_stops_anything(guess: object, words: str) -> None:
    shown = str(compare(B(84, "GB"), B(83, "GB"), guess=guess))
    assert "your guess" in shown and words in shown


def test_without_a_guess_there_is_no_line_for_it() -> None:
    assert "guess" not in str(compare(B(1), B(1)))


def test_the_html_table_has_scopes_and_a_caption_and_escapes() -> None:
    page = compare(B(90).with_(name="<b>"), B(100))._repr_html_()
    assert "<caption>Predicted and measured</caption>" in page
    assert '<th scope="col"' in page and '<th scope="row"' in page
    assert "&lt;b&gt;" in page and "<b>" not in page
