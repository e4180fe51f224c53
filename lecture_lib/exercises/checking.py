"""`check`, `hint` and `progress`: what a student calls in a notebook. They never raise there, whatever they
are given.

With LECTURE_STRICT=1 in the environment `check` raises `CheckFailed`, with the same words, for anything but a
pass.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lecture_lib.exercises import definition, evidence, memory, verdict
from lecture_lib.exercises.definition import Definition
from lecture_lib.exercises.verdict import CaseResult, Verdict
from lecture_lib.quantity import LectureError

MIME = "application/vnd.three-budgets.check+json"
"""Under this type a check's output carries {"exercise", "outcome"} for programs that read the notebook."""

_WIDTH = 80
_SYMBOLS = {"passed": "✓", "wrong": "✗", "error": "!", "not_attempted": "○"}
_MISSING = object()


class CheckFailed(AssertionError):
    """Raised in strict mode for an answer that does not pass; its text is what the notebook would have
    shown.
    """


@dataclass(frozen=True, repr=False)
class Message:
    """Something said to the student: HTML in a notebook, text in a terminal."""

    title: str
    sentences: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "\n".join([self.title, *map(_wrapped, self.sentences)])

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)
        return f"<div><p><strong>{html.escape(self.title)}</strong></p>{said}</div>"


@dataclass(frozen=True, repr=False)
class CheckResult:
    """A verdict, shown. `outcome` is "passed", "wrong", "error" or "not_attempted"."""

    verdict: Verdict
    exercise: Definition | None = None
    wanted_shown: bool = False
    hints_left: int = 0
    note: str = ""

    @property
    def outcome(self) -> str:
        return self.verdict.outcome

    @property
    def _title(self) -> str:
        name = f" · {self.exercise.id} {self.exercise.title}" if self.exercise is not None else ""
        return f"{self.verdict.headline}{name}"

    def _sentences(self) -> tuple[str, ...]:
        said = self.verdict.sentences
        if self.exercise is not None and not self._calls and self.wanted_shown and self.verdict.results:
            result = self.verdict.results[0]
            if not result.right:
                said = (*said, f"The value wanted is {result.wanted}.")
        if self.verdict.see:
            said = (*said, f"Look again at {' and '.join(self.verdict.see)}.")
        if self.outcome in ("wrong", "error") and self.exercise is not None and self.hints_left:
            which = "the first" if self.hints_left == len(self.exercise.hints) else "the next"
            said = (*said, f'hint("{self.exercise.id}") opens {which} hint.')
        return (*said, *([self.note] if self.note else []))

    @property
    def _calls(self) -> bool:
        return self.exercise is not None and self.exercise.kind in ("function", "driver")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {MIME: {"exercise": self.exercise.id if self.exercise else None, "outcome": self.outcome}}

    def __repr__(self) -> str:
        lines = [self._title, *map(_wrapped, self._sentences())]
        if self._calls:
            lines += [_case_lines(result) for result in self.verdict.results]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        symbol = _SYMBOLS[self.outcome]
        said = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self._sentences())
        table = _case_table(self.verdict.results) if self._calls and self.verdict.results else ""
        head = f'<p><strong><span aria-hidden="true">{symbol} </span>{html.escape(self._title)}</strong></p>'
        return f'<div style="border-left:4px solid currentColor;padding-left:0.8em">{head}{said}{table}</div>'


def _wrapped(sentence: str) -> str:
    return textwrap.fill(sentence, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _case_lines(result: CaseResult) -> str:
    mark = "right" if result.right else "wrong" if result.ran else "-----"
    got = f"{result.got}" if result.right else f"{result.got}, wanted {result.wanted}"
    return textwrap.fill(
        f"{mark}  {result.case}: {got}",
        _WIDTH,
        initial_indent="  ",
        subsequent_indent=" " * 9,
        break_long_words=True,
    )


def _case_table(results: Sequence[CaseResult]) -> str:
    left = ' style="text-align:left"'
    head = "".join(f'<th scope="col"{left}>{name}</th>' for name in ("Case", "Yours", "Wanted", "Result"))
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left;font-weight:normal">{html.escape(r.case)}</th>'
        f"<td{left}>{html.escape(r.got)}</td><td{left}>{html.escape(r.wanted)}</td>"
        f"<td{left}>{'✓ right' if r.right else '✗ wrong' if r.ran else '○ not run'}</td></tr>"
        for r in results
    )
    right = sum(r.right for r in results)
    caption = f"{right} of {len(results)} public cases right"
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


# -- check


def check(id: Any = _MISSING, answer: Any = _MISSING, *more: Any) -> CheckResult:
    """Tries `answer` on the exercise's public cases and says how it went: `check("4.1", linear_flops)`.

    Returns an object that shows itself. Never raises, except CheckFailed in strict mode (LECTURE_STRICT=1)
    and KeyboardInterrupt when the kernel is interrupted. Called by the very function that it checks, which
    would go on without an end, it says so in an error, and that is what the check shows.
    """
    if evidence.student_code_runs.get():
        raise RuntimeError("check(...) stands inside the function that it checks: move it out, to the margin")
    try:
        if more:
            raise LectureError(
                f"expected an exercise and one answer; got {1 + len(more)} answers; put them in a tuple"
            )
        result = _check(id, answer)
    except LectureError as error:
        result = CheckResult(Verdict("", "error", "Not checked", (str(error),)))
    except Exception as error:  # a fault of the course, never the student's loss
        words = (
            f"The check itself failed ({type(error).__name__}: {error}). "
            "Your work is untouched; please report this."
        )
        result = CheckResult(Verdict("", "error", "Not checked", (words,)))
    if os.environ.get("LECTURE_STRICT", "") not in ("", "0") and result.outcome != "passed":
        raise CheckFailed(repr(result))
    return result


def _check(exercise_id: Any, answer: Any) -> CheckResult:
    if exercise_id is _MISSING:
        raise LectureError(
            'expected an exercise and your answer, like check("4.1", linear_flops); got neither'
        )
    known = definition.load_all()
    if callable(exercise_id) or isinstance(answer, str) and answer in known and exercise_id not in [*known]:
        raise LectureError('expected the exercise first, then the answer, like check("4.1", linear_flops)')
    exercise = definition.load(exercise_id)
    if answer is _MISSING:
        raise LectureError(f'expected your answer too: check("{exercise.id}", {exercise.answer_name})')
    found = evidence.collect(
        exercise.kind, answer, [c.inputs for c in exercise.cases], exercise.driver, exercise.time_limit
    )
    judged = verdict.judge(exercise, found)
    before = memory.entry(exercise.id)
    digest = hashlib.sha256(json.dumps(found.plain(), sort_keys=True).encode()).hexdigest()[:16]
    changes = {} if judged.outcome == "not_attempted" else {"answer": digest}
    note = memory.update(
        exercise.id, outcome=judged.outcome, passed=before.passed or judged.outcome == "passed", **changes
    )
    left = max(0, len(exercise.hints) - before.hints)
    shown = judged.outcome == "passed" or not left
    return CheckResult(judged, exercise, shown, left, note)


# -- hint


def hint(id: Any = _MISSING) -> Message:
    """Opens the exercise's next hint: `hint("4.1")`. The one after opens when a changed answer has been
    checked.
    """
    try:
        return _hint(id)
    except LectureError as error:
        return Message("No hint", (str(error),))
    except Exception as error:
        return Message("No hint", (f"The hint could not be read ({type(error).__name__}: {error}).",))


def _hint(exercise_id: Any) -> Message:
    if exercise_id is _MISSING:
        raise LectureError('expected an exercise, like hint("4.1"); got none')
    exercise = definition.load(exercise_id)
    before = memory.entry(exercise.id)
    total = len(exercise.hints)
    opened, note = before.hints, ""
    state: tuple[str, ...] = ()
    changed = before.answer != before.hinted_at
    if opened == 0 or (opened < total and changed):
        opened += 1
        note = memory.update(exercise.id, hints=opened, hinted_at=before.answer)
    elif opened < total:
        state = ("The next hint opens when you have changed your answer and run its check.",)
    else:
        state = ("That was the last hint.",)
    said = [f"Hint {i + 1} of {total}: {text}" for i, text in enumerate(exercise.hints[:opened])]
    return Message(f"Hints · {exercise.id} {exercise.title}", (*said, *state, *([note] if note else [])))


# -- progress


@dataclass(frozen=True, repr=False)
class Progress:
    """What is passed, wrong and open: exercises with their entries, notebook by notebook."""

    exercises: tuple[tuple[Definition, memory.Entry], ...]

    def _state(self, entry: memory.Entry) -> str:
        if entry.passed:
            return "passed"
        return {"wrong": "wrong", "error": "wrong", "passed": "passed"}.get(entry.outcome, "open")

    def _summary(self) -> str:
        done = [e for e, entry in self.exercises if entry.passed]
        left = sum(e.minutes for e, entry in self.exercises if not entry.passed)
        wrong = sum(self._state(entry) == "wrong" for _, entry in self.exercises)
        still_open = len(self.exercises) - len(done) - wrong
        points, total = sum(e.points for e in done), sum(e.points for e, _ in self.exercises)
        return (
            f"{len(done)} of {len(self.exercises)} exercises passed, {wrong} wrong, {still_open} open · "
            f"{points} of {total} points · about {left} minutes left"
        )

    def _rows(self) -> list[tuple[str, str, str, int, int]]:
        return [
            (e.notebook, f"{e.id} {e.title}", self._state(entry), e.points, e.minutes)
            for e, entry in self.exercises
        ]

    def __repr__(self) -> str:
        lines, last = [_wrapped(self._summary()).strip()], ""
        for notebook, name, state, points, minutes in self._rows():
            if notebook != last:
                lines.append(notebook)
                last = notebook
            title = textwrap.shorten(name, 42, placeholder=" …")
            unit = "point " if points == 1 else "points"
            lines.append(f"  {state:<7} {title:<43} {points:>2} {unit} {minutes:>3} min")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        symbols = {"passed": "✓ passed", "wrong": "✗ wrong", "open": "○ open"}
        left = ' style="text-align:left"'
        head = "".join(
            f'<th scope="col"{left}>{name}</th>'
            for name in ("Notebook", "Exercise", "State", "Points", "Minutes")
        )
        rows = "".join(
            f"<tr><td{left}>{html.escape(notebook)}</td>"
            f'<th scope="row" style="text-align:left;font-weight:normal">'
            f"{html.escape(name)}</th><td{left}>{symbols[state]}</td><td>{points}</td><td>{minutes}</td></tr>"
            for notebook, name, state, points, minutes in self._rows()
        )
        caption = f"<caption>{html.escape(self._summary())}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def progress(notebook: str | int | None = None) -> Progress | Message:
    """What is passed, wrong and open, with points and minutes left; of one notebook (`progress("04")`) or of
    all.
    """
    try:
        entries = memory.entries()
        chosen = [e for e in definition.load_all().values() if _is_in(e, notebook)]
        if not chosen:
            names = sorted({e.notebook for e in definition.load_all().values()})
            raise LectureError(f"expected one of the notebooks {', '.join(names)}; got {notebook!r:.60}")
        return Progress(tuple((e, entries.get(e.id, memory.Entry())) for e in chosen))
    except LectureError as error:
        return Message("No progress to show", (str(error),))
    except Exception as error:
        return Message("No progress to show", (f"It could not be read ({type(error).__name__}: {error}).",))


def _is_in(exercise: Definition, notebook: str | int | None) -> bool:
    if notebook is None:
        return True
    name = f"{notebook:02d}" if isinstance(notebook, int) else str(notebook).removesuffix(".ipynb")
    return exercise.notebook == name or exercise.notebook.partition("_")[0] == name.rjust(2, "0")
