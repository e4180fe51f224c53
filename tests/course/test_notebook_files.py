"""Files as they really arrive: each is read, mended in memory with a note, or refused in one line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from lecture_lib.course import notebook_files as files
from lecture_lib.quantity import LectureError

GOOD = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {},
    "cells": [
        {
            "cell_type": "code",
            "id": "a",
            "metadata": {},
            "source": ["x = 1\n", "x"],
            "outputs": [],
            "execution_count": None,
        }
    ],
}
TEXT = json.dumps(GOOD)


def changed(**changes: object) -> str:
    return json.dumps({**GOOD, **changes})


def cell(**changes: object) -> str:
    return changed(cells=[{**GOOD["cells"][0], **changes}])  # type: ignore[index]


REFUSED = {
    "empty": (b"", "empty"),
    "only blanks": (b" \n ", "empty"),
    "cut off": (TEXT[:80].encode(), "cut off"),
    "cut in a string": (b'{"cells": [{"source": "x', "cut off"),
    "not JSON": (b'{"cells": [}, 3', "no valid JSON"),
    "HTML": (b"<!DOCTYPE html><html></html>", "an HTML page"),
    "PDF": (b"%PDF-1.7\n", "a PDF"),
    "zip": (b"PK\x03\x04....", "a zip archive"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    "merge conflict": (b'{"cells": [\n<<<<<<< HEAD\n1\n=======\n2\n>>>>>>> other\n]}', "merge (line 2)"),
    "latin-1": ('{"cells": ["é"]}'.encode("latin-1"), "no UTF-8"),
    "a list": (b"[1, 2]", "no cells"),
    "other JSON": (b'{"a": 1}', "no cells"),
    "cells no list": (changed(cells={"a": 1}).encode(), "no list of cells"),
    "cells of text": (changed(cells=["x"]).encode(), "no list of cells"),
    "format 2": (changed(nbformat=2).encode(), "format 2"),
    "format 7": (changed(nbformat=7).encode(), "format 7"),
    "format as text": (changed(nbformat="4").encode(), "format '4'"),
    "nested without end": (b'{"cells": ' + b"[" * 200_000, "nested"),
    "R": (
        changed(metadata={"kernelspec": {"name": "ir", "language": "R", "display_name": "R"}}).encode(),
        "in R",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, tmp_path: Path) -> None:
    content, words = REFUSED[name]
    path = tmp_path / "x.ipynb"
    path.write_bytes(content)
    with pytest.raises(LectureError) as refused:
        files.read(path)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == content


OLD = {
    "nbformat": 3,
    "nbformat_minor": 0,
    "metadata": {"name": ""},
    "worksheets": [
        {
            "cells": [
                {
                    "cell_type": "code",
                    "language": "python",
                    "input": ["x = 1"],
                    "outputs": [],
                    "collapsed": False,
                }
            ]
        }
    ],
}
MENDED = {
    "as it should be": (TEXT.encode(), ""),
    "with a BOM": (b"\xef\xbb\xbf" + TEXT.encode(), ""),
    "CRLF": (json.dumps(GOOD, indent=1).replace("\n", "\r\n").encode(), ""),
    "UTF-16": (TEXT.encode("utf-16"), "UTF-16"),
    "format 3": (json.dumps(OLD).encode(), "format 3"),
    "newer minor": (changed(nbformat_minor=9, shiny=True).encode(), ""),
    "no minor": (json.dumps({k: v for k, v in GOOD.items() if k != "nbformat_minor"}).encode(), ""),
    "no metadata": (json.dumps({k: v for k, v in GOOD.items() if k != "metadata"}).encode(), ""),
    "no outputs": (changed(cells=[{"cell_type": "code", "source": "x = 1\nx"}]).encode(), ""),
    "null id": (cell(id=None).encode(), ""),
    "bad id": (cell(id="a b/c").encode(), "ids"),
    "same id twice": (changed(cells=GOOD["cells"] * 2).encode(), "ids"),  # type: ignore[operator]
    "source null": (changed(cells=[*GOOD["cells"], {"cell_type": "markdown", "source": None}]).encode(), ""),  # type: ignore[misc]
    "outputs on markdown": (
        changed(cells=[*GOOD["cells"], {"cell_type": "markdown", "source": "t", "outputs": [1]}]).encode(),  # type: ignore[misc]
        "",
    ),
    "unknown cell type": (changed(cells=[*GOOD["cells"], {"cell_type": "sql", "source": "t"}]).encode(), ""),  # type: ignore[misc]
    "lone surrogate": (cell(source="x = 1\nx  # \ud800").encode(), ""),
    "broken outputs": (cell(outputs=[{"output_type": "stream"}]).encode(), "not valid"),
    "broken widget state": (changed(metadata={"widgets": 3}).encode(), ""),
}


@pytest.mark.parametrize("name", MENDED)
def test_read_and_mended_in_memory(name: str, tmp_path: Path) -> None:
    content, words = MENDED[name]
    path = tmp_path / "x.ipynb"
    path.write_bytes(content)
    notebook = files.read(path)
    assert path.read_bytes() == content
    nbformat.validate(notebook.node, relax_add_props=True)
    assert (notebook.node.nbformat, notebook.node.nbformat_minor) == (4, 5)
    assert notebook.node.cells[0].source.startswith("x = 1")
    ids = [made.id for made in notebook.node.cells]
    assert len(set(ids)) == len(ids)
    assert words in " ".join(notebook.notes)
    if not words:
        assert notebook.notes == []
    files.write(notebook.node, tmp_path / "again.ipynb")
    assert files.read(tmp_path / "again.ipynb").notes == []


def test_the_notebook_that_a_person_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    course = tmp_path / "notebooks"
    flops = write(course / "04_flops.ipynb", "1")
    own = write(tmp_path / "mine.ipynb", "1")
    for name in ("04", "4", "04_flops", "04_flops.ipynb"):
        assert files.find(name, course) == flops
    assert files.find("mine.ipynb", course).resolve() == own
    for name, words in {
        "07": "04",
        "04_flop": "did you mean 04_flops.ipynb",
        "mien.ipynb": "did you mean mine.ipynb",
        "notebooks": "is a folder",
        "zzzz": "there is no file zzzz",
        "": "empty name",
    }.items():
        with pytest.raises(LectureError, match=words):
            files.find(name, course)


@pytest.mark.skipif(os.name != "posix", reason="makes links and pipes")
def test_what_is_no_ordinary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gone.ipynb").symlink_to("nowhere.ipynb")
    Path("round.ipynb").symlink_to("round.ipynb")
    os.mkfifo("pipe.ipynb")
    for name, words in {
        "gone.ipynb": "a link to a file that is not there",
        "round.ipynb": "a link to a file that is not there",
        "pipe.ipynb": "no ordinary file",
    }.items():
        with pytest.raises(LectureError, match=words):
            files.find(name, tmp_path)


def test_names_stay_apart() -> None:
    paths = [Path("a/x.ipynb"), Path("b/x.ipynb"), Path("c/y.ipynb")]
    assert files.stems(paths) == ["x", "x-2", "y"]
    assert files.unique([Path("a/x"), Path("a/../a/x")]) == [Path("a/x")]
