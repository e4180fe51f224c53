"""The doctor, in environments that are broken in earnest: folders of packages with some missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lecture_lib import paths
from lecture_lib.course import doctor
from lecture_lib.course.doctor import FAIL, NOTE, OK, WARN, Finding

ROOT = Path(__file__).resolve().parents[2]
SOUND = {"ok": True, "file": "/x/__init__.py", "version": "2.13.0", "cuda": "", "device": "", "threads": 2}


def broken(error: str, missing: str | None = None) -> dict[str, object]:
    return {"ok": False, "error": error, "missing": missing}


def only(findings: list[Finding], state: str) -> Finding:
    (found,) = (finding for finding in findings if finding.state == state)
    return found


def in_environment(*folders: Path) -> subprocess.CompletedProcess[str]:
    """`lecture doctor` in a Python with the standard library, these folders, the project and nothing else."""
    code = (
        "import json, sys; sys.path[:] = [*json.loads(sys.argv[1]), *sys.path]; "
        "from lecture_lib.course.doctor import main; sys.exit(main())"
    )
    path = json.dumps([*map(str, folders), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, path], capture_output=True, text=True, timeout=120
    )


# ---------------------------------------------------------------- the whole of it


def test_here_it_says_something_of_everything_and_fails_nothing() -> None:
    findings = doctor.diagnose()
    assert {"Python", "packages", "torch", "device", "versions", "kernel", "notebooks", "folders"} <= {
        finding.what for finding in findings
    }
    assert {"memory", "disk", "sandbox", "browser"} <= {finding.what for finding in findings}
    assert not [finding for finding in findings if finding.state == FAIL]
    assert all(finding.do for finding in findings if finding.state != OK), (
        "whatever is not well says what to do"
    )


def test_with_no_package_at_all_each_is_named_and_there_is_no_traceback() -> None:
    done = in_environment()
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr and done.stderr == ""
    for package in ("torch", "numpy", "einops", "pint", "papermill", "ipykernel"):
        assert f"{package} is not installed" in done.stdout
    lines = done.stdout.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(FAIL):
            assert lines[number + 1].strip().startswith("to do: "), line
    assert "The course cannot run here yet: see packages, torch" in done.stdout


def test_a_package_that_breaks_on_import_is_told_from_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("import libnothing_at_all")
    (tmp_path / "einops").mkdir()
    (tmp_path / "einops" / "__init__.py").write_text("raise RuntimeError('half\\nof it')")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import os; os._exit(139)")
    done = in_environment(tmp_path)
    assert done.returncode == 1
    assert "numpy lacks a package that it needs, libnothing_at_all" in done.stdout
    assert "einops does not import (RuntimeError: half of it)" in done.stdout
    assert "torch does not import (Python died with exit code 139)" in done.stdout
    assert "matplotlib is not installed" in done.stdout, "what comes after the one that died is examined too"


def test_a_doctor_with_a_bug_still_gives_its_other_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> list[Finding]:
        raise RuntimeError("a bug")

    fails.__name__ = "_memory"
    finding = only(doctor._safely(fails), WARN)
    assert finding.what == "memory" and "a bug" in finding.text


@pytest.mark.parametrize(
    ("findings", "code", "last"),
    [
        ([Finding("a", OK, "x"), Finding("b", NOTE, "x", "y")], 0, "The course can run here."),
        ([Finding("a", WARN, "x", "y")], 0, "The course can run here. Worth a look: a."),
        (
            [Finding("a", WARN, "x", "y"), Finding("b", FAIL, "x", "y")],
            1,
            "The course cannot run here yet: see b.",
        ),
    ],
)
def test_the_exit_code_says_whether_the_course_can_run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    findings: list[Finding],
    code: int,
    last: str,
) -> None:
    monkeypatch.setattr(doctor, "diagnose", lambda: findings)
    assert doctor.main() == code
    assert capsys.readouterr().out.splitlines()[-1] == last


# ---------------------------------------------------------------- Python, torch


@pytest.mark.parametrize(
    ("version", "bits", "state"),
    [
        ((3, 11, 0), 64, OK),
        ((3, 14, 2), 64, OK),
        ((3, 10, 9), 64, FAIL),
        ((3, 15, 0), 64, FAIL),
        ((3, 12, 1), 32, FAIL),
    ],
)
def test_the_python(version: tuple[int, ...], bits: int, state: str) -> None:
    assert [finding.state for finding in doctor._python(version, bits)] == [state]


@pytest.mark.parametrize(
    ("said", "text", "do"),
    [
        (
            broken(
                'OSError: [WinError 126] The specified module could not be found. Error loading "c10.dll"'
            ),
            "Visual C++ runtime",
            "vc_redist.x64.exe",
        ),
        (
            broken("ImportError: DLL load failed while importing _C: [WinError 1114]"),
            "Visual C++",
            "vc_redist.x64.exe",
        ),
        (
            broken("ImportError: /lib/libc.so.6: version `GLIBC_2.28' not found"),
            "C library is too old",
            "glibc 2.28",
        ),
        (
            broken("ModuleNotFoundError: No module named 'torch'", "torch"),
            "torch is not installed",
            "start.py",
        ),
        (
            broken("ModuleNotFoundError: No module named 'sympy'", "sympy"),
            "lacks a package that it needs, sympy",
            "start.py",
        ),
        (broken("Python died with exit code -4"), "died with exit code -4", "delete .venv"),
    ],
)
def test_why_torch_does_not_import(said: dict[str, object], text: str, do: str) -> None:
    finding = only(doctor._torch(said), FAIL)
    assert text in finding.text and do in finding.do


@pytest.mark.parametrize(
    ("cuda", "device", "card", "state"),
    [
        ("", "", False, OK),  # a laptop
        ("13.0", "NVIDIA H200", True, OK),
        ("13.0", "", True, WARN),  # an old driver
        ("", "", True, NOTE),  # the CPU build beside a card: the course runs
    ],
)
def test_the_device(monkeypatch: pytest.MonkeyPatch, cuda: str, device: str, card: bool, state: str) -> None:
    monkeypatch.setattr(doctor, "_nvidia_smi", lambda: card)
    findings = doctor._torch({**SOUND, "cuda": cuda, "device": device})
    assert [finding.what for finding in findings] == ["torch", "device"]
    assert findings[1].state == state and bool(findings[1].do) == (state != OK)


def _torch_in(folder: Path, *records: str) -> str:
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").touch()
    for version in records:
        (folder / f"torch-{version}.dist-info").mkdir()
    return str(folder)


def test_two_torches(tmp_path: Path) -> None:
    one = _torch_in(tmp_path / "one", "2.13.0")
    two = _torch_in(tmp_path / "two", "2.11.0")
    assert doctor._torches([one, str(tmp_path / "nowhere")]) == []
    assert doctor._torches([one, one]) == [], "one folder named twice is one torch"
    finding = only(doctor._torches([two, one]), WARN)
    assert f"{Path(two) / 'torch'} is used" in finding.text and str(Path(one) / "torch") in finding.text
    mixed = _torch_in(tmp_path / "mixed", "2.11.0", "2.13.0+cpu")
    finding = only(doctor._torches([mixed]), WARN)
    assert "torch-2.11.0, torch-2.13.0+cpu" in finding.text and "delete .venv" in finding.do


def test_a_file_that_takes_a_packages_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not [finding for finding in doctor._shadows() if str(tmp_path) in finding.text]
    (tmp_path / "torch.py").touch()
    (finding,) = (finding for finding in doctor._shadows() if str(tmp_path) in finding.text)
    assert finding.state == WARN and "instead of the package torch" in finding.text


def test_versions_that_are_not_the_locks(tmp_path: Path) -> None:
    for name, version in (("Torch", "2.13.0+cpu"), ("Some_Package", "1.0"), ("extra", "9")):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lock = (
        "torch==2.13.0\nsome-package==1.0 ; python_version < '3.12'\n"
        "some-package==2.0 ; python_version >= '3.12'\n"
    )
    assert doctor._differences(lock, [str(tmp_path)]) == []
    assert doctor._differences(lock.replace("2.13.0", "2.12.0"), [str(tmp_path)]) == [
        "torch 2.13.0+cpu (lock: 2.12.0)"
    ]


# ---------------------------------------------------------------- the kernel


def _kernelspec(folder: Path, python: str) -> None:
    spec = folder / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"})
    )


def test_a_kernelspec_that_points_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _kernelspec(tmp_path, str(tmp_path / "gone" / "python"))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    finding = only(doctor._kernel(), FAIL)
    assert (
        "names a Python that is not there" in finding.text and "ipykernel install --sys-prefix" in finding.do
    )


def test_a_kernelspec_that_is_not_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _kernelspec(tmp_path, "python")
    (tmp_path / "kernels" / "python3" / "kernel.json").write_text("{")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    assert "not readable" in only(doctor._kernel(), FAIL).text


def test_a_kernel_of_another_environment(tmp_path: Path) -> None:
    other = tmp_path / "python.py"
    other.write_text("print('/another/environment')")
    # A stand-in for a Python: it answers whatever it is asked with its own prefix.
    stand_in = tmp_path / "stand_in"
    stand_in.write_text(f"#!/bin/sh\nexec {sys.executable} {other}\n")
    stand_in.chmod(0o755)
    if sys.platform == "win32":
        pytest.skip("scripts without an ending do not start on Windows")
    finding = only(doctor._kernel_command([str(stand_in)]), FAIL)
    assert "belongs to another environment, /another/environment" in finding.text


def test_a_kernel_without_ipykernel(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("scripts without an ending do not start on Windows")
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    assert "has no ipykernel" in only(doctor._kernel_command([str(bare)]), FAIL).text


def test_the_kernel_named_python_is_this_one() -> None:
    assert [finding.state for finding in doctor._kernel_command(["python", "-m", "x"])] == [OK]


# ---------------------------------------------------------------- files, sandbox, browser


def test_a_project_without_notebooks_or_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "NOTEBOOKS", None)
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")
    findings = doctor._course_files()
    assert [(finding.what, finding.state) for finding in findings] == [("notebooks", FAIL), ("data", FAIL)]
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path / "empty")
    assert f"no notebooks in {tmp_path / 'empty'}" in doctor._course_files()[0].text


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Permissions do not stop root; a folder that is not there stops anybody.
    assert doctor._write_problem(tmp_path) == ""
    assert "No such file" in doctor._write_problem(tmp_path / "nowhere")
    monkeypatch.setattr(doctor, "_write_problem", lambda folder: "Read-only file system")
    finding = only(doctor._writable(), FAIL)
    assert "Read-only file system" in finding.text and "give yourself the right" in finding.do


def test_little_memory_and_little_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_total_memory", lambda: 2 * 10**9)
    assert "2.0 GB" in only(doctor._memory(), WARN).text
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**8))
    assert "0.1 GB free" in only(doctor._disk(), WARN).text


def test_a_bubblewrap_that_may_not_make_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not sys.platform.startswith("linux"):
        assert "is for Linux" in doctor.sandbox_problem()
        return
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not installed" in doctor.sandbox_problem()
    assert only(doctor._sandbox(), NOTE).text.startswith("for graders only")
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    assert "No permissions to create new namespace" in doctor.sandbox_problem()
    fake.write_text("#!/bin/sh\nexit 0\n")
    assert doctor.sandbox_problem() == ""


def test_a_browser_is_not_needed_to_take_the_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    if sys.platform != "darwin":
        assert doctor.find_browser() is None
        assert only(doctor._browser(), NOTE).do
    if sys.platform.startswith("linux"):
        (tmp_path / "chromium").write_text("#!/bin/sh\n")
        (tmp_path / "chromium").chmod(0o755)
        assert doctor.find_browser() == str(tmp_path / "chromium")
