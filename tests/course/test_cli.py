"""The `lecture` command: its face, its exit codes, and sentences instead of tracebacks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lecture_lib import cli, paths
from lecture_lib.course import headless, report, run


def lecture(*arguments: str, code: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = ["-m", "lecture_lib", *arguments]
    if code:
        start, end = (
            "import sys\nfrom lecture_lib import cli, paths",
            f"sys.exit(cli.main({list(arguments)!r}))",
        )
        command = ["-c", f"{start}\n{code}\n{end}"]
    done = subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=100)
    assert "Traceback (most" not in done.stderr, done.stderr
    return done


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    heavy = "[m for m in ('torch', 'nbformat', 'papermill', 'pint') if m in sys.modules]"
    code = f"import atexit\natexit.register(lambda: print({heavy}))"
    done = lecture("--help", code=code)
    assert done.returncode == 0
    for command in ("run", "lab", "reset", "submit", "build", "handout", "doctor"):
        assert f"\n    {command} " in done.stdout
    assert done.stdout.rstrip().endswith("[]")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["run", "--jobs", "0"],
        ["run", "--jobs", "x"],
        ["run", "--device", "tpu"],
        ["reset"],
        ["handout"],
    ],
)
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    done = lecture(*arguments)
    assert done.returncode == 2 and "usage:" in done.stderr
    assert "_positive" not in done.stderr


NO_NOTEBOOKS = "paths.NOTEBOOKS = None"


@pytest.mark.parametrize(
    "arguments", [["run"], ["lab"], ["build"], ["reset", "4.1"], ["submit"], ["handout", "x"]]
)
def test_no_notebooks_folder_is_a_sentence(arguments: list[str], tmp_path: Path) -> None:
    done = lecture(*arguments, code=NO_NOTEBOOKS, cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no folder notebooks/" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["nbformat", "jinja2", "psutil"])
def test_missing_package_is_a_sentence(package: str, tmp_path: Path) -> None:
    done = lecture("run", "00", code=f"sys.modules[{package!r}] = None", cwd=tmp_path)
    assert done.returncode == 3
    assert package in done.stderr and "start.py" in done.stderr


def test_missing_papermill_is_said_for_the_notebook(write: Callable[..., Path], tmp_path: Path) -> None:
    write(tmp_path / "a.ipynb", "1")
    (tmp_path / "hidden" / "papermill").mkdir(parents=True)
    (tmp_path / "hidden" / "papermill" / "__init__.py").write_text(
        "raise ModuleNotFoundError('No module named papermill')"
    )
    done = subprocess.run(
        [sys.executable, "-m", "lecture_lib", "run", "a.ipynb", "--out", "o"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'hidden'}{os.pathsep}{paths.PACKAGE.parent}"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 1
    assert "No module named papermill" in done.stdout and "lecture doctor" in done.stdout


def test_missing_jupyterlab_is_a_sentence(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nimport importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'jupyterlab' else find(name, *rest)\n"
        f"paths.project_root = lambda: Path({str(tmp_path)!r})"
    )
    done = lecture("lab", code=code)
    assert done.returncode == 2 and "pip install jupyterlab" in done.stderr
    assert (tmp_path / "work").is_dir()


def test_no_gpu_is_a_sentence(write: Callable[..., Path], tmp_path: Path) -> None:
    hidden = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''"  # also where there is one
    write(tmp_path / "a.ipynb", "1")
    done = lecture("run", "a.ipynb", "--device", "cuda", code=hidden, cwd=tmp_path)
    assert done.returncode == 2 and "expected a CUDA GPU" in done.stderr


def test_folder_that_cannot_be_written_is_a_sentence(write: Callable[..., Path], tmp_path: Path) -> None:
    write(tmp_path / "a.ipynb", "1")
    (tmp_path / "taken").write_text("a file")
    done = lecture("run", "a.ipynb", "--out", "taken/out", cwd=tmp_path)
    assert done.returncode == 3 and "taken" in done.stderr


@pytest.mark.parametrize("out", ["", ".", "../here", "taken"])
def test_what_ran_never_takes_the_place_of_a_notebook(
    write: Callable[..., Path], tmp_path: Path, out: str
) -> None:
    here = tmp_path / "here"
    before = write(here / "a.ipynb", "1 + 1").read_bytes()
    (here / "taken").write_text("a file")
    done = lecture("run", "a.ipynb", "--out", out, cwd=here)
    assert done.returncode == 2 and "expected a folder" in done.stderr
    assert sorted(path.name for path in here.iterdir()) == ["a.ipynb", "taken"]
    assert (here / "a.ipynb").read_bytes() == before


def test_copies_and_course_are_never_run_over(write: Callable[..., Path], tmp_path: Path) -> None:
    write(tmp_path / "a.ipynb", "1")
    for folder in ("notebooks", "work"):
        code = f"from pathlib import Path; paths.NOTEBOOKS = Path({str(tmp_path / 'notebooks')!r})"
        code += f"; paths.project_root = lambda: Path({str(tmp_path)!r})"
        done = lecture("run", str(tmp_path / "a.ipynb"), "--out", str(tmp_path / folder), code=code)
        assert done.returncode == 2 and "a folder of its own" in done.stderr


def test_interrupt_is_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_submit", interrupted)
    assert cli.main(["submit"]) == 3
    assert "Stopped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "device", "kind", "jobs"),
    [
        (None, "auto", "cuda", 1),
        (4, "auto", "cuda", 1),
        (4, "cuda", "cuda", 1),
        (4, "cpu", "cuda", 4),
        (4, "auto", "cpu", 4),
    ],
)
def test_never_two_notebooks_on_one_gpu(
    monkeypatch: pytest.MonkeyPatch, asked: int | None, device: str, kind: str, jobs: int
) -> None:
    import torch

    from lecture_lib.measuring import device as devices

    monkeypatch.setattr(devices, "choose", lambda name: torch.device(kind if name != "cpu" else "cpu"))
    assert headless._jobs(asked, device) == jobs


def test_report_names_versions_and_device() -> None:
    versions = report.versions()
    assert versions["torch"][0].isdigit() and versions["papermill"][0].isdigit()
    assert "torch" in report.device_line("cpu")
    assert "not known" in report.device_line("nonsense")


def test_summary_has_what_was_left(tmp_path: Path) -> None:
    report.write_summary([run.Result("a", "passed")], ["b"], tmp_path / "s.json")
    assert '"left": [\n    "b"\n  ]' in (tmp_path / "s.json").read_text()


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    shown = capsys.readouterr().err
    assert all(name in shown for name in ("run", "lab", "reset", "submit", "doctor", "build", "handout"))
