"""What has been passed, remembered between kernels in a small file next to the notebooks.

`.three_budgets_progress.json` in the kernel's folder. Losing it loses nothing else; a file that cannot be
read is put aside; where none can be written, progress lives in memory and that is said once.
LECTURE_PROGRESS=off keeps it in memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FILE = ".three_budgets_progress.json"
UNSAVED = (
    "Progress cannot be saved in this folder, so it is kept only until the kernel restarts. "
    "Nothing else is affected; move the notebooks to a folder of yours to keep it."
)
_LOCK_WAIT = 1.0  # seconds; a lock older than this was left by a kernel that died


@dataclass(frozen=True)
class Entry:
    """One exercise: the last outcome, whether it ever passed, hints opened, and digests of the answers then
    and now.
    """

    outcome: str = "not_attempted"
    passed: bool = False
    hints: int = 0
    answer: str = ""
    hinted_at: str = ""


_memory: dict[str, Entry] = {}
_said_unsaved = False


def _file() -> Path | None:
    """None where progress is to stay in memory, or the working folder is gone."""
    if os.environ.get("LECTURE_PROGRESS", "").lower() == "off":
        return None
    with contextlib.suppress(OSError):
        return Path.cwd() / FILE
    return None


def entries() -> dict[str, Entry]:
    """Everything remembered, by exercise."""
    file = _file()
    return {**_memory, **(_read(file) if file is not None else {})}


def entry(exercise: str) -> Entry:
    """What is remembered of one exercise."""
    return entries().get(exercise, Entry())


def update(exercise: str, **changes: Any) -> str:
    """Remembers changes to an exercise's entry. Returns words to show if, for the first time, they cannot be
    saved.
    """
    global _said_unsaved
    file = _file()
    try:
        if file is None:
            _memory[exercise] = replace(_memory.get(exercise, Entry()), **changes)
            return ""
        with _locked(file):
            stored = _read(file)
            stored[exercise] = replace(stored.get(exercise, _memory.get(exercise, Entry())), **changes)
            _write(file, stored)
            _memory.pop(exercise, None)
        return ""
    except OSError:
        _memory[exercise] = replace(entry(exercise), **changes)
        said, _said_unsaved = _said_unsaved, True
        return "" if said else UNSAVED


def _read(file: Path) -> dict[str, Entry]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):
        text = ""
    try:
        stored = json.loads(text)["exercises"]
        return {str(name): _entry(fields) for name, fields in stored.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        with contextlib.suppress(OSError):
            os.replace(file, file.with_name(FILE + ".unreadable"))
        return {}


def _entry(fields: dict[str, Any]) -> Entry:
    known = {name: fields[name] for name in Entry.__dataclass_fields__ if name in fields}
    found = Entry(**known)
    for name, value in known.items():
        if type(value) is not type(getattr(Entry(), name)):
            raise ValueError(name)
    return found


def _write(file: Path, stored: dict[str, Entry]) -> None:
    """All or nothing: written beside, then put in place."""
    text = json.dumps({"exercises": {name: vars(e) for name, e in sorted(stored.items())}}, indent=1)
    beside = file.with_name(f"{FILE}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, file)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One writer at a time, among kernels too: whoever creates the lock file."""
    lock = file.with_name(FILE + ".lock")
    give_up = time.monotonic() + _LOCK_WAIT
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            if time.monotonic() > give_up:
                with contextlib.suppress(OSError):
                    lock.unlink()
                give_up = time.monotonic() + _LOCK_WAIT
            time.sleep(0.005)
        except PermissionError:  # on Windows also for a lock that is just being removed
            if os.name != "nt" or time.monotonic() > give_up:
                raise
            time.sleep(0.005)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()
