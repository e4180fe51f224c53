"""The `lecture` command: reads its arguments and hands over to `lecture_lib.course`.

Exit codes: 0 done; 1 the thing examined failed; 2 wrong usage; 3 could not finish (it says what is left).
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lecture_lib import __version__
from lecture_lib.quantity import LectureError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; never lets a traceback out for a broken environment."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        return int(options.command(options))
    except KeyboardInterrupt:
        print("\nStopped before it was done.", file=sys.stderr)
        return 3
    except LectureError as error:
        print(f"lecture: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        print(
            f"lecture: this Python lacks the package {package!r}, which this command needs. "
            "`python3 start.py doctor` says what is missing and `python3 start.py` installs it.",
            file=sys.stderr,
        )
        return 3
    except ImportError as error:
        print(
            f"lecture: a package is broken here ({error}); `python3 start.py doctor` says more.",
            file=sys.stderr,
        )
        return 3
    except OSError as error:
        print(f"lecture: {error.strerror or error}: {error.filename or ''}".rstrip(": "), file=sys.stderr)
        return 3


def _as_interrupt(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _positive(text: str) -> int:
    number = int(text) if text.strip().lstrip("+-").isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, 1 or more; got {text}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lecture", description="Three Budgets: what a training step spends, predicted and then measured."
    )
    parser.add_argument("--version", action="version", version=f"Three Budgets {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    parser.set_defaults(command=None)

    run = commands.add_parser("run", help="run notebooks from top to bottom and report")
    run.add_argument("names", nargs="*", metavar="NN|FILE", help="all notebooks if none is named")
    run.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    run.add_argument("--scale", choices=("quick", "full"), default="quick")
    run.add_argument("--edition", choices=("student", "instructor"), default="student")
    run.add_argument("--jobs", type=_positive, metavar="N", help="notebooks at once (default 1)")
    run.add_argument("--out", type=Path, metavar="DIR", help="for the report (default build/run)")
    run.set_defaults(command=_run)

    lab = commands.add_parser("lab", help="JupyterLab on your working copies")
    lab.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    lab.set_defaults(command=_lab)

    reset = commands.add_parser("reset", help="one exercise or notebook back to blank; yours is kept aside")
    reset.add_argument("name", metavar="ID|NN", help="an exercise, as 4.1, or a notebook, as 04")
    reset.set_defaults(command=_reset)

    submit = commands.add_parser("submit", help="a zip of your working copies to hand in, without outputs")
    submit.add_argument("names", nargs="*", metavar="NN", help="all notebooks if none is named")
    submit.set_defaults(command=_submit)

    doctor = commands.add_parser("doctor", help="what this machine has, what is missing, how to get it")
    doctor.set_defaults(command=_doctor)

    build = commands.add_parser("build", help="store the notebooks' outputs and the exercises' public cases")
    build.add_argument("names", nargs="*", metavar="NN", help="all notebooks if none is named")
    build.add_argument("--check", action="store_true", help="change nothing; exit 1 if something is stale")
    build.add_argument("--key", metavar="DIR", help="the answer key (default tests/answer_key)")
    build.set_defaults(command=_build)

    handout = commands.add_parser("handout", help="the tree that students get, without the key")
    handout.add_argument("target", type=Path, metavar="DIR", help="an empty or a new folder")
    handout.add_argument("--key", type=Path, metavar="DIR", help="a private key, for the public cases")
    handout.set_defaults(command=_handout)
    return parser


def _run(options: argparse.Namespace) -> int:
    from lecture_lib.course.headless import lecture_run

    return lecture_run(
        options.names, options.device, options.scale, options.edition, options.jobs, options.out
    )


def _build(options: argparse.Namespace) -> int:
    from lecture_lib.course.build import lecture_build
    from lecture_lib.course.headless import key_folder

    return lecture_build(options.names, options.check, key_folder(options.key))


def _lab(options: argparse.Namespace) -> int:
    from lecture_lib.course.copies import lecture_lab

    return lecture_lab(browser=not options.no_browser)


def _reset(options: argparse.Namespace) -> int:
    from lecture_lib.course.copies import lecture_reset

    return lecture_reset(options.name)


def _submit(options: argparse.Namespace) -> int:
    from lecture_lib.course.copies import lecture_submit

    return lecture_submit(options.names)


def _doctor(options: argparse.Namespace) -> int:
    from lecture_lib.course import doctor

    return doctor.main()


def _handout(options: argparse.Namespace) -> int:
    from lecture_lib.course.handout import lecture_handout

    return lecture_handout(options.target, options.key)
