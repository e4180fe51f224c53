"""What is installed and shipped: the wheel alone, the lock, conda's environment, the workflows."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent


def _pins() -> dict[str, list[str]]:
    """Package → its versions in the lock (more than one where markers choose)."""
    pins: dict[str, list[str]] = {}
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, version = line.partition(";")[0].strip().split("==")
            pins.setdefault(_canonical(name), []).append(version)
    return pins


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _project() -> dict:  # type: ignore[type-arg]
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


# ---------------------------------------------------------------- the wheel and the sdist


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    return Path(next(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with nothing of the course's but the wheel's contents."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_wheel_alone_finds_its_data_and_notebooks(installed: Path, tmp_path: Path) -> None:
    asked = (
        "import json, sys; sys.path[:0] = [sys.argv[1]]; from lecture_lib import paths; "
        "print(json.dumps([str(paths.DATA), str(paths.NOTEBOOKS), str(paths.project_root())]))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", asked, str(installed)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    data, notebooks, root = json.loads(done.stdout)
    assert Path(data) == (installed / "lecture_lib" / "data").resolve()
    assert root == "None", "an installed wheel is no clone"
    for folder, pattern in (("data", "**/*.*"), ("notebooks", "*.ipynb")):
        ours = {path.relative_to(ROOT / folder) for path in (ROOT / folder).glob(pattern) if _shipped(path)}
        there = installed / "lecture_lib" / folder
        assert ours == {path.relative_to(there) for path in there.glob(pattern)}
    assert (Path(notebooks) == (installed / "lecture_lib" / "notebooks").resolve()) == (
        ROOT / "notebooks"
    ).is_dir()


def _shipped(path: Path) -> bool:
    return path.is_file() and not any(part.startswith((".", "__")) for part in path.relative_to(ROOT).parts)


def test_the_wheel_predicts_without_a_clone(installed: Path, tmp_path: Path) -> None:
    asked = (
        "import sys; sys.path[:0] = [sys.argv[1]]; from lecture_lib.accounting import models; "
        "print(models.load('gpt2').hidden_size, models.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", asked, str(installed)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("768 ") and str(installed.resolve()) in done.stdout


def test_the_wheel_declares_the_command_and_its_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        points = archive.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    assert "lecture = lecture_lib.cli:main" in points
    assert "lecture_lib/py.typed" in names
    templates = [path.relative_to(ROOT).as_posix() for path in (ROOT / "lecture_lib").rglob("*.j2")]
    assert set(templates) <= set(names)


def _answers() -> list[str]:
    """Source text of the key's longer functions: a text that nothing else holds by chance."""
    found = []
    for path in sorted((ROOT / "tests" / "answer_key").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and len(node.body) >= 3:
                found += [ast.get_source_segment(text, node) or ""]
    assert len(found) > 5, "the answer key has moved: this test looks for nothing"
    return found


def test_neither_wheel_nor_sdist_carries_the_answer_key(wheel: Path, tmp_path: Path) -> None:
    from hatchling.builders.sdist import SdistBuilder

    sdist = Path(next(SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    contents: dict[str, str] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            contents[f"wheel:{name}"] = archive.read(name).decode("utf-8", "replace")
    with tarfile.open(sdist) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            if file is not None:
                contents[f"sdist:{member.name}"] = file.read().decode("utf-8", "replace")
    assert not [name for name in contents if "answer_key" in name or "/tests/" in name]
    answers = _answers()
    for name, content in contents.items():
        assert not [answer for answer in answers if answer in content], f"{name} holds an answer"


# ---------------------------------------------------------------- versions


def test_every_requirement_is_in_the_lock_and_allows_its_version() -> None:
    from packaging.requirements import Requirement

    project, pins = _project(), _pins()
    everything = [
        *project["dependencies"],
        *(line for lines in project["optional-dependencies"].values() for line in lines),
    ]
    for requirement in map(Requirement, everything):
        versions = pins.get(_canonical(requirement.name))
        assert versions, f"{requirement.name} is not in requirements.lock: run `make lock`"
        for version in versions:
            assert version in requirement.specifier, f"{requirement} does not allow the lock's {version}"
    assert pins["torch"] == ["2.13.0"]
    torch = next(Requirement(line) for line in project["dependencies"] if line.startswith("torch"))
    assert all(version in torch.specifier for version in ("2.11.0", "2.12.1", "2.13.0"))


def test_the_lock_holds_every_platforms_packages() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for package in ("pywinpty", "colorama", "appnope", "pexpect", "nvidia-cublas", "triton"):
        assert re.search(rf"^{package}==\S+ ; ", lock, re.M), (
            f"{package} is for some platforms, and has no marker"
        )


def test_what_is_installed_is_what_the_lock_says() -> None:
    from lecture_lib.course.doctor import _differences

    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    wrong = _differences(lock)
    if wrong and os.environ.get("LECTURE_NOTHING_LEFT_OUT") != "1":
        pytest.skip(f"this environment is not the lock's: {', '.join(wrong)}")
    assert not wrong


def test_condas_environment_is_the_same_set() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    project = _project()
    assert "conda-forge" in environment["channels"]
    packages = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    assert f"python {project['requires-python']}" in packages and "pip" in packages
    (through_pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    start = (ROOT / "start.py").read_text(encoding="utf-8")
    extras = re.search(r'^EXTRAS = "(.*)"$', start, re.M)
    assert extras is not None
    assert through_pip == ["--constraint requirements.lock", f"--editable .[{extras[1]}]"]


def test_what_start_py_takes_for_the_packages_wanted_holds_them_all() -> None:
    # It reads pyproject.toml up to the first [tool....]: an old Python has no tomllib.
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("\n[tool.")[0]
    assert tomllib.loads(text)["project"] == _project()


def test_start_py_and_the_project_ask_for_the_same_pythons() -> None:
    start = (ROOT / "start.py").read_text(encoding="utf-8")
    assert _project()["requires-python"] == ">=3.11,<3.15"
    assert "OLDEST, NEWEST = (3, 11), (3, 14)" in start
    from lecture_lib.course import doctor

    assert (doctor.OLDEST, doctor.NEWEST) == ((3, 11), (3, 14))


# ---------------------------------------------------------------- the commands of workflows and Makefile


def _commands() -> list[tuple[str, str]]:
    """Where, and which: every call of start.py in the workflows, the Makefile and .ci/run."""
    found = []
    for workflow in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
        for job in jobs.values():
            found += [(workflow.name, step["run"]) for step in job["steps"] if "run" in step]
    for name in ("Makefile", ".ci/run"):
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            if not line.startswith("#") and "start.py " in line and "\t" not in line.strip():
                found.append((name, line.strip().removeprefix("exec ")))
    return [(where, command) for where, command in found if "start.py" in command]


def test_the_workflows_call_what_a_newcomer_calls() -> None:
    by_file: dict[str, list[str]] = {}
    for where, command in _commands():
        by_file.setdefault(where, []).append(command)
    for workflow in ("cpu.yml", "gpu.yml"):
        words = [command.split()[2:3] for command in by_file[workflow]]
        assert ["run"] in words and ["test"] in words
    assert by_file[".ci/run"] == ["python3 start.py test"]


@pytest.mark.parametrize(("where", "command"), _commands())
def test_every_command_called_exists(where: str, command: str) -> None:
    python, script, *words = command.split()
    assert python.removeprefix("$(").startswith(("python", "PYTHON")) and (ROOT / script).is_file()
    if words[:1] == ["test"]:
        return
    from lecture_lib import cli

    # The parser refuses a command or an option that is not there.
    cli._parser().parse_args(words)


def test_the_workflows_keep_the_report_and_try_all_systems() -> None:
    for name in ("cpu.yml", "gpu.yml"):
        workflow = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
        steps = workflow["jobs"]["course"]["steps"]
        out = next(step["run"].split("--out ")[1] for step in steps if "start.py run" in step.get("run", ""))
        (kept,) = (step for step in steps if "upload-artifact" in step.get("uses", ""))
        assert kept["with"]["path"] == out and kept["if"] == "always()"
        if name == "cpu.yml":
            matrix = workflow["jobs"]["course"]["strategy"]["matrix"]
            assert {system.partition("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
            assert {"3.11", "3.14"} <= set(matrix["python"])
        else:
            assert "self-hosted" in workflow["jobs"]["course"]["runs-on"]
