from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
import toys

from lecture_lib.exercises import verdict
from lecture_lib.exercises.evidence import Evidence, Row
from lecture_lib.exercises.key import Edit, Mistake
from lecture_lib.exercises.verdict import Verdict, show
from lecture_lib.quantity import LectureError, Quantity

FUNCTION = toys.function_exercise()


def said(found: Verdict) -> str:
    return " ".join(found.sentences)


def answering(*values: Any) -> Any:
    """A function that gives these values, case by case."""
    left = list(values)
    return lambda M, d_in, d_out: left.pop(0)


# -- passed


@pytest.mark.parametrize(
    "right",
    [
        (210, 792),
        (210.0, 792.0),
        (Fraction(210), Decimal(792)),
        (Quantity(210, "FLOP"), Quantity(Fraction(792, 1000), "kFLOP")),
    ],
)
def test_right_values_in_other_clothes_pass(right: tuple[Any, Any]) -> None:
    assert toys.judged(FUNCTION, answering(*right)).outcome == "passed"


def test_numpy_and_torch_scalars_pass_where_their_type_is_right() -> None:
    import numpy
    import torch

    for kind in (numpy.int64, numpy.int32, numpy.float64, torch.tensor, numpy.array):
        assert toys.judged(FUNCTION, answering(kind(210), kind(792))).outcome == "passed", kind
    for kind in (numpy.float32, lambda value: torch.tensor(float(value))):
        found = toys.judged(FUNCTION, answering(kind(210), kind(792)))
        assert found.outcome == "wrong" and "A float32 scalar came" in said(found)
        assert "float32 has too few digits for a count" in said(found)
    found = toys.judged(FUNCTION, answering(torch.tensor([210]), torch.tensor([792])))
    assert found.outcome == "wrong" and "An int64 array came where a whole number was wanted" in said(found)


def test_a_pass_says_that_grading_uses_fresh_cases() -> None:
    found = toys.judged(FUNCTION, toys.linear_flops)
    assert (found.outcome, found.headline, found.share, found.mistakes) == ("passed", "Passed", 1, ())
    assert "Grading uses fresh cases" in said(found)


# -- a slip named


@pytest.mark.parametrize("mistake", toys.MISTAKES, ids=lambda m: m.id)
def test_a_known_slip_is_named_with_the_case_that_shows_it(mistake: Mistake) -> None:
    from lecture_lib.exercises.key import mistaken_answer

    found = toys.judged(FUNCTION, mistaken_answer(FUNCTION, mistake))
    assert (found.outcome, found.mistakes) == ("wrong", (mistake.id,))
    assert "{" not in said(found) and len(found.sentences) == 1


def test_the_message_uses_the_deciding_case() -> None:
    assert "with M=3 you" in said(toys.judged(FUNCTION, lambda M, d_in, d_out: M * d_in * d_out)).replace(
        "=3", "=3"
    )
    found = toys.judged(FUNCTION, lambda M, d_in, d_out: 2 * d_in * d_out)
    assert "Every one of the 3 rows is multiplied; 70 FLOP is one row." in said(found)
    found = toys.judged(FUNCTION, lambda M, d_in, d_out: 2 * M * d_in * d_in)
    assert "5 and 7, in all 210 FLOP" in said(found)


def test_a_slip_is_not_named_if_it_shows_on_some_cases_only() -> None:
    found = toys.judged(FUNCTION, answering(105, 792))
    assert found.mistakes == () and found.share == Fraction(1, 2)
    assert "1 of 2 cases is right: M=4, d_in=9, d_out=11." in said(found)
    assert toys.judged(FUNCTION, answering(105, 397)).mistakes == ()


def test_a_double_slip_is_named_as_neither() -> None:
    found = toys.judged(FUNCTION, lambda M, d_in, d_out: d_in * d_out)
    assert found.mistakes == () and "The course knows no slip" in said(found)


def test_right_where_the_slip_makes_no_difference() -> None:
    exercise = toys.function_exercise(
        cases=[{"M": 3, "d_in": 5, "d_out": 5}, {"M": 4, "d_in": 9, "d_out": 11}],
    )
    square = lambda M, d_in, d_out: 2 * M * d_in * d_in  # noqa: E731
    assert toys.judged(exercise, square).mistakes == ("square",)
    assert toys.judged(exercise, answering(151, 648)).mistakes == (), "wrong elsewhere"


def test_two_slips_that_fit_are_both_named() -> None:
    exercise = toys.function_exercise(
        cases=[{"M": 1, "d_in": 5, "d_out": 5}, {"M": 2, "d_in": 7, "d_out": 7}],
        mistakes=[
            Mistake("forgot-two", "You left the 2 out.", Edit("2 * M", "M")),
            Mistake("halved", "You halved it.", Edit("d_in * d_out", "d_in * (d_out / 2)")),
            Mistake("square", "Inputs are not outputs.", Edit("* d_out", "* d_in")),
        ],
    )
    found = toys.judged(exercise, lambda M, d_in, d_out: M * d_in * d_out)
    assert found.mistakes == ("forgot-two", "halved")
    assert "Two slips give exactly these values." in said(found) and "what separates them" in said(found)
    assert "You left the 2 out." in said(found) and "You halved it." in said(found)


def test_a_mistake_that_makes_no_difference_on_these_cases_is_never_named() -> None:
    exercise = toys.function_exercise(
        cases=[{"M": 1, "d_in": 5, "d_out": 5}, {"M": 1, "d_in": 7, "d_out": 7}]
    )
    assert toys.judged(exercise, toys.linear_flops).mistakes == ()
    assert set(toys.judged(exercise, lambda M, d_in, d_out: 3).mistakes) == set()


def test_a_mistake_that_raises_is_named_when_the_answer_raises_the_same() -> None:
    divides = Mistake(
        "divides", "With no rows there is nothing to divide by.", Edit("2 * M", "2 * M // (M - 3) * (M - 3)")
    )
    exercise = toys.function_exercise(mistakes=[*toys.MISTAKES, divides])
    found = toys.judged(exercise, lambda M, d_in, d_out: 2 * M * d_in * d_out * (M - 3) // (M - 3))
    assert (found.outcome, found.mistakes) == ("wrong", ("divides",))
    assert toys.judged(exercise, lambda M, d_in, d_out: [][M] if M == 3 else 792).outcome == "error"


# -- no slip named: only what is right


def test_a_constant_ratio_is_stated_as_a_fact() -> None:
    found = toys.judged(FUNCTION, lambda M, d_in, d_out: 6 * M * d_in * d_out)
    assert found.mistakes == () and "On every case your value is 3 times the value wanted." in said(found)
    found = toys.judged(FUNCTION, lambda M, d_in, d_out: M * d_in * d_out / 2)
    assert "1/4 of the value wanted" in said(found)


def test_a_ratio_of_one_is_not_stated() -> None:
    for factor in (1.0001, 1 + 1e-9, 0.995):
        found = toys.judged(FUNCTION, answering(210 * factor, 792 * factor))
        assert found.outcome == "wrong" and "times the value" not in said(found)
        assert "The order of magnitude is right." in said(found)
    assert "21/20 of the value wanted" in said(toys.judged(FUNCTION, answering(210 * 1.05, 792 * 1.05)))


def test_brackets_around_the_number() -> None:
    assert "a comma behind it" in said(toys.judged(FUNCTION, answering((210,), (792,))))
    found = toys.judged(FUNCTION, answering([210], [792]))
    assert "A list came: return the number itself." in said(found)


def test_a_number_and_its_unit_as_a_pair_of_any_kind() -> None:
    import numpy
    import torch

    exercise = toys.quantity_exercise()
    for number in (numpy.int64(84), numpy.float32(84), torch.tensor(84), numpy.array(84.0), "84"):
        assert toys.judged(exercise, (number, "GB")).outcome == "passed", number


def test_order_of_magnitude_and_sign() -> None:
    assert "order of magnitude is right" in said(toys.judged(FUNCTION, answering(220, 700)))
    assert "sign" in said(toys.judged(FUNCTION, answering(-220, 700)))
    assert "order of magnitude" not in said(toys.judged(FUNCTION, answering(2, 700)))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((None, 792), "It returns nothing on M=3, d_in=5, d_out=7: does every path end in a `return`?"),
        ((True, True), "True came where a whole number was wanted."),
        (("210", "792"), "leave the quotes away"),
        (([210], [792]), "return the number itself"),
        (((210,), (792,)), "a comma behind it makes a tuple"),
        (({"a": 1}, {}), "A dict came where a whole number was wanted."),
        ((iter([]), iter([])), "A list_iterator came"),
        (((i for i in ()), (i for i in ())), "use sum(...) or list(...)"),
        ((print, print), "was it meant to be called?"),
        ((int, int), "A class (int) came"),
        ((1j, 1j), "A complex (1j) came"),
        ((math.nan, math.nan), "The course knows no slip that gives these values."),
        ((math.inf, -math.inf), "The course knows no slip that gives these values."),
        ((..., 792), "`...` is still there"),
        ((Quantity(210, "B"), Quantity(792, "B")), "bytes or bits; the exercise asks for a count of FLOPs"),
        (
            (Quantity(210, "FLOP/s"), Quantity(792, "FLOP/s")),
            "a rate (FLOP/s); the exercise asks for an amount",
        ),
        ((10**4000, 792), "A whole number of 13,288 bits came, far more than was wanted"),
    ],
)
def test_answers_of_another_kind(values: tuple[Any, Any], words: str) -> None:
    found = toys.judged(FUNCTION, answering(*values))
    assert (found.outcome, words in said(found)) == ("wrong", True), found.sentences


def test_nothing_returned_at_all() -> None:
    found = toys.judged(FUNCTION, lambda M, d_in, d_out: print(M))
    assert "Your function returns nothing: is there a `return`?" in said(found)
    assert "Printed on the first case that prints: 3" in said(found)


def test_a_float_that_lost_its_last_digits() -> None:
    exercise = toys.function_exercise(
        cases=[{"M": 10**18 + 1, "d_in": 3, "d_out": 5}, {"M": 10**17, "d_in": 7, "d_out": 9}]
    )
    found = toys.judged(exercise, lambda M, d_in, d_out: 2 * M * d_in * d_out / 1)
    assert found.outcome == "wrong" and "stay with whole numbers" in said(found)


def test_values_that_look_the_same_say_what_differs() -> None:
    exercise = toys.function_exercise(answer=_third, mistakes=[], draw=None)
    found = toys.judged(exercise, lambda M, d_in, d_out: M / 3 * (1 + 1e-11))
    assert "(close, but not exact)" in found.results[0].got


def _third(M, d_in, d_out):
    return M / 3


# -- not attempted, error, misuse


def test_blank_error_and_misuse() -> None:
    found = toys.judged(FUNCTION, lambda M, d_in, d_out: ...)
    assert (found.outcome, found.headline) == ("not_attempted", "Not attempted") and "linear_flops" in said(
        found
    )
    found = toys.judged(FUNCTION, lambda M, d_in, d_out: 210 // (M - 4) * -1)
    assert found.outcome == "error" and "On M=4, d_in=9, d_out=11: ZeroDivisionError" in said(found)
    assert "1 of 2 cases is right" in said(found) and found.share == Fraction(1, 2)
    found = toys.judged(FUNCTION, 210)
    assert found.outcome == "wrong" and 'check("4.1", linear_flops)' in said(found)
    assert "define linear_flops with `def`" in said(toys.judged(FUNCTION, int))


def test_time_up() -> None:
    def endless(M: int, d_in: int, d_out: int) -> None:
        while True:
            pass

    found = toys.judged(FUNCTION, endless, time_limit=0.2)
    assert found.outcome == "error" and "a loop that does not end" in said(found)
    assert [result.got for result in found.results] == ["stopped after 0.2 s", "not run"]


def test_recursion() -> None:
    def deep(M: int, d_in: int, d_out: int) -> Any:
        return deep(M, d_in, d_out)

    found = toys.judged(FUNCTION, deep)
    assert (
        found.outcome == "error"
        and "calls itself without an end" in said(found)
        and "return deep(" in said(found)
    )


def test_changed_inputs_are_mentioned() -> None:
    import torch

    found = toys.judged(toys.tensor_exercise(draw=None), lambda X: X.cumsum_(dim=1)[:, -1])
    assert found.outcome == "passed" and "changes its input X" in said(found)
    assert torch is not None


def test_evidence_that_does_not_decode_is_wrong_and_nothing_more() -> None:
    definition = toys.definition_of(FUNCTION)
    found = verdict.judge(definition, Evidence((Row(value={"__class__": "x"}), Row(value=792))))
    assert found.outcome == "wrong" and found.results[0].got == "something that cannot be read"
    with pytest.raises(LectureError, match="evidence on 2 cases"):
        verdict.judge(definition, Evidence((Row(value=1),)))


# -- typed quantities

QUANTITY = toys.quantity_exercise()


@pytest.mark.parametrize(
    "answer",
    [
        "84 GB",
        "84.0GB",
        "78.2 GiB",
        "78.23 GiB",
        "84e9 bytes",
        "672 Gb",
        (84, "GB"),
        [84.0, "GB"],
        Quantity(84, "GB"),
    ]
    + [Quantity(84 * 10**9, "B"), "0.084 TB", "84,000,000,000 B", "84.04 GB"],
)
def test_a_quantity_in_any_unit_passes(answer: Any) -> None:
    assert toys.judged(QUANTITY, answer).outcome == "passed"


@pytest.mark.parametrize(
    ("answer", "slug", "words"),
    [
        ("84", "unit-missing", "Unit missing"),
        (84, "unit-missing", "Unit missing"),
        (84.0, "unit-missing", "Unit missing"),
        ("84 GB/s", "rate-for-amount", "an amount"),
        ("84e9 FLOP", "other-dimension", "a count of FLOPs"),
        ("7e9 parameters", "other-dimension", "parameters"),
        ("84,0 GB", "comma", "after a point"),
        ("84 KB", "kb", "KiB (1024)"),
        ("84 apples", "unit-unknown", "not known"),
        ("hello", "unreadable", "number"),
        ((84, "GB", 3), "unreadable", "one number and its unit"),
        (("84 GB",), "unreadable", "a comma behind the answer"),
        (["84 GB"], "unreadable", "leave the brackets"),
        ((..., "GB"), "blank", "`...` is still there"),
        (("eighty", "GB"), "unreadable", "begin with a number"),
        ("84 GB^2", "other-dimension", "You gave B^2"),
        (None, "none", "Your answer is None: write a number and its unit"),
        (True, "type", "True came"),
        ({"GB": 84}, "type", "A dict came"),
    ],
)
def test_quantities_that_are_not_right_yet(answer: Any, slug: str, words: str) -> None:
    found = toys.judged(QUANTITY, answer)
    assert (found.outcome, found.mistakes) == ("wrong", (slug,)) and words in said(found)
    assert found.headline == ("Unit missing" if slug == "unit-missing" else "Wrong")


def test_what_is_said_of_a_wrong_quantity_does_not_give_it_away() -> None:
    found = toys.judged(QUANTITY, "100 GB")
    assert "The unit fits. The order of magnitude is right." in said(found)
    for answer in ("42 GB", "168 GB", "84 Gb", "83 GB", "9 TB"):
        found = toys.judged(QUANTITY, answer)
        assert (
            found.outcome == "wrong"
            and "84 GB" not in said(found).replace("84 Gb", "")
            and "times" not in said(found)
        )
    assert "gigabits" in said(toys.judged(QUANTITY, "84 Gb"))
    assert "Within 1%" in said(toys.judged(QUANTITY, "83.7 GB"))


def test_a_slip_in_a_quantity_is_named_in_any_unit() -> None:
    for answer in ("56 GB", "56e9 B", "52.15 GiB"):
        assert toys.judged(QUANTITY, answer).mistakes == ("gradients-left-out",)


@pytest.mark.parametrize(
    ("wanted", "right", "wrong"), [("0.2048 s", "205 ms", "204 ms"), ("999.6 B", "1 kB", "998 B")]
)
def test_three_digits_are_counted_in_the_students_unit(wanted: str, right: str, wrong: str) -> None:
    exercise = toys.quantity_exercise(answer=wanted, unit="s" if "s" in right else "B", mistakes=[])
    assert toys.judged(exercise, right).outcome == "passed"
    assert toys.judged(exercise, wrong).outcome == "wrong"


def test_how_cases_read() -> None:
    exercise = toys.function_exercise(case_text="{M:>3} rows of {d_in}")
    assert toys.judged(exercise, toys.linear_flops).results[0].case == "  3 rows of 5"
    assert toys.judged(toys.tensor_exercise(), lambda X: X).results[1].case == "X bfloat16 (2, 2)"
    named = toys.function_exercise(
        answer=_named,
        mistakes=[],
        draw=None,
        cases=[{"name": "fp32"}, {"name": "bf16"}],
        case_text="{name}",
        unit=None,
    )
    assert toys.judged(named, lambda name: "x").results[0].case == "fp32", "text stands without quotes"


def _named(name):
    return name.upper()


def test_a_plain_value() -> None:
    exercise = toys.quantity_exercise(answer=3, unit=None, mistakes=[])
    for answer in (3, 3.0, "3", "3.00"):
        assert toys.judged(exercise, answer).outcome == "passed"
    assert toys.judged(exercise, "3 GB").mistakes == ("unit-unwanted",)


# -- choices


def test_choices() -> None:
    exercise = toys.choice_exercise()
    for answer in ("b", "B", " (b) ", "b."):
        assert toys.judged(exercise, answer).outcome == "passed"
    assert toys.judged(exercise, "a").mistakes == ("the-first",)
    assert said(toys.judged(exercise, "c")) == "That is not the one."
    for answer in ("d", 2, None, ["b"]):
        assert "one of the letters a, b, c" in said(toys.judged(exercise, answer))


# -- structures


def test_a_choice_with_a_comma_behind_it() -> None:
    exercise = toys.choice_exercise()
    found = toys.judged(exercise, (exercise.answer,))
    assert found.outcome == "wrong" and "a comma behind the letter makes a tuple" in said(found)
    assert toys.judged(exercise, exercise.answer).outcome == "passed"


def _pair(M, d_in, d_out):
    return M * d_in, {"rows": M, "columns": d_out}


def test_tuples_and_dicts_say_which_parts_are_right() -> None:
    exercise = toys.function_exercise(answer=_pair, mistakes=[], draw=None, unit=None)
    assert (
        toys.judged(exercise, lambda M, d_in, d_out: [M * d_in, {"columns": d_out, "rows": M}]).outcome
        == "passed"
    )
    found = toys.judged(exercise, lambda M, d_in, d_out: (M * d_in, {"rows": d_in, "columns": d_out}))
    assert "right: value 1; value 2: right: columns; rows differs" in said(found).lower()
    found = toys.judged(exercise, lambda M, d_in, d_out: (M * d_in, {"rows": d_in}))
    assert "missing: columns" in said(found)
    assert "3 values came where 2 were wanted" in said(
        toys.judged(exercise, lambda M, d_in, d_out: (1, 2, 3))
    )
    assert "A whole number came where a tuple was wanted" in said(
        toys.judged(exercise, lambda M, d_in, d_out: 1)
    )


def test_tensors_are_compared_by_dtype_shape_and_value() -> None:
    import torch

    exercise = toys.tensor_exercise()
    assert toys.judged(exercise, lambda X: X.sum(1)).outcome == "passed"
    assert toys.judged(exercise, lambda X: (X @ torch.ones_like(X).T)[:, 0]).outcome == "passed", "a view"
    assert "Shape (2, 1) came where (2,) was wanted" in said(
        toys.judged(exercise, lambda X: X.sum(1, keepdim=True))
    )
    found = toys.judged(exercise, lambda X: X.double().sum(1))
    assert "the values are right, but dtype float64 came where float32 was wanted" in said(found).lower()
    assert "shape and dtype are right" in said(toys.judged(exercise, lambda X: X.sum(1) * 2)).lower()
    assert "A list came where a float32 array was wanted" in said(
        toys.judged(exercise, lambda X: X.sum(1).tolist())
    )
    found = toys.judged(exercise, lambda X: X.sum(1) * math.nan)
    assert found.outcome == "wrong"


# -- showing


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (0.1, "0.1"),
        (math.nan, "nan"),
        (Fraction(1, 3), "1/3"),
        ((1,), "(1,)"),
        ("x", "'x'"),
        (None, "None"),
        (10**3000, "1,000,"),
        ([1] * 100, "[1, 1, 1, 1, 1, 1, 1, 1, …]"),
        (Quantity(84, "GB"), "84 GB"),
    ],
)
def test_show(value: Any, text: str) -> None:
    shown = show(value)
    assert shown.startswith(text) and len(shown) <= 100
