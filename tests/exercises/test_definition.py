from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import toys

from lecture_lib.exercises import definition
from lecture_lib.exercises.definition import load, load_all
from lecture_lib.exercises.encoding import Array
from lecture_lib.quantity import LectureError


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    toys.write_bank(
        tmp_path, toys.function_exercise(), toys.function_exercise(id="4.12"), toys.tensor_exercise()
    )
    return tmp_path


def test_an_exercise_as_its_key_made_it(bank: Path) -> None:
    found = load("4.1", bank)
    assert (found.title, found.answer_name, found.graded) == ("Count one linear layer", "linear_flops", True)
    assert [case.wanted for case in found.cases] == [210, 792]
    assert [mistake.values for mistake in found.mistakes][0] == (105, 396)
    assert load(" 1.5 ", bank).cases[0].inputs["X"] == Array(
        "float32", (2, 3), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    )
    assert list(load_all(bank)) == ["1.5", "4.1", "4.12"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("4.2", "did you mean"),
        ("4.l", "did you mean"),
        ("4,1", "did you mean 4.1?"),
        ("04.12", "did you mean 4.12?"),
        ("Exercise 1.5", "did you mean 1.5?"),
        ("4.1.", "did you mean 4.1?"),
        ("04", "there are 4.1, 4.12"),
        ("7", "progress() shows which there are"),
        ("linear", "progress() shows which there are"),
        ("", "progress() shows"),
        (4.1, "in quotes"),
        (None, "in quotes"),
        ("x" * 10**6, "progress() shows"),
        ("4" * 10**6, "progress() shows"),
        ("٤.١", "did you mean 4.1?"),
    ],
)
def test_an_unknown_id_says_what_is_near(bank: Path, given: Any, words: str) -> None:
    with pytest.raises(LectureError) as caught:
        load(given, bank)
    assert words in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"exercises": [{}]}', '{"exercises": 3}', '{"exercises": [{"id": "4.1"}]}']
)
def test_a_broken_file_says_which(bank: Path, text: str) -> None:
    (bank / "04_flops.json").write_text(text, encoding="utf-8")
    with pytest.raises(LectureError, match="04_flops.json|does not fit"):
        load("4.1", bank)


def test_no_files_at_all(tmp_path: Path) -> None:
    with pytest.raises(LectureError, match="found none"):
        load("4.1", tmp_path)


def test_a_changed_file_is_read_again(bank: Path) -> None:
    assert load("4.1", bank) is load("4.1", bank)
    toys.write_bank(bank, toys.function_exercise(title="Another title"), toys.tensor_exercise())
    assert load("4.1", bank).title == "Another title"


def test_a_value_that_hides_something_is_refused(bank: Path) -> None:
    file = bank / "04_flops.json"
    file.write_text(
        file.read_text().replace('"wanted": 210', '"wanted": {"__class__": "x"}'), encoding="utf-8"
    )
    with pytest.raises(LectureError):
        load("4.1", bank)


def test_the_courses_own_exercises_load() -> None:
    assert definition.load_all()
