"""Small exercises to test the loop with: a function, a quantity, a choice, tensors."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lecture_lib.exercises import key
from lecture_lib.exercises.definition import Definition, from_public
from lecture_lib.exercises.evidence import collect
from lecture_lib.exercises.key import Edit, Exercise, Mistake
from lecture_lib.exercises.verdict import Verdict, judge

HINTS = ["the first hint", "the second hint", "the last hint"]


def linear_flops(M, d_in, d_out):
    return 2 * M * d_in * d_out


def draw_linear(rng: random.Random) -> dict[str, int]:
    return {"M": rng.randint(2, 40), "d_in": rng.randint(2, 40), "d_out": rng.randint(2, 40)}


MISTAKES = (
    Mistake(
        "fma-as-one", "A multiply and its add are two FLOPs; with M={M} you counted one.", Edit("2 *", "1 *")
    ),
    Mistake("no-rows", "Every one of the {M} rows is multiplied; {got} is one row.", Edit("M * ", "")),
    Mistake(
        "square", "Inputs and outputs differ: {d_in} and {d_out}, in all {wanted}.", Edit("* d_out", "* d_in")
    ),
)


def function_exercise(**changes: Any) -> Exercise:
    fields: dict[str, Any] = {
        "id": "4.1",
        "title": "Count one linear layer",
        "notebook": "04_flops",
        "kind": "function",
        "points": 2,
        "minutes": 6,
        "unit": "FLOP",
        "answer": linear_flops,
        "cases": [{"M": 3, "d_in": 5, "d_out": 7}, {"M": 4, "d_in": 9, "d_out": 11}],
        "draw": draw_linear,
        "mistakes": MISTAKES,
        "hints": HINTS,
    }
    return Exercise(**{**fields, **changes})


def quantity_exercise(**changes: Any) -> Exercise:
    fields: dict[str, Any] = {
        "id": "0.1",
        "title": "What the weights take",
        "notebook": "00_start_here",
        "kind": "quantity",
        "points": 1,
        "minutes": 2,
        "unit": "GB",
        "answer": "84 GB",
        "mistakes": [Mistake("gradients-left-out", "You left the gradients out.", "56 GB")],
        "hints": HINTS,
    }
    return Exercise(**{**fields, **changes})


def choice_exercise(**changes: Any) -> Exercise:
    fields: dict[str, Any] = {
        "id": "1.2",
        "title": "Which one",
        "notebook": "01_tensors",
        "kind": "choice",
        "points": 1,
        "minutes": 1,
        "answer": "b",
        "options": {"a": "one", "b": "two", "c": "three"},
        "mistakes": [Mistake("the-first", "Not the first, since it is one.", "a")],
        "hints": HINTS,
    }
    return Exercise(**{**fields, **changes})


def row_sums(X):
    return X.sum(dim=1)


def tensor_exercise(**changes: Any) -> Exercise:
    fields: dict[str, Any] = {
        "id": "1.5",
        "title": "Sum the rows",
        "notebook": "01_tensors",
        "kind": "function",
        "points": 1,
        "minutes": 3,
        "answer": row_sums,
        "cases": [
            {"X": {"array": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "dtype": "float32"}},
            {"X": {"array": [[0.5, 2.0], [1.0, 8.0]], "dtype": "bfloat16"}},
        ],
        "hints": HINTS,
    }
    return Exercise(**{**fields, **changes})


def definition_of(exercise: Exercise, cases: Sequence[Any] | None = None) -> Definition:
    return from_public(json.loads(json.dumps(key.public(exercise, cases))))


def judged(exercise: Exercise, answer: Any, time_limit: float = 5.0) -> Verdict:
    """The verdict on an answer, the evidence having been through JSON as when grading."""
    from lecture_lib.exercises.evidence import Evidence

    definition = definition_of(exercise)
    cases = [case.inputs for case in definition.cases]
    evidence = collect(definition.kind, answer, cases, definition.driver, time_limit)
    return judge(definition, Evidence.from_plain(json.loads(json.dumps(evidence.plain()))))


def write_bank(folder: Path, *exercises: Exercise) -> None:
    """Public files of these exercises in `folder`."""
    folder.mkdir(exist_ok=True)
    for name, text in key.build_public({e.id: e for e in exercises}).items():
        (folder / name).write_text(text, encoding="utf-8")
