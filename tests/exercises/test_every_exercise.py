"""For every exercise of the key: its blank, its reference, each mistake, each mutant, each pair of slips."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mutants
import pytest

from lecture_lib.course.build import public_forms
from lecture_lib.exercises import key
from lecture_lib.exercises.definition import Definition, from_public
from lecture_lib.exercises.encoding import encode
from lecture_lib.exercises.evidence import collect
from lecture_lib.exercises.key import Exercise, Mistake
from lecture_lib.exercises.verdict import Verdict, judge
from lecture_lib.quantity import LectureError

ROOT = Path(__file__).resolve().parents[2]
KEY = key.load_key(ROOT / "tests" / "answer_key")
FRESH = 50

pytestmark = pytest.mark.filterwarnings("ignore")  # a mutant may divide by what it likes


def _ids(exercises: Sequence[Exercise]) -> list[Any]:
    return [pytest.param(e, id=e.id) for e in exercises]


every = pytest.mark.parametrize("exercise", _ids(list(KEY.values())))
every_graded = pytest.mark.parametrize("exercise", _ids([e for e in KEY.values() if e.graded]))
every_mistake = pytest.mark.parametrize(
    ("exercise", "mistake"),
    [pytest.param(e, m, id=f"{e.id}-{m.id}") for e in KEY.values() for m in e.mistakes],
)


@cache
def _public(exercise_id: str) -> Definition:
    return from_public(json.loads(json.dumps(key.public(KEY[exercise_id]))))


@cache
def _fresh(exercise_id: str) -> Definition:
    exercise = KEY[exercise_id]
    return from_public(json.loads(json.dumps(key.public(exercise, key.fresh_cases(exercise, "test", FRESH)))))


def _judged(definition: Definition, answer: Any) -> Verdict:
    cases = [case.inputs for case in definition.cases]
    return judge(definition, collect(definition.kind, answer, cases, definition.driver, time_limit=5.0))


def _typed(exercise: Exercise) -> Any:
    """The reference as a student would hand it in."""
    names: dict[str, Any] = {}
    if exercise.kind in ("function", "driver"):
        return exercise.answer
    exec(key.solution_source(exercise), names)
    return names[exercise.answer_name]


@every
def test_the_blank_is_not_attempted(exercise: Exercise) -> None:
    names: dict[str, Any] = {}
    exec(key.stub_source(exercise), names)
    assert _judged(_public(exercise.id), names[exercise.answer_name]).outcome == "not_attempted"


@every
def test_the_reference_passes_on_the_public_cases(exercise: Exercise) -> None:
    verdict = _judged(_public(exercise.id), _typed(exercise))
    assert verdict.outcome == "passed", verdict


@every_graded
def test_the_reference_passes_on_fresh_cases(exercise: Exercise) -> None:
    verdict = _judged(_fresh(exercise.id), exercise.answer)
    assert verdict.outcome == "passed", verdict


@every_graded
def test_fresh_cases_vary_every_input(exercise: Exercise) -> None:
    cases = key.fresh_cases(exercise, "test", FRESH)
    for name in exercise.cases[0]:
        if not isinstance(exercise.cases[0][name], str):  # the name of an operation may stay
            values = {json.dumps(encode(case[name])) for case in cases}
            assert len(values) > 1, f"{name} is {values} in every fresh case"
    assert {frozenset(case) for case in cases} == {frozenset(exercise.cases[0])}, (
        "inputs differ from the public ones"
    )


@every_graded
def test_the_reference_leaves_its_inputs_as_they_are(exercise: Exercise) -> None:
    if exercise.kind == "function":
        rows = collect(exercise.kind, exercise.answer, exercise.cases).rows
        assert not any(row.changed for row in rows)


@every_mistake
def test_a_known_mistake_is_caught_and_named(exercise: Exercise, mistake: Mistake) -> None:
    verdict = _judged(_public(exercise.id), key.mistaken_answer(exercise, mistake))
    assert verdict.outcome == "wrong", verdict
    assert mistake.id in verdict.mistakes, verdict
    others = [m for m in exercise.mistakes if m.id in verdict.mistakes and m is not mistake]
    for other in others:
        assert exercise.graded and _same_on_fresh_cases(exercise, mistake, other), (
            f"{mistake.id} and {other.id} look alike on the public cases and are not the same: add a case"
        )


def _same_on_fresh_cases(exercise: Exercise, one: Mistake, other: Mistake) -> bool:
    values = {known.id: known.values for known in _fresh(exercise.id).mistakes}
    return values[one.id] == values[other.id]


@every_mistake
def test_a_known_mistake_fails_on_fresh_cases(exercise: Exercise, mistake: Mistake) -> None:
    if exercise.graded:
        verdict = _judged(_fresh(exercise.id), key.mistaken_answer(exercise, mistake))
        assert verdict.outcome in ("wrong", "error") and mistake.id in verdict.mistakes, verdict


@every_mistake
def test_a_known_mistake_has_something_to_say(exercise: Exercise, mistake: Mistake) -> None:
    verdict = _judged(_public(exercise.id), key.mistaken_answer(exercise, mistake))
    said = " ".join(verdict.sentences)
    assert "{" not in mistake.message or "{" not in said
    assert len(mistake.message) >= 20 and mistake.message.rstrip().endswith((".", "?", ")", "`"))


@every
def test_see_names_a_cell_of_the_notebook(exercise: Exercise) -> None:
    seen = {mistake.see for mistake in exercise.mistakes if mistake.see}
    if seen:
        files = (ROOT / "notebooks").glob("*.ipynb")
        cells = {cell.get("id") for f in files for cell in json.loads(f.read_text(encoding="utf-8"))["cells"]}
        assert seen <= cells, f"no such cells: {sorted(seen - cells)}"


@pytest.mark.parametrize("exercise", _ids([e for e in KEY.values() if e.kind in ("function", "driver")]))
def test_every_mutant_fails_or_is_listed_as_equivalent(exercise: Exercise) -> None:
    if isinstance(exercise.answer, str):
        found = mutants.of_pattern(exercise.answer)
    else:
        found = mutants.of_function(key.solution_source(exercise))
    assert found
    listed = {line.partition("  # ")[0].strip() for line in exercise.equivalent}
    survivors = set()
    for mutant in found:
        answer = key.from_source(exercise, mutant.source)
        if _judged(_public(exercise.id), answer).outcome == "passed":
            survivors.add(mutant.line)
    missed, gone = survivors - listed, listed - survivors
    assert not missed, "pass all public cases:\n  " + "\n  ".join(sorted(missed))
    assert not gone, "listed as equivalent, but caught or no mutant:\n  " + "\n  ".join(sorted(gone))


@every
def test_a_double_slip_is_never_named_as_one_that_was_not_made(exercise: Exercise) -> None:
    for one, other in itertools.permutations([m for m in exercise.mistakes if m.edits], 2):
        try:
            source = key.edited_source(exercise, [*one.edits, *other.edits])
        except LectureError:
            continue  # the second edit's place is gone after the first
        answer = key.from_source(exercise, source)
        if exercise.kind == "quantity":
            answer = answer(**exercise.cases[0])
        named = set(_judged(_public(exercise.id), answer).mistakes)
        for third in named - {one.id, other.id}:
            known = next((m for m in exercise.mistakes if m.id == third), None)
            assert known is None or _is_the_same_function(exercise, answer, known), (
                f"{one.id} with {other.id} is named {third}"
            )


def _is_the_same_function(exercise: Exercise, answer: Any, mistake: Mistake) -> bool:
    """No case can tell two slips together from a third that computes the same."""
    if not exercise.graded:
        return False
    fresh = _fresh(exercise.id)
    return mistake.id in _judged(fresh, answer).mistakes


def test_the_public_files_are_what_the_key_makes() -> None:
    folder = ROOT / "data" / "exercises"
    made = public_forms(KEY)
    stored = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.json")}
    assert sorted(stored) == sorted(made), "run `lecture build`"
    for name, text in made.items():
        assert json.loads(stored[name]) == json.loads(text), f"{name} is stale: run `lecture build`"


def test_the_key_says_the_same_twice() -> None:
    assert key.build_public(KEY) == key.build_public(key.load_key(ROOT / "tests" / "answer_key"))
