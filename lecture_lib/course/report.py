"""`report.html` and `summary.json` of a run: one for a person, one for a program."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader

from lecture_lib import __version__
from lecture_lib.course.run import Result, Settings, outcomes_in_words

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PACKAGES = ("torch", "numpy", "einops", "matplotlib", "papermill", "nbclient", "ipykernel")

_MEANING = {
    "passed": "every cell ran",
    "failed": "stopped at a cell, or an exercise was not passed",
    "timeout": "ran longer than its limit",
    "died": "its kernel died",
    "unreadable": "no notebook that can be run",
}
_OUTCOMES = {
    "passed": "passed",
    "wrong": "wrong",
    "error": "error",
    "not_attempted": "not attempted (blank)",
    "missing": "no check has run",
}


def versions() -> dict[str, str]:
    """Python, the system and the packages that a run's numbers depend on, with their versions."""
    found = {"Three Budgets": __version__, "Python": platform.python_version(), "system": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def device_line(device: str) -> str:
    """The device that notebooks get for `--device`, in words; loads torch."""
    try:
        from lecture_lib.measuring.device import choose, describe

        return describe(choose(device))
    except Exception as error:  # a report is worth having without it
        return f"not known ({type(error).__name__}: {error})"


def write_summary(results: Sequence[Result], left: Sequence[str], path: Path) -> None:
    """summary.json; `left` names what an interrupted run had not finished."""
    content: dict[str, object] = {"notebooks": [result.summary() for result in results]}
    if left:
        content["left"] = list(left)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_report(
    results: Sequence[Result],
    left: Sequence[str],
    settings: Settings,
    seconds: float,
    device: str,
    path: Path,
) -> None:
    """report.html: one page that needs nothing but itself."""
    environment = Environment(
        loader=PackageLoader("lecture_lib.course", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["seconds"] = _seconds
    environment.filters["exercises"] = outcomes_in_words
    environment.filters["memory"] = lambda value: f"{value / 1e6:,.0f} MB" if value else "not known"
    environment.filters["plain"] = lambda text: _ANSI.sub("", text)
    page = environment.get_template("report.html.j2").render(
        results=results,
        left=left,
        settings=settings,
        total=_seconds(seconds),
        device=device,
        versions=versions(),
        made=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        meaning=_MEANING,
        outcomes=_OUTCOMES,
        passed=sum(result.status == "passed" for result in results),
    )
    path.write_text(page, encoding="utf-8")


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 100 else f"{int(value) // 60} min {int(value) % 60} s"
