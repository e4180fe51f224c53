"""What conftest.py promises: what a machine lacks is said by name, or an error; what nbval compares."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

TESTS = """
import os
import pytest

@pytest.mark.browser
def test_in_a_browser(): pass

@pytest.mark.sandbox
def test_in_a_sandbox(): pass

@pytest.mark.sandbox
def test_in_a_sandbox_again(): pass

def test_anywhere():
    assert os.environ["LECTURE_PROGRESS"] == "off"
"""


def _run(folder: Path, tools: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    for name in ("conftest.py", "pyproject.toml", "tests/notebooks/sanitize.cfg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "tests" / "test_some.py").write_text(TESTS)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST", "LECTURE", "PROGRAM"))
    }
    kept.pop("LOCALAPPDATA", None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**kept, "PATH": str(tools), "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a browser is found without the PATH")
@pytest.mark.parametrize("processes", [[], ["-n", "2", "--dist", "loadfile"]], ids=["one", "two"])
def test_what_is_left_out_is_said_by_name(tmp_path: Path, processes: list[str]) -> None:
    done = _run(tmp_path, tmp_path / "no tools", *processes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LEFT OUT: 1 of the browser tests: no Chromium on this machine" in done.stdout
    assert "LEFT OUT: 2 of the sandbox tests: bubblewrap (bwrap) is not installed" in done.stdout
    assert "1 passed, 3 skipped" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a browser is found without the PATH")
def test_where_nothing_may_be_left_out_it_is_an_error(tmp_path: Path) -> None:
    done = _run(tmp_path, tmp_path / "no tools", LECTURE_NOTHING_LEFT_OUT="1")
    assert done.returncode == 1
    assert "1 passed, 3 errors" in done.stdout
    assert "sandbox tests may not be left out here, and cannot run: bubblewrap" in done.stdout


def test_any_other_skip_is_an_error_there_too(tmp_path: Path) -> None:
    skips = tmp_path / "tests" / "test_skips.py"
    skips.parent.mkdir()
    skips.write_text(
        "import pytest\n"
        "def test_it(): pytest.skip('not today')\n"
        "@pytest.mark.gpu\n"
        "@pytest.mark.skip(reason='no GPU')\n"
        "def test_on_a_gpu(): pass\n"
    )
    done = _run(tmp_path, tmp_path / "no tools", str(skips), LECTURE_NOTHING_LEFT_OUT="1")
    assert done.returncode == 1 and "1 failed, 1 skipped" in done.stdout
    assert "no test may be skipped here: Skipped: not today" in done.stdout
    assert _run(tmp_path, tmp_path / "no tools", str(skips)).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="stand-ins are scripts of a shell")
def test_where_all_is_there_all_run(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("chromium", "bwrap"):
        (tools / name).write_text("#!/bin/sh\nexit 0\n")
        (tools / name).chmod(0o755)
    done = _run(tmp_path, tools, LECTURE_NOTHING_LEFT_OUT="1")
    assert done.returncode == 0 and "4 passed" in done.stdout and "LEFT OUT" not in done.stdout


def test_an_unknown_mark_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_typo.py").write_text(
        "import pytest\n@pytest.mark.browsr\ndef test_it(): pass\n"
    )
    done = _run(tmp_path, tmp_path / "no tools")
    assert done.returncode != 0 and "'browsr' not found" in done.stdout


def _notebook(picture: str, text: str, stderr: str) -> str:
    """A notebook of one cell that prints a picture, a text and a warning, with these stored."""
    show = (
        "import os, sys\n"
        "from IPython.display import HTML, display\n"
        "print('a warning of this machine', file=sys.stderr)\n"
        "print(os.environ['LECTURE_PROGRESS'])\n"
        'display(HTML(\'<img alt="two bars" src="data:image/png;base64,iVBORw0KGgo=">\'))'
    )
    html = {"text/html": [f'<img alt="{text}" src="data:image/png;base64,{picture}">']}
    html["text/plain"] = ["<IPython.core.display.HTML object>"]
    outputs = [
        {"output_type": "stream", "name": "stderr", "text": [stderr]},
        {"output_type": "stream", "name": "stdout", "text": ["off\n"]},
        {"output_type": "display_data", "data": html, "metadata": {}},
    ]
    cell = {
        "cell_type": "code",
        "id": "a",
        "source": show,
        "outputs": outputs,
        "execution_count": 1,
        "metadata": {},
    }
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


def test_nbval_compares_a_pictures_text_and_neither_its_pixels_nor_stderr(tmp_path: Path) -> None:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "same.ipynb").write_text(_notebook("AAAA\nBBBB", "two bars", "another warning\n"))
    (folder / "other.ipynb").write_text(_notebook("AAAA", "three bars", ""))
    path = os.environ.get("PATH", "")
    same = _run(tmp_path, Path(path), "--nbval", "notebooks/same.ipynb")
    assert same.returncode == 0, same.stdout
    other = _run(tmp_path, Path(path), "--nbval", "notebooks/other.ipynb")
    assert other.returncode == 1 and "three bars" in other.stdout
    # From a folder below, as well: the settings are the project's, wherever pytest is called.
    below = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval", "same.ipynb"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert below.returncode == 0, below.stdout
