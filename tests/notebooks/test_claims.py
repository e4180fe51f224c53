"""The lecture's claims: each is taught, shown, exercised and, where said, measured. The exercises, in all.

`data/claims.toml` names the cells, and these tests hold it to the notebooks and to the key.
"""

from __future__ import annotations

import ast
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
import pytest

from lecture_lib import paths
from lecture_lib.course import build
from lecture_lib.course import notebook_files as files
from lecture_lib.course.claims import load, page
from lecture_lib.exercises.key import load_key
from lecture_lib.quantity import LectureError

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = {path.name[:2]: path.stem for path in files.numbered(ROOT / "notebooks")}
CELLS = {
    cell.id: cell
    for path in files.numbered(ROOT / "notebooks")
    for cell in nbformat.read(path, as_version=4).cells
}
CLAIMS, CALCULATORS = load(ROOT / "data" / "claims.toml")
KEY = load_key(ROOT / "tests" / "answer_key")

# The lecture's claims by notebook, how many there are, which are measured, and which go beyond it.
COUNTS = {1: 8, 2: 8, 3: 7, 4: 8, 5: 10, 6: 5, 7: 6, 8: 9, 9: 3}
MEASURED = {1: [3, 4, 5, 6, 7], 2: [3, 5], 3: [6], 4: [4, 5, 8], 5: [1, 6, 9, 10], 6: [3, 5], 7: [2, 3, 5]}
MEASURED |= {8: [1, 2, 4, 6, 7], 9: [1, 3]}
BEYOND = {1: [4], 2: [4], 3: [2, 7], 6: [2], 7: [5]}
ELSEWHERE = {"7.4": {"8.9"}}  # a peak is computed where there is something to do about it

each_claim = pytest.mark.parametrize("number", CLAIMS)


def test_every_claim_of_the_lecture_is_listed() -> None:
    assert list(CLAIMS) == [f"{n}.{i}" for n, count in COUNTS.items() for i in range(1, count + 1)]
    measured = [number for number, claim in CLAIMS.items() if claim.measured]
    assert measured == [f"{n}.{i}" for n, which in MEASURED.items() for i in which]
    beyond = [number for number, claim in CLAIMS.items() if claim.beyond]
    assert beyond == [f"{n}.{i}" for n, which in BEYOND.items() for i in which]


@each_claim
def test_a_claim_is_taught_and_shown_in_its_notebook(number: str) -> None:
    claim, notebook = CLAIMS[number], f"{int(number.partition('.')[0]):02}"
    assert claim.teach and claim.asserts, "a claim that is not taught, or not shown"
    assert claim.measure or not claim.measured, "a claim that is not measured"
    for cell in [*claim.teach, *claim.asserts, *claim.measure]:
        assert cell in CELLS and cell.startswith(f"{notebook}-"), cell
        assert files.role(CELLS[cell]) is None, f"{cell} is of an exercise"
    assert {CELLS[cell].cell_type for cell in claim.teach} == {"markdown"}
    assert {CELLS[cell].cell_type for cell in [*claim.asserts, *claim.measure]} == {"code"}


@each_claim
def test_a_claim_is_exercised_in_its_notebook(number: str) -> None:
    claim, notebook = CLAIMS[number], NOTEBOOKS[f"{int(number.partition('.')[0]):02}"]
    assert bool(claim.exercises) != bool(claim.exercise_none)
    for exercise in claim.exercises:
        assert KEY[exercise].notebook == notebook or exercise in ELSEWHERE.get(number, ())
    assert not claim.exercises or {KEY[exercise].level for exercise in claim.exercises} != {"recall"}


# -- what is asserted, and that no time decides it

CLOCKS = {"measure", "perf_counter", "ceilings", "busy_share", "time_by_operation", "beside_bounds"}


def _inner(node: ast.AST) -> set[str]:
    """The names that live only within an expression: of comprehensions, and of functions' arguments."""
    parts = list(ast.walk(node))
    loops = [part.target for part in parts if isinstance(part, ast.comprehension)]
    names = {name.id for loop in loops for name in ast.walk(loop) if isinstance(name, ast.Name)}
    return names | {part.arg for part in parts if isinstance(part, ast.arg)}


def _made(node: ast.AST) -> set[str]:
    """The names that a statement gives a value to, or an entry."""
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    stored = [part for part in ast.walk(node) if isinstance(getattr(part, "ctx", None), ast.Store)]
    entered = [part.value for part in stored if isinstance(part, ast.Subscript)]
    return {part.id for part in [*stored, *entered] if isinstance(part, ast.Name)} - _inner(node)


def _read(node: ast.AST) -> set[str]:
    """The names that a statement reads from outside of it, and of the attributes the clocks."""
    names = {p.id for p in ast.walk(node) if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Load)}
    if isinstance(node, ast.FunctionDef):
        names -= {name for statement in _simple(node.body) for name in _made(statement)}
    return names - _inner(node) | {p.attr for p in ast.walk(node) if isinstance(p, ast.Attribute)} & CLOCKS


def _simple(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body one after another, those within loops and blocks too."""
    for statement in body:
        if isinstance(statement, ast.For):
            yield ast.Assign([statement.target], statement.iter)
        elif isinstance(statement, ast.With):
            yield from (
                ast.Assign([item.optional_vars], item.context_expr)
                for item in statement.items
                if item.optional_vars is not None
            )
        whole = isinstance(statement, ast.FunctionDef | ast.ClassDef) or not hasattr(statement, "body")
        if whole:
            yield statement
        else:
            handled = [inner for handler in getattr(statement, "handlers", []) for inner in handler.body]
            yield from _simple([*statement.body, *handled, *getattr(statement, "orelse", [])])


def _asserted(cells: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, set[str]]]:
    """(cell's id, an assertion in it, the names there that come from a clock), of (id, source) in order.

    An assertion is an assert or a call of `torch.testing.assert_close`.
    """
    timed = set(CLOCKS)
    for cell, source in cells:
        for statement in _simple(ast.parse(source).body):
            made = _made(statement)
            timed = timed | made if _read(statement) & timed else timed - made
            for node in ast.walk(statement):
                close = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "assert_close"
                if isinstance(node, ast.Assert) or close:
                    yield cell, ast.unparse(node), _read(node) & timed


def test_a_time_is_followed_through_names() -> None:
    cells = [
        ("a", "t = measure(f).median\nassert F == 3"),
        ("b", "def rate(F):\n    x = F / t\n    return x\nassert rate(2) > 1"),
        ("c", "d = {}\nd[1] = rate(3)\nassert d"),
        ("d", "t = 2\nx = t\ntorch.testing.assert_close(x, t)"),
        ("e", "[measure(x) for x in range(3)]\nfor n in range(3):\n    e = n\n    y = time.perf_counter()"),
        ("f", "assert x and e"),
        ("g", "assert y"),
    ]
    found = [(cell, names) for cell, _, names in _asserted(cells)]
    assert found == [("a", set()), ("b", {"rate"}), ("c", {"d"}), ("d", set()), ("f", set()), ("g", {"y"})]


@each_claim
def test_what_shows_a_claim_asserts_it_and_no_time(number: str) -> None:
    notebook = f"{int(number.partition('.')[0]):02}-"
    code = [cell for cell in CELLS.values() if cell.cell_type == "code" and not cell.id.endswith("-setup")]
    asserted = list(_asserted((cell.id, cell.source) for cell in code if cell.id.startswith(notebook)))
    for shown in CLAIMS[number].asserts:
        assert [text for cell, text, _ in asserted if cell == shown], f"{shown} asserts nothing"
        assert [(text, names) for cell, text, names in asserted if cell == shown and names] == []


# -- the exercises of the course, in all


def test_there_are_enough_exercises_of_every_kind() -> None:
    assert len(KEY) >= 60
    assert sum(exercise.kind == "driver" for exercise in KEY.values()) >= 10
    assert len(set(CALCULATORS)) == len(CALCULATORS) >= 10
    for exercise in CALCULATORS:
        assert "wrong in this calculator" in KEY[exercise].title
    assert sum("wrong in this calculator" in exercise.title for exercise in KEY.values()) == len(CALCULATORS)


@pytest.mark.parametrize("notebook", NOTEBOOKS.values())
def test_a_notebook_has_exercises_of_every_level(notebook: str) -> None:
    levels = Counter(exercise.level for exercise in KEY.values() if exercise.notebook == notebook)
    assert levels.total() >= (4 if notebook.startswith("00") else 5)
    assert levels["core"] in (2, 3)
    assert levels["recall"] >= 1 or notebook[:2] in ("00", "01")


def test_the_core_takes_three_and_a_half_hours_at_most() -> None:
    assert sum(exercise.minutes for exercise in KEY.values() if exercise.level == "core") <= 210


# -- the page that is made of it


def test_the_page_is_as_it_is_made() -> None:
    assert build.claims(KEY, check=True) == []


def test_a_stale_page_is_said_and_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "project_root", lambda: tmp_path)
    assert build.claims(KEY, check=True) == []  # no list of claims, no page
    for name in ("data", "docs"):
        (tmp_path / name).mkdir()
    shutil.copy(ROOT / "data" / "claims.toml", tmp_path / "data")
    assert "`lecture build` makes it" in build.claims(KEY, check=True)[0]
    assert build.claims(KEY, check=False) == [] == build.claims(KEY, check=True)
    assert (tmp_path / build.CLAIMS).read_bytes() == (ROOT / build.CLAIMS).read_bytes()


def test_a_cell_that_is_nowhere_is_named() -> None:
    headings = {cell: ("Somewhere", "01_tensors") for cell in CELLS if cell != "01-bytes-claim"}
    with pytest.raises(LectureError, match=r"claim 1\.1 .* 01-bytes-claim is in none"):
        page(CLAIMS, headings)
