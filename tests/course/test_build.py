"""`lecture build`: what is stamped, what is stored, and that --check names what is stale."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from lecture_lib import __version__, paths
from lecture_lib.course import build, headless
from lecture_lib.course import notebook_files as files
from lecture_lib.quantity import LectureError

Write = Callable[..., Path]

KEY = """
from lecture_lib.exercises.key import Edit, Exercise, Mistake


def product(a, b):
    return 2 * a * b


def draw(rng):
    return {"a": rng.randint(2, 9), "b": rng.randint(2, 9)}


EXERCISES = [
    Exercise(
        id="9.1", title="A product", notebook="09_small", kind="function", points=1, minutes=3, unit="FLOP",
        answer=product, cases=[{"a": 3, "b": 5}, {"a": 2, "b": 7}], draw=draw,
        mistakes=[
            Mistake("half", "A multiply and its add are two.", Edit("2 * a", "a")),
            Mistake("sum", "Multiply, do not add.", Edit("a * b", "(a + b)")),
            Mistake("square", "Both sizes count.", Edit("a * b", "a * a")),
        ],
        hints=["one", "two", "three"],
    )
]
"""


RUN = """\
import sys
from lecture_lib.exercises import check
print('out')
print('err', file=sys.stderr)
1 + 1"""


@pytest.fixture
def course(tmp_path: Path, write_exercise: Write, root: Path) -> Path:
    """A project with the library as it is, one small notebook and its key."""
    source = write_exercise(
        tmp_path / "notebooks" / "09_small.ipynb",
        "9.1",
        "def product(a, b):\n    return 2 * a * b  # an answer that slipped in",
        "from lecture_lib.exercises import check",
    )
    node = nbformat.read(source, 4)
    node.cells[
        2
    ].source = "### 9.1 — An old title\n9 points · about 1 minute · core\n\nWrite `product(a, b)`."
    node.cells.insert(
        2,
        nbformat.v4.new_code_cell(
            RUN,
            id="09-run",
        ),
    )
    node.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    nbformat.write(node, source)
    (tmp_path / "tests" / "answer_key").mkdir(parents=True)
    (tmp_path / "tests" / "answer_key" / "nb09_small.py").write_text(KEY)
    for name in ("conftest.py", "pyproject.toml", "start.py"):
        shutil.copy(root / name, tmp_path)
    (tmp_path / "tests" / "notebooks").mkdir()
    shutil.copy(root / "tests" / "notebooks" / "sanitize.cfg", tmp_path / "tests" / "notebooks")
    shutil.copytree(
        root / "lecture_lib", tmp_path / "lecture_lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def stamped(course: Path) -> nbformat.NotebookNode:
    from lecture_lib.exercises.key import load_key

    node = files.read(course / "notebooks" / "09_small.ipynb").node
    return build.stamp(node, "09_small", load_key(course / "tests" / "answer_key").values())


def cell(node: nbformat.NotebookNode, cell_id: str) -> nbformat.NotebookNode:
    return next(c for c in node.cells if c.id == cell_id)


def test_stamps(course: Path) -> None:
    node = stamped(course)
    assert cell(node, "09-setup").source == build.setup_source()
    assert cell(node, "09-ex1-prompt").source == (
        "### 9.1 — A product\n1 point · about 3 minutes · core · steady · answer in FLOP\n\n"
        "Write `product(a, b)`."
    )
    assert cell(node, "09-ex1-answer").source == "def product(a, b):\n    return ..."
    assert cell(node, "09-ex1-check").source == 'check("9.1", product)'
    assert node.metadata == {
        "kernelspec": files.KERNELSPEC,
        "language_info": {"name": "python"},
        "three_budgets": {"version": __version__},
    }
    again = build.stamp(node, "09_small", [])
    assert again.metadata == node.metadata


def test_stamping_twice_changes_nothing(course: Path) -> None:
    once = stamped(course)
    nbformat.write(once, course / "notebooks" / "09_small.ipynb")
    assert stamped(course) == once


def test_answer_that_is_wrong_on_purpose_stays(course: Path) -> None:
    path = course / "notebooks" / "09_small.ipynb"
    node = files.read(path).node
    cell(node, "09-ex1-answer").source = "def product(a, b):\n    return a * b"
    nbformat.write(node, path)
    assert cell(stamped(course), "09-ex1-answer").source == "def product(a, b):\n    return a * b"


def lecture(course: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "lecture_lib", *arguments],
        cwd=course,
        env={**os.environ, "PYTHONPATH": str(course)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert "Traceback (most" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def test_build_then_check_then_every_kind_of_staleness(course: Path) -> None:
    path, cases = course / "notebooks" / "09_small.ipynb", course / "data" / "exercises" / "09_small.json"
    code, said = lecture(course, "build", "--check")
    assert code == 1
    for words in ("09_small.json is not there", "cell 09-setup", "cell 09-ex1-prompt", "lecture build 09"):
        assert words in said
    assert not cases.exists()

    code, said = lecture(course, "build")
    assert code == 0, said
    assert json.loads(cases.read_text())["exercises"][0]["title"] == "A product"
    node = nbformat.read(path, 4)
    assert [c.execution_count for c in files.code_cells(node)] == [1, 2, 3, 4]
    assert [out.get("name", out.output_type) for out in cell(node, "09-run").outputs] == [
        "stdout",
        "execute_result",
    ]
    assert "not attempted" in str(cell(node, "09-ex1-check").outputs).lower()
    assert not any({"execution", "papermill"} & set(c.metadata) for c in node.cells)
    assert "widgets" not in node.metadata and "papermill" not in node.metadata
    built = path.read_bytes()

    code, said = lecture(course, "build", "--check")
    assert (code, "Up to date" in said) == (0, True), said
    assert path.read_bytes() == built

    cell(node, "09-run").outputs[0].text = "something else\n"
    nbformat.write(node, path)
    code, said = lecture(course, "build", "--check")
    assert code == 1
    assert "cell 09-run (code cell 2)" in said and "something else" in said and "lecture build 09" in said
    assert "09-ex1-check" not in said

    cell(node, "09-setup").execution_count = None
    cases.write_text(cases.read_text().replace("A product", "A sum"))
    (course / "data" / "exercises" / "08_gone.json").write_text("{}")
    nbformat.write(node, path)
    code, said = lecture(course, "build", "--check")
    assert code == 1
    for words in (
        "09_small.json differs",
        "08_gone.json is none of",
        "cell 09-setup has no outputs of a run",
    ):
        assert words in said

    code, said = lecture(course, "build")
    assert code == 0, said
    assert path.read_bytes() == built
    assert not (course / "data" / "exercises" / "08_gone.json").exists()


def test_notebook_that_fails_keeps_its_stored_outputs(course: Path) -> None:
    path = course / "notebooks" / "09_small.ipynb"
    node = files.read(path).node
    cell(node, "09-run").source = "1 / 0"
    nbformat.write(node, path)
    code, said = lecture(course, "build")
    assert code == 1
    assert "ZeroDivisionError" in said and "09_small: not stored" in said
    assert cell(nbformat.read(path, 4), "09-run").outputs == []


def test_problems_that_no_command_mends(course: Path) -> None:
    from lecture_lib.exercises.key import load_key

    exercises = load_key(course / "tests" / "answer_key").values()
    node = stamped(course)
    assert build.problems("09_small", node, exercises) == []
    node.cells = [c for c in node.cells if c.id != "09-ex1-check"]
    assert "prompt, answer; expected" in build.problems("09_small", node, exercises)[0]
    cell(node, "09-ex1-prompt").metadata["three_budgets"]["exercise"] = "9.7"
    assert any(
        "9.7 is in the notebook, but not in the key" in line
        for line in build.problems("09_small", node, exercises)
    )
    node.cells = [c for c in node.cells if "ex1" not in c.id and c.id != "09-setup"]
    said = build.problems("09_small", node, exercises)
    assert any("9.1 is in the key, but not in the notebook" in line for line in said)
    assert any("09-setup" in line for line in said)


def test_no_key_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "project_root", lambda: tmp_path)
    with pytest.raises(LectureError, match="answer key"):
        headless.key_folder()
    with pytest.raises(LectureError, match="nowhere"):
        headless.key_folder("nowhere")


def test_a_build_of_named_notebooks_leaves_the_other_notebooks_cases_alone(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lecture_lib.exercises.key import load_key

    monkeypatch.setattr(headless, "notebooks_folder", lambda: course / "notebooks")
    exercises = load_key(course / "tests" / "answer_key")
    folder = tmp_path / "cases"
    folder.mkdir()
    others = {"04_flops.json": "of a key that this bank lacks", "09_small.json": "stale"}
    for name, text in others.items():
        (folder / name).write_text(text)
    assert build.cases(exercises, folder, check=True, only={"04_flops"}) == [
        "data/exercises/04_flops.json is none of the key's; `lecture build` removes it"
    ]
    build.cases(exercises, folder, check=False, only={"09_small"})
    assert (folder / "04_flops.json").read_text() == others["04_flops.json"]
    assert json.loads((folder / "09_small.json").read_text())["exercises"][0]["id"] == "9.1"
    build.cases(exercises, folder, check=False)  # of all notebooks: what the key lacks goes
    assert [path.name for path in folder.iterdir()] == ["09_small.json"]


def test_a_widget_is_stored_as_its_first_picture(course: Path) -> None:
    made = stamped(course)
    executed = copy.deepcopy(made)
    data = {build.WIDGET_VIEW: {"model_id": "3f"}, "text/html": "<img alt='a b c d'>", "text/plain": "Widget"}
    cell(executed, "09-run").outputs = [nbformat.v4.new_output("execute_result", data, execution_count=2)]
    (output,) = cell(build.with_outputs(made, executed), "09-run").outputs
    assert set(output.data) == {"text/html", "text/plain"}
