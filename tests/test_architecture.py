"""The house: imports point downwards only, and what predicts never loads what measures."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "lecture_lib"

# Floor by floor, from the ground up. A room may import from floors below its own, and from itself; on one
# floor, rooms do not know each other.
FLOORS: list[set[str]] = [
    {"__init__", "paths"},
    {"quantity"},
    {"accounting"},
    {"measuring", "networks"},
    {"exercises", "figures"},
    {"course", "grading"},
    {"cli"},
    {"__main__"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

# Rooms whose code may use torch at all; above them `exercises` exercises students' tensors.
ROOMS_THAT_PREDICT = ["lecture_lib", "lecture_lib.paths", "lecture_lib.quantity", "lecture_lib.accounting"]
TORCH_FREE = {"__init__", "paths", "quantity", "accounting"}


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a file imports, at its top or within a function."""
    package = [*path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def _wrong_arrows(path: Path) -> list[str]:
    here = _room(path)
    wrong = []
    for line, name in _imports(path):
        parts = name.split(".")
        if parts[0] != "lecture_lib":
            continue
        # `from lecture_lib import __version__` is of the ground floor.
        there = parts[1] if len(parts) > 1 and parts[1] in FLOOR else "__init__"
        if there != here and FLOOR[there] >= FLOOR[here]:
            wrong.append(f"{path.relative_to(ROOT)}:{line} ({here}) imports {name}")
    return wrong


def test_every_room_has_a_floor() -> None:
    rooms = {_room(path) for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts}
    assert rooms <= set(FLOOR), f"say on which floor {sorted(rooms - set(FLOOR))} are"


def test_imports_point_downwards_only() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if _room(path) not in ("data", "notebooks")]
    assert len(files) > 10
    assert not [arrow for path in files for arrow in _wrong_arrows(path)]


def test_an_arrow_upwards_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lecture_lib" / "accounting"
    package.mkdir(parents=True)
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path / "lecture_lib")
    upward = package / "a.py"
    for text, expected in (
        ("from lecture_lib.measuring import timing", 1),
        ("from ..measuring import timing", 1),
        ("from lecture_lib import cli, quantity", 1),
        ("import lecture_lib.course.doctor", 1),
        ("def f():\n    from lecture_lib.figures.style import course_style", 1),
        ("from lecture_lib.quantity import Quantity", 0),
        ("from . import flops\nfrom lecture_lib.accounting import dtypes", 0),
        ("from lecture_lib import __version__, paths", 0),
    ):
        upward.write_text(text)
        assert len(_wrong_arrows(upward)) == expected, text


def test_what_predicts_names_neither_torch_nor_a_units_library() -> None:
    for path in PACKAGE.rglob("*.py"):
        if _room(path) in TORCH_FREE:
            named = {name.partition(".")[0] for _, name in _imports(path)} & {"torch", "pint"}
            assert not named, f"{path.relative_to(ROOT)} imports {named}"


@pytest.mark.parametrize("module", ROOMS_THAT_PREDICT)
def test_importing_it_loads_neither_torch_nor_pint(module: str) -> None:
    asked = (
        "import importlib, pkgutil, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "package = importlib.import_module(sys.argv[2])\n"
        "inner = pkgutil.iter_modules(package.__path__) if sys.argv[2].endswith('accounting') else []\n"
        "for found in inner: importlib.import_module(sys.argv[2] + '.' + found.name)\n"
        "print(sorted({'torch', 'pint', 'matplotlib', 'IPython'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", asked, str(ROOT), module], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_accounting_works_without_torch_installed(tmp_path: Path) -> None:
    # Neither torch nor any other package can be found: no site-packages at all.
    asked = (
        "import importlib, pkgutil, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import lecture_lib.accounting as package\n"
        "for found in pkgutil.iter_modules(package.__path__):\n"
        "    importlib.import_module(package.__name__ + '.' + found.name)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", asked, str(ROOT)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_command_starts_without_torch() -> None:
    asked = (
        "import sys; sys.path.insert(0, sys.argv[1]); import lecture_lib.cli, lecture_lib.course.doctor\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", asked, str(ROOT)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"
