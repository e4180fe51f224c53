"""Small notebooks for the tests of `lecture_lib.course`, written as files: fixtures that give functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

KERNELSPEC = {"name": "python3", "display_name": "Python 3", "language": "python"}


def _write(path: Path, *sources: str, kernelspec: object = KERNELSPEC) -> Path:
    """A notebook of code cells with the ids c1, c2, …; a source that begins with "#md " is markdown."""
    cells = []
    for number, source in enumerate(sources, start=1):
        made = new_markdown_cell(source[4:]) if source.startswith("#md ") else new_code_cell(source)
        made["id"] = f"c{number}"
        cells.append(made)
    node = new_notebook(cells=cells)
    if kernelspec is not None:
        node.metadata["kernelspec"] = kernelspec
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(node, path)
    return path


def _with_exercise(path: Path, exercise: str, answer: str, check: str, intro: str = "Read this.") -> Path:
    """A notebook as the course has them: a set-up cell, a text, one exercise of three cells, an end."""
    number = path.stem[:2]

    def of(role: str) -> dict[str, object]:
        return {"three_budgets": {"exercise": exercise, "role": role}}

    cells = [
        new_markdown_cell(intro, id=f"{number}-title"),
        new_code_cell("pass", id=f"{number}-setup"),
        new_markdown_cell("Do it.", id=f"{number}-ex1-prompt", metadata=of("prompt")),
        new_code_cell(answer, id=f"{number}-ex1-answer", metadata=of("answer")),
        new_code_cell(check, id=f"{number}-ex1-check", metadata=of("check")),
        new_markdown_cell("The end.", id=f"{number}-end"),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC}), path)
    return path


@pytest.fixture
def write() -> Callable[..., Path]:
    """`write(path, *sources)` makes a notebook with those cells."""
    return _write


@pytest.fixture
def write_exercise() -> Callable[..., Path]:
    """`write_exercise(path, exercise, answer, check)` makes a notebook with one exercise."""
    return _with_exercise
