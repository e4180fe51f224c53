"""Lint and types, as pyproject.toml configures them, over the whole project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "tool", [["ruff", "check", "--output-format", "concise", "."], ["mypy"]], ids=lambda tool: tool[0]
)
def test_no_complaint_of(tool: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *tool], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(tool)}\n{done.stdout}{done.stderr}"
