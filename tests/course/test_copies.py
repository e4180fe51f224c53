"""Working copies: never overwritten, refreshed where untouched, set back, handed in."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil
import pytest

from lecture_lib import paths
from lecture_lib.course import copies
from lecture_lib.quantity import LectureError

Write = Callable[..., Path]


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_exercise: Write) -> Path:
    """A course of two notebooks with one exercise each, in place of the real one."""
    notebooks = tmp_path / "notebooks"
    write_exercise(notebooks / "00_first.ipynb", "0.1", "def f(x):\n    return ...", 'check("0.1", f)')
    write_exercise(notebooks / "04_last.ipynb", "4.1", "answer_4_1 = ...", 'check("4.1", answer_4_1)')
    monkeypatch.setattr(paths, "NOTEBOOKS", notebooks)
    monkeypatch.setattr(paths, "project_root", lambda: tmp_path)
    return tmp_path


def edit(path: Path, cell: str, source: str) -> None:
    node = nbformat.read(path, 4)
    next(c for c in node.cells if c.id == cell).source = source
    nbformat.write(node, path)


def source(path: Path, cell: str) -> str:
    return next(c.source for c in nbformat.read(path, 4).cells if c.id == cell)


def refresh(course: Path) -> list[str]:
    return copies.refresh(course / "notebooks", course / "work")


def test_copies_are_made_without_outputs(course: Path) -> None:
    upstream = course / "notebooks" / "00_first.ipynb"
    node = nbformat.read(upstream, 4)
    node.cells[1].outputs = [nbformat.v4.new_output("stream", text="stored")]
    node.cells[1].execution_count = 1
    nbformat.write(node, upstream)
    assert refresh(course) == []
    copy = nbformat.read(course / "work" / "00_first.ipynb", 4)
    assert copy.cells[1].outputs == [] and copy.cells[1].execution_count is None
    assert [c.source for c in copy.cells] == [c.source for c in node.cells]
    assert (course / "work" / "04_last.ipynb").is_file()


def test_changed_copy_is_never_overwritten_and_upstream_change_is_said(course: Path) -> None:
    refresh(course)
    mine = course / "work" / "04_last.ipynb"
    edit(mine, "04-ex1-answer", "answer_4_1 = 12")
    before = mine.read_bytes()
    assert refresh(course) == []
    edit(course / "notebooks" / "04_last.ipynb", "04-title", "Read this again.")
    [said] = refresh(course)
    assert "04-title" in said and "lecture reset 04" in said and "left as it is" in said
    assert mine.read_bytes() == before
    assert refresh(course) == [said]  # until the student decides


def test_untouched_copy_follows_upstream_also_when_it_was_run(course: Path) -> None:
    refresh(course)
    mine = course / "work" / "04_last.ipynb"
    node = nbformat.read(mine, 4)
    node.cells[1].execution_count = 3
    nbformat.write(node, mine)
    edit(course / "notebooks" / "04_last.ipynb", "04-title", "New.")
    [said] = refresh(course)
    assert "04_last" in said and "unchanged by you" in said
    assert source(mine, "04-title") == "New."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda cells: cells.append(nbformat.v4.new_markdown_cell("x", id="04-new")), "added 04-new"),
        (lambda cells: cells.pop(-1), "removed 04-end"),
        (lambda cells: cells.insert(0, cells.pop()), "the order of its cells"),
    ],
)
def test_what_changed_upstream_is_named(course: Path, change: Callable[[list], object], words: str) -> None:
    refresh(course)
    edit(course / "work" / "04_last.ipynb", "04-ex1-answer", "answer_4_1 = 12")
    upstream = course / "notebooks" / "04_last.ipynb"
    node = nbformat.read(upstream, 4)
    change(node.cells)
    nbformat.write(node, upstream)
    if "order" in words:
        # The digests are the same; only their order is not.
        manifest = json.loads((course / "work" / copies.MANIFEST).read_text())
        assert manifest["04_last.ipynb"] == copies.digests(node)
    assert any(words in said for said in refresh(course))


@pytest.mark.parametrize("broken", [None, "{", "[]", '{"04_last.ipynb": 3}'])
def test_lost_or_broken_manifest_overwrites_nothing(course: Path, broken: str | None) -> None:
    refresh(course)
    mine = course / "work" / "04_last.ipynb"
    edit(mine, "04-ex1-answer", "answer_4_1 = 12")
    manifest = course / "work" / copies.MANIFEST
    manifest.unlink()
    if broken is not None:
        manifest.write_text(broken)
    edit(course / "notebooks" / "04_last.ipynb", "04-title", "New.")
    refresh(course)
    assert source(mine, "04-ex1-answer") == "answer_4_1 = 12"
    assert source(mine, "04-title") == "Read this."


def test_broken_copy_is_left_and_said(course: Path) -> None:
    refresh(course)
    mine = course / "work" / "04_last.ipynb"
    mine.write_text('{"cells": [')
    edit(course / "notebooks" / "04_last.ipynb", "04-title", "New.")
    [said] = refresh(course)
    assert "cut off" in said and mine.read_text() == '{"cells": ['


def test_a_folder_in_a_copys_place_is_said_and_the_others_are_made(course: Path) -> None:
    in_the_way = course / "work" / "00_first.ipynb"
    in_the_way.mkdir(parents=True)
    assert [line for line in refresh(course) if "a folder has the name" in line]
    assert in_the_way.is_dir() and (course / "work" / "04_last.ipynb").is_file()
    with pytest.raises(LectureError, match="move it away"):
        copies.lecture_reset("00")
    in_the_way.rmdir()
    assert refresh(course) == [] and in_the_way.is_file()


def test_a_file_in_the_place_of_the_copies_is_said(course: Path) -> None:
    (course / "work").write_text("mine")
    with pytest.raises(LectureError, match="move it away"):
        refresh(course)
    assert (course / "work").read_text() == "mine"


def test_of_many_changes_the_first_are_named() -> None:
    old = {f"c{number}": "before" for number in range(40)}
    words = copies._changes(old, dict.fromkeys(old, "after"))
    assert words == "c0, c1, c2, c3, c4, c5 and 34 more"
    assert copies._changes(old, {**old, "c1": "after"}) == "c1"


def test_reset_of_a_notebook_keeps_the_old_one(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refresh(course)
    mine = course / "work" / "04_last.ipynb"
    edit(mine, "04-ex1-answer", "answer_4_1 = 12")
    edit(course / "notebooks" / "04_last.ipynb", "04-title", "New.")
    assert copies.lecture_reset("04") == 0
    assert source(mine, "04-ex1-answer") == "answer_4_1 = ..." and source(mine, "04-title") == "New."
    [kept] = (course / "work" / copies.KEPT).iterdir()
    assert source(kept, "04-ex1-answer") == "answer_4_1 = 12"
    assert str(kept) in capsys.readouterr().out
    assert refresh(course) == []
    copies.lecture_reset("04")
    assert len(list((course / "work" / copies.KEPT).iterdir())) == 2


@pytest.mark.parametrize(
    "damage", ["answer changed", "answer deleted", "all deleted", "metadata lost", "copied twice"]
)
def test_reset_of_one_exercise(course: Path, damage: str) -> None:
    refresh(course)
    mine = course / "work" / "04_last.ipynb"
    node = nbformat.read(mine, 4)
    cells = {cell.id: cell for cell in node.cells}
    cells["04-title"].source = "my notes"
    cells["04-ex1-answer"].source = "answer_4_1 = 12"
    if damage == "answer deleted":
        node.cells.remove(cells["04-ex1-answer"])
    elif damage == "all deleted":
        node.cells = [cell for cell in node.cells if "ex1" not in cell.id]
    elif damage == "metadata lost":
        for cell in node.cells:
            cell.metadata.pop("three_budgets", None)
    elif damage == "copied twice":
        twin = nbformat.from_dict({**cells["04-ex1-answer"], "id": "twin"})
        node.cells.append(twin)
    nbformat.write(node, mine)
    assert copies.lecture_reset("4.1") == 0
    after = nbformat.read(mine, 4)
    assert [cell.id for cell in after.cells] == [
        "04-title", "04-setup", "04-ex1-prompt", "04-ex1-answer", "04-ex1-check", "04-end",
    ]  # fmt: skip
    assert source(mine, "04-ex1-answer") == "answer_4_1 = ..."
    assert source(mine, "04-title") == "my notes"
    assert len(list((course / "work" / copies.KEPT).iterdir())) == 1


def test_reset_says_what_there_is(course: Path) -> None:
    refresh(course)
    with pytest.raises(LectureError, match=r"0\.1, 4\.1.*got 9\.9"):
        copies.lecture_reset("9.9")
    with pytest.raises(LectureError, match=r"\(4\.1\); got 4\.9"):
        copies.lecture_reset("4.9")
    with pytest.raises(LectureError, match="empty name"):
        copies.lecture_reset("")
    with pytest.raises(LectureError, match="got 77"):
        copies.lecture_reset("77")
    (course / "work" / "04_last.ipynb").write_text("{")
    with pytest.raises(LectureError, match="lecture reset 04"):
        copies.lecture_reset("4.1")
    assert copies.lecture_reset("04") == 0


def test_submission(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refresh(course)
    first, last = (course / "work" / name for name in ("00_first.ipynb", "04_last.ipynb"))
    edit(last, "04-ex1-answer", "answer_4_1 = 12")
    node = nbformat.read(last, 4)
    node.cells[1].outputs = [nbformat.v4.new_output("stream", text="z" * 10**6)]
    nbformat.write(node, last)
    assert copies.lecture_submit([]) == 0
    said = capsys.readouterr().out
    assert "answered 0 of 1; unanswered: 0.1" in said and "answered 1 of 1" in said and "kB" in said
    [packed] = (course / "work").glob("submission-*.zip")
    with zipfile.ZipFile(packed) as archive:
        assert archive.namelist() == ["00_first.ipynb", "04_last.ipynb"]
        handed_in = nbformat.reads(archive.read("04_last.ipynb").decode(), 4)
    assert handed_in.cells[1].outputs == [] and handed_in.cells[3].source == "answer_4_1 = 12"
    assert handed_in.cells[3].metadata == node.cells[3].metadata
    assert packed.stat().st_size < 10_000
    assert first.is_file()
    copies.lecture_submit(["04"])
    assert len(list((course / "work").glob("submission-*.zip"))) == 2


def test_a_notebook_named_twice_is_handed_in_once(course: Path) -> None:
    refresh(course)
    assert copies.lecture_submit(["04", "4", "04_last.ipynb"]) == 0
    [packed] = (course / "work").glob("submission-*.zip")
    assert zipfile.ZipFile(packed).namelist() == ["04_last.ipynb"]


def test_a_copy_that_cannot_be_read_leaves_no_half_made_zip(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh(course)
    of_path = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.parent.name == "work" and path.name.startswith("04"):
            raise PermissionError(13, "Permission denied", str(path))
        return of_path(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(PermissionError):
        copies.lecture_submit([])
    assert not list((course / "work").glob("submission-*"))


def test_broken_notebook_is_handed_in_and_said(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refresh(course)
    (course / "work" / "04_last.ipynb").write_bytes(b'{"cells": [ \xff')
    node = nbformat.read(course / "work" / "00_first.ipynb", 4)
    node.cells = [cell for cell in node.cells if cell.id != "00-ex1-answer"]
    nbformat.write(node, course / "work" / "00_first.ipynb")
    assert copies.lecture_submit([]) == 0
    said = capsys.readouterr().out
    assert "not be able to read it" in said and "the answer cell is gone: 0.1" in said
    [packed] = (course / "work").glob("submission-*.zip")
    assert zipfile.ZipFile(packed).read("04_last.ipynb") == b'{"cells": [ \xff'


def test_nothing_to_submit_is_said(course: Path) -> None:
    with pytest.raises(LectureError, match="lecture lab"):
        copies.lecture_submit([])


def _content(url: str) -> list[dict]:
    """What the server lists; it prints its address a moment before it listens."""
    for _ in range(100):
        try:
            return json.load(urllib.request.urlopen(url, timeout=30))["content"]
        except urllib.error.HTTPError:
            raise
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"nothing listens at {url}")


@pytest.mark.skipif(os.name != "posix", reason="ends the server with a signal")
def test_lab_serves_the_copies_on_this_machine_only(
    root: Path, tmp_path: Path, write_exercise: Write
) -> None:
    project = tmp_path / "project"
    write_exercise(project / "notebooks" / "00_first.ipynb", "0.1", "x = ...", "x")
    (project / "lecture_lib").symlink_to(root / "lecture_lib")
    code = (
        "import sys; from pathlib import Path; from lecture_lib import paths\n"
        "from lecture_lib.cli import main\n"
        f"paths.project_root = lambda: Path({str(project)!r})\n"
        "paths.NOTEBOOKS = paths.project_root() / 'notebooks'\n"
        "sys.exit(main(['lab', '--no-browser']))"
    )
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(tmp_path),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "run"),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        told, address = "", None
        while address is None:
            line = process.stdout.readline()
            assert line, told
            told += line
            address = re.search(r"http://127\.0\.0\.1:(\d+)/\S*\?token=(\w+)", line)
        port, token = address.groups()
        url = f"http://127.0.0.1:{port}/api/contents?token={token}"
        names = {entry["name"] for entry in _content(url)}
        assert names == {"00_first.ipynb"}
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/contents", timeout=30)
        listening = set()
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # a helper of the server's that has ended since
                listening |= {
                    c.laddr.ip
                    for c in child.net_connections()
                    if c.status == psutil.CONN_LISTEN and c.laddr.port == int(port)
                }
        assert listening == {"127.0.0.1"}
    finally:
        server = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        assert psutil.wait_procs(server, timeout=10)[1] == []
    with socket.socket() as probe, pytest.raises(OSError):
        time.sleep(0.2)
        probe.connect(("127.0.0.1", int(port)))
