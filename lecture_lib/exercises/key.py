"""The answer key: what its author writes, checked as it is written, and the public form made from it.

One Python file per notebook, each with `EXERCISES = [Exercise(...), ...]`. A private bank has the same shape
in another folder. `public(exercise)` is all that a student's notebook sees of it (stored in
`data/exercises/`).
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import json
import linecache
import random
import re
import string
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from lecture_lib.quantity import LectureError, Quantity

KINDS = ("quantity", "choice", "function", "driver")
LEVELS = ("core", "stretch", "recall")
DIFFICULTIES = ("warm-up", "steady", "demanding")

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Edit:
    """Replaces `old`, which occurs exactly once in the reference's source text, by `new`."""

    old: str
    new: str

    def apply(self, source: str) -> str:
        """`source` with the edit made; LectureError unless `old` occurs exactly once."""
        found = source.count(self.old)
        if not self.old or found != 1:
            raise LectureError(f"expected {self.old!r} once in the reference; found it {found} times")
        return source.replace(self.old, self.new)


@dataclass(frozen=True)
class Mistake:
    """A slip people make, the words that name it, and the wrong answer it leads to.

    id:      short, stable, unique within the exercise ("fma-as-one")
    message: what the student reads; may use {inputs of the deciding case} and {got}, and {wanted} for
    functions
    change:  an Edit or a list of them to the reference's source, or a whole wrong function, or a wrong value
    see:     id of the notebook cell that would have helped ("04-forward")
    """

    id: str
    message: str
    change: Any
    see: str = ""

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits, or () where the change is a whole wrong answer."""
        if isinstance(self.change, Edit):
            return (self.change,)
        if (
            isinstance(self.change, list | tuple)
            and self.change
            and all(isinstance(e, Edit) for e in self.change)
        ):
            return tuple(self.change)
        return ()


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise with its answer. Every rule below is checked when the object is made (LectureError).

    id:          "4.1"; notebook: the notebook's file name without ending, "04_flops"
    kind:        "quantity" (a typed value with a unit, or a plain number), "choice" (a letter), "function"
                 (called on cases), "driver" (exercised by the function of that name in `drivers.py`)
    level:       "core", "stretch" or "recall"
    difficulty:  "warm-up", "steady" or "demanding"
    minutes:     about how long it takes
    unit:        the unit wanted ("FLOP", "B/s"), or None for a plain value
    answer:      function, driver: the reference, plain code as a student would write it, called with a case's
                 inputs by keyword (a driver may also exercise text); quantity: a value, or a function of the
                 inputs; choice: a letter
    cases:       public inputs, plain data; an array is {"array": nested list, "dtype": "float32"}; a quantity
                 has one case
    draw:        `draw(rng: random.Random)` gives the inputs of one fresh case; None where nothing is graded
    tolerance:   "exact", "3 digits" or a relative error; unless given, "3 digits" in a quantity, else "exact"
    options:     choice: {"a": "its text", ...}
    mistakes:    known slips; three or more where the exercise is graded
    equivalent:  one-edit mutants of the reference that are no mistake, each "MUTANT  # reason"
    hints:       exactly three, from a nudge to nearly the answer
    case_text:   how a case reads in the table, "M={M}, d_in={d_in}"
    time_limit:  seconds that one case may take
    """

    id: str
    title: str
    notebook: str
    kind: str
    points: int
    minutes: int
    answer: Any
    hints: Sequence[str]
    level: str = "core"
    difficulty: str = "steady"
    unit: str | None = None
    cases: Sequence[Inputs] = ()
    draw: Callable[[random.Random], Inputs] | None = None
    driver: str | None = None
    tolerance: str | float | None = None
    options: Mapping[str, str] | None = None
    mistakes: Sequence[Mistake] = ()
    equivalent: Sequence[str] = ()
    case_text: str = ""
    time_limit: float = 10.0

    def __post_init__(self) -> None:
        if self.tolerance is None:
            object.__setattr__(self, "tolerance", "3 digits" if self.kind == "quantity" else "exact")
        if self.kind == "quantity" and not self.cases:
            object.__setattr__(self, "cases", [{}])
        if self.kind == "choice" and not self.cases:
            object.__setattr__(self, "cases", [{}])
        for problem in _problems(self):
            raise LectureError(f"exercise {self.id}: {problem}")

    @property
    def graded(self) -> bool:
        """Whether points rest on fresh cases; otherwise the exercise counts as completion only."""
        return self.kind in ("function", "driver") and self.draw is not None

    @property
    def answer_name(self) -> str:
        """The name a student gives the answer: the reference's own, or `answer_4_2` for a value."""
        if self.kind in ("function", "driver") and callable(self.answer):
            return str(self.answer.__name__)
        return f"answer_{self.id.replace('.', '_')}"


def _problems(e: Exercise) -> list[str]:
    """What is wrong with an exercise, in words; the first one is raised."""
    found: list[str] = []

    def want(condition: object, words: str) -> None:
        if not condition:
            found.append(words)

    want(re.fullmatch(r"\d+\.\d+", e.id), f"expected an id like '4.1'; got {e.id!r}")
    want(
        re.fullmatch(r"\d\d_[a-z0-9_]+", e.notebook),
        f"expected a notebook like '04_flops'; got {e.notebook!r}",
    )
    for name, allowed in (("kind", KINDS), ("level", LEVELS), ("difficulty", DIFFICULTIES)):
        value = getattr(e, name)
        want(value in allowed, f"expected {name} to be one of {', '.join(allowed)}; got {value!r}")
    want(e.title and e.title == e.title.strip() and "\n" not in e.title, "expected a title of one line")
    want(isinstance(e.points, int) and e.points >= 0, f"expected points as a whole number; got {e.points!r}")
    want(
        isinstance(e.minutes, int) and e.minutes > 0, f"expected minutes as a whole number; got {e.minutes!r}"
    )
    want(
        e.tolerance in ("exact", "3 digits") or (isinstance(e.tolerance, float) and 0 < e.tolerance < 1),
        f"expected a tolerance of 'exact', '3 digits' or a relative error; got {e.tolerance!r}",
    )
    want(
        len(e.hints) == 3 and all(isinstance(h, str) and h.strip() for h in e.hints),
        "expected exactly three hints",
    )
    want(
        (e.driver is not None) == (e.kind == "driver"), "expected a driver for kind 'driver', and only there"
    )
    want(
        (e.options is not None) == (e.kind == "choice"), "expected options for kind 'choice', and only there"
    )
    if e.options is not None:
        want(
            e.answer in e.options,
            f"expected the answer to be one of {', '.join(e.options)}; got {e.answer!r}",
        )
        want(
            all(re.fullmatch("[a-z]", letter) for letter in e.options),
            "expected options under single small letters",
        )
    if e.kind == "function":
        want(
            isinstance(e.answer, FunctionType),
            f"expected the reference as a plain function; got {e.answer!r}",
        )
    if e.kind in ("function", "driver"):
        want(len(e.cases) >= 2, f"expected two public cases or more; got {len(e.cases)}")
        names = {tuple(sorted(case)) for case in e.cases}
        want(len(names) <= 1, "expected the same input names in every case")
    else:
        want(len(e.cases) == 1, f"expected one case for a {e.kind}; got {len(e.cases)}")
        want(e.draw is None, f"expected no draw: a {e.kind} counts as completion only")
    if e.unit is not None:
        try:
            Quantity(1, e.unit)
        except LectureError as error:
            found.append(str(error))
    want(
        not e.graded or len(e.mistakes) >= 3, f"expected three known mistakes or more; got {len(e.mistakes)}"
    )
    want(len({m.id for m in e.mistakes}) == len(e.mistakes), "expected every mistake's id once")
    for mistake in e.mistakes:
        found += [f"mistake {mistake.id}: {words}" for words in _mistake_problems(e, mistake)]
    for line in e.equivalent:
        want("  # " in line, f"expected 'MUTANT  # reason' in equivalent; got {line!r}")
    found += _template_problems("case_text", e.case_text, set(e.cases[0]) if e.cases else set())
    return found


def _template_problems(name: str, text: str, allowed: set[str]) -> list[str]:
    try:
        used = {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
    except ValueError as error:
        return [f"{name}: {error}; write {{{{ and }}}} for braces"]
    return [f"{name} uses {sorted(used - allowed)}; it may use {sorted(allowed)}"] if used - allowed else []


def _mistake_problems(e: Exercise, mistake: Mistake) -> list[str]:
    found = []
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", mistake.id):
        found.append("expected an id of small letters, digits and hyphens")
    if not mistake.message.strip():
        found.append("expected a message")
    allowed = {"got", *(e.cases[0] if e.cases else ())} | (
        {"wanted"} if e.kind in ("function", "driver") else set()
    )
    found += _template_problems("the message", mistake.message, allowed)
    if mistake.edits:
        try:
            edited_source(e, mistake.edits)
        except LectureError as error:
            found.append(str(error))
    elif isinstance(mistake.change, list | tuple) and not mistake.change:
        found.append("expected an edit, a function or a wrong value; got none")
    if e.kind == "function" and not mistake.edits and not callable(mistake.change):
        found.append(f"expected an edit or a wrong function; got {mistake.change!r}")
    if e.options is not None and mistake.change not in e.options:
        found.append(f"expected one of the options {', '.join(e.options)}; got {mistake.change!r}")
    return found


# -- source text


def solution_source(exercise: Exercise) -> str:
    """The reference as a student would have written it: a function's source, or `answer_0_1 = "84 GB"`."""
    if isinstance(exercise.answer, FunctionType) and exercise.kind in ("function", "driver"):
        return _source(exercise.answer)
    return f"{exercise.answer_name} = {_typed(exercise)}\n"


def stub_source(exercise: Exercise) -> str:
    """The blank that a student's notebook holds."""
    if isinstance(exercise.answer, FunctionType) and exercise.kind in ("function", "driver"):
        head, _, _ = _source(exercise.answer).partition(":\n")
        return f"{head}:\n    return ...\n"
    return f"{exercise.answer_name} = ...\n"


def mistake_source(exercise: Exercise, mistake: Mistake) -> str:
    """What a student who makes this slip would have written."""
    if mistake.edits:
        return edited_source(exercise, mistake.edits)
    if isinstance(mistake.change, FunctionType):
        return _source(mistake.change)
    return f"{exercise.answer_name} = {mistake.change!r}\n"


def edited_source(exercise: Exercise, edits: Sequence[Edit]) -> str:
    """The reference's source with `edits` made one after another; LectureError where one no longer fits."""
    text = exercise.answer if isinstance(exercise.answer, str) else _source(exercise.answer)
    for edit in edits:
        text = edit.apply(text)
    if isinstance(exercise.answer, str):
        return text
    try:
        compile(text, "<mistake>", "exec")
    except SyntaxError as error:
        raise LectureError(f"expected Python after the edit; got {error}") from None
    return text


def _source(function: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise LectureError(f"expected a function whose source can be read; got {function!r}") from None


def _typed(exercise: Exercise) -> str:
    """A value as a student types it."""
    value = exercise.answer
    if isinstance(value, FunctionType):
        value = value(**copy.deepcopy(dict(exercise.cases[0])))
    if isinstance(value, Quantity):
        shown = value.to(exercise.unit) if exercise.unit else value
        number = f"{shown.value}" if isinstance(shown.value, int) else f"{float(shown.value):.10g}"
        value = f"{number} {shown.unit}" if shown.unit != "1" else shown.value
    return repr(value)


# -- answers as objects


_numbered = iter(range(10**9))


def from_source(exercise: Exercise, source: str) -> Any:
    """The answer that `source` defines: a function run in the key module's own names, or text for a text
    answer.
    """
    if isinstance(exercise.answer, str):
        return source
    filename = f"<exercise {exercise.id} #{next(_numbered)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    names = dict(exercise.answer.__globals__)
    exec(compile(source, filename, "exec"), names)
    return names[exercise.answer.__name__]


def mistaken_answer(exercise: Exercise, mistake: Mistake) -> Any:
    """The wrong answer itself: a function, text or value."""
    return from_source(exercise, edited_source(exercise, mistake.edits)) if mistake.edits else mistake.change


# -- loading


def load_key(folder: str | Path) -> dict[str, Exercise]:
    """Every exercise of a bank, by id, in order of id. `folder` is `tests/answer_key` or a private bank of
    that shape.

    Raises LectureError where the folder has no exercises, a file does not load or an id is given twice.
    """
    folder = Path(folder)
    files = sorted(p for p in folder.glob("*.py") if not p.name.startswith("_")) if folder.is_dir() else []
    if not files:
        raise LectureError(f"expected a folder with answer keys (nb04_flops.py, …); found none in {folder}")
    found: dict[str, Exercise] = {}
    for file in files:
        for exercise in _exercises_of(_import(file), file):
            if exercise.id in found:
                raise LectureError(
                    f"expected every exercise once; {exercise.id} is in {file.name} and again before it"
                )
            found[exercise.id] = exercise
    return dict(sorted(found.items(), key=lambda item: number(item[0])))


def number(exercise_id: str) -> tuple[int, ...]:
    """Sorts "4.2" before "4.10"."""
    return tuple(int(part) for part in exercise_id.split("."))


def _import(file: Path) -> ModuleType:
    name = f"answer_key_{file.stem}_{abs(hash(file.resolve())):x}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise LectureError(f"expected a Python file; got {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # inspect finds a function's source through it
    try:
        spec.loader.exec_module(module)
    except LectureError as error:
        raise LectureError(f"{file.name}: {error}") from error
    return module


def _exercises_of(module: ModuleType, file: Path) -> Sequence[Exercise]:
    exercises = getattr(module, "EXERCISES", None)
    if not isinstance(exercises, list | tuple) or not all(isinstance(e, Exercise) for e in exercises):
        raise LectureError(
            f"expected EXERCISES = [Exercise(...), ...] in {file.name}; got {type(exercises).__name__}"
        )
    return exercises


# -- the public form


def fresh_cases(exercise: Exercise, seed: int | str, count: int) -> list[Inputs]:
    """`count` drawn cases, the same for the same seed on every machine."""
    if exercise.draw is None:
        raise LectureError(f"expected an exercise with inputs to draw; {exercise.id} is completion only")
    rng = random.Random(f"{exercise.id}:{seed}")
    return [exercise.draw(rng) for _ in range(count)]


def public(exercise: Exercise, cases: Sequence[Inputs] | None = None) -> dict[str, Any]:
    """JSON form: text, hints, cases with the values wanted, each mistake's values on them. Deterministic.

    `cases` puts fresh inputs in the place of the public ones (a grader judges with the same form).
    """
    from lecture_lib.exercises.encoding import encode
    from lecture_lib.exercises.evidence import reference_values

    cases = exercise.cases if cases is None else cases
    wanted = reference_values(exercise.kind, exercise.driver, exercise.answer, cases)
    for value in wanted:
        if isinstance(value, dict) and ("other" in value or "raises" in value):
            raise LectureError(
                f"exercise {exercise.id}: the reference gives {value}, which cannot be compared"
            )
    return {
        "id": exercise.id,
        "title": exercise.title,
        "notebook": exercise.notebook,
        "kind": exercise.kind,
        "level": exercise.level,
        "difficulty": exercise.difficulty,
        "points": exercise.points,
        "minutes": exercise.minutes,
        "unit": exercise.unit,
        "driver": exercise.driver,
        "tolerance": exercise.tolerance,
        "graded": exercise.graded,
        "answer_name": exercise.answer_name,
        "options": dict(exercise.options) if exercise.options is not None else None,
        "time_limit": exercise.time_limit,
        "case_text": exercise.case_text,
        "hints": list(exercise.hints),
        "cases": [
            {"inputs": {name: encode(value) for name, value in case.items()}, "wanted": value}
            for case, value in zip(cases, wanted, strict=True)
        ],
        "mistakes": [
            {
                "id": mistake.id,
                "message": mistake.message,
                "see": mistake.see,
                "values": reference_values(
                    exercise.kind, exercise.driver, mistaken_answer(exercise, mistake), cases
                ),
            }
            for mistake in exercise.mistakes
        ],
    }


def build_public(key: Mapping[str, Exercise], places: Mapping[str, str] | None = None) -> dict[str, str]:
    """The files of `data/exercises/`, by name ("04_flops.json"): one for each notebook, with its exercises
    in order. `places` says how a student finds the cell that a mistake names in `see`.
    """
    places = places or {}
    files: dict[str, list[dict[str, Any]]] = {}
    for exercise in key.values():
        form = public(exercise)
        for mistake in form["mistakes"]:
            mistake["see"] = places.get(mistake["see"], mistake["see"])
        files.setdefault(f"{exercise.notebook}.json", []).append(form)
    return {
        name: json.dumps({"exercises": content}, indent=1, ensure_ascii=False) + "\n"
        for name, content in sorted(files.items())
    }
