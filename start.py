#!/usr/bin/env python3
"""Set the course up on this machine, then start it. Nothing but Python 3.11 to 3.14 is needed.

    python3 start.py             JupyterLab on your working copies of the notebooks
    python3 start.py run         every notebook from top to bottom, without a browser, with a report
    python3 start.py test        the project's own tests (what follows goes to pytest)
    python3 start.py doctor      what this machine has, what is missing, how to get it
    python3 start.py ...         anything else is the `lecture` command: try --help

On Windows write `py start.py`. The first call makes the folder `.venv` beside this file and installs
into it; later calls check that it is whole and download nothing. Nothing has to be activated.
"""

# Only the standard library, and only syntax of any Python 3: an old one must get as far as the sentence
# that says it is too old. Hence annotations in quotes, and no `import lecture_lib`.

import contextlib
import csv
import errno
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Iterator

OLDEST, NEWEST = (3, 11), (3, 14)
ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
PROJECT = ROOT / "pyproject.toml"
STAMP = VENV / "three_budgets.json"  # written last: an environment without it is half made
LOG = VENV / "install.log"
EXTRAS = "lab,test"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CPU_INDEX_SECONDS = 8
GIB = 1024**3

WRONG_USAGE, NOT_FINISHED = 2, 3


class SetupError(Exception):
    """The set-up cannot go on; the text says why and what to do."""


def say(text: str = "") -> None:
    print(text, flush=True)


# ---------------------------------------------------------------- what is there


def wrong_python(version: "tuple[int, ...]") -> str:
    """Why this Python cannot be used and what to do, or an empty string."""
    if OLDEST <= version[:2] <= NEWEST:
        return ""
    fitting = ["python3.%d" % minor for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    here = [
        name
        for name in fitting
        if shutil.which(name) and not subprocess.call([name, "-c", ""], stderr=subprocess.DEVNULL)
    ]
    how = "Install one from https://www.python.org/downloads/ and run start.py with it."
    if here:
        how = "There is a %s on this machine: run `%s start.py`." % (here[0], here[0])
    span = "3.%d to 3.%d" % (OLDEST[1], NEWEST[1])
    return "The course needs Python %s, and this is Python %d.%d. %s" % (span, version[0], version[1], how)


def venv_python() -> Path:
    return VENV / "Scripts" / "python.exe" if os.name == "nt" else VENV / "bin" / "python"


def site_packages(minor: int) -> Path:
    if os.name == "nt":
        return VENV / "Lib" / "site-packages"
    return VENV / "lib" / ("python3.%d" % minor) / "site-packages"


def clean_environment() -> "dict[str, str]":
    """This process's variables, less those that turn Python or pip away from `.venv`; its programs first."""
    foreign = ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_HASHES")
    env = {name: value for name, value in os.environ.items() if name.upper() not in foreign}
    env["PIP_USER"] = "0"
    env["VIRTUAL_ENV"] = str(VENV)
    env["PATH"] = str(venv_python().parent) + os.pathsep + env.get("PATH", "")
    return env


def python_minor() -> "int | None":
    """The minor version of `.venv`'s Python, or None where it does not start or is no environment's."""
    ask = "import sys; print(sys.version_info[0], sys.version_info[1], sys.prefix != sys.base_prefix)"
    try:
        answer = subprocess.run(
            [str(venv_python()), "-I", "-c", ask],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        major, minor, own = answer.stdout.decode().split()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return int(minor) if (major, own) == ("3", "True") else None


def fingerprint(minor: int) -> str:
    """What an installation follows from: when this changes, it is out of date."""
    digest = hashlib.sha256()
    # git may write CRLF on Windows; read as text, that is the same. What follows the first [tool....] of
    # pyproject.toml configures linters and the like, and installs nothing.
    digest.update(LOCK.read_text(encoding="utf-8").encode() + b"\0")
    digest.update(PROJECT.read_text(encoding="utf-8").partition("\n[tool.")[0].encode() + b"\0")
    digest.update(("%s 3.%d" % (EXTRAS, minor)).encode())
    return digest.hexdigest()


def recorded_files(dist_info: Path) -> "dict[str, int] | None":
    """Path (from site-packages) and size of what a distribution must have; None where its record is broken.

    Of its thousands of files only those are taken that show at once that something is gone: the upper two
    levels, and the large ones (torch's libraries lie deeper).
    """
    files = {}
    try:
        with open(str(dist_info / "RECORD"), newline="", encoding="utf-8") as record:
            for row in csv.reader(record):
                name, size = row[0], row[2]
                if not size or os.path.isabs(name) or name.startswith("..") or "__pycache__" in name:
                    continue
                if name.count("/") <= 1 or int(size) > 1_000_000:
                    files[name] = int(size)
    except (OSError, ValueError, IndexError):
        return None
    return files


def first_damage(site: Path, files: "dict[str, int]") -> "str | None":
    for name, size in files.items():
        try:
            if os.stat(os.path.join(str(site), name)).st_size != size:
                return name
        except OSError:
            return name
    return None


def complaint() -> "tuple[str, bool] | None":
    """None where the environment is whole; otherwise what is the matter, and whether it must be made anew."""
    if not VENV.exists():
        return "", True
    minor = python_minor()
    if minor is None:
        return "its Python is gone or does not start", True
    if wrong_python((3, minor)):
        return "it was made with Python 3.%d" % minor, True
    site = site_packages(minor)
    if not site.is_dir():
        return "its packages belong to another version of Python", True
    if not (site / "pip" / "__init__.py").is_file():
        return "it has no pip", True
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
        root, key, files = stamp["root"], stamp["fingerprint"], stamp["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return "its installation did not end", False
    if root != str(ROOT):
        return "the folder was moved here from %s" % root, True
    if key != fingerprint(minor):
        return "the course asks for other packages than it did", False
    damage = first_damage(site, files)
    if damage is not None:
        return "%s is missing or damaged" % damage, False
    return None


# ---------------------------------------------------------------- making it


def has_nvidia_gpu() -> bool:
    """Whether the driver lists a GPU (asked of the driver: torch is not installed yet)."""
    tool = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path="/usr/lib/wsl/lib")
    if not tool:
        return False
    try:
        listed = subprocess.run([tool, "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and b"GPU" in listed.stdout


def why_unreachable(url: str, seconds: float) -> str:
    """Why nothing answers at `url`, or an empty string; never takes longer than `seconds`."""
    found = ["no answer within %d s" % seconds]

    def ask() -> None:
        try:
            urllib.request.urlopen(url, timeout=seconds).close()
            found[0] = ""
        except (OSError, ValueError) as error:
            found[0] = str(getattr(error, "reason", error))

    # urlopen's time-out bounds neither the name's look-up nor a list of addresses: so ask beside, and leave.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    return found[0]


def run_pip(label: str, arguments: "list[str]") -> "list[str] | None":
    """Run `pip install` with a calm line of progress; None if it succeeded, else the lines that it wrote."""
    command = [str(venv_python()), "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off", "--no-warn-script-location"] + arguments
    lines = []  # type: list[str]
    pip = subprocess.Popen(
        command,
        cwd=str(ROOT),
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    def read() -> None:
        assert pip.stdout is not None
        with open(str(LOG), "a", encoding="utf-8") as log:
            for raw in pip.stdout:
                line = raw.decode("utf-8", "replace").rstrip()
                log.write(line + "\n")
                log.flush()
                if line:
                    lines.append(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    live = sys.stdout.isatty()
    started = told = time.monotonic()
    if not live:
        say("  %s ..." % label)
    try:
        while pip.poll() is None:
            time.sleep(0.2)
            now = time.monotonic()
            seconds = "%d:%02d" % divmod(int(now - started), 60)
            latest = lines[-1].strip() if lines else ""
            if live:
                text = "  %s  %s  %s" % (label, seconds, latest)
                width = shutil.get_terminal_size().columns - 1
                print("\r" + text[:width].ljust(width), end="", flush=True)
            elif now - told >= 30:
                told = now
                say("    %s  %s" % (seconds, latest[:90]))
    finally:
        # After Ctrl-C pip has had it too, and tidies up: let it, for a while.
        try:
            pip.wait(timeout=15)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            pip.kill()
        reader.join(5)
        if live:
            print("\r" + " " * (shutil.get_terminal_size().columns - 1), end="\r", flush=True)
    if pip.returncode == 0:
        say("  %s: done in %d s" % (label, time.monotonic() - started))
        return None
    return lines


def explain(lines: "list[str]") -> str:
    """What a failed pip run means for the person in front of it, and what to do."""
    text = "\n".join(lines)
    if re.search(r"No space left|not enough space|Errno 28|disk quota", text, re.I):
        what = "The disk is full: free a few GB and start again; it goes on where it stopped."
    elif re.search(
        r"Failed to establish a new connection|NameResolutionError|Temporary failure in name resolution"
        r"|getaddrinfo|ConnectTimeout|Read timed out|Network is unreachable|ProxyError"
        r"|Connection (broken|aborted|reset)",
        text,
        re.I,
    ):
        what = "The package index cannot be reached: check the network (or the proxy) and start again."
    elif re.search(r"CERTIFICATE_VERIFY_FAILED|SSLError", text):
        what = "The package index shows a certificate that pip does not trust: ask whoever runs your network."
    elif re.search(
        r"(No matching distribution found|Could not find a version).*\btorch\b|\(constraint\) torch==", text
    ):
        what = (
            "PyTorch has no build for this machine. It needs 64-bit Python on Linux (x86-64 or ARM, glibc "
            "2.28 or newer), Windows (x86-64), or macOS 14 or newer on Apple silicon."
        )
    elif re.search(r"PermissionError|Permission denied|Access is denied|WinError (5|32)\b", text):
        what = "A file is in use or may not be written: close the course's other windows, and start again."
    else:
        what = "Start again; if it stops here once more, send that file to whoever runs the course."
    tail = "\n".join("    " + line for line in lines[-8:])
    return "Installing the packages failed. pip's last lines:\n%s\nAll of them: %s\n%s" % (tail, LOG, what)


def make_venv() -> None:
    if sys.maxsize < 2**32:
        raise SetupError("This is a 32-bit Python; PyTorch needs a 64-bit one. Install that and start again.")
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise SetupError(
                "This Python cannot make environments: its module `%s` is missing. On Debian and Ubuntu "
                "`sudo apt install python3-venv` brings it; then start again." % module
            )
    import venv

    try:
        if VENV.is_symlink() or VENV.is_file():
            VENV.unlink()
        venv.EnvBuilder(with_pip=True, clear=True, symlinks=os.name != "nt").create(str(VENV))
    except subprocess.CalledProcessError as error:
        said = (error.output or b"").decode("utf-8", "replace").strip()[-600:]
        raise SetupError("Making %s failed:\n%s\nTry another Python 3.11 to 3.14." % (VENV, said)) from error
    except OSError as error:
        raise SetupError(
            "Making %s failed: %s. The course's folder must be writable, and none of its windows open; "
            "or delete that folder by hand, and start again." % (VENV, error)
        ) from error


def forget_damaged(site: Path) -> None:
    """Make pip see as not installed what an interruption or a deletion left half there."""
    for leftover in site.glob("~*"):  # what pip had put aside when it was interrupted
        shutil.rmtree(str(leftover), ignore_errors=True)
    for dist_info in site.glob("*.dist-info"):
        files = recorded_files(dist_info)
        if files is None or first_damage(site, files) is not None:
            shutil.rmtree(str(dist_info), ignore_errors=True)


def pinned_torch() -> str:
    found = re.search(r"^torch==\S+", LOCK.read_text(encoding="utf-8"), re.M)
    if found is None:
        raise SetupError("%s names no version of torch: get the file anew from the project." % LOCK.name)
    return found.group()


def install(minor: int) -> None:
    """Install what the lock names, and write the stamp."""
    site = site_packages(minor)
    if STAMP.exists():
        STAMP.unlink()
    LOG.write_text("", encoding="utf-8")
    forget_damaged(site)
    torch = pinned_torch()
    torch_is_here = any(site.glob(torch.replace("==", "-") + "*.dist-info"))
    # Only Linux's wheels on the plain index carry CUDA; on macOS and Windows those are CPU builds already.
    if not torch_is_here and sys.platform.startswith("linux"):
        if has_nvidia_gpu():
            say("  An NVIDIA GPU is here: PyTorch comes with CUDA (about 3 GB).")
        else:
            why = why_unreachable(CPU_INDEX + "/torch/", CPU_INDEX_SECONDS)
            if not why and run_pip("PyTorch, CPU build", [torch, "--no-deps", "--index-url", CPU_INDEX]):
                why = "pip found nothing in it"
            if why:
                say(
                    "  PyTorch's CPU index cannot be used (%s): taking the plain index's build, "
                    "which may bring CUDA (about 3 GB)." % why
                )
    failed = run_pip("packages", ["-c", LOCK.name, "-e", ".[%s]" % EXTRAS])
    if failed is not None:
        raise SetupError(explain(failed))
    files = {}  # type: dict[str, int]
    for dist_info in site.glob("*.dist-info"):
        files.update(recorded_files(dist_info) or {})
    stamp = {"fingerprint": fingerprint(minor), "root": str(ROOT), "files": files}
    partial = STAMP.with_suffix(".partial")
    partial.write_text(json.dumps(stamp), encoding="utf-8")
    os.replace(str(partial), str(STAMP))


@contextlib.contextmanager
def alone() -> "Iterator[None]":
    """Wait until no other start.py works on this environment; the system frees it when a process ends."""
    with open(str(ROOT / ".venv.lock"), "w") as handle:
        told = False
        while not _locked(handle.fileno()):
            if not told:
                say("Another start.py is setting the course up: waiting for it.")
            told = True
            time.sleep(0.5)
        yield


def _locked(file: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # A file system that knows no locks must not be waited for.
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True


def prepare() -> None:
    """Leave with a whole environment, or raise SetupError."""
    for path in (LOCK, PROJECT):
        if not path.is_file():
            raise SetupError("%s is missing beside start.py: get the whole project anew." % path.name)
    if complaint() is None:
        return
    try:
        with alone():
            mend()
    except OSError as error:
        raise SetupError("Setting up stopped: %s. The folder %s must be writable." % (error, ROOT)) from error


def mend() -> None:
    """Make or mend the environment, whatever is the matter with it."""
    found = complaint()
    if found is None:
        return
    why, anew = found
    refused = wrong_python(sys.version_info[:2])
    if refused and anew:
        raise SetupError(refused)
    free = shutil.disk_usage(str(ROOT)).free
    if anew and free < 3 * GIB:
        raise SetupError("The course needs 3 GB of disk for %s; %.1f GB are free." % (ROOT, free / 1e9))
    if why:
        say("The environment in %s is not whole: %s. Mending it." % (VENV, why))
    else:
        say("First start: setting up %s. It takes a few minutes, once." % VENV)
    if anew:
        make_venv()
    minor = python_minor()
    if minor is None:
        raise SetupError("The Python in %s does not start. Delete that folder and start again." % VENV)
    install(minor)
    still = complaint()
    if still is not None:
        raise SetupError("Something is still wrong: %s. Delete %s and start again." % (still[0], VENV))
    say("  Ready.")


# ---------------------------------------------------------------- handing over


def command_for(arguments: "list[str]") -> "list[str]":
    python = str(venv_python())
    if arguments[:1] == ["test"]:
        # Given parameters, the run is somebody's own: they say how many processes, if any. A file stays in
        # one process, since its tests share what is slow.
        wanted = arguments[1:] or ["-n", "logical", "--maxprocesses", "4", "--dist", "loadfile"]
        return [python, "-m", "pytest", "--rootdir", str(ROOT)] + wanted
    # -P: a file named like a module in the reader's folder must not stand in for it.
    return [python, "-P", "-m", "lecture_lib"] + (arguments or ["lab"])


def pytest_outcome(code: int) -> int:
    """pytest's exit code in the course's terms: 1 failed, 2 wrong usage, 3 could not finish."""
    return {0: 0, 1: 1, 4: WRONG_USAGE, 5: WRONG_USAGE}.get(code, NOT_FINISHED)


def hand_over(arguments: "list[str]") -> int:
    command = command_for(arguments)
    testing = arguments[:1] == ["test"]
    if testing:
        os.chdir(str(ROOT))
    if os.name == "posix" and not testing:
        os.execve(command[0], command, clean_environment())
    # Ctrl-C reaches the child as well: it tidies up and says how it ended. (A handler, unlike SIG_IGN, is not
    # inherited, so the child does not become deaf.)
    signal.signal(signal.SIGINT, lambda *_: None)
    child = subprocess.Popen(command, env=clean_environment())
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    code = child.wait()
    return pytest_outcome(code) if testing else code


def main(arguments: "list[str]") -> int:
    for stream in (sys.stdout, sys.stderr):
        # A path that the console cannot show must not stop anything.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if arguments[:1] in (["-h"], ["--help"]) and not VENV.exists():
        say(str(__doc__).strip())
        return 0
    try:
        prepare()
    except SetupError as error:
        print("\n%s" % error, file=sys.stderr)
        return NOT_FINISHED
    except KeyboardInterrupt:
        print("\nStopped. Nothing is lost: the next start goes on from here.", file=sys.stderr)
        return NOT_FINISHED
    return hand_over(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
