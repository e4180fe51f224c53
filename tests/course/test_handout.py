"""The student's tree works, and holds nothing of the key."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lecture_lib.course.handout import FOLDERS, lecture_handout
from lecture_lib.exercises.key import load_key, mistake_source, solution_source
from lecture_lib.quantity import LectureError


@pytest.fixture(scope="module")
def handout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The handout of the project as it is."""
    target = tmp_path_factory.mktemp("handout") / "course"
    assert lecture_handout(target, None) == 0
    return target


def test_has_what_a_student_needs_and_no_more(handout: Path) -> None:
    names = {path.name for path in handout.iterdir()}
    assert {"README.md", "start.py", "lecture_lib", "data", "notebooks", "requirements.lock"} <= names
    everything = [str(path.relative_to(handout)) for path in handout.rglob("*")]
    for unwanted in ("tests", "answer_key", ".git/", "shared", "work", "__pycache__", ".ci"):
        assert not [name for name in everything if unwanted in Path(name).parts or f"{unwanted}/" in name]


def test_its_readme_is_for_students_and_leads_nowhere_that_is_not_there(handout: Path, root: Path) -> None:
    text = (handout / "README.md").read_text(encoding="utf-8")
    assert "## For students" in text and "## Licence" in text and "## For graders" not in text
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    assert linked and [name for name in linked if not (handout / name).exists()] == []
    assert "## For graders" in (root / "README.md").read_text(encoding="utf-8")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        # The last hint of an exercise may be code: it is meant to be read.
        yield from (text for key, inner in value.items() if key != "hints" for text in _strings(inner))
    elif isinstance(value, list):
        yield from (text for inner in value for text in _strings(inner))


def _texts(handout: Path) -> dict[Path, str]:
    """Every file's text on one line; of JSON and notebooks, the strings in them."""
    texts = {}
    for path in (path for path in handout.rglob("*") if path.is_file()):
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix in (".ipynb", ".json"):
            text = "\n".join(_strings(json.loads(text)))
        texts[path.relative_to(handout)] = _one_line(text)
    return texts


# Exercises that show a faulty answer, to be found and mended: a slip of theirs stands in the notebook.
SHOW_A_SLIP = {"0.1", "4.16", "4.17"}


def test_holds_no_answer_of_the_key(handout: Path, root: Path) -> None:
    texts = _texts(handout)
    searched = 0
    for exercise in load_key(root / "tests" / "answer_key").values():
        if exercise.kind == "choice":
            continue  # its letter is one of the options that every prompt lists
        slips = {slip.id: mistake_source(exercise, slip) for slip in exercise.mistakes if slip.edits}
        for name, source in {"solution": solution_source(exercise), **slips}.items():
            body = _one_line(source.partition("\n")[2])
            for text in (_one_line(source), *([body] if len(body) > 30 else [])):
                found = [str(path) for path, content in texts.items() if text in content]
                searched += 1
                if exercise.id in SHOW_A_SLIP and name in slips:
                    found = [path for path in found if path != f"notebooks/{exercise.notebook}.ipynb"]
                assert found == [], (exercise.id, name, text)
    assert searched > 100
    for marker in ("EXERCISES = [", "import Edit"):
        assert [p for p, c in texts.items() if marker in c and p.parts[0] != "lecture_lib"] == []


def test_the_search_would_find_a_leak(handout: Path, root: Path) -> None:
    leak = handout / "data" / "leak.txt"
    key = load_key(root / "tests" / "answer_key")
    exercise = next(e for e in key.values() if e.kind == "function" and e.id != "0.1")
    leak.write_text(solution_source(exercise))
    try:
        with pytest.raises(AssertionError, match=re.escape(repr(exercise.id))):
            test_holds_no_answer_of_the_key(handout, root)
    finally:
        leak.unlink()


def test_works(handout: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(handout)}

    def lecture(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "lecture_lib", *arguments],
            cwd=handout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
        )

    done = lecture("run", "00")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (handout / "build" / "run" / "report.html").is_file()
    refused = lecture("run", "00", "--edition", "instructor")
    assert refused.returncode == 2 and "answer key" in refused.stderr and "Traceback" not in refused.stderr
    refused = lecture("build")
    assert refused.returncode == 2 and "answer key" in refused.stderr


def test_a_private_key_makes_the_public_cases(tmp_path: Path, root: Path) -> None:
    bank = tmp_path / "bank"
    bank.mkdir()
    text = (root / "tests" / "answer_key" / "nb00_start_here.py").read_text(encoding="utf-8")
    (bank / "nb00_start_here.py").write_text(text.replace("7_000_000_000", "7_000_000_001"), encoding="utf-8")
    assert lecture_handout(tmp_path / "out", bank) == 0
    cases = tmp_path / "out" / "data" / "exercises"
    assert [path.name for path in cases.iterdir()] == ["00_start_here.json"]
    assert "7000000001" in (cases / "00_start_here.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS)
def test_refuses_a_folder_that_it_copies(folder: str, root: Path) -> None:
    inside = root / folder / "handed-out"
    with pytest.raises(LectureError, match="outside of what is copied"):
        lecture_handout(inside, None)
    assert not inside.exists()


def test_a_key_that_is_not_there_leaves_nothing_half_made(tmp_path: Path) -> None:
    with pytest.raises(LectureError):
        lecture_handout(tmp_path / "course", tmp_path / "nowhere")
    assert not (tmp_path / "course").exists()


def test_refuses_a_folder_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(LectureError, match="empty"):
        lecture_handout(tmp_path, None)
    with pytest.raises(LectureError, match="empty"):
        lecture_handout(tmp_path / "thesis.txt", None)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
