"""What these tests share: `mutants.py` beside them, and no progress file left anywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `import mutants`


@pytest.fixture(autouse=True)
def _forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from lecture_lib.exercises import memory

    monkeypatch.setenv("LECTURE_PROGRESS", "off")
    monkeypatch.delenv("LECTURE_STRICT", raising=False)
    monkeypatch.setattr(memory, "_memory", {})
    monkeypatch.setattr(memory, "_said_unsaved", False)
    yield
