"""Executes one notebook in a process of its own, through papermill, and tells what happens as JSON lines.

`python -m lecture_lib.course.execute` reads one line of JSON (a `Job`) from its standard input and writes one
JSON object a line to its standard output: {"event": "kernel" | "cell" | "cell_done" | "note" | "end", …}. It
ends, and its kernel with it, when its standard input is closed: no kernel outlives the process that asked.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import psutil

OUTPUT_LIMIT = 2_000_000
"""Bytes of output kept for one cell; what a cell writes beyond is counted and left out."""


@dataclass(frozen=True)
class Job:
    """What the parent process asks for.

    notebook: read from here, and written here as the run goes on, after every cell. folder: the working
    directory of the kernel. sockets: a folder with a short path for the kernel's sockets. Limits in seconds.
    """

    notebook: str
    folder: str
    sockets: str
    parameters: dict[str, Any]
    cell_limit: float
    notebook_limit: float

    def line(self) -> str:
        """This job as the one line of JSON that the child reads."""
        return json.dumps(asdict(self)) + "\n"


def peak_rss(process: psutil.Process) -> int:
    """The most resident memory a process has had, in bytes; where the system keeps none, what it has now."""
    if sys.platform == "linux":
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    memory = process.memory_info()
    return int(getattr(memory, "peak_wset", memory.rss))


class _Reporter:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def __call__(self, event: str, **details: Any) -> None:
        with self._lock:
            self._stream.write(json.dumps({"event": event, **details}) + "\n")
            self._stream.flush()


class _MemoryWatch(threading.Thread):
    """Looks at the kernel's resident memory ten times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.pid: int | None = None
        self._process: psutil.Process | None = None
        self.start()

    def watch(self, pid: int) -> None:
        self.pid = pid
        self._process = psutil.Process(pid)

    def look(self) -> int:
        if self._process is not None:
            with contextlib.suppress(psutil.Error, OSError):  # the kernel is gone; what was seen stays
                self.peak = max(self.peak, peak_rss(self._process))
        return self.peak

    def run(self) -> None:
        while True:
            self.look()
            time.sleep(0.1)


def _kernel_manager_class(sockets: Path) -> type:
    """A kernel manager for this very Python, whatever kernels of the same name a machine has installed.

    Sockets are files where the system has them: kernels that start at once cannot race for a port.
    """
    from ipykernel.kernelspec import RESOURCES, get_kernel_dict
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    class ThisPython(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())

    class Manager(AsyncKernelManager):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.kernel_spec_manager = ThisPython()
            folder = Path(tempfile.mkdtemp(dir=sockets))
            self.connection_file = str(folder / "k.json")
            # A socket's path has room for about 100 bytes (macOS: 104).
            if sys.platform != "win32" and len(os.fsencode(folder / "k-5")) < 100:
                self.transport = "ipc"
                self.ip = str(folder / "k")

    return Manager


def _engine(job: Job, report: _Reporter, memory: _MemoryWatch, outcome: dict[str, Any]) -> type:
    """The papermill engine that keeps to the limits, bounds outputs and reports; adds to `outcome`."""
    from nbclient.exceptions import CellTimeoutError
    from papermill.clientwrap import PapermillNotebookClient
    from papermill.engines import NBClientEngine

    ends_at = time.monotonic() + job.notebook_limit

    class Client(PapermillNotebookClient):
        def __init__(self, nb_man: Any, **kwargs: Any) -> None:
            super().__init__(nb_man, **kwargs)
            self.on_notebook_start = self._kernel_is_up
            self.on_cell_execute = self._cell_starts
            self.on_cell_executed = self._cell_done
            self.number = -1  # of the running code cell
            self.cell_began = ends_at
            self.limit = 0.0
            self.kept = 0
            self.dropped = 0

        def _kernel_is_up(self, notebook: Any) -> None:
            memory.watch(self.km.provisioner.pid)
            report("kernel", pid=memory.pid)

        def _cell_starts(self, cell: Any, cell_index: int) -> None:
            self.number += 1
            self.kept = self.dropped = 0
            self.cell_began = time.monotonic()
            report("cell", id=cell.get("id"), limit=self.limit_of_cell(cell))

        def _cell_done(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
            seconds = time.monotonic() - self.cell_began
            if self.dropped:
                wrote = (self.kept + self.dropped) / 1e6
                note = f"{wrote:.1f} MB of output; the first {OUTPUT_LIMIT / 1e6:.0f} MB kept"
                report("note", id=cell.get("id"), text=note)
                cell.outputs.append(_stream(f"[lecture: this cell wrote {note}]\n"))
            report(
                "cell_done",
                id=cell.get("id"),
                seconds=seconds,
                peak_rss_bytes=memory.look(),
            )
            error = next((out for out in cell.outputs if out.output_type == "error"), None)
            if error is not None and error.ename == "KeyboardInterrupt" and seconds >= self.limit:
                outcome["timeout"] = self.limit

        def limit_of_cell(self, cell: Any) -> int:
            """Whole seconds, as nbclient wants them; never 0, which it reads as no limit."""
            left = ends_at - time.monotonic()
            self.limit = max(1, math.ceil(min(job.cell_limit, left)))
            return int(self.limit)

        def output(self, outs: Any, msg: Any, display_id: Any, cell_index: int) -> Any:
            size = _size(msg["content"])
            if self.kept + size > OUTPUT_LIMIT and msg["msg_type"] != "error":
                room = OUTPUT_LIMIT - self.kept
                if msg["msg_type"] != "stream" or room <= 0:
                    self.dropped += size
                    return None
                msg["content"]["text"] = msg["content"]["text"][:room]
                self.dropped += size - room
                size = room
            self.kept += size
            out = super().output(outs, msg, display_id, cell_index)
            # nbclient's own joining of streams takes hours for a long line.
            if (
                out is not None
                and out.output_type == "stream"
                and len(outs) > 1
                and outs[-2].get("name") == out.name
            ):
                outs[-2].text += out.text
                outs.pop()
            return out

    class Engine(NBClientEngine):
        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **kwargs: Any) -> Any:
            client = Client(
                nb_man,
                kernel_name=kernel_name,
                kernel_manager_class=_kernel_manager_class(Path(job.sockets)),
                interrupt_on_timeout=True,
                iopub_timeout=60,
                startup_timeout=120,
                shutdown_kernel="graceful",
            )
            client.timeout_func = client.limit_of_cell
            try:
                return client.execute()
            except CellTimeoutError:  # the cell has ended, and its output has not come
                outcome["lost"] = True
                raise

    return Engine


def _size(content: dict[str, Any]) -> int:
    if "text" in content:
        return len(content["text"])
    return len(json.dumps(content.get("data", ""), default=str))


def _stream(text: str) -> Any:
    from nbformat.v4 import new_output

    return new_output("stream", name="stderr", text=text)


def execute(job: Job, report: _Reporter) -> None:
    """Runs the job's notebook; every way it can end is reported as one "end" event.

    status is "passed", "failed" (a cell raised, or the notebook stopped early), "timeout" or "died".
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.engines import papermill_engines

    outcome: dict[str, Any] = {}
    memory = _MemoryWatch()
    papermill_engines.register("lecture", _engine(job, report, memory, outcome))
    status, error = "passed", ""
    try:
        papermill.execute_notebook(
            job.notebook,
            job.notebook,
            parameters=job.parameters,
            engine_name="lecture",
            kernel_name="python3",
            progress_bar=False,
            cwd=job.folder,
        )
    except papermill.PapermillExecutionError as failure:
        status, error = "failed", f"{failure.ename}: {failure.evalue}"
    except DeadKernelError:
        status, error = "died", "the kernel died"
    except Exception as failure:
        status, error = "failed", f"{type(failure).__name__}: {failure}"
        if outcome.get("lost"):
            error = "the output of this cell was lost on its way: it wrote faster than it could be read"
    if "timeout" in outcome:
        status, error = "timeout", f"no end within {outcome['timeout']:g} s"
    report("end", status=status, error=error, peak_rss_bytes=memory.look())


def _end_with_parent() -> None:
    """Waits for the parent to close the pipe (or die), then ends the kernel and this process."""
    sys.stdin.read()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()
    os._exit(3)


def main() -> None:
    """The child process; see the module's text."""
    job = Job(**json.loads(sys.stdin.readline()))
    # What a kernel or a library writes to file descriptor 1 must not mix with the events.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    execute(job, _Reporter(events))
    events.close()
    os._exit(0)  # the thread on standard input is still reading


if __name__ == "__main__":
    main()
