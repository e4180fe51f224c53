"""`lecture run`: notebooks from top to bottom without a person, each in its own process.

A notebook that raises, hangs, dies or cannot be read never stops the others; nothing that was started
outlives this process, whichever way it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil
from nbformat import NotebookNode

from lecture_lib.course import notebook_files as files
from lecture_lib.course.execute import Job
from lecture_lib.exercises.checking import MIME as CHECK_MIME
from lecture_lib.quantity import LectureError

CELL_LIMIT = 300.0
NOTEBOOK_LIMIT = 1200.0
_GRACE = 20.0  # seconds that the child has to interrupt a cell itself before its processes are killed
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass
class Failure:
    """The cell at which a notebook stopped: its place among the notebook's code cells (from 1), and why."""

    number: int | None
    id: str | None
    source: str
    error: str
    traceback: str = ""


@dataclass
class Result:
    """How one notebook went. seconds: wall time; peak_rss_bytes: its kernel's; cells: (run, all)."""

    notebook: str
    status: str  # "passed" | "failed" | "timeout" | "died" | "unreadable"
    seconds: float = 0.0
    peak_rss_bytes: int | None = None
    cells: tuple[int, int] = (0, 0)
    failure: Failure | None = None
    exercises: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    cell_seconds: list[tuple[str, float]] = field(default_factory=list)
    output: Path | None = None

    def summary(self) -> dict[str, Any]:
        """This result's entry in summary.json."""
        failed = self.failure
        return {
            "notebook": self.notebook,
            "status": self.status,
            "seconds": round(self.seconds, 3),
            "peak_rss_bytes": self.peak_rss_bytes,
            "cells": self.cells[1],
            "cells_run": self.cells[0],
            "failed_cell": failed and {"number": failed.number, "id": failed.id, "error": failed.error},
            "exercises": self.exercises,
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Settings:
    """What all notebooks of one run have in common. Limits in seconds."""

    device: str = "auto"
    scale: str = "quick"
    edition: str = "student"
    jobs: int = 1
    cell_limit: float = CELL_LIMIT
    notebook_limit: float = NOTEBOOK_LIMIT
    parameters: bool = True  # False: run as stored, DEVICE and SCALE untouched


@dataclass
class _Task:
    name: str
    source: Path
    output: Path
    notebook: files.Notebook
    cells: list[str]  # ids of the code cells that must run


class Stopped(Exception):
    """The run was interrupted; carries what had finished."""

    def __init__(self, results: list[Result], left: list[str]) -> None:
        super().__init__(f"left to run: {', '.join(left)}")
        self.results = results
        self.left = left


class Progress:
    """What runs: one line, redrawn, in a terminal; elsewhere a line for every start and every end."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._running: dict[str, str] = {}
        self._lock = threading.Lock()

    def running(self, name: str, state: str) -> None:
        with self._lock:
            new = name not in self._running
            self._running[name] = state
            if self._live:
                self._draw()
            elif new:
                self._print(f"{name}: running")

    def done(self, name: str, line: str) -> None:
        with self._lock:
            self._running.pop(name, None)
            self._print(line)
            if self._live:
                self._draw()

    def say(self, line: str) -> None:
        with self._lock:
            self._print(line)

    def _print(self, line: str) -> None:
        self._stream.write(("\r\x1b[K" if self._live else "") + line + "\n")
        self._stream.flush()

    def _draw(self) -> None:
        text = " | ".join(f"{name} {state}" for name, state in self._running.items())
        width = shutil.get_terminal_size().columns - 1
        self._stream.write("\r\x1b[K" + (text if len(text) <= width else text[: width - 1] + "…"))
        self._stream.flush()


def cores() -> int:
    """The processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(
    paths: Sequence[Path],
    out: Path,
    settings: Settings,
    progress: Progress,
    prepare: Callable[[NotebookNode], None] | None = None,
) -> list[Result]:
    """Executes the notebooks; leaves each as `out/NAME.ipynb`.

    prepare changes a notebook in memory before it runs (the instructor's edition puts the answers in).
    Raises Stopped where it is interrupted, with every process it started ended.
    """
    paths = files.unique(paths)
    results: dict[str, Result] = {}
    tasks: list[_Task] = []
    out.mkdir(parents=True, exist_ok=True)
    for name, path in zip(files.stems(paths), paths, strict=True):
        try:
            tasks.append(_task(name, path, out / f"{name}.ipynb", prepare))
        except LectureError as error:
            results[name] = Result(name, "unreadable", failure=Failure(None, None, "", str(error)))
            progress.say(f"{name}: unreadable: {error}")
    stop = threading.Event()
    with (
        tempfile.TemporaryDirectory(prefix="lec", ignore_cleanup_errors=True) as sockets,
        ThreadPoolExecutor(max(1, settings.jobs)) as pool,
    ):
        futures = [pool.submit(_run_one, task, settings, sockets, progress, stop) for task in tasks]
        try:
            for future in futures:
                _wait(future)
        except KeyboardInterrupt:
            stop.set()
        for task, future in zip(tasks, futures, strict=True):
            result = future.result()
            if result is not None:
                results[task.name] = result
    ordered = [results[name] for name in files.stems(paths) if name in results]
    left = [task.name for task in tasks if task.name not in results]
    if left:
        raise Stopped(ordered, left)
    return ordered


def _wait(future: Any) -> None:
    # Without a timeout, waiting on a lock cannot be interrupted on Windows.
    while not future.done():
        time.sleep(0.05)


def _task(name: str, path: Path, output: Path, prepare: Callable[[NotebookNode], None] | None) -> _Task:
    notebook = files.read(path)
    node = notebook.node
    kernel = (node.metadata.get("kernelspec") or {}).get("name")
    if kernel != "python3":
        said = f"names the kernel {kernel!r}" if kernel else "names no kernel"
        notebook.notes.append(f"{said}; run with python3, this Python")
    node.metadata["kernelspec"] = dict(files.KERNELSPEC)
    if prepare is not None:
        prepare(node)
    must_run = [
        cell.id
        for cell in files.code_cells(node)
        if cell.source.strip() and "skip-execution" not in files.tags(cell)
    ]
    files.write(files.without_outputs(node), output)
    return _Task(name, path, output, notebook, must_run)


def _environment(jobs: int) -> dict[str, str]:
    environment = dict(os.environ)
    environment["LECTURE_PROGRESS"] = "off"
    environment.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    environment["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    environment["PYTHONIOENCODING"] = "utf-8"
    if jobs > 1:
        for variable in _THREAD_VARIABLES:
            environment.setdefault(variable, str(max(1, cores() // jobs)))
    return environment


def _run_one(
    task: _Task, settings: Settings, sockets: str, progress: Progress, stop: threading.Event
) -> Result | None:
    """Runs one notebook in its child process; None where the run was stopped before it ended."""
    if stop.is_set():
        return None
    parameters: dict[str, Any] = {}
    if settings.parameters and any("parameters" in files.tags(cell) for cell in task.notebook.node.cells):
        parameters = {"DEVICE": settings.device, "SCALE": settings.scale}
    job = Job(
        str(task.output.resolve()),
        str(task.source.resolve().parent),
        sockets,
        parameters,
        settings.cell_limit,
        settings.notebook_limit,
    )
    began = time.monotonic()
    progress.running(task.name, "starting")
    child = subprocess.Popen(
        [sys.executable, "-m", "lecture_lib.course.execute"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(settings.jobs),
        # A Ctrl-C in the terminal goes to this process alone, which then ends the children in order.
        start_new_session=os.name == "posix",
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    watch = _Watch(child, task, began, settings, progress)
    try:
        child.stdin.write(job.line().encode())  # type: ignore[union-attr]
        child.stdin.flush()  # type: ignore[union-attr]
        while not watch.ended():
            if stop.is_set():
                return None
            watch.enforce_limits()
    except OSError as error:  # the child was gone before it could read
        watch.end = {"status": "died", "error": f"the process could not be started: {error}"}
    finally:
        watch.end_processes()
    result = _result(task, watch, time.monotonic() - began, settings)
    progress.done(task.name, describe(result))
    return result


class _Watch:
    """What the parent knows of one running child: its events, its kernel, the end of its output."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        task: _Task,
        began: float,
        settings: Settings,
        progress: Progress,
    ) -> None:
        self.child = child
        self.task = task
        self.began = began
        self.settings = settings
        self.progress = progress
        self.kernel: int | None = None
        self.end: dict[str, Any] = {}
        self.cell: dict[str, Any] | None = None
        self.cell_began = began
        self.cell_seconds: dict[str, float] = {}
        self.peak = 0
        self.notes: list[str] = []
        self.stderr = b""
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_events(self) -> None:
        for line in self.child.stdout:  # type: ignore[union-attr]
            try:
                self._events.put(json.loads(line))
            except json.JSONDecodeError:
                continue
        self._events.put(None)

    def _read_stderr(self) -> None:
        for line in self.child.stderr:  # type: ignore[union-attr]
            self.stderr = (self.stderr + line)[-8000:]

    def ended(self) -> bool:
        """Takes the next event, waiting a moment for it; True when there will be no more."""
        try:
            event = self._events.get(timeout=0.1)
        except queue.Empty:
            return False
        if event is None:
            return True
        kind = event.pop("event")
        if kind == "kernel":
            self.kernel = event["pid"]
        elif kind == "cell":
            self.cell, self.cell_began = event, time.monotonic()
            number = self.task.cells.index(event["id"]) + 1 if event["id"] in self.task.cells else 0
            self.progress.running(self.task.name, f"cell {number} of {len(self.task.cells)} ({event['id']})")
        elif kind == "cell_done":
            self.cell = None
            self.cell_seconds[event["id"]] = event["seconds"]
            self.peak = max(self.peak, event["peak_rss_bytes"])
        elif kind == "note":
            self.notes.append(f"cell {event['id']} wrote {event['text']}")
        elif kind == "end":
            self.end = event
            self.peak = max(self.peak, event["peak_rss_bytes"])
            return True
        return False

    def enforce_limits(self) -> None:
        """Kills what has not ended itself: the child interrupts a slow cell, but code can ignore that."""
        now = time.monotonic()
        if self.cell is not None and now - self.cell_began > self.cell["limit"] + _GRACE:
            self.end = {"status": "timeout", "error": f"no end within {self.cell['limit']:g} s"}
        elif now - self.began > self.settings.notebook_limit + 2 * _GRACE:
            self.end = {"status": "timeout", "error": f"no end within {self.settings.notebook_limit:g} s"}
        else:
            return
        self.end_processes()

    def end_processes(self) -> None:
        """Ends the child, its kernel and whatever they started."""
        if self.end and self.child.poll() is None and "peak_rss_bytes" in self.end:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(timeout=5)
        end_tree(self.child.pid, self.kernel)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self.child.wait()


def end_tree(*pids: int | None) -> None:
    """Kills processes, what they started, and the process groups they lead."""
    doomed: list[psutil.Process] = []
    for pid in pids:
        if pid is None:
            continue
        try:
            process = psutil.Process(pid)
            doomed += [*process.children(recursive=True), process]
        except psutil.NoSuchProcess:
            pass
        if os.name == "posix":
            # A kernel leads its own group: what it started is in it, also after the kernel has died.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
    for process in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(doomed, timeout=5)


def _result(task: _Task, watch: _Watch, seconds: float, settings: Settings) -> Result:
    """Reads off the executed notebook, and what was seen of its process, how it went."""
    try:
        node = files.read(task.output).node
    except LectureError:  # killed while it was written
        node = task.notebook.node
    end = watch.end or {"status": "died", "error": "the process that ran the notebook died"}
    by_id = {cell.id: cell for cell in files.code_cells(node)}
    must_run = [by_id[cell_id] for cell_id in task.cells if cell_id in by_id]
    has_run = [cell for cell in must_run if cell.execution_count is not None]
    result = Result(
        notebook=task.name,
        status=end["status"],
        seconds=seconds,
        peak_rss_bytes=watch.peak or None,
        cells=(len(has_run), len(task.cells)),
        notes=[*task.notebook.notes, *watch.notes],
        cell_seconds=list(watch.cell_seconds.items()),
        output=task.output,
        exercises=_outcomes(node),
    )
    result.failure = _failure(task, watch, node, end)
    if result.status == "passed" and len(has_run) < len(task.cells):
        # Exit 0 does not mean that it ran: sys.exit(0) in a cell ends a run without an error.
        result.status = "failed"
    if result.status == "passed" and settings.edition == "instructor":
        open_ones = [f"{key} ({outcome})" for key, outcome in result.exercises.items() if outcome != "passed"]
        if open_ones:
            result.status = "failed"
            error = "with the answers in, not passed: " + ", ".join(open_ones)
            result.failure = Failure(None, None, "", error)
    if result.status == "passed":
        result.failure = None
    return result


def _failure(task: _Task, watch: _Watch, node: NotebookNode, end: dict[str, Any]) -> Failure | None:
    """The cell at which the notebook stopped; None where it ran through."""
    for cell in files.code_cells(node):
        raised = next((out for out in cell.get("outputs", []) if out.output_type == "error"), None)
        if raised is None:
            continue
        error = f"{raised.ename}: {raised.evalue}"
        if raised.ename == "SystemExit":
            number = task.cells.index(cell.id) + 1 if cell.id in task.cells else 0
            left = len(task.cells) - number
            error = (
                f"this cell ended the notebook with SystemExit({raised.evalue}); cells left to run: {left}"
            )
        if end["status"] == "timeout":
            error = end["error"]
        return _at(task, cell.id, cell.source, error, "\n".join(raised.traceback))
    error = end["error"]
    if end["status"] == "passed":
        error = "this cell has not run, and nothing says why"
    elif end["status"] == "died":
        error += _last_words(watch)
    by_id = {cell.id: cell for cell in files.code_cells(node)}
    waiting = [cell_id for cell_id in task.cells if cell_id not in watch.cell_seconds]
    cell_id = watch.cell["id"] if watch.cell else next(iter(waiting), None)
    if cell_id is None:
        return Failure(None, None, "", error) if end["status"] != "passed" else None
    return _at(task, cell_id, by_id[cell_id].source if cell_id in by_id else "", error, "")


def _last_words(watch: _Watch) -> str:
    """What a dying process left on its standard error, where that says why."""
    lines = watch.stderr.decode("utf-8", "replace").strip().splitlines()
    if watch.kernel is None and lines:  # it did not get as far as a kernel
        return f" ({lines[-1].strip()}); `lecture doctor` says what is missing"
    for line in reversed(lines):
        if line.startswith("Fatal Python error") or "MemoryError" in line:
            return f" ({line.strip()})"
    return ""


def _at(task: _Task, cell_id: str, source: str, error: str, traceback: str) -> Failure:
    number = task.cells.index(cell_id) + 1 if cell_id in task.cells else None
    return Failure(number, cell_id, source, error, traceback)


def _outcomes(node: NotebookNode) -> dict[str, str]:
    """{exercise id: outcome} as the checks' outputs say it; "missing" where no check has run."""
    outcomes = dict.fromkeys(files.exercise_ids(node), "missing")
    for cell in files.code_cells(node):
        for output in cell.get("outputs", []):
            said = output.get("data", {}).get(CHECK_MIME)
            if isinstance(said, dict) and "exercise" in said and "outcome" in said:
                outcomes[str(said["exercise"])] = str(said["outcome"])
    return outcomes


def outcomes_in_words(result: Result) -> str:
    """How many exercises had which outcome: "1 wrong, 3 not attempted"."""
    counts: dict[str, int] = {}
    for outcome in result.exercises.values():
        counts[outcome] = counts.get(outcome, 0) + 1
    return ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in counts.items())


def describe(result: Result) -> str:
    """One line on how a notebook went, and where it failed the cell, its source and the error below it."""
    line = f"{result.notebook}: {result.status}"
    if result.status != "unreadable":
        line += f" in {result.seconds:.1f} s, {result.cells[0]} of {result.cells[1]} cells"
        if result.peak_rss_bytes:
            line += f", {result.peak_rss_bytes / 1e6:.0f} MB at most"
        if result.exercises:
            line += f"; exercises: {outcomes_in_words(result)}"
    for note in result.notes:
        line += f"\n    note: {note}"
    if result.failure:
        if result.failure.id:
            line += f"\n    at code cell {result.failure.number} ({result.failure.id}):"
            shown = result.failure.source.splitlines()
            line += "".join(f"\n        {text}" for text in shown[:12])
            line += f"\n        … {len(shown) - 12} more lines" if len(shown) > 12 else ""
        line += f"\n    {result.failure.error}"
    return line
