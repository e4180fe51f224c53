"""A newcomer in a browser: from `lecture lab` to the first passed exercise; and a report, opened and read.

Needs a Chromium on the machine (left out where there is none), and playwright, which drives it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lecture_lib.course.doctor import find_browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(os.name != "posix", reason="ends a server with a signal"),
]

SOLUTION = """\
def model_states(P, weight_bytes, gradient_bytes, moment_bytes):
return P * (weight_bytes + gradient_bytes + 2 * moment_bytes)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """What a newcomer has cloned, without any working copies."""
    target = tmp_path_factory.mktemp("clone") / "course"
    target.mkdir()
    for name in ("start.py", "pyproject.toml"):
        shutil.copy(root / name, target)
    for name in ("lecture_lib", "data", "notebooks"):
        shutil.copytree(root / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    return target


@pytest.fixture(scope="module")
def lab(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address that `lecture lab --no-browser` prints."""
    home = tmp_path_factory.mktemp("jupyter")
    environment = {name: value for name, value in os.environ.items() if name != "LECTURE_PROGRESS"}
    environment |= {
        "PYTHONPATH": str(project),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    log = home / "lab.log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "lecture_lib", "lab", "--no-browser"],
            cwd=project,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        yield _address(server, log)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(120):
        found = re.search(r"http://127\.0\.0\.1:\d+/\S*token=\w+", log.read_text())
        if found:
            return found.group()
        try:
            server.wait(timeout=0.5)
            break
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


def test_from_lab_to_the_first_passed_exercise(browser: Any, lab: str, project: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    outside: list[str] = []
    page.on(
        "request", lambda request: outside.append(request.url) if "127.0.0.1" not in request.url else None
    )
    page.goto(lab)
    # The first notebook is open when the page is.
    notebook = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    notebook.locator(".jp-Notebook h1").first.wait_for(timeout=90_000)
    assert "00_start_here" in page.url
    _run_all(page)
    assert "moment" in _verdict(page, "Wrong")

    answer = _cell(page, "def model_states")
    answer.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type(SOLUTION)
    page.keyboard.press("Shift+Enter")
    check = _cell(page, 'check("0.1"')
    check.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    _verdict(page, "Passed")

    page.keyboard.press("Control+s")
    remembered = project / "work" / ".three_budgets_progress.json"
    for _ in range(50):
        if remembered.is_file() and "0.1" in remembered.read_text():
            break
        page.wait_for_timeout(100)
    assert "0.1" in remembered.read_text()
    assert not [url for url in outside if url.startswith("http")]
    page.close()


def _verdict(page: Any, word: str) -> str:
    """What the first exercise's check says, once it says `word`."""
    said = ""
    for _ in range(400):
        said = _cell(page, 'check("0.1"').inner_text()
        if word in said:
            return said
        page.wait_for_timeout(500)
    raise AssertionError(f"expected {word!r}; the check says {said!r}")


def _cell(page: Any, text: str) -> Any:
    """The code cell whose source has this text, brought into view (JupyterLab draws only what is near)."""
    cell = page.locator(".jp-CodeCell").filter(has=page.locator(".jp-InputArea").filter(has_text=text)).first
    onwards = """panel => {
        const end = panel.scrollTop + panel.clientHeight >= panel.scrollHeight - 5;
        panel.scrollTo(0, end ? 0 : panel.scrollTop + 500);
    }"""
    for _ in range(200):
        if cell.count():
            cell.scroll_into_view_if_needed()
            return cell
        page.locator(".jp-WindowedPanel-outer").first.evaluate(onwards)
        page.wait_for_timeout(150)
    raise AssertionError(f"no cell with {text!r} in sight")


def _run_all(page: Any) -> None:
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def test_report_opens_without_errors_and_alone(browser: Any, tmp_path: Path, project: Path) -> None:
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    node = new_notebook(cells=[new_code_cell("x = 1"), new_code_cell("1 / 0")])
    nbformat.write(node, tmp_path / "fails.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "lecture_lib", "run", "fails.ipynb", "--out", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    report = (tmp_path / "out" / "report.html").as_uri()
    page.goto(report)
    assert page.get_by_role("heading", level=1).inner_text() == "0 of 1 notebooks passed"
    assert page.get_by_text("ZeroDivisionError: division by zero").first.is_visible()
    assert page.get_by_role("row", name=re.compile("fails")).first.is_visible()
    page.get_by_role("link", name="fails", exact=True).click()
    assert page.url.endswith("#n1")
    assert said == []
    assert [url for url in asked if url.split("#")[0] != report and not url.startswith("data:")] == []
    for width in (1000, 400):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), width
    page.close()
