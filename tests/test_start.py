"""start.py, tried on a small project of the same shape: packages of a few bytes, from a folder, offline."""

from __future__ import annotations

import ast
import base64
import hashlib
import http.server
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
posix_only = pytest.mark.skipif(os.name == "nt", reason="links and signals of POSIX")

# A build backend without requirements: its editable wheel points at the project, as hatchling's does.
BACKEND = """
import sys, time, zipfile
from pathlib import Path

def get_requires_for_build_editable(config_settings=None):
    return []

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    if Path("slow").exists():
        Path("building").touch()
        time.sleep(60)
    sys.path.insert(0, str(Path.cwd()))
    from wheels import make_wheel
    metadata = "Provides-Extra: lab\\nProvides-Extra: test\\nRequires-Dist: torch\\n"
    metadata += "Requires-Dist: pytest; extra == 'test'\\n"
    name = make_wheel(Path(wheel_directory), "three_budgets", "1.0", {"_here.pth": str(Path.cwd())}, metadata)
    return name
"""

# Says what it was given, and ends as it was told.
STUB = """
import json, os, sys
print("STARTED " + json.dumps([{name!r}, sys.argv[1:], os.getcwd()]))
for word in sys.argv[1:]:
    if word.startswith("end="):
        sys.exit(int(word[4:]))
"""


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str], metadata: str = "") -> str:
    """Write a wheel with these files into `folder`; its file name."""
    info = f"{name}-{version}.dist-info"
    files = dict(files)
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl"


class Project:
    """A project with a start.py, and the folder of wheels that it installs from."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a project"  # with a space, as many folders have
        self.wheels = folder / "wheels"
        package = self.root / "lecture_lib"
        package.mkdir(parents=True)
        self.wheels.mkdir()
        shutil.copy(ROOT / "start.py", self.root)
        source = Path(__file__).read_text(encoding="utf-8")
        function = source[source.index("def make_wheel") : source.index("class Project")]
        imports = (
            "from __future__ import annotations\nimport base64, hashlib, zipfile\nfrom pathlib import Path\n"
        )
        (self.root / "wheels.py").write_text(imports + function)
        (self.root / "backend.py").write_text(BACKEND)
        (self.root / "pyproject.toml").write_text(
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        )
        (self.root / "requirements.lock").write_text(
            "# a lock\nsetuptools==1.0 ; python_version < '3'\ntorch==2.13.0\n"
        )
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(STUB.format(name="lecture"))
        library = {"torch/__init__.py": "", "torch/lib/libtorch.so": "x" * 1_100_000}
        make_wheel(self.wheels, "torch", "2.13.0", library)
        make_wheel(
            self.wheels,
            "pytest",
            "9.0",
            {"pytest/__main__.py": STUB.format(name="pytest"), "pytest/__init__.py": ""},
        )

    def environment(self, **more: str) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.upper().startswith(("PIP_", "PYTHON")) and not name.upper().endswith("_PROXY")
        }
        # Refused at once, so that no test asks the network for anything.
        closed = {
            "https_proxy": "http://127.0.0.1:9",
            "http_proxy": "http://127.0.0.1:9",
            "no_proxy": "127.0.0.1",
        }
        pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.wheels.as_uri()}
        return {**kept, **closed, **pip, **more}

    def start(
        self, *arguments: str, cwd: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(self.root / "start.py"), *arguments],
            cwd=cwd or self.root,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    @property
    def site(self) -> Path:
        return next(self.root.glob(".venv/[Ll]ib/**/site-packages"))

    @property
    def stamp(self) -> Path:
        return self.root / ".venv" / "three_budgets.json"


def started(done: subprocess.CompletedProcess[str]) -> list[object]:
    """What the command that start.py handed over to says it was given: its name, arguments and folder."""
    line = next((line for line in done.stdout.splitlines() if line.startswith("STARTED ")), None)
    assert line is not None, f"nothing was started\n{done.stdout}\n{done.stderr}"
    found: list[object] = json.loads(line.removeprefix("STARTED "))
    return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("start"))


@pytest.fixture
def project(shared: Project) -> Project:
    """The project with its environment whole."""
    done = shared.start("check")
    assert done.returncode == 0, done.stdout + done.stderr
    return shared


@pytest.fixture
def start() -> ModuleType:
    """start.py as a module."""
    spec = importlib.util.spec_from_file_location("start_under_test", ROOT / "start.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---------------------------------------------------------------- the way that it should go


def test_the_first_start_sets_up_and_the_second_does_not(tmp_path: Path) -> None:
    project = Project(tmp_path)
    first = project.start("doctor", "--x", "a b")
    assert first.returncode == 0, first.stderr
    assert "First start" in first.stdout and "Ready." in first.stdout
    if sys.platform == "linux" and shutil.which("nvidia-smi") is None:
        said = [line for line in first.stdout.splitlines() if "CPU index cannot be used" in line]
        assert len(said) == 1, "the fall back to the plain index is said in one line"
    assert started(first)[:2] == ["lecture", ["doctor", "--x", "a b"]]

    log = project.root / ".venv" / "install.log"
    before = log.stat().st_mtime_ns
    shutil.rmtree(project.wheels)  # nothing could be installed now
    second = project.start("doctor")
    assert started(second)[:2] == ["lecture", ["doctor"]]
    assert second.stdout.startswith("STARTED"), "an environment that is whole needs no word"
    assert log.stat().st_mtime_ns == before


def test_without_a_word_it_opens_the_lab(project: Project) -> None:
    assert started(project.start())[:2] == ["lecture", ["lab"]]


def test_the_folder_of_the_caller_is_kept(project: Project, tmp_path: Path) -> None:
    (tmp_path / "lecture_lib.py").write_text(
        "raise SystemExit('a file of the reader stood in for the package')"
    )
    name, arguments, folder = started(project.start("run", "mine.ipynb", cwd=tmp_path))
    assert (name, arguments) == ("lecture", ["run", "mine.ipynb"])
    assert Path(str(folder)).resolve() == tmp_path.resolve()


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_exit_codes_come_through(project: Project, code: int) -> None:
    assert project.start("run", f"end={code}").returncode == code


def test_the_tests_run_in_the_project_with_what_the_caller_adds(project: Project, tmp_path: Path) -> None:
    name, arguments, folder = started(project.start("test", "-k", "one", cwd=tmp_path))
    assert name == "pytest" and Path(str(folder)).resolve() == project.root.resolve()
    assert isinstance(arguments, list) and arguments[-2:] == ["-k", "one"] and "-n" not in arguments
    _, alone, _ = started(project.start("test"))
    assert isinstance(alone, list) and "loadfile" in alone


@pytest.mark.parametrize(("pytests", "ours"), [(0, 0), (1, 1), (2, 3), (3, 3), (4, 2), (5, 2)])
def test_pytests_exit_codes_become_the_courses(project: Project, pytests: int, ours: int) -> None:
    assert project.start("test", f"end={pytests}").returncode == ours


def test_a_foreign_python_path_does_not_get_in(project: Project, tmp_path: Path) -> None:
    (tmp_path / "lecture_lib").mkdir()
    (tmp_path / "lecture_lib" / "__init__.py").write_text("raise SystemExit('the foreign one')")
    assert project.start("doctor", PYTHONPATH=str(tmp_path)).returncode == 0


# ---------------------------------------------------------------- environments that are not whole


def _gone(name: str):  # type: ignore[no-untyped-def]
    def take(project: Project) -> None:
        for found in project.site.glob(name):
            shutil.rmtree(found) if found.is_dir() else found.unlink()

    return take


def _emptied_library(project: Project) -> None:
    (project.site / "torch" / "lib" / "libtorch.so").write_bytes(b"")


def _no_stamp(project: Project) -> None:
    project.stamp.unlink()


def _unreadable_stamp(project: Project) -> None:
    project.stamp.write_text("{")


def _half_installed(project: Project) -> None:
    # What an interrupted pip leaves: files without a record, and the stamp not yet written.
    project.stamp.unlink()
    for record in project.site.glob("torch-*.dist-info/RECORD"):
        record.unlink()
    (project.site / "torch" / "__init__.py").unlink()
    (project.site / "~orch").mkdir()


def _other_lock(project: Project) -> None:
    lock = project.root / "requirements.lock"
    lock.write_text(lock.read_text() + "# another line\n")


def _no_python(project: Project) -> None:
    for python in project.root.glob(".venv/bin/python*"):
        python.unlink()
    for python in project.root.glob(".venv/Scripts/python*.exe"):
        python.unlink()


def _no_longer_an_environment(project: Project) -> None:
    (project.root / ".venv" / "pyvenv.cfg").unlink()


def _a_file_in_its_place(project: Project) -> None:
    shutil.rmtree(project.root / ".venv")
    (project.root / ".venv").write_text("not a folder")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_gone("torch"), "torch/__init__.py is missing or damaged"),
        (_gone("torch-*.dist-info"), "is missing or damaged"),
        (_gone("torch/__init__.py"), "torch/__init__.py is missing or damaged"),
        (_emptied_library, "libtorch.so is missing or damaged"),
        (_gone("_here.pth"), "_here.pth is missing or damaged"),
        (_no_stamp, "its installation did not end"),
        (_unreadable_stamp, "its installation did not end"),
        (_half_installed, "its installation did not end"),
        (_other_lock, "the course asks for other packages"),
        (_no_python, "its Python is gone"),
        (_no_longer_an_environment, "its Python is gone"),
        (_gone("pip"), "it has no pip"),
        (_a_file_in_its_place, "is gone"),
    ],
)
def test_a_broken_environment_is_noticed_and_mended(project: Project, harm, said: str) -> None:  # type: ignore[no-untyped-def]
    harm(project)
    mended = project.start("doctor")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert said in mended.stdout and "Mending it" in mended.stdout
    assert (project.site / "torch" / "lib" / "libtorch.so").stat().st_size == 1_100_000
    assert not list(project.site.glob("~*"))
    assert project.start("doctor").stdout.startswith("STARTED"), "once mended it is whole"


def test_a_moved_folder_gets_a_new_environment(project: Project, tmp_path: Path) -> None:
    moved = Project.__new__(Project)
    moved.root, moved.wheels = tmp_path / "elsewhere", project.wheels
    shutil.copytree(project.root, moved.root, symlinks=True)
    done = moved.start("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the folder was moved here from" in done.stdout
    assert str(project.root) not in next(moved.site.glob("_here.pth")).read_text()


def test_only_what_is_installed_counts_as_a_change(project: Project) -> None:
    settings = project.root / "pyproject.toml"
    before = settings.read_text()
    settings.write_text(before + "\n[tool.ruff]\nline-length = 110\n")
    assert project.start("doctor").stdout.startswith("STARTED")
    settings.write_text(before.replace("requires = []", 'requires = []\n# and another line'))
    assert "the course asks for other packages" in project.start("doctor").stdout
    settings.write_text(before)


def test_an_environment_made_by_hand_is_kept(project: Project) -> None:
    _no_stamp(project)
    (project.site / "mine.py").touch()
    assert project.start("doctor").returncode == 0
    assert (project.site / "mine.py").exists()
    (project.site / "mine.py").unlink()


def test_what_cannot_be_installed_is_said(project: Project) -> None:
    _gone("torch")(project)
    failed = project.start("doctor", PIP_FIND_LINKS="")
    assert failed.returncode == 3
    assert "PyTorch has no build for this machine" in failed.stderr
    assert "install.log" in failed.stderr and "Traceback" not in failed.stderr
    assert project.start("doctor").returncode == 0, "the next start goes on"


@posix_only
def test_ctrl_c_while_installing_leaves_something_that_can_go_on(project: Project) -> None:
    _no_stamp(project)
    _gone("three_budgets-*.dist-info")(project)
    (project.root / "slow").touch()
    try:
        running = subprocess.Popen(
            [sys.executable, str(project.root / "start.py"), "doctor"],
            cwd=project.root,
            env=project.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        deadline = time.monotonic() + 120
        while not (project.root / "building").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all of them
        output, errors = running.communicate(timeout=60)
    finally:
        (project.root / "slow").unlink()
        (project.root / "building").unlink(missing_ok=True)
    assert running.returncode == 3, output + errors
    assert "Stopped." in errors and "Traceback" not in errors
    assert project.start("doctor").returncode == 0


def test_two_at_once_do_not_get_in_each_others_way(project: Project) -> None:
    shutil.rmtree(project.root / ".venv")
    command = [sys.executable, str(project.root / "start.py"), "doctor"]
    both = [
        subprocess.Popen(
            command,
            cwd=project.root,
            env=project.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum("First start" in output for output in outputs) == 1, outputs


def test_help_needs_no_installation(tmp_path: Path) -> None:
    shutil.copy(ROOT / "start.py", tmp_path)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "start.py"), "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "start.py run" in done.stdout and not (tmp_path / ".venv").exists()


def test_a_file_that_is_missing_from_the_project_is_named(tmp_path: Path) -> None:
    shutil.copy(ROOT / "start.py", tmp_path)
    done = subprocess.run([sys.executable, str(tmp_path / "start.py")], capture_output=True, text=True)
    assert done.returncode == 3 and "requirements.lock is missing" in done.stderr


# ---------------------------------------------------------------- which torch


@pytest.fixture
def cpu_index(shared: Project, tmp_path: Path) -> Iterator[str]:
    """A package index on this machine with a CPU build of torch."""
    folder = tmp_path / "index" / "torch"
    folder.mkdir(parents=True)
    wheel = make_wheel(
        folder, "torch", "2.13.0+cpu", {"torch/__init__.py": "", "torch/lib/libtorch.so": "x" * 1_100_000}
    )
    (folder / "index.html").write_text(f'<html><a href="{wheel.replace("+", "%2B")}">{wheel}</a></html>')

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def __init__(self, *arguments, **more) -> None:  # type: ignore[no-untyped-def]
            super().__init__(*arguments, directory=str(tmp_path / "index"), **more)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the plain index's wheels are CPU builds")
@pytest.mark.parametrize("gpu", [False, True])
def test_the_cpu_build_is_taken_unless_there_is_a_gpu(
    tmp_path: Path, shared: Project, cpu_index: str, gpu: bool
) -> None:
    project = Project(tmp_path / "own")
    text = (project.root / "start.py").read_text()
    (project.root / "start.py").write_text(text.replace("https://download.pytorch.org/whl/cpu", cpu_index))
    tools = tmp_path / "tools"
    tools.mkdir()
    answer = "echo 'GPU 0: NVIDIA H100'" if gpu else "echo 'no devices'; exit 9"
    (tools / "nvidia-smi").write_text(f"#!/bin/sh\n{answer}\n")
    (tools / "nvidia-smi").chmod(0o755)
    done = project.start(
        "doctor",
        PATH=f"{tools}{os.pathsep}{os.environ['PATH']}",
        PIP_NO_INDEX="0",
        PIP_INDEX_URL=f"{cpu_index}/nothing",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    installed = next(project.site.glob("torch-*.dist-info")).name
    assert installed == ("torch-2.13.0.dist-info" if gpu else "torch-2.13.0+cpu.dist-info")
    assert ("PyTorch comes with CUDA" in done.stdout) == gpu


def test_an_index_that_never_answers_does_not_hold_it_up(start: ModuleType) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        why = start.why_unreachable(f"http://127.0.0.1:{deaf.getsockname()[1]}/", 0.3)
    assert why


# ---------------------------------------------------------------- sentences


def test_an_old_python_can_read_it_far_enough_to_say_so(start: ModuleType) -> None:
    source = (ROOT / "start.py").read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 6))
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    # An annotation that is not in quotes is evaluated, and `list[str]` is an error before 3.9.
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            notes = [node.returns, *(argument.annotation for argument in node.args.args)]
            assert not [note for note in notes if isinstance(note, ast.Subscript | ast.BinOp)], node.name
    for version in ((3, 6), (3, 10), (3, 15)):
        sentence = start.wrong_python(version)
        assert (
            "needs Python 3.11 to 3.14" in sentence
            and f"this is Python {version[0]}.{version[1]}" in sentence
        )
    assert start.wrong_python((3, 11)) == "" == start.wrong_python((3, 14))


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_a_python_without_environments_says_what_to_install(
    start: ModuleType, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        start.importlib.util, "find_spec", lambda name: None if name == module else real(name)
    )
    with pytest.raises(start.SetupError, match=f"`{module}` is missing.*apt install python3-venv"):
        start.make_venv()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "disk is full",
        ),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError(...: Failed to establish a new "
            "connection: [Errno -3] Temporary failure in name resolution')': /simple/torch/",
            "index cannot be reached",
        ),
        (
            "Could not fetch URL: SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]",
            "certificate",
        ),
        ("ERROR: No matching distribution found for torch==2.13.0", "no build for this machine"),
        ("ERROR: [WinError 5] Access is denied: 'torch.dll'", "may not be written"),
        ("ERROR: something else", "Start again"),
    ],
)
def test_pips_failures_are_put_into_words(start: ModuleType, line: str, said: str) -> None:
    assert said in start.explain(["Collecting torch", line]).splitlines()[-1]
