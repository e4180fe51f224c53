"""`lecture doctor`: what this machine has, what is missing, and how to get it.

Nothing but the standard library is imported here, and what may crash (torch, above all) is imported in a
process of its own: the doctor must be able to speak in a broken environment. Each check returns findings in
words; a failing one says what to do.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import site
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lecture_lib import paths

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "FAIL"
OLDEST, NEWEST = (3, 11), (3, 14)
GB = 10**9

SET_UP_AGAIN = "run `python3 start.py` in the project's folder: it mends the environment"
INSTALL = "python -m pip install three_budgets-….whl"  # by file: no package index has the course
VC_REDIST = "https://aka.ms/vs/17/release/vc_redist.x64.exe"

# Distribution → module, where they differ.
MODULES = {"jupyter-client": "jupyter_client", "ipython": "IPython", "pyyaml": "yaml"}


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's; `state` is OK, NOTE (some need it), WARN or FAIL (the course cannot run)."""

    what: str
    state: str
    text: str
    do: str = ""


def diagnose() -> list[Finding]:
    """Everything the doctor looks at, in the order in which it should be mended. Never raises."""
    findings: list[Finding] = []
    for check in (_python, _packages, _torches, _shadows, _versions, _kernel, _course_files):
        findings += _safely(check)
    for check in (_writable, _memory, _disk, _sandbox, _browser):
        findings += _safely(check)
    return findings


def report(findings: Iterable[Finding]) -> str:
    """The findings as text: state, subject, what was found; under it, what to do."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<4}  {finding.what:<9}  {finding.text}")
        if finding.do:
            lines.append(f"{'':17}to do: {finding.do}")
    return "\n".join(lines)


def main() -> int:
    """Prints the findings; 0 if the course can run here, 1 if not."""
    findings = diagnose()
    print(report(findings))
    failed = [finding.what for finding in findings if finding.state == FAIL]
    if failed:
        print(f"\nThe course cannot run here yet: see {', '.join(dict.fromkeys(failed))}.")
        return 1
    warned = [finding.what for finding in findings if finding.state == WARN]
    print(
        "\nThe course can run here."
        + (f" Worth a look: {', '.join(dict.fromkeys(warned))}." if warned else "")
    )
    return 0


def _safely(check: Callable[[], list[Finding]]) -> list[Finding]:
    """A doctor with a bug still gives its other findings."""
    try:
        return check()
    except Exception as error:
        what = check.__name__.strip("_").replace("_", " ")
        return [
            Finding(what, WARN, f"could not be examined ({_short(error)})", "tell the course's maintainers")
        ]


def _short(error: object) -> str:
    text = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
    return " ".join(text.split())[:300]


def _remedy(requirement: str) -> str:
    return SET_UP_AGAIN if paths.project_root() else f"run `{sys.executable} -m pip install '{requirement}'`"


# ---------------------------------------------------------------- Python and packages


def _python(version: tuple[int, ...] | None = None, bits: int | None = None) -> list[Finding]:
    version = version or tuple(sys.version_info[:3])
    bits = bits or sys.maxsize.bit_length() + 1
    text = f"{'.'.join(map(str, version))}, {bits} bits, {sys.executable}"
    if not OLDEST <= version[:2] <= NEWEST:
        get = "install Python 3.11 to 3.14 from https://www.python.org/downloads/ and run start.py with it"
        return [Finding("Python", FAIL, f"{text}: the course needs 3.11 to 3.14", get)]
    if bits < 64:
        return [Finding("Python", FAIL, f"{text}: torch needs 64", "install a 64-bit Python and use that")]
    return [Finding("Python", OK, text)]


def _requirements() -> list[str]:
    """The packages that the course cannot do without, as requirements ("einops>=0.8")."""
    root = paths.project_root()
    if root is not None:
        with open(root / "pyproject.toml", "rb") as file:
            found: list[str] = tomllib.load(file)["project"]["dependencies"]
        return found
    try:
        declared = importlib.metadata.requires("three-budgets") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [requirement for requirement in declared if "extra ==" not in requirement]


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


# Run in a process of its own, with this one's sys.path: a DLL that crashes takes only that one down.
_IMPORTER = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
for name in sys.argv[2:]:
    print("importing", name, flush=True)
    try:
        module = importlib.import_module(name)
        said = {"ok": True, "file": getattr(module, "__file__", None) or ""}
        if name == "torch":
            cuda = module.cuda.is_available()
            said.update(version=str(module.__version__), cuda=module.version.cuda or "",
                        device=module.cuda.get_device_name(0) if cuda else "",
                        threads=module.get_num_threads())
    except BaseException as error:
        said = {"ok": False, "error": type(error).__name__ + ": " + str(error),
                "missing": getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None}
    print("RESULT " + json.dumps([name, said]), flush=True)
"""


def _try_imports(
    modules: list[str], path: list[str] | None = None, seconds: int = 180
) -> dict[str, dict[str, Any]]:
    """Module → what came of importing it; a process that dies counts against the module it was importing."""
    results: dict[str, dict[str, Any]] = {}
    left = list(modules)
    while left:
        command = [sys.executable, "-c", _IMPORTER, json.dumps(path or sys.path), *left]
        try:
            child = subprocess.run(
                command,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=seconds,
                text=True,
                errors="replace",
            )
            output, ended = child.stdout, f"Python died with exit code {child.returncode}"
        except subprocess.TimeoutExpired as error:
            output = (
                error.stdout.decode(errors="replace")
                if isinstance(error.stdout, bytes)
                else error.stdout or ""
            )
            ended = f"no end within {seconds} s"
        for line in output.splitlines():
            if line.startswith("RESULT "):
                name, said = json.loads(line.removeprefix("RESULT "))
                results[name] = said
        left = [name for name in left if name not in results]
        if left:
            results[left[0]] = {"ok": False, "error": ended, "missing": None}
            left = left[1:]
    return results


def _packages() -> list[Finding]:
    requirements = {_name(text): text.partition(";")[0].strip() for text in _requirements()}
    if not requirements:
        do = f"in the course's folder, run `python3 start.py`; without one, `{INSTALL}`"
        return [Finding("packages", FAIL, "the course is not installed in this Python", do)]
    modules = {MODULES.get(name, name): name for name in requirements}
    results = _try_imports(list(modules))
    findings = []
    for module, said in results.items():
        if module == "torch" or said["ok"]:
            continue
        requirement = requirements[modules[module]]
        if said["missing"] == module:
            text = f"{modules[module]} is not installed"
        elif said["missing"]:
            text = f"{modules[module]} lacks a package that it needs, {said['missing']}"
        else:
            text = f"{modules[module]} does not import ({_short(said['error'])})"
        findings.append(Finding("packages", FAIL, text, _remedy(requirement)))
    if not findings:
        findings = [Finding("packages", OK, f"all {len(requirements)} that the course needs import")]
    if "torch" in results:
        findings += _torch(results["torch"], requirements["torch"])
    return findings


def _torch(said: dict[str, Any], requirement: str = "torch") -> list[Finding]:
    """What the import of torch came to: its version and device, or why not and what to do."""
    if said["ok"]:
        device = (
            f"CUDA {said['cuda']}, {said['device']}" if said["device"] else f"CPU, {said['threads']} threads"
        )
        findings = [Finding("torch", OK, f"{said['version']} at {Path(said['file']).parent}")]
        if said["device"] or not _nvidia_smi():
            return [*findings, Finding("device", OK, device)]
        if said["cuda"]:
            text = f"{device}: an NVIDIA GPU is here, but torch for CUDA {said['cuda']} cannot use it"
            return [
                *findings,
                Finding("device", WARN, text, "update the NVIDIA driver, then restart the machine"),
            ]
        text = f"{device}: an NVIDIA GPU is here, but this torch has no CUDA; the course runs on the CPU"
        how = "to use the GPU, install the CUDA build that https://pytorch.org/get-started names"
        return [*findings, Finding("device", NOTE, text, how)]
    error = said["error"]
    if said["missing"] == "torch":
        return [Finding("torch", FAIL, "torch is not installed", _remedy(requirement))]
    if re.search(r"WinError (126|1114)|c10\.dll|vcruntime|msvcp140", error, re.I):
        text = f"Windows lacks the Microsoft Visual C++ runtime that torch needs ({_short(error)})"
        return [Finding("torch", FAIL, text, f"install {VC_REDIST}, restart Windows, and try again")]
    if re.search(r"GLIBC|GLIBCXX|libstdc\+\+", error):
        text = f"this system's C library is too old for torch ({_short(error)})"
        return [Finding("torch", FAIL, text, "use a Linux with glibc 2.28 or newer, such as Ubuntu 20.04")]
    if said["missing"]:
        text = f"torch lacks a package that it needs, {said['missing']}"
        return [Finding("torch", FAIL, text, _remedy(requirement))]
    text = f"torch does not import ({_short(error)})"
    return [
        Finding("torch", FAIL, text, f"{_remedy(requirement)}; if that changes nothing, delete .venv first")
    ]


def _nvidia_smi() -> bool:
    tool = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path="/usr/lib/wsl/lib")
    if not tool:
        return False
    try:
        return b"GPU" in subprocess.run([tool, "-L"], capture_output=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False


def _torches(path: list[str] | None = None) -> list[Finding]:
    """Nothing where one torch or none is on the path; a warning where there are two, or two records of it."""
    folders, records = [], []
    for entry in dict.fromkeys(os.path.realpath(entry or os.curdir) for entry in path or sys.path):
        if (Path(entry) / "torch" / "__init__.py").is_file():
            folders.append(str(Path(entry) / "torch"))
        records += [str(found) for found in sorted(Path(entry).glob("torch-*.dist-info"))]
    if len(folders) > 1:
        text = (
            f"two torches are on the path: {folders[0]} is used, {', '.join(folders[1:])} is hidden behind it"
        )
        how = "unset PYTHONPATH, or uninstall one (`python -m pip uninstall torch`)"
        if site.getusersitepackages() in " ".join(folders):
            how += "; PYTHONNOUSERSITE=1 hides your user folder's"
        return [Finding("torch", WARN, text, how)]
    if len(records) > 1:
        names = ", ".join(Path(record).name.removesuffix(".dist-info") for record in records)
        text = f"one torch is installed over another ({names}): their files may be mixed"
        return [Finding("torch", WARN, text, "delete .venv, then " + SET_UP_AGAIN)]
    return []


def _shadows() -> list[Finding]:
    """Files in the folders that notebooks run in that would be imported in a package's place."""
    names = {MODULES.get(name, name) for name in map(_name, _requirements())} | {"lecture_lib"}
    folders = [Path.cwd(), *(folder for folder in (_work(), paths.NOTEBOOKS) if folder)]
    findings = []
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        for name in sorted(names):
            file = folder / f"{name}.py"
            if file.is_file():
                text = f"{file} would be imported instead of the package {name}"
                findings.append(Finding("packages", WARN, text, "give that file another name"))
    return findings


def _versions() -> list[Finding]:
    root = paths.project_root()
    lock = root / "requirements.lock" if root else None
    if lock is None or not lock.is_file():
        return []  # an installed wheel: its own requirements hold, the lock is the project's
    differ = _differences(lock.read_text(encoding="utf-8"))
    if not differ:
        return [Finding("versions", OK, "as in requirements.lock")]
    shown = ", ".join(differ[:5]) + (f" and {len(differ) - 5} more" if len(differ) > 5 else "")
    return [Finding("versions", WARN, f"not those that the course was tested with: {shown}", SET_UP_AGAIN)]


def _differences(lock: str, path: list[str] | None = None) -> list[str]:
    """Installed packages of another version than the lock's, as "numpy 2.0 (lock: 2.4.6)"."""
    allowed: dict[str, set[str]] = {}
    for line in lock.splitlines():
        pin, _, _ = line.partition(";")
        name, equals, version = pin.strip().partition("==")
        if equals:
            allowed.setdefault(_canonical(name), set()).add(version)
    differ, seen = [], set()
    for found in importlib.metadata.distributions(path=path or sys.path):
        name = _canonical(found.metadata["Name"] or "")
        if name not in allowed or name in seen:
            continue
        seen.add(name)  # the first on the path is the one imported
        if found.version.partition("+")[0] not in allowed[name]:
            differ.append(f"{name} {found.version} (lock: {' or '.join(sorted(allowed[name]))})")
    return sorted(differ)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# ---------------------------------------------------------------- the kernel


def _kernel() -> list[Finding]:
    """Whether the kernel that notebooks ask for, `python3`, is this environment's."""
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ImportError:
        return []  # said already, under packages
    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        return [Finding("kernel", FAIL, "there is no kernel python3", _remedy("ipykernel"))]
    except (OSError, ValueError) as error:
        return [
            Finding("kernel", FAIL, f"the kernel python3 is not readable ({_short(error)})", _kernel_remedy())
        ]
    return _kernel_command(list(spec.argv), spec.resource_dir)


def _kernel_remedy(folder: str = "") -> str:
    return f"run `{sys.executable} -m ipykernel install --sys-prefix --name python3`" + (
        f", or delete {folder}" if folder else ""
    )


def _kernel_command(argv: list[str], folder: str = "") -> list[Finding]:
    program = argv[0] if argv else ""
    # Jupyter starts these names with its own Python, wherever the first on the PATH is.
    own = {"python", f"python{sys.version_info[0]}", f"python{sys.version_info[0]}.{sys.version_info[1]}"}
    python = sys.executable if program in own else shutil.which(program)
    do = _kernel_remedy(folder)
    if python is None:
        return [
            Finding("kernel", FAIL, f"the kernel python3 names a Python that is not there, {program}", do)
        ]
    ask = "import sys, ipykernel; print(sys.prefix)"
    try:
        child = subprocess.run(
            [python, "-c", ask], capture_output=True, text=True, timeout=60, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [
            Finding("kernel", FAIL, f"the kernel's Python, {python}, does not start ({_short(error)})", do)
        ]
    if child.returncode != 0:
        why = child.stderr.strip().splitlines()[-1:] or ["no message"]
        return [
            Finding("kernel", FAIL, f"the kernel's Python, {python}, has no ipykernel ({_short(why[0])})", do)
        ]
    prefix = child.stdout.strip().splitlines()[-1]
    if os.path.realpath(prefix) != os.path.realpath(sys.prefix):
        text = f"the kernel python3 belongs to another environment, {prefix}; this one is {sys.prefix}"
        return [Finding("kernel", FAIL, text, do)]
    return [Finding("kernel", OK, f"python3, {python}")]


# ---------------------------------------------------------------- files and folders


def _work() -> Path | None:
    root = paths.project_root()
    return root / "work" if root else None


def _course_files() -> list[Finding]:
    findings = []
    get = "get the project's folder anew (in a clone, `git checkout HEAD -- notebooks data`)"
    if paths.project_root() is None:
        get = f"run `{INSTALL} --force-reinstall --no-deps`"
    notebooks = sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")) if paths.NOTEBOOKS else []
    if notebooks:
        findings.append(Finding("notebooks", OK, f"{len(notebooks)} in {paths.NOTEBOOKS}"))
    else:
        where = paths.NOTEBOOKS or (paths.project_root() or paths.PACKAGE) / "notebooks"
        findings.append(Finding("notebooks", FAIL, f"no notebooks in {where}", get))
    if not paths.DATA.is_dir():
        findings.append(Finding("data", FAIL, f"there is no folder {paths.DATA}", get))
    return findings


def _writable() -> list[Finding]:
    """The folder of the working copies: there, or able to be made."""
    work = _work() or Path.cwd()
    folder = work
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    problem = _write_problem(folder)
    if problem:
        how = f"give yourself the right to write in {folder}, or move the project to a folder of yours"
        return [Finding("folders", FAIL, f"{work} cannot be written ({problem})", how)]
    return [Finding("folders", OK, f"{work} can be written")]


def _write_problem(folder: Path) -> str:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _memory() -> list[Finding]:
    total = _total_memory()
    if total is None:
        return []
    text = f"{total / GB:.1f} GB"
    if total < 4 * GB:
        do = "close other programs while a notebook runs, and keep SCALE at quick"
        return [Finding("memory", WARN, f"{text}: the course was made for 4 GB or more", do)]
    return [Finding("memory", OK, text)]


def _total_memory() -> int | None:
    try:
        import psutil

        return int(psutil.virtual_memory().total)
    except ImportError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _disk() -> list[Finding]:
    folder = paths.project_root() or Path.cwd()
    free = shutil.disk_usage(folder).free
    text = f"{free / GB:.1f} GB free for {folder}"
    if free < GB:
        return [Finding("disk", WARN, f"{text}: runs and reports need about 1 GB", "free some")]
    return [Finding("disk", OK, text)]


# ---------------------------------------------------------------- what only some need


def sandbox_problem() -> str:
    """Why students' code cannot be shut in here, or an empty string: bubblewrap is tried, not looked up."""
    if not sys.platform.startswith("linux"):
        return f"bubblewrap is for Linux, and this is {platform.system()}"
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return "bubblewrap (bwrap) is not installed"
    command = [bwrap, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all", "true"]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=20, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start ({_short(error)})"
    if child.returncode != 0:
        return f"bubblewrap may not make namespaces here ({_short(child.stderr)})"
    return ""


def find_browser() -> str | None:
    """The path of a Chromium, Chrome or Edge, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
    places = [shutil.which(name) for name in names]
    places.append("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
    for variable in ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA"):
        if folder := os.environ.get(variable):
            places.append(os.path.join(folder, "Google", "Chrome", "Application", "chrome.exe"))
            places.append(os.path.join(folder, "Microsoft", "Edge", "Application", "msedge.exe"))
    return next((place for place in places if place and os.path.isfile(place)), None)


def _sandbox() -> list[Finding]:
    problem = sandbox_problem()
    if not problem:
        return [Finding("sandbox", OK, "bubblewrap works (graders need it)")]
    if not sys.platform.startswith("linux"):
        how = "grade on a Linux machine (on Windows, WSL is one)"
    elif "installed" in problem:
        how = "`sudo apt install bubblewrap`, or your system's package of that name"
    else:
        how = (
            "on Ubuntu `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` allows it; "
            "in a container, start that with the right to make namespaces"
        )
    return [Finding("sandbox", NOTE, f"for graders only: {problem}", how)]


def _browser() -> list[Finding]:
    found = find_browser()
    if found:
        return [Finding("browser", OK, f"{found} (the browser tests need it)")]
    text = "for maintainers only: no Chromium, so the browser tests are left out"
    return [Finding("browser", NOTE, text, "`sudo apt install chromium`, or install Chrome or Edge")]
