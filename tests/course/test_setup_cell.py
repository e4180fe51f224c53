"""The first cell of every notebook: finds the course from wherever it was opened, or says one sentence."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lecture_lib.course.build import setup_source
from lecture_lib.course.run import Progress, Settings, run

NEEDS = ("torch", "numpy", "einops", "matplotlib", "pint")


@pytest.fixture
def bare(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the cell in a Python that has nothing installed but empty packages of the given names."""

    def start(
        cwd: Path, *packages: str, before: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        for name in packages:
            (tmp_path / "packages" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "packages" / name / "__init__.py").touch()
        code = f"{before}\n{setup_source()}\nimport lecture_lib; print(lecture_lib.__file__)"
        unset = ("KAGGLE_KERNEL_RUN_TYPE", "PYTHONPATH")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        return subprocess.run(
            [sys.executable, "-S", "-P", "-c", code],
            cwd=cwd,
            env={**environment, "PYTHONPATH": str(tmp_path / "packages"), **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return start


@pytest.fixture
def clone(tmp_path: Path, root: Path) -> Path:
    course = tmp_path / "a clone"
    shutil.copytree(
        root / "lecture_lib", course / "lecture_lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    (course / "notebooks" / "deep").mkdir(parents=True)
    return course


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("place", [".", "notebooks", "notebooks/deep"])
def test_finds_the_clone_that_the_notebook_is_in(bare: Callable, clone: Path, place: str) -> None:
    done = bare(clone / place, *NEEDS)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == clone / "lecture_lib" / "__init__.py"


def test_the_clone_at_hand_comes_before_an_installed_course(bare: Callable, clone: Path) -> None:
    done = bare(clone / "notebooks", *NEEDS, "lecture_lib")
    assert Path(done.stdout.strip()) == clone / "lecture_lib" / "__init__.py"


def test_an_installed_course_is_enough(bare: Callable, tmp_path: Path) -> None:
    done = bare(tmp_path, *NEEDS, "lecture_lib")
    assert done.returncode == 0 and "packages" in done.stdout


def test_no_course_is_said(bare: Callable, tmp_path: Path) -> None:
    done = bare(tmp_path, *NEEDS)
    assert done.returncode == 1
    assert "The course's code is not here" in last_line(done)


def test_missing_packages_are_named_with_what_to_do(bare: Callable, clone: Path) -> None:
    done = bare(clone / "notebooks", "torch", "numpy", "matplotlib")
    assert re.search(r"lacks einops, pint: run `python3 start\.py`", last_line(done))


RECORD = "import subprocess\nsubprocess.run = lambda command, **rest: print(command)"


@pytest.mark.parametrize(
    "before", ["", "import sys, types; sys.modules['google.colab'] = types.ModuleType('c')"]
)
def test_hosted_notebooks_install_what_is_beside_them(bare: Callable, clone: Path, before: str) -> None:
    variables = {} if before else {"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}
    done = bare(clone / "notebooks", "torch", before=f"{RECORD}\n{before}", **variables)
    assert "'-m', 'pip', 'install'" in done.stdout and str(clone) in done.stdout
    assert "lacks numpy, einops" in last_line(done)  # pip did nothing here


def test_a_wheel_beside_the_notebook_will_do(bare: Callable, tmp_path: Path) -> None:
    (tmp_path / "three_budgets-0.1.0-py3-none-any.whl").touch()
    done = bare(tmp_path, *NEEDS, before=RECORD, KAGGLE_KERNEL_RUN_TYPE="Batch")
    assert "three_budgets-0.1.0-py3-none-any.whl" in done.stdout
    done = bare(tmp_path, *NEEDS, before=RECORD)
    assert done.stdout == ""  # on one's own machine nothing is installed unasked
    assert "pip install" in last_line(done) and "three_budgets-0.1.0" in last_line(done)


def test_in_a_notebook_it_is_one_sentence_and_no_traceback(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    hide = (
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda n, *r: None if n == 'pint' else find(n, *r)"
    )
    source = write(tmp_path / "a.ipynb", hide, setup_source(), "never = 1")
    [result] = run([source], tmp_path / "out", Settings(), Progress(io.StringIO()))
    assert result.status == "failed" and result.failure is not None and result.failure.id == "c2"
    assert len(result.failure.traceback.splitlines()) == 1
    assert "lacks pint" in result.failure.traceback
