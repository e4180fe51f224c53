"""`lecture run` from its options to its exit code: which notebooks, on what, and what is left behind."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nbformat import NotebookNode

from lecture_lib import paths
from lecture_lib.course import notebook_files as files
from lecture_lib.course.report import device_line, write_report, write_summary
from lecture_lib.course.run import Failure, Progress, Result, Settings, Stopped, run
from lecture_lib.quantity import LectureError

KEY = "tests/answer_key"


def notebooks_folder() -> Path:
    """The course's notebooks; LectureError where there are none, with what to do."""
    if paths.NOTEBOOKS is None or not files.numbered(paths.NOTEBOOKS):
        raise LectureError(
            "expected the course's notebooks; there is no folder notebooks/ beside lecture_lib; "
            "run this in a clone of the project, or download it whole"
        )
    return paths.NOTEBOOKS


def key_folder(given: str | None = None) -> Path:
    """The answer key: the folder given, or the public one of a clone."""
    root = paths.project_root()
    folder = Path(given) if given else (root / KEY if root else None)
    if folder is None or not folder.is_dir():
        where = given or f"{KEY}/ of a clone (a student's tree has none)"
        raise LectureError(f"expected an answer key in {where}; found none; name its folder")
    return folder


def put_answers_in(node: NotebookNode, key: Path) -> None:
    """Replaces every answer cell's blank by the key's answer: the instructor's edition, in memory."""
    from lecture_lib.exercises.key import load_key, solution_source

    answers = load_key(key)
    for cell in node.cells:
        found = files.role(cell)
        if found is None or found[1] != "answer":
            continue
        if found[0] not in answers:
            raise LectureError(
                f"expected exercise {found[0]} in the key; it is in the notebook, not in {key}"
            )
        cell.source = solution_source(answers[found[0]]).rstrip("\n")


def lecture_run(
    names: Sequence[str], device: str, scale: str, edition: str, jobs: int | None, out: Path | None
) -> int:
    """Runs notebooks as `lecture run` does and returns the exit code (0, 1, 2 or 3)."""
    began = time.monotonic()
    problems: list[Result] = []
    chosen: list[Path] = []
    if names:
        folder = paths.NOTEBOOKS or Path("notebooks")
        for name in names:
            try:
                chosen.append(files.find(name, folder))
            except LectureError as error:
                problems.append(
                    Result(Path(name).stem, "unreadable", failure=Failure(None, None, "", str(error)))
                )
                print(f"{name}: {error}", file=sys.stderr)
        if not chosen:
            return 2
    else:
        chosen = files.numbered(notebooks_folder())
    out = out or (paths.project_root() or Path.cwd()) / "build" / "run"
    _refuse_to_overwrite(out, chosen)
    settings = Settings(device=device, scale=scale, edition=edition, jobs=_jobs(jobs, device))
    prepare = None
    if edition == "instructor":
        key = key_folder()
        prepare = lambda node: put_answers_in(node, key)  # noqa: E731
    left: list[str] = []
    try:
        results = run(chosen, out, settings, Progress(sys.stdout), prepare)
    except Stopped as stopped:
        results, left = stopped.results, stopped.left
    results += problems
    write_summary(results, left, out / "summary.json")
    write_report(results, left, settings, time.monotonic() - began, device_line(device), out / "report.html")
    passed = sum(result.status == "passed" for result in results)
    print(f"{passed} of {len(results) + len(left)} notebooks passed. Report: {out / 'report.html'}")
    if left:
        print(f"Stopped. Left to run: {', '.join(left)}", file=sys.stderr)
        return 3
    return 0 if passed == len(results) else 1


def _refuse_to_overwrite(out: Path, chosen: Sequence[Path]) -> None:
    """What ran is stored in `out` under the notebook's own name: never where notebooks are."""
    if out.exists() and not out.is_dir():
        raise LectureError(f"expected a folder for the report; {out} is a file; name another")
    taken = [path.parent for path in chosen] + [(paths.project_root() or Path.cwd()) / "work"]
    taken += [paths.NOTEBOOKS] if paths.NOTEBOOKS else []
    if out.resolve() in [folder.resolve() for folder in taken]:
        raise LectureError(
            f"expected a folder of its own for the report; what ran would take the place of the notebooks in "
            f"{out}; name another"
        )


def _jobs(asked: int | None, device: str) -> int:
    """How many notebooks at once: one unless asked for more, and never two on one GPU."""
    if device != "cpu" and (device == "cuda" or (asked or 1) > 1):
        from lecture_lib.measuring.device import choose

        if choose(device).type == "cuda":
            if (asked or 1) > 1:
                print(
                    "One notebook at a time: two would share the GPU's memory and spoil each other's times."
                )
            return 1
    return asked or 1
