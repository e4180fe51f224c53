"""`lecture handout DIR`: the tree that students get, without the answer key, its tests, or any history."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lecture_lib import paths
from lecture_lib.course.build import cases
from lecture_lib.course.headless import notebooks_folder
from lecture_lib.quantity import LectureError

# What a student gets is listed, so that a new file in the project never slips out by accident.
FILES = (
    "README.md",
    "LICENSE",
    "LICENSE-text",
    "Makefile",
    "environment.yml",
    "pyproject.toml",
    "requirements.lock",
    "start.py",
    ".gitignore",
)
FOLDERS = ("lecture_lib", "data", "notebooks", "docs")
_NOT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "work", "benchmarks")


def _students_readme(path: Path) -> None:
    """Takes out of a README the parts for others than students, whose files a handout lacks."""
    if path.is_file():
        parts = re.split(r"^(?=## )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        others = ("## For instructors", "## For graders", "## For maintainers")
        kept = "".join(part for part in parts if not part.startswith(others))
        path.write_text(kept, encoding="utf-8", newline="\n")


def lecture_handout(target: Path, key: Path | None) -> int:
    """Copies the student's tree to `target`, which must be empty or not exist; returns the exit code.

    key: a private bank, whose public cases then take the place of those in `data/exercises`.
    """
    root = paths.project_root()
    if root is None:
        raise LectureError(
            "expected a clone of the project to make a handout from; this is an installed package"
        )
    notebooks_folder()
    bank = None
    if key is not None:
        from lecture_lib.exercises.key import load_key

        bank = load_key(key)  # first: a key that cannot be read leaves nothing half made
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise LectureError(f"expected a folder that is empty or not there yet; got {target}; name another")
    if any(target.resolve().is_relative_to((root / name).resolve()) for name in FOLDERS):
        raise LectureError(f"expected a folder outside of what is copied; got {target}; name another")
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (root / name).is_file():
            shutil.copy2(root / name, target / name)
    _students_readme(target / "README.md")
    for name in FOLDERS:
        if (root / name).is_dir():
            shutil.copytree(root / name, target / name, ignore=_NOT)
    if bank is not None:
        cases(bank, target / "data" / "exercises", check=False)
    count = sum(path.is_file() for path in target.rglob("*"))
    print(f"{target}: {count} files for students, without the key and its tests.")
    return 0
