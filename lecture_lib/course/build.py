"""`lecture build`: all that is made from the key and the notebooks' sources, and whether it is up to date.

From the key: `data/exercises/NN_name.json`, and in the notebooks the prompts' first lines, the blanks and the
calls of `check`. From one template: the set-up cell. From running them: the stored outputs. From the list
of claims: `docs/claims.md`. `--check` makes all but the outputs in memory and compares; the outputs are
compared by nbval, which runs the notebooks.
"""

from __future__ import annotations

import copy
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import nbformat
from nbformat import NotebookNode

from lecture_lib import __version__, paths
from lecture_lib.course import notebook_files as files
from lecture_lib.course.run import CELL_LIMIT, Progress, Settings, run
from lecture_lib.quantity import LectureError

if TYPE_CHECKING:
    from lecture_lib.exercises.key import Exercise

SETUP = "setup_cell.py.txt"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PICTURE = "docs/three_budgets.svg"
CLAIMS = "docs/claims.md"


def lecture_build(names: Sequence[str], check: bool, key: Path) -> int:
    """Makes everything (or, with check, says what is stale) and returns the exit code (0 or 1)."""
    from lecture_lib.course.headless import notebooks_folder
    from lecture_lib.exercises.key import load_key

    folder = notebooks_folder()
    chosen = [files.find(name, folder) for name in names] or files.numbered(folder)
    exercises = load_key(key)
    stale = cases(
        exercises, paths.DATA / "exercises", check, {path.stem for path in chosen} if names else None
    )
    stamped: dict[Path, NotebookNode] = {}
    for path in chosen:
        node = files.read(path).node
        stamped[path] = stamp(node, path.stem, exercises.values())
        stale += problems(path.stem, stamped[path], exercises.values())
        if check:
            stale += differences(path.stem, node, stamped[path])
    stale += picture(check) + claims(exercises, check)
    if not check:
        stale += _store(stamped)
    elif not stale:  # what is stale in its sources need not be run to know it
        stale += _nbval(chosen)
    for line in stale:
        print(line)
    if check and not stale:
        print(f"Up to date: {', '.join(path.stem for path in chosen)} and the exercises' public cases.")
    return 1 if stale else 0


# -- the exercises' public form


def public_forms(exercises: dict[str, Exercise], only: set[str] | None = None) -> dict[str, str]:
    """The text of every file in `data/exercises/`, by name, with the headings that the mistakes send to.

    only: names of notebooks; the references of others are not run
    """
    from lecture_lib.exercises.key import build_public

    headings = cell_headings(exercises)
    return build_public(
        {id: e for id, e in exercises.items() if only is None or e.notebook in only},
        {cell: f"“{heading}” in {name}" for cell, (heading, name) in headings.items()},
    )


def cell_headings(exercises: dict[str, Exercise]) -> dict[str, tuple[str, str]]:
    """{cell's id: (the heading that it stands under, its notebook's name)} of all the notebooks."""
    from lecture_lib.course.headless import notebooks_folder

    found: dict[str, tuple[str, str]] = {}
    for path in files.numbered(notebooks_folder()):
        heading = ""
        node = stamp(files.read(path).node, path.stem, exercises.values())  # its headings as they will be
        for cell in node.cells:
            if cell.cell_type == "markdown":
                in_cell = re.findall(r"^#{1,3} +(.+?) *$", cell.source, flags=re.MULTILINE)
                heading = in_cell[0] if in_cell else heading
            found[cell.id] = heading, path.stem
    return found


def cases(
    exercises: dict[str, Exercise], folder: Path, check: bool, only: set[str] | None = None
) -> list[str]:
    """Writes `folder/NN_name.json` for every notebook of the key; with check, says what differs instead.

    With `only`, the files of other notebooks stay as they are, whether the key has those or not.
    """
    wanted = public_forms(exercises, only)
    stale = []
    for name, text in wanted.items():
        path = folder / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            state = "differs from the key" if path.is_file() else "is not there"
            stale.append(f"data/exercises/{name} {state}; `lecture build` makes it")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"wrote data/exercises/{name}")
    for path in sorted(folder.glob("*.json")):
        if path.name not in wanted and (only is None or path.stem in only):
            if check:
                stale.append(f"data/exercises/{path.name} is none of the key's; `lecture build` removes it")
            else:
                path.unlink()
                print(f"removed data/exercises/{path.name}: the key has none of it")
    return stale


def picture(check: bool) -> list[str]:
    """Writes the README's picture (in a clone that has one); with check, says whether it is stale."""
    from lecture_lib.course.picture import svg

    root = paths.project_root()
    if root is None or not (root / PICTURE).parent.is_dir():
        return []
    return _page(root / PICTURE, PICTURE, svg(), check)


def claims(exercises: dict[str, Exercise], check: bool) -> list[str]:
    """Writes the table of claims (in a clone that lists them); with check, says whether it is stale."""
    from lecture_lib.course.claims import load, page

    root = paths.project_root()
    if root is None or not (root / "data" / "claims.toml").is_file():
        return []
    try:
        text = page(load(root / "data" / "claims.toml")[0], cell_headings(exercises))
    except LectureError as error:
        return [str(error)]
    return _page(root / CLAIMS, CLAIMS, text, check)


def _page(path: Path, name: str, text: str, check: bool) -> list[str]:
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return []
    if check:
        return [f"{name} is not as it is made now; `lecture build` makes it"]
    path.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote {name}")
    return []


# -- what is stamped on a notebook


def stamp(node: NotebookNode, name: str, exercises: Iterable[Exercise]) -> NotebookNode:
    """A copy of the notebook with what is made from elsewhere put in: sources and metadata, not outputs."""
    node = copy.deepcopy(node)
    mine = {exercise.id: exercise for exercise in exercises if exercise.notebook == name}
    own = {**node.metadata.get(files.METADATA, {}), "version": __version__}
    node.metadata = nbformat.from_dict(
        {"kernelspec": files.KERNELSPEC, "language_info": {"name": "python"}, files.METADATA: own}
    )
    for cell in node.cells:
        for key in ("execution", "papermill", "collapsed", "jupyter", "scrolled"):
            cell.metadata.pop(key, None)
        found = files.role(cell)
        if cell.id == f"{name[:2]}-setup":
            cell.source = setup_source()
            cell.metadata["jupyter"] = {"source_hidden": True}  # forty lines that nobody came to read
        elif found is not None and found[0] in mine:
            cell.source = _exercise_source(cell.source, found[1], mine[found[0]])
    return node


def setup_source() -> str:
    """The first code cell of every notebook."""
    return (Path(__file__).parent / SETUP).read_text(encoding="utf-8").rstrip("\n")


def _exercise_source(source: str, role: str, exercise: Exercise) -> str:
    from lecture_lib.exercises.key import mistake_source, stub_source

    if role == "prompt":
        lines = source.split("\n")
        if lines[0].startswith("###"):
            lines = lines[1:]
            if lines and " · " in lines[0] and "minute" in lines[0]:
                lines = lines[1:]
        return "\n".join([*header(exercise), "", *"\n".join(lines).strip("\n").split("\n")])
    if role == "answer":
        # A notebook may show an exercise that is answered wrongly on purpose, with a slip that the key knows.
        slips = {mistake_source(exercise, mistake).strip() for mistake in exercise.mistakes}
        return source if source.strip() in slips else stub_source(exercise).rstrip("\n")
    if role == "check":
        call = f'check("{exercise.id}", {exercise.answer_name})'
        return source if source.rstrip().endswith(call) else call
    return source


def header(exercise: Exercise) -> tuple[str, str]:
    """The two lines that open a prompt: id and title; points, minutes, level, difficulty, unit wanted."""
    facts = [
        _count(exercise.points, "point"),
        f"about {_count(exercise.minutes, 'minute')}",
        exercise.level,
        exercise.difficulty,
    ]
    if exercise.unit is not None:
        facts.append(f"answer in {exercise.unit}")
    return f"### {exercise.id} — {exercise.title}", " · ".join(facts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def problems(name: str, node: NotebookNode, exercises: Iterable[Exercise]) -> list[str]:
    """What no command can mend: exercises of the key that the notebook lacks, and the other way round."""
    keyed = {exercise.id for exercise in exercises if exercise.notebook == name}
    roles: dict[str, list[str]] = {}
    for cell in node.cells:
        if found := files.role(cell):
            roles.setdefault(found[0], []).append(found[1])
    found_problems = []
    for exercise_id in sorted(keyed | set(roles)):
        if exercise_id not in roles:
            found_problems.append(f"{name}: exercise {exercise_id} is in the key, but not in the notebook")
        elif exercise_id not in keyed:
            found_problems.append(f"{name}: exercise {exercise_id} is in the notebook, but not in the key")
        elif roles[exercise_id] != ["prompt", "answer", "check"]:
            found_problems.append(
                f"{name}: exercise {exercise_id} has the cells {', '.join(roles[exercise_id])}; "
                "expected prompt, answer, check, in this order"
            )
    first = next(iter(files.code_cells(node)), None)
    if first is None or first.id != f"{name[:2]}-setup":
        found_problems.append(f"{name}: the first code cell should have the id {name[:2]}-setup")
    return found_problems


def differences(name: str, stored: NotebookNode, made: NotebookNode) -> list[str]:
    """Which cells of a stored notebook are not as they would be made now, and the command that mends it."""
    mend = f"`lecture build {name[:2]}` makes it anew"
    stale = [
        f"{name}: cell {old.id} is not as its template or the key makes it; {mend}"
        for old, new in zip(stored.cells, made.cells, strict=True)
        if old.source != new.source or old.metadata != new.metadata
    ]
    if stored.metadata != made.metadata:
        stale.append(f"{name}: the notebook's metadata is not as it is made; {mend}")
    for number, cell in enumerate(files.code_cells(stored), start=1):
        if cell.source.strip() and cell.execution_count != number:
            stale.append(f"{name}: cell {cell.id} has no outputs of a run from top to bottom; {mend}")
    return stale


# -- stored outputs


def _store(stamped: dict[Path, NotebookNode]) -> list[str]:
    """Runs the stamped notebooks and writes them with their outputs; a line for each that did not run."""
    failed = []
    folder = next(iter(stamped)).parent
    with tempfile.TemporaryDirectory() as scratch:
        # The kernel's working folder is that of the source, so the stamped sources are written first.
        changed = {path for path, node in stamped.items() if _write_if_changed(node, path)}
        results = run(list(stamped), Path(scratch), Settings(parameters=False), Progress(sys.stdout))
        for path, result in zip(stamped, results, strict=True):
            if result.status != "passed" or result.output is None:
                failed.append(f"{path.stem}: not stored, since it did not run through")
                continue
            node = with_outputs(stamped[path], files.read(result.output).node)
            if _write_if_changed(node, path) or path in changed:
                print(f"wrote {folder.name}/{path.name}")
    return failed


def with_outputs(stamped: NotebookNode, executed: NotebookNode) -> NotebookNode:
    """The stamped notebook with the executed one's outputs, as stored: no stderr, counted from 1.

    A widget keeps the picture that it started with: its live view is of one kernel, and is gone with it.
    """
    node = copy.deepcopy(stamped)
    ran = {cell.id: cell for cell in executed.cells}
    for number, cell in enumerate(files.code_cells(node), start=1):
        cell.outputs = [out for out in ran[cell.id].outputs if out.get("name") != "stderr"]
        cell.execution_count = number
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
            output.get("data", {}).pop(WIDGET_VIEW, None)
    return node


def _write_if_changed(node: NotebookNode, path: Path) -> bool:
    before = path.read_text(encoding="utf-8")
    text = nbformat.writes(node, version=4)
    if before.rstrip("\n") == text.rstrip("\n"):
        return False
    files.write(node, path)
    return True


def _nbval(notebooks: Sequence[Path]) -> list[str]:
    """What nbval finds when it runs the notebooks and compares: an entry a cell, with the difference."""
    if importlib.util.find_spec("nbval") is None:
        raise LectureError(
            "expected nbval to compare outputs; it is not installed; `pip install nbval` gets it"
        )
    root = notebooks[0].parent.parent
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "nbval.xml"
        options = ["-q", "--color=no", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env"]
        options += [
            f"--nbval-cell-timeout={CELL_LIMIT:g}",
            f"--junitxml={report}",
            "-o",
            "junit_family=xunit1",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *map(str, notebooks)],
            cwd=root,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        if done.returncode not in (0, 1) or not report.is_file():
            raise LectureError(f"expected nbval to run; it did not:\n{(done.stdout + done.stderr)[-2000:]}")
        return _nbval_findings(report, {path.name: files.read(path).node for path in notebooks})


def _nbval_findings(report: Path, nodes: dict[str, NotebookNode]) -> list[str]:
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        if problem is None:
            continue
        name = Path(case.get("file", "")).name
        number = int(case.get("name", "Cell 0").rpartition(" ")[2])
        cell = files.code_cells(nodes[name])[number]
        detail = "\n".join("    " + line for line in (problem.text or "").splitlines()[:40])
        found.append(
            f"{name[:-6]}: the stored outputs of cell {cell.id} (code cell {number + 1}) are not what it "
            f"gives now; `lecture build {name[:2]}` stores them anew\n{detail}"
        )
    return found
