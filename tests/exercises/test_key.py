from __future__ import annotations

from pathlib import Path

import pytest
import toys

from lecture_lib.exercises import key
from lecture_lib.exercises.key import Edit, Mistake
from lecture_lib.quantity import LectureError, Quantity


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": "four"}, "id like '4.1'"),
        ({"notebook": "flops"}, "notebook like"),
        ({"kind": "essay"}, "kind to be one of"),
        ({"level": "hard"}, "level to be one of"),
        ({"difficulty": "2"}, "difficulty to be one of"),
        ({"hints": ["one", "two"]}, "exactly three hints"),
        ({"mistakes": toys.MISTAKES[:2]}, "three known mistakes"),
        ({"mistakes": [*toys.MISTAKES, toys.MISTAKES[0]]}, "id once"),
        ({"mistakes": [*toys.MISTAKES, Mistake("x", "Words.", Edit("d_", "e_"))]}, "found it 4 times"),
        ({"mistakes": [*toys.MISTAKES, Mistake("x", "Words.", Edit("3 *", ""))]}, "found it 0 times"),
        (
            {"mistakes": [*toys.MISTAKES, Mistake("x", "Words.", Edit("2 *", "2 * ("))]},
            "Python after the edit",
        ),
        ({"mistakes": [*toys.MISTAKES, Mistake("x", "With {P}.", Edit("2 *", "1 *"))]}, "it may use"),
        ({"mistakes": [*toys.MISTAKES, Mistake("x", "With {M.", Edit("2 *", "1 *"))]}, "for braces"),
        ({"mistakes": [*toys.MISTAKES, Mistake("X y", "Words.", Edit("2 *", "1 *"))]}, "small letters"),
        ({"mistakes": [*toys.MISTAKES, Mistake("x", "Words.", [])]}, "expected an edit"),
        ({"case_text": "P={P}"}, "case_text uses"),
        ({"unit": "GBit"}, "expected a unit"),
        ({"tolerance": "loose"}, "tolerance"),
        ({"driver": "call"}, "driver for kind 'driver'"),
        ({"cases": [{"M": 1, "d_in": 1, "d_out": 1}]}, "two public cases"),
        ({"cases": [{"M": 1}, {"N": 1}]}, "same input names"),
        ({"equivalent": ["return M"]}, "MUTANT  # reason"),
        ({"answer": 3}, "plain function"),
    ],
)
def test_a_key_with_a_fault_is_refused_in_words(changes: dict[str, object], words: str) -> None:
    with pytest.raises(LectureError, match="4.1|four") as caught:
        toys.function_exercise(**changes)
    assert words in str(caught.value)


def test_messages_of_quantities_and_choices_never_show_the_right_value() -> None:
    with pytest.raises(LectureError, match="it may use"):
        toys.quantity_exercise(mistakes=[Mistake("x", "It is {wanted}.", "56 GB")])
    with pytest.raises(LectureError, match="options"):
        toys.choice_exercise(mistakes=[Mistake("x", "Not that one.", "d")])


def test_sources() -> None:
    exercise = toys.function_exercise()
    assert key.stub_source(exercise) == "def linear_flops(M, d_in, d_out):\n    return ...\n"
    assert key.solution_source(exercise).endswith("    return 2 * M * d_in * d_out\n")
    assert "return 1 * M" in key.mistake_source(exercise, toys.MISTAKES[0])
    assert key.stub_source(toys.quantity_exercise()) == "answer_0_1 = ...\n"
    assert key.solution_source(toys.quantity_exercise()) == "answer_0_1 = '84 GB'\n"
    computed = toys.quantity_exercise(answer=_weights, cases=[{"P": 7_000_000_000}], mistakes=[])
    assert key.solution_source(computed) == "answer_0_1 = '84 GB'\n"
    assert key.solution_source(toys.choice_exercise()) == "answer_1_2 = 'b'\n"


def _weights(P):
    return Quantity(12 * P, "B")


def test_a_mistake_runs_in_the_names_of_the_key() -> None:
    wrong = key.mistaken_answer(toys.function_exercise(), toys.MISTAKES[1])
    assert wrong(3, 5, 7) == 70


def test_the_public_form() -> None:
    made = key.public(toys.function_exercise())
    assert made["cases"][0] == {"inputs": {"M": 3, "d_in": 5, "d_out": 7}, "wanted": 210}
    assert made["mistakes"][0]["values"] == [105, 396]
    assert made["graded"] is True
    assert "return 2 * M" not in str(made), "the solution is not part of it"
    assert key.public(toys.quantity_exercise())["graded"] is False


def test_a_mistake_that_raises_is_recorded_as_such() -> None:
    raising = Mistake("divides", "You divide by nothing at all.", Edit("2 *", "2 / 0 *"))
    assert (
        key.public(toys.function_exercise(mistakes=[*toys.MISTAKES, raising]))["mistakes"][3]["values"]
        == [{"raises": "ZeroDivisionError"}] * 2
    )


def test_a_reference_that_fails_is_refused() -> None:
    with pytest.raises(LectureError, match="ZeroDivisionError"):
        key.public(toys.function_exercise(answer=_fails, mistakes=[], draw=None))


def _fails(M, d_in, d_out):
    return 1 // 0


def test_fresh_cases_repeat_with_the_seed_and_differ_between_exercises() -> None:
    one, other = toys.function_exercise(), toys.function_exercise(id="4.2")
    assert key.fresh_cases(one, 7, 5) == key.fresh_cases(one, 7, 5) != key.fresh_cases(one, 8, 5)
    assert key.fresh_cases(one, 7, 5) != key.fresh_cases(other, 7, 5)
    with pytest.raises(LectureError, match="completion only"):
        key.fresh_cases(toys.quantity_exercise(), 7, 5)


KEY_FILE = """
from lecture_lib.exercises.key import Edit, Exercise, Mistake

def double(x):
    return 2 * x

EXERCISES = [
    Exercise(
        id="{id}", title="Double", notebook="04_flops", kind="function", points=1, minutes=1, answer=double,
        cases=[dict(x=1), dict(x=2)], hints=["a", "b", "c"],
        mistakes=[Mistake("once", "Once only.", Edit("2 *", ""))],
    )
]
"""


def test_a_bank_anywhere_is_loaded_in_order_of_id(tmp_path: Path) -> None:
    for name, number in (("nb04_a", "4.10"), ("nb04_b", "4.2"), ("_helper", "x")):
        (tmp_path / f"{name}.py").write_text(KEY_FILE.replace("{id}", number), encoding="utf-8")
    bank = key.load_key(tmp_path)
    assert list(bank) == ["4.2", "4.10"]
    assert key.public(bank["4.2"])["mistakes"][0]["values"] == [1, 2]


def test_a_bank_with_a_fault_says_where(tmp_path: Path) -> None:
    with pytest.raises(LectureError, match="found none"):
        key.load_key(tmp_path / "nowhere")
    (tmp_path / "nb01.py").write_text(KEY_FILE.replace("{id}", "4.1"), encoding="utf-8")
    (tmp_path / "nb02.py").write_text(KEY_FILE.replace("{id}", "4.1"), encoding="utf-8")
    with pytest.raises(LectureError, match="nb02.py"):
        key.load_key(tmp_path)
    (tmp_path / "nb02.py").write_text("EXERCISES = 3", encoding="utf-8")
    with pytest.raises(LectureError, match="nb02.py"):
        key.load_key(tmp_path)
    (tmp_path / "nb02.py").write_text(KEY_FILE.replace("{id}", "nine"), encoding="utf-8")
    with pytest.raises(LectureError, match="nb02.py: exercise nine"):
        key.load_key(tmp_path)
