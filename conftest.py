"""What holds for every test, those of nbval included.

Groups that need something a machine may lack (a browser, a sandbox) say by name that they were left out;
with LECTURE_NOTHING_LEFT_OUT=1 (.ci/run) that is an error, and so is any other skip but a GPU's. See also
tests/conftest.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent

# Tests and their kernels must not touch a student's record of progress.
os.environ["LECTURE_PROGRESS"] = "off"
if "PYTEST_XDIST_WORKER" in os.environ:
    # Several processes with a thread for every core each would only stand in each other's way.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _lacks_browser() -> str:
    from lecture_lib.course.doctor import find_browser

    return "" if find_browser() else "no Chromium on this machine"


def _lacks_sandbox() -> str:
    from lecture_lib.course.doctor import sandbox_problem

    return sandbox_problem()


def _lacks_gpu() -> str:
    import torch

    return "" if torch.cuda.is_available() else "no NVIDIA GPU that torch can use"


# Mark → why this machine cannot run it (empty: it can). A GPU is never demanded.
NEEDS: dict[str, Callable[[], str]] = {
    "browser": _lacks_browser,
    "sandbox": _lacks_sandbox,
    "gpu": _lacks_gpu,
}
DEMANDED = ("browser", "sandbox")


def _demanded() -> bool:
    return os.environ.get("LECTURE_NOTHING_LEFT_OUT") == "1"


def pytest_configure(config: pytest.Config) -> None:
    # As an absolute path: addopts would resolve it against the folder that pytest is called from.
    if getattr(config.option, "nbval_sanitize_with", "absent") is None:
        config.option.nbval_sanitize_with = str(ROOT / "tests" / "notebooks" / "sanitize.cfg")


def pytest_collectstart(collector: pytest.Collector) -> None:
    # nbval: warnings on stderr differ between machines, and are no claim of a notebook's.
    if collector.path.suffix == ".ipynb" and hasattr(collector, "skip_compare"):
        collector.skip_compare += ("stderr",)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for mark, lacks in NEEDS.items():
        group = [item for item in items if item.get_closest_marker(mark)]
        reason = lacks() if group else ""
        if not reason:
            continue
        for item in group:
            if _demanded() and mark in DEMANDED:
                item.stash[_MISSING] = f"{mark} tests may not be left out here, and cannot run: {reason}"
            else:
                item.add_marker(pytest.mark.skip(reason=f"left out ({mark}): {reason}"))


_MISSING = pytest.StashKey[str]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _MISSING in item.stash:
        pytest.fail(item.stash[_MISSING], pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and _demanded() and not item.get_closest_marker("gpu"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"no test may be skipped here: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, found, rest = reason.partition("left out (")
        if found:
            left_out[rest] = left_out.get(rest, 0) + 1
    for what, count in sorted(left_out.items()):
        name, _, reason = what.partition("): ")
        terminalreporter.write_line(f"LEFT OUT: {count} of the {name} tests: {reason}", yellow=True)
