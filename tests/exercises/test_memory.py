from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lecture_lib.exercises import memory
from lecture_lib.exercises.memory import FILE, UNSAVED, Entry, entries, entry, update


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LECTURE_PROGRESS", "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_remembered_in_a_file_and_nothing_else_is_left(folder: Path) -> None:
    assert (
        update("4.1", outcome="wrong") == ""
        and update("4.1", hints=1) == ""
        and update("4.2", outcome="passed") == ""
    )
    assert entry("4.1") == Entry(outcome="wrong", hints=1) and list(entries()) == ["4.1", "4.2"]
    assert [p.name for p in folder.iterdir()] == [FILE]


def test_off_keeps_it_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LECTURE_PROGRESS", "off")
    assert update("4.1", outcome="passed") == "" and entry("4.1").outcome == "passed"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b'{"exercises": []}',
        b'{"exercises": {"4.1": {"hints": "three"}}}',
        b'{"exercises": {"4.1": 3}}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_cannot_be_read_is_put_aside(folder: Path, text: bytes) -> None:
    (folder / FILE).write_bytes(text)
    assert entries() == {}
    assert (folder / (FILE + ".unreadable")).read_bytes() == text
    update("4.1", outcome="passed")
    assert entry("4.1").outcome == "passed"


def test_a_newer_files_extra_fields_are_no_fault(folder: Path) -> None:
    (folder / FILE).write_text(json.dumps({"exercises": {"4.1": {"outcome": "passed", "later": 1}}}))
    assert entry("4.1") == Entry(outcome="passed")


def test_where_nothing_can_be_written_it_is_said_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError("read-only")

    monkeypatch.setattr(os, "open", refuse)
    assert update("4.1", outcome="wrong") == UNSAVED
    assert update("4.1", hints=2) == "" and update("4.2", outcome="passed") == ""
    assert entry("4.1") == Entry(outcome="wrong", hints=2) and entry("4.2").outcome == "passed"


def test_a_full_disk_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update("4.1", outcome="wrong")
    before = (folder / FILE).read_text()

    def full(self: Path, *_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert update("4.1", outcome="passed") == UNSAVED
    assert (folder / FILE).read_text() == before and [p.name for p in folder.iterdir()] == [FILE]


def test_a_folder_that_is_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", gone)
    assert update("4.1", outcome="passed") == "" and entry("4.1").outcome == "passed"


def test_a_lock_that_a_dead_kernel_left_is_broken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_LOCK_WAIT", 0.1)
    (folder / (FILE + ".lock")).touch()
    start = time.monotonic()
    assert update("4.1", outcome="passed") == "" and time.monotonic() - start < 2
    assert [p.name for p in folder.iterdir()] == [FILE]


def test_two_kernels_at_once_lose_nothing(folder: Path) -> None:
    code = (
        "import sys; from lecture_lib.exercises.memory import update\n"
        "for i in range(40): update(f'{sys.argv[1]}.{i}')"
    )
    environment = {**os.environ, "LECTURE_PROGRESS": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    kernels = [subprocess.Popen([sys.executable, "-c", code, str(n)], env=environment) for n in range(3)]
    assert [kernel.wait(60) for kernel in kernels] == [0, 0, 0]
    assert len(entries()) == 120
