"""The course's own notebooks: up to date, passing with the answers in, written as the course writes them.

Two stages are slow and run once each: `lecture build --check` (in it nbval runs all notebooks), and
`lecture run --edition instructor`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from lecture_lib import __version__
from lecture_lib.course import notebook_files as files
from lecture_lib.exercises.key import load_key

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = files.numbered(ROOT / "notebooks")
SLIDES = {"slide", "subslide", "fragment", "skip", "notes"}
TAGS = {"parameters", "nbval-ignore-output"}
SLOW = 1800  # seconds that all notebooks together may take on a small machine

pytestmark = pytest.mark.timeout(SLOW)
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def lecture(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "lecture_lib", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SLOW - 60,
    )


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS][:2] == ["00_start_here", "01_tensors"]
    assert [path for path in (ROOT / "notebooks").glob("*.ipynb") if path not in NOTEBOOKS] == []


# -- the two slow stages


def test_everything_made_is_up_to_date() -> None:
    done = lecture("build", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def instructors_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, dict], Path, str]:
    """`lecture run --edition instructor`: summary by notebook, the folder, what was printed."""
    out = tmp_path_factory.mktemp("run")
    done = lecture("run", "--edition", "instructor", "--jobs", "2", "--out", str(out))
    summary = json.loads((out / "summary.json").read_text())
    return {entry["notebook"]: entry for entry in summary["notebooks"]}, out, done.stdout + done.stderr


NUMBERS = dict(
    zip(
        ["twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"],
        range(12, 20),
        strict=True,
    )
)


@each_notebook
def test_the_title_says_how_long_the_exercises_take(path: Path) -> None:
    title = files.read(path).node.cells[0].source
    exercises = [e for e in load_key(ROOT / "tests" / "answer_key").values() if e.notebook == path.stem]
    core = [e for e in exercises if e.level == "core"]
    if path.stem == "00_start_here":
        assert "Ten minutes" in title and sum(e.minutes for e in core) <= 10
        return
    said = re.search(r"the three core exercises take (\d+) more, all (\w+) (\d+)\.", title)
    assert said is not None and len(core) == 3
    assert int(said[1]) == sum(e.minutes for e in core)
    assert (NUMBERS[said[2]], int(said[3])) == (len(exercises), sum(e.minutes for e in exercises))


@each_notebook
def test_every_exercise_passes_with_the_answers_in(
    path: Path, instructors_run: tuple[dict[str, dict], Path, str]
) -> None:
    entry = instructors_run[0][path.stem]
    assert entry["status"] == "passed", instructors_run[2]
    wanted = files.exercise_ids(read(path))
    assert wanted and entry["exercises"] == dict.fromkeys(wanted, "passed")


@each_notebook
def test_answers_stay_in_memory(path: Path, instructors_run: tuple[dict[str, dict], Path, str]) -> None:
    executed = {cell.id: cell for cell in read(instructors_run[1] / path.name).cells}
    answers = [cell for cell in read(path).cells if (files.role(cell) or ("", ""))[1] == "answer"]
    assert answers
    for cell in answers:
        assert executed[cell.id].source != cell.source


# -- how they are written


@each_notebook
def test_metadata_is_normal(path: Path) -> None:
    node = read(path)
    assert node.metadata == {
        "kernelspec": files.KERNELSPEC,
        "language_info": {"name": "python"},
        "three_budgets": {"version": __version__},
    }
    assert (node.nbformat, node.nbformat_minor) == (4, 5)
    for cell in node.cells:
        folded = {"jupyter"} if cell.id.endswith("-setup") else set()
        assert set(cell.metadata) <= {"slideshow", "tags", "three_budgets"} | folded, cell.id
        assert cell.metadata.get("slideshow", {}).get("slide_type") in SLIDES, cell.id
        assert set(files.tags(cell)) <= TAGS, cell.id
        assert "attachments" not in cell, cell.id
    assert node.cells[0].metadata.slideshow.slide_type == "slide"


@each_notebook
def test_ids_can_be_read(path: Path) -> None:
    ids = [cell.id for cell in read(path).cells]
    assert len(set(ids)) == len(ids)
    for cell_id in ids:
        assert re.fullmatch(rf"{path.name[:2]}-[a-z0-9]+(-[a-z0-9]+)*", cell_id)


@each_notebook
def test_opens_and_closes_as_every_notebook_does(path: Path) -> None:
    node, number = read(path), path.name[:2]
    assert node.cells[0].cell_type == "markdown"
    assert node.cells[0].source.startswith("# ")
    first, second = files.code_cells(node)[:2]
    assert (first.id, second.id) == (f"{number}-setup", f"{number}-parameters")
    assert files.tags(second) == ["parameters"]
    names: dict[str, object] = {}
    exec(second.source, names)
    assert {name: names[name] for name in ("DEVICE", "SCALE", "SEED")} == {
        "DEVICE": "auto",
        "SCALE": "quick",
        "SEED": 0,
    }
    assert sum("parameters" in files.tags(cell) for cell in node.cells) == 1


@each_notebook
def test_headings_are_in_order(path: Path) -> None:
    node = read(path)
    levels = []
    for cell in node.cells:
        if cell.cell_type == "markdown":
            outside_code = re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL)
            levels += [len(marks) for marks in re.findall(r"^(#+) ", outside_code, re.MULTILINE)]
    assert levels.count(1) == 1 and levels[0] == 1
    for before, after in zip(levels, levels[1:], strict=False):
        assert after <= before + 1, levels


@each_notebook
def test_cells_are_small(path: Path) -> None:
    node = read(path)
    long_texts = {}
    for cell in node.cells:
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if cell.cell_type == "code" and not cell.id.endswith("-setup"):
            assert len(lines) <= 16, (cell.id, len(lines))
        elif cell.cell_type == "markdown":
            words = len(re.sub(r"\$\$.*?\$\$", "", cell.source, flags=re.DOTALL).split())
            assert words <= 150, (cell.id, words)
            if words > 90:
                long_texts[cell.id] = words
    texts = sum(cell.cell_type == "markdown" for cell in node.cells)
    assert len(long_texts) <= 0.2 * texts, long_texts


class _Html(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def _html(node: NotebookNode) -> list[tuple[str, tuple[str, dict[str, str | None]]]]:
    """(cell id, (tag, attributes)) of all HTML in texts and stored outputs."""
    found = []
    for cell in node.cells:
        pieces = [cell.source] if cell.cell_type == "markdown" else []
        pieces += [
            out.data["text/html"] for out in cell.get("outputs", []) if "text/html" in out.get("data", {})
        ]
        for piece in pieces:
            page = _Html()
            page.feed("".join(piece))
            found += [(cell.id, tag) for tag in page.found]
    return found


@each_notebook
def test_pictures_have_alternative_text(path: Path) -> None:
    node = read(path)
    for cell in node.cells:
        if cell.cell_type == "markdown":
            assert re.findall(r"!\[\s*\]\(", cell.source) == [], cell.id
        for out in cell.get("outputs", []):
            bare = {"image/png", "image/jpeg", "image/svg+xml"} & set(out.get("data", {}))
            assert not bare, f"{cell.id}: shown bare; `lecture_lib.figures.show` gives it alternative text"
    for cell_id, (tag, attributes) in _html(node):
        if tag == "img":
            assert len((attributes.get("alt") or "").split()) >= 4, cell_id


@each_notebook
def test_nothing_comes_from_the_network(path: Path) -> None:
    node = read(path)
    for cell_id, (tag, attributes) in _html(node):
        assert tag not in ("script", "iframe", "link"), cell_id
        for name in ("src", "srcset", "poster", "data"):
            assert not (attributes.get(name) or "").startswith(("http", "//")), cell_id
    for cell in node.cells:
        if cell.cell_type == "markdown":
            assert re.findall(r"!\[[^\]]*\]\(\s*(?:https?:)?//", cell.source) == [], cell.id
        elif not cell.id.endswith("-setup"):
            assert not re.search(r"^\s*[!%]|https?://|urlopen|requests\.", cell.source, re.MULTILINE), cell.id


EMOJI = re.compile("[\U0001f000-\U0001faff\u2600-\u26ff\ufe0f\u2b50\u2705\u274c\u2728]")


@each_notebook
def test_voice(path: Path) -> None:
    for cell in read(path).cells:
        assert not EMOJI.search(cell.source), cell.id
        if cell.cell_type == "markdown":
            prose = re.sub(r"`[^`]*`|\$[^$]*\$", "", cell.source)
            assert not re.search(r"[A-Za-z]!(?:\s|$)", prose), cell.id
            assert not re.search(r"[Ll]et.s dive|[Ii]t.s important to note|\bpowerful\b", prose), cell.id


@each_notebook
def test_no_claim_depends_on_a_time(path: Path) -> None:
    for cell in files.code_cells(read(path)):
        for line in cell.source.splitlines():
            if line.lstrip().startswith("assert"):
                assert not re.search(r"\.seconds|\bmedian\b|elapsed|timing|measured_time|\bfaster\b", line), (
                    cell.id
                )


@each_notebook
def test_stored_outputs_are_of_any_machine(path: Path) -> None:
    for number, cell in enumerate(files.code_cells(read(path)), start=1):
        assert cell.execution_count == number, cell.id
        for out in cell.outputs:
            assert out.output_type != "error", cell.id
            assert out.get("name") != "stderr", cell.id
            text = json.dumps(out.get("data", out.get("text", "")))
            if "nbval-ignore-output" not in files.tags(cell):
                assert not re.search(r" at 0x[0-9a-f]{6,}|/home/|/tmp/|[A-Z]:\\\\Users", text), cell.id
    assert path.stat().st_size < 2_000_000


@each_notebook
def test_exercises_are_blank(path: Path) -> None:
    for cell in read(path).cells:
        if (files.role(cell) or ("", ""))[1] == "check":
            outcomes = [
                out.data["application/vnd.three-budgets.check+json"] for out in cell.outputs if "data" in out
            ]
            assert outcomes and outcomes[-1]["outcome"] in ("not_attempted", "wrong"), cell.id
