"""The public form of an exercise, as a student's notebook loads it from `data/exercises/`."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lecture_lib.exercises.encoding import decode
from lecture_lib.paths import DATA
from lecture_lib.quantity import LectureError

FOLDER = DATA / "exercises"


@dataclass(frozen=True)
class Raises:
    """A known mistake that ends in an error on a case: the name of its type."""

    type: str


@dataclass(frozen=True)
class Case:
    """Inputs by name and the value wanted, both decoded (arrays as `encoding.Array`)."""

    inputs: Mapping[str, Any]
    wanted: Any


@dataclass(frozen=True)
class KnownMistake:
    """A slip, the words that name it, where in the course to look again, and its decoded value on each case
    (`Raises` where it ends in an error).
    """

    id: str
    message: str
    see: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Definition:
    """What a check needs: see `key.Exercise` for the fields."""

    id: str
    title: str
    notebook: str
    kind: str
    level: str
    difficulty: str
    points: int
    minutes: int
    unit: str | None
    driver: str | None
    tolerance: str | float
    graded: bool
    answer_name: str
    options: Mapping[str, str] | None
    time_limit: float
    case_text: str
    hints: tuple[str, ...]
    cases: tuple[Case, ...]
    mistakes: tuple[KnownMistake, ...]


def from_public(data: Mapping[str, Any]) -> Definition:
    """Reads the form that `key.public` writes; LectureError where it is another."""
    try:
        cases = tuple(
            Case({name: decode(v) for name, v in case["inputs"].items()}, decode(case["wanted"]))
            for case in data["cases"]
        )
        mistakes = tuple(
            KnownMistake(m["id"], m["message"], m["see"], tuple(_value(v) for v in m["values"]))
            for m in data["mistakes"]
        )
        return Definition(**{**data, "cases": cases, "mistakes": mistakes, "hints": tuple(data["hints"])})
    except (KeyError, TypeError, AttributeError) as error:
        raise LectureError(
            f"expected an exercise as `lecture build` writes it; got one that does not fit ({error})"
        ) from None


def _value(data: Any) -> Any:
    return Raises(data["raises"]) if isinstance(data, dict) and set(data) == {"raises"} else decode(data)


def load(exercise_id: str, folder: Path | None = None) -> Definition:
    """The exercise of that id; LectureError, with what is near, if there is none."""
    if not isinstance(exercise_id, str):
        raise LectureError(
            f'expected an exercise\'s id in quotes, like "4.1"; got {type(exercise_id).__name__}'
        )
    wanted = exercise_id.strip()
    everything = load_all(folder)
    if wanted in everything:
        return everything[wanted]
    numbers = re.search(r"(\d{1,4})(?:[.,](\d{1,4}))?", wanted[:100])
    notebook = str(int(numbers[1])) if numbers else ""
    meant = f"{notebook}.{int(numbers[2])}" if numbers and numbers[2] else ""  # "04.1", "4,1", "Exercise 4.1"
    same = [other for other in everything if other.partition(".")[0] == notebook]
    near = [meant] if meant in everything else difflib.get_close_matches(wanted, same, n=3, cutoff=0.5)
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = f"there are {', '.join(same)}" if same else "progress() shows which there are"
    raise LectureError(f"expected the id of an exercise; got {wanted[:40]!r}; {hint}")


_loaded: dict[Path, tuple[tuple[Any, ...], dict[str, Definition]]] = {}


def load_all(folder: Path | None = None) -> dict[str, Definition]:
    """Every exercise by id, in the order of the notebooks; read again only when a file has changed."""
    folder = FOLDER if folder is None else folder
    files = sorted(folder.glob("*.json"))
    if not files:
        raise LectureError(
            f"expected the course's exercises in {folder}; found none; install the course again"
        )
    stamp = tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    if folder not in _loaded or _loaded[folder][0] != stamp:
        _loaded[folder] = stamp, {e.id: e for file in files for e in _read(file)}
    return _loaded[folder][1]


def _read(file: Path) -> list[Definition]:
    try:
        return [from_public(data) for data in json.loads(file.read_text(encoding="utf-8"))["exercises"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LectureError(
            f"expected the course's exercises in {file.name}; it cannot be read ({error}); "
            "get it again from the course, or make it with `lecture build`"
        ) from None
