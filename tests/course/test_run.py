"""`lecture run` on notebooks that pass, raise, hang, die, flood, stop early or cannot be read."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import psutil
import pytest

from lecture_lib.course import headless
from lecture_lib.course import run as running
from lecture_lib.course.report import write_report, write_summary
from lecture_lib.course.run import Progress, Result, Settings, run
from lecture_lib.quantity import LectureError

Write = Callable[..., Path]
CHECKED = """\
from IPython.display import display
said = {{"exercise": "9.1", "outcome": "{}"}}
display({{"application/vnd.three-budgets.check+json": said, "text/plain": "x"}}, raw=True)"""

NOTEBOOKS: dict[str, tuple[str, ...]] = {
    "passes": ("DEVICE = 'auto'; SCALE = 'full'", "DEVICE, SCALE", CHECKED.format("wrong"), "#md text", ""),
    "raises": ("x = 1", "def f():\n    return 1 / 0\nf()", "never = 1"),
    "exits": ("import os", "os._exit(0)", "never = 1"),
    "killed": ("import os, signal", "os.kill(os.getpid(), signal.SIGKILL)"),
    "segfaults": ("import faulthandler", "faulthandler._sigsegv()"),
    "stops-early": ("x = 1", "import sys\nsys.exit(0)", "never = 1"),
    "dies-last": ("import os", "os._exit(0)"),
    "floods": ("print('x' * 50_000_000)", "for i in range(200_000):\n    print(i)", "1"),
    "shows-much": (
        "from IPython.display import HTML, display",
        "for _ in range(9):\n    display(HTML('y' * 500_000))",
    ),
    "loops": ("while True:\n    pass",),
    "deaf": ("import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass",),
    "subprocesses": (
        "import subprocess, sys",
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\np.pid",
    ),
    "threads": ("import os", "print(os.environ.get('OMP_NUM_THREADS'), os.environ['LECTURE_PROGRESS'])"),
    "wants-input": ("input('your name? ')",),
    "writes-fd": (
        "import os",
        "os.write(1, b'{\"event\": \"end\"}\\n' * 1000); os.write(2, b'noise\\n' * 100_000)",
    ),
}


@pytest.fixture
def ran(request: pytest.FixtureRequest) -> tuple[dict[str, Result], str, Path]:
    """One run over all of NOTEBOOKS, two at a time, with short limits; made once."""
    return request.getfixturevalue("_ran")


@pytest.fixture(scope="module")
def _ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Result], str, Path]:
    folder = tmp_path_factory.mktemp("run")
    sources = []
    for name, cells in NOTEBOOKS.items():
        node = nbformat.v4.new_notebook(
            metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "P"}}
        )
        for number, source in enumerate(cells, start=1):
            make = nbformat.v4.new_markdown_cell if source.startswith("#md") else nbformat.v4.new_code_cell
            node.cells.append(make(source, id=f"c{number}"))
        if name == "passes":
            node.cells[0].metadata["tags"] = ["parameters"]
        nbformat.write(node, folder / f"{name}.ipynb")
        sources.append(folder / f"{name}.ipynb")
    (folder / "broken.ipynb").write_text('{"cells": [')
    sources.insert(3, folder / "broken.ipynb")
    told = io.StringIO()
    settings = Settings(device="cpu", jobs=2, cell_limit=8, notebook_limit=120)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_GRACE", 2.0)
        results = run(sources, folder / "out", settings, Progress(told))
    return {result.notebook: result for result in results}, told.getvalue(), folder


def test_every_notebook_has_a_result_in_the_order_given(ran) -> None:
    results, told, folder = ran
    assert list(results) == [*list(NOTEBOOKS)[:3], "broken", *list(NOTEBOOKS)[3:]]
    statuses = {name: result.status for name, result in results.items()}
    assert statuses == {
        "passes": "passed",
        "raises": "failed",
        "exits": "died",
        "broken": "unreadable",
        "killed": "died",
        "segfaults": "died",
        "stops-early": "failed",
        "dies-last": "died",
        "floods": "passed",
        "shows-much": "passed",
        "loops": "timeout",
        "deaf": "timeout",
        "subprocesses": "passed",
        "threads": "passed",
        "wants-input": "failed",
        "writes-fd": "passed",
    }
    for name in statuses:
        assert f"{name}: {statuses[name]}" in told
        if name != "broken":
            assert f"{name}: running" in told


def test_no_process_is_left(ran) -> None:
    results, _, folder = ran
    left = [p for p in psutil.Process().children(recursive=True) if "ipykernel" in " ".join(_cmdline(p))]
    assert left == []
    node = nbformat.read(folder / "out" / "subprocesses.ipynb", 4)
    assert not psutil.pid_exists(int(node.cells[1].outputs[0].data["text/plain"]))


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_parameters_go_in_and_outcomes_come_out(ran) -> None:
    results, _, folder = ran
    result = results["passes"]
    node = nbformat.read(folder / "out" / "passes.ipynb", 4)
    assert "('cpu', 'quick')" in [
        out.data["text/plain"] for c in node.cells for out in c.get("outputs", []) if "data" in out
    ]
    assert result.exercises == {"9.1": "wrong"}
    assert result.cells == (3, 3)  # an empty cell need not run
    assert result.failure is None
    assert 20e6 < result.peak_rss_bytes < 2e9
    assert [name for name, _ in result.cell_seconds if name.startswith("c")] == ["c1", "c2", "c3"]


def test_failed_cell_is_named_with_its_error(ran) -> None:
    results, told, _ = ran
    failure = results["raises"].failure
    assert (failure.number, failure.id, failure.error) == (2, "c2", "ZeroDivisionError: division by zero")
    assert "return 1 / 0" in failure.source and "ZeroDivisionError" in failure.traceback
    assert "return 1 / 0" in told and "ZeroDivisionError: division by zero" in told
    assert results["raises"].cells == (2, 3)


@pytest.mark.parametrize(
    ("name", "cell"), [("exits", "c2"), ("killed", "c2"), ("segfaults", "c2"), ("dies-last", "c2")]
)
def test_dead_kernel(ran, name: str, cell: str) -> None:
    failure = ran[0][name].failure
    assert failure.id == cell
    assert "kernel died" in failure.error


def test_exit_0_in_a_cell_is_no_pass(ran) -> None:
    failure = ran[0]["stops-early"].failure
    assert failure.id == "c2"
    assert "SystemExit(0)" in failure.error and "left to run: 1" in failure.error


def test_huge_output_is_bounded_and_said(ran) -> None:
    results, _, folder = ran
    assert (folder / "out" / "floods.ipynb").stat().st_size < 8e6
    assert any("50.0 MB" in note and "c1" in note for note in results["floods"].notes)
    node = nbformat.read(folder / "out" / "floods.ipynb", 4)
    assert "50.0 MB" in node.cells[0].outputs[-1].text
    lines = node.cells[1].outputs[0].text.splitlines()
    assert len(node.cells[1].outputs) == 1 and lines == [str(i) for i in range(200_000)]
    assert (folder / "out" / "shows-much.ipynb").stat().st_size < 4e6
    assert any("4.5 MB" in note for note in results["shows-much"].notes)


def test_time_limit_of_a_cell(ran) -> None:
    results = ran[0]
    assert "no end within 8 s" in results["loops"].failure.error
    assert "KeyboardInterrupt" in results["loops"].failure.traceback  # interrupted: one sees where it hung
    assert "no end within 8 s" in results["deaf"].failure.error  # does not listen: killed
    assert results["loops"].seconds < 60


def test_time_limit_of_a_notebook_of_many_cells(write: Write, tmp_path: Path) -> None:
    source = write(tmp_path / "a.ipynb", "import time", *["time.sleep(1)"] * 100)
    [result] = run([source], tmp_path / "out", Settings(notebook_limit=8), Progress(io.StringIO()))
    assert result.status == "timeout"
    assert result.seconds < 60
    # The limit may fall between a cell's end and the next one's start.
    done = result.cells[0]
    assert result.failure is not None and result.failure.id in (f"c{done}", f"c{done + 1}")


def test_threads_are_shared_out(ran) -> None:
    node = nbformat.read(ran[2] / "out" / "threads.ipynb", 4)
    assert (
        node.cells[1].outputs[0].text
        == f"{os.environ.get('OMP_NUM_THREADS') or max(1, running.cores() // 2)} off\n"
    )


def test_what_a_kernel_writes_to_its_descriptors_is_no_event(ran) -> None:
    assert ran[0]["writes-fd"].cells == (2, 2)


def test_summary_is_the_contract(ran, tmp_path: Path) -> None:
    results = list(ran[0].values())
    write_summary(results, [], tmp_path / "summary.json")
    content = json.loads((tmp_path / "summary.json").read_text())
    assert list(content) == ["notebooks"]
    for entry, result in zip(content["notebooks"], results, strict=True):
        wanted = {"notebook", "status", "seconds", "peak_rss_bytes", "cells", "failed_cell", "exercises"}
        assert wanted <= set(entry)
        assert entry["status"] in ("passed", "failed", "timeout", "died", "unreadable")
        assert (entry["failed_cell"] is None) == (result.status == "passed")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_report_can_be_read_by_anyone(ran, tmp_path: Path) -> None:
    results = list(ran[0].values())
    results[1].notes.append("<script>alert(1)</script>")
    write_report(results, ["later"], Settings(), 12.0, "CPU: & others", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = _Page()
    page.feed(text)
    headings = [int(tag[1]) for tag, _ in page.tags if tag in ("h1", "h2", "h3")]
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(headings, headings[1:], strict=False))
    assert dict(page.tags)["html"] == {"lang": "en"} and "title" in dict(page.tags)
    for tag, attributes in page.tags:
        assert tag != "script"
        for name in ("src", "href"):
            assert not (attributes.get(name) or "").startswith(("http", "//")), (tag, attributes)
    assert "return 1 / 0" in text and "ZeroDivisionError: division by zero" in text
    assert "\x1b" not in text and "<script>alert" not in text
    assert "Left to run: later" in text and "50.0 MB" in text and "CPU: &amp; others" in text
    assert all(f">{result.notebook}<" in text for result in results)


@pytest.mark.parametrize(
    ("kernelspec", "words"),
    [(None, "names no kernel"), ({"name": "conda-x", "display_name": "x", "language": "python"}, "conda-x")],
)
def test_any_kernel_name_runs_with_this_python(
    write: Write, tmp_path: Path, kernelspec: object, words: str
) -> None:
    source = write(tmp_path / "a.ipynb", "import sys; print(sys.executable)", kernelspec=kernelspec)
    [result] = run([source], tmp_path / "out", Settings(), Progress(io.StringIO()))
    assert result.status == "passed"
    assert any(words in note and "python3" in note for note in result.notes)
    printed = nbformat.read(tmp_path / "out" / "a.ipynb", 4).cells[0].outputs[0].text.strip()
    assert Path(printed).resolve() == Path(sys.executable).resolve()


def test_two_notebooks_of_one_name(write: Write, tmp_path: Path) -> None:
    paths = [write(tmp_path / folder / "x.ipynb", f"'{folder}'") for folder in "ab"]
    results = run([*paths, paths[0]], tmp_path / "out", Settings(jobs=2), Progress(io.StringIO()))
    assert [result.notebook for result in results] == ["x", "x-2"]
    for name, shown in (("x", "'a'"), ("x-2", "'b'")):
        node = nbformat.read(tmp_path / "out" / f"{name}.ipynb", 4)
        assert node.cells[0].outputs[0].data["text/plain"] == shown


def test_instructors_edition_fails_where_an_exercise_does_not_pass(write: Write, tmp_path: Path) -> None:
    source = write(tmp_path / "a.ipynb", CHECKED.format("wrong"))
    results = run([source], tmp_path / "out", Settings(edition="instructor"), Progress(io.StringIO()))
    assert results[0].status == "failed"
    assert "9.1 (wrong)" in results[0].failure.error


def test_answers_go_in_from_the_key(write_exercise: Write, tmp_path: Path, root: Path) -> None:
    from lecture_lib.course import notebook_files as files

    node = files.read(write_exercise(tmp_path / "00_x.ipynb", "0.1", "def model_states(P): ...", "1")).node
    headless.put_answers_in(node, root / "tests" / "answer_key")
    assert "return P *" in node.cells[3].source
    node.cells[3].metadata["three_budgets"]["exercise"] = "77.1"
    with pytest.raises(LectureError, match=r"77\.1"):
        headless.put_answers_in(node, root / "tests" / "answer_key")


# -- as a command


def command(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lecture_lib", "run", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_exit_codes(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "good.ipynb", "1")
    write(tmp_path / "bad.ipynb", "1 / 0")
    done = command("good.ipynb", "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "o" / "report.html").is_file() and "Report: o" in done.stdout
    done = command("bad.ipynb", "goood.ipynb", "good.ipynb", "--out", "o", cwd=tmp_path)
    assert done.returncode == 1
    assert "goood.ipynb: there is no file goood.ipynb; did you mean good.ipynb?" in done.stderr
    statuses = {
        entry["notebook"]: entry["status"]
        for entry in json.loads((tmp_path / "o/summary.json").read_text())["notebooks"]
    }
    assert statuses == {"bad": "failed", "good": "passed", "goood": "unreadable"}
    done = command("nothing.ipynb", cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_keeps_what_finished_and_leaves_no_kernel(
    write: Write, tmp_path: Path, how: int
) -> None:
    write(tmp_path / "quick.ipynb", "1")
    waiting = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)"
    write(tmp_path / "waits.ipynb", "before = 1\nbefore", waiting)
    write(tmp_path / "later.ipynb", "1")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "lecture_lib",
            "run",
            "quick.ipynb",
            "waits.ipynb",
            "later.ipynb",
            "--out",
            "o",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    kernel = _wait_for_pid(tmp_path / "pid")
    started = psutil.Process(process.pid).children(recursive=True)
    assert kernel in [child.pid for child in started]
    process.send_signal(how)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "Left to run: waits, later" in err and "Traceback" not in err
    _, alive = psutil.wait_procs(started, timeout=5)
    assert alive == []
    content = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert [(entry["notebook"], entry["status"]) for entry in content["notebooks"]] == [("quick", "passed")]
    assert content["left"] == ["waits", "later"]
    partly = nbformat.read(tmp_path / "o" / "waits.ipynb", 4)
    assert partly.cells[0].outputs[0].data["text/plain"] == "1"
    assert "Left to run: waits, later" in (tmp_path / "o" / "report.html").read_text(encoding="utf-8")


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_kernel_ends_when_the_run_is_killed(write: Write, tmp_path: Path) -> None:
    write(
        tmp_path / "waits.ipynb", "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "lecture_lib", "run", "waits.ipynb", "--out", "o"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    kernel = psutil.Process(_wait_for_pid(tmp_path / "pid"))
    process.kill()
    process.wait()
    psutil.wait_procs([kernel], timeout=10)
    assert not kernel.is_running() or kernel.status() == psutil.STATUS_ZOMBIE


def _wait_for_pid(path: Path) -> int:
    for _ in range(600):
        if path.is_file() and path.read_text():
            return int(path.read_text())
        time.sleep(0.1)
    raise AssertionError("the kernel did not start")


def test_progress_in_a_terminal_is_one_line_and_fits() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    told = Terminal()
    progress = Progress(told)
    progress.running("a", "cell 1 of 2 (" + "x" * 500 + ")")
    progress.done("a", "a: passed")
    drawn = told.getvalue()
    assert "\n" not in drawn[: drawn.index("a: passed")]
    assert all(len(part) < 200 for part in drawn.split("\r"))
