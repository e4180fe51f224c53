"""Runs a student's answer on cases and reports what happened as plain data.

Nothing here knows an expected value: grading runs this module in a process of its own, next to the student's
code, and judges what comes back elsewhere (`verdict.py`). Every call gets fresh inputs.
"""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import ctypes
import dis
import functools
import inspect
import io
import linecache
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import FrameType, FunctionType, TracebackType
from typing import Any

from lecture_lib.exercises import drivers
from lecture_lib.exercises.encoding import MAX_DEPTH, Array, encode, type_name
from lecture_lib.quantity import LectureError

MAX_PRINTED = 2_000  # characters of a case's output that are kept
MAX_CASES = 1_000
_ABANDON_AFTER = 2.0  # seconds in which code past its time limit is asked to stop


@dataclass(frozen=True)
class Error:
    """An exception: its type, its message and, if the student's own code was passed, the line there."""

    type: str
    message: str
    line: int | None = None
    source: str = ""


@dataclass(frozen=True)
class Row:
    """What one case gave: an encoded `value`, an `error`, or neither if the time was up or the case was not
    run.
    """

    value: Any = None
    error: Error | None = None
    timed_out: bool = False
    ran: bool = True
    printed: str = ""
    printed_length: int = 0
    changed: tuple[str, ...] = ()  # inputs that the call modified


@dataclass(frozen=True)
class Evidence:
    """All rows; `blank` if the answer is still the stub; `instead` (encoded) if a value came where code was
    wanted.
    """

    rows: tuple[Row, ...] = ()
    blank: bool = False
    instead: Any = None
    time_limit: float = 0.0

    def plain(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Any) -> Evidence:
        """Reads the JSON form strictly; LectureError for anything that `plain` would not have written.

        Values stay encoded: they are decoded, as strictly, when they are judged.
        """
        fields = _record(data, {"rows": list, "blank": bool, "instead": object, "time_limit": (int, float)})
        if len(fields["rows"]) > MAX_CASES:
            raise LectureError(f"expected at most {MAX_CASES} rows of evidence; got {len(fields['rows'])}")
        return cls(**{**fields, "rows": tuple(_row(row) for row in fields["rows"])})


def _record(data: Any, kinds: Mapping[str, Any]) -> dict[str, Any]:
    if type(data) is not dict or set(data) != set(kinds):
        raise LectureError(f"expected evidence with {', '.join(kinds)}; got {type(data).__name__}")
    for name, kind in kinds.items():
        value = data[name]
        if kind is not object and type(value) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise LectureError(f"expected {name} of another type in evidence; got {type(value).__name__}")
        if type(value) is str and len(value) > 2 * MAX_PRINTED:
            raise LectureError(f"expected at most {2 * MAX_PRINTED} characters in {name}; got {len(value)}")
    return dict(data)


def _row(data: Any) -> Row:
    fields = _record(
        data,
        {
            "value": object,
            "error": (dict, type(None)),
            "timed_out": bool,
            "ran": bool,
            "printed": str,
            "printed_length": int,
            "changed": (list, tuple),
        },
    )
    if fields["error"] is not None:
        kinds = {"type": str, "message": str, "line": (int, type(None)), "source": str}
        fields["error"] = Error(**_record(fields["error"], kinds))
    if len(fields["changed"]) > 50 or not all(
        type(name) is str and len(name) <= 80 for name in fields["changed"]
    ):
        raise LectureError("expected the names of changed inputs in evidence; got something else")
    return Row(**{**fields, "changed": tuple(fields["changed"])})


# -- collecting

student_code_runs = contextvars.ContextVar("student_code_runs", default=False)
"""Whether what runs here and now is a student's answer on a case."""


class _Blank(BaseException):
    """The student's function returned `...`."""


class _TimeUp(BaseException):
    """Not an Exception, so that `except Exception` in a student's loop lets it through."""


def collect(
    kind: str,
    answer: Any,
    cases: Sequence[Mapping[str, Any]],
    driver: str | None = None,
    time_limit: float = 10.0,
) -> Evidence:
    """Runs `answer` on each case's inputs (decoded or as a key writes them) and says what came.

    Raises KeyboardInterrupt if the person at the keyboard interrupts; whatever else the answer does is in the
    evidence. Code in a single C call (a huge power) cannot be interrupted and is reported as timed out when
    it returns.
    """
    if kind in ("quantity", "choice"):
        return Evidence(rows=(Row(value=encode(answer)),), blank=_is_blank(answer), time_limit=time_limit)
    run = drivers.get(driver or "call")
    if _is_blank(answer) or _is_blank_function(answer):
        return Evidence(blank=True, time_limit=time_limit)
    if run.takes == "function" and (not callable(answer) or isinstance(answer, type)):
        return Evidence(instead=encode(answer), time_limit=time_limit)
    rows: list[Row] = []
    for inputs in cases:
        if any(row.timed_out for row in rows):
            rows.append(Row(ran=False))  # one wait is enough
            continue
        rows.append(_run_case(run, answer, inputs, time_limit))
    return Evidence(
        tuple(rows), blank=bool(rows) and all(_is_blank_value(row) for row in rows), time_limit=time_limit
    )


def reference_values(
    kind: str, driver: str | None, answer: Any, cases: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """The encoded values that a key's answer gives, {"raises": type} where it raises."""
    if kind in ("quantity", "choice"):
        return [
            encode(answer(**fresh(case)) if isinstance(answer, FunctionType) else answer) for case in cases
        ]
    rows = collect(kind, answer, cases, driver, time_limit=60.0).rows
    return [{"raises": row.error.type} if row.error else row.value for row in rows]


def fresh(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a case's inputs that shares nothing with it, arrays as torch tensors on the CPU."""
    return {name: _fresh(value) for name, value in inputs.items()}


def _fresh(value: Any) -> Any:
    if isinstance(value, Array):
        import torch

        dtype = getattr(torch, value.dtype)
        if value.dtype.startswith("float8"):
            return (
                torch.tensor(value.values, dtype=torch.float32, device="cpu").to(dtype).reshape(value.shape)
            )
        return torch.tensor(value.values, dtype=dtype, device="cpu").reshape(value.shape)
    if type(value) is dict:
        if set(value) == {"array", "dtype"}:
            from lecture_lib.exercises.encoding import decode

            return _fresh(decode(encode(value)))
        return {key: _fresh(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_fresh(item) for item in value)
    return value  # numbers, text, None: cannot be changed


def _run_case(run: drivers.Driver, answer: Any, inputs: Mapping[str, Any], time_limit: float) -> Row:
    given = fresh(inputs)
    before = {name: encode(value) for name, value in given.items()}
    handed = _Student(answer) if run.takes == "function" else answer

    def work() -> Row:
        student_code_runs.set(True)  # here: outside the main thread this runs in a thread of its own
        try:
            return Row(value=encode(run.run(handed, given)))
        except _Blank:
            return Row(value=encode(...))
        except (KeyboardInterrupt, _TimeUp):
            raise
        except BaseException as error:  # SystemExit and every student's own class of error too
            return Row(error=_describe(error, sys.exc_info()[2], _file_of(answer)))

    try:
        with _captured() as printed:
            row = _limited(work, time_limit)
    finally:
        student_code_runs.set(False)
    text = printed.text
    if row is None:
        return Row(timed_out=True, printed=text, printed_length=printed.length)
    changed = tuple(name for name, value in given.items() if encode(value) != before[name])
    return Row(row.value, row.error, printed=text, printed_length=printed.length, changed=changed)


class _Student:
    """A student's function: takes inputs by name even where the student named the parameters differently."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._bound(args, kwargs)
        value = self._function(*args, **kwargs)
        if _is_blank(value):
            raise _Blank
        return value

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            signature = inspect.signature(self._function)
        except (TypeError, ValueError):
            return args, kwargs
        for attempt in ((args, kwargs), (args, _renamed(signature, kwargs)), ((*args, *kwargs.values()), {})):
            try:
                signature.bind(*attempt[0], **attempt[1])
                return attempt
            except TypeError:
                continue
        wanted = ", ".join(kwargs) or f"{len(args)} values"
        raise TypeError(f"your function takes {signature}; it is called with {wanted}")


def _renamed(signature: inspect.Signature, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The inputs under the student's names: by name where one fits, the others in their order."""
    free = [name for name in signature.parameters if name not in kwargs]
    names = [name if name in signature.parameters else free.pop(0) if free else name for name in kwargs]
    return dict(zip(names, kwargs.values(), strict=True))


def _is_blank(value: Any, depth: int = 0) -> bool:
    """`...`, or a tuple, list or dict of nothing else, nested only so far: a list may hold itself."""
    if type(value) in (tuple, list, dict):
        items = value.values() if type(value) is dict else value
        return bool(value) and depth < MAX_DEPTH and all(_is_blank(item, depth + 1) for item in items)
    return value is ...


def _is_blank_value(row: Row) -> bool:
    return row.error is None and row.value == {"ellipsis": True}


_BLANK_STEPS = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "POP_TOP", "CACHE"}


def _is_blank_function(function: Any) -> bool:
    """Whether the body is only `...`, `pass`, `return`, `return ...` or a docstring."""
    if type(function) is not FunctionType:
        return False
    steps = list(dis.get_instructions(function.__code__))
    return all(s.opname in _BLANK_STEPS for s in steps) and all(
        s.argval is None or s.argval is ... for s in steps if s.opname in ("LOAD_CONST", "RETURN_CONST")
    )


# -- errors, in the student's own lines


def _file_of(answer: Any) -> str:
    while type(answer) is functools.partial:
        answer = answer.func
    return answer.__code__.co_filename if type(answer) is FunctionType else ""


def _is_cell(filename: str) -> bool:
    return "ipykernel_" in filename or filename.startswith(("<ipython-input", "<cell "))


def _describe(error: BaseException, trace: TracebackType | None, own: str) -> Error:
    line, source = None, ""
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if filename == own or _is_cell(filename):
            line = trace.tb_lineno
            source = linecache.getline(filename, line).strip()
        trace = trace.tb_next
    if issubclass(type(error), SystemExit):
        return Error(
            "SystemExit", "your code calls exit(); return the value instead", line, _clean(source, 200)
        )
    try:
        message = str(error)
    except (KeyboardInterrupt, _TimeUp):
        raise
    except BaseException:  # a message that cannot be made is no message
        message = ""
    return Error(_clean(type_name(error), 80), _clean(message, 500), line, _clean(source, 200))


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{6,}")  # another one every time


def _clean(text: str, limit: int) -> str:
    text = _ADDRESS.sub("", str.__str__(text))
    text = text if len(text) <= limit else text[:limit] + " …"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# -- output


class _Printed(io.TextIOBase):
    """Takes any amount of text and keeps the beginning."""

    encoding = "utf-8"  # some libraries ask a stream for it

    def __init__(self) -> None:
        self._kept: list[str] = []
        self.length = 0

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.length < MAX_PRINTED:
            self._kept.append(str.__str__(text)[: MAX_PRINTED - self.length])
        self.length += len(text)
        return len(text)

    def writable(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return _clean("".join(self._kept), MAX_PRINTED)


def _no_input(*_: Any, **__: Any) -> str:
    raise RuntimeError("input() waits for a person; an exercise gets its inputs as arguments")


def _exit() -> None:
    raise SystemExit


@contextlib.contextmanager
def _captured() -> Iterator[_Printed]:
    """Standard output and errors of the block, and no `input()` in it; in a notebook, where `exit()` would
    end the kernel after the cell, it raises as elsewhere.
    """
    printed = _Printed()
    asked = builtins.input
    builtins.input = _no_input
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    try:
        if shell is not None:
            shell.ask_exit = _exit
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            yield printed
    finally:
        builtins.input = asked
        if shell is not None:
            vars(shell).pop("ask_exit", None)  # its class has its own


# -- time


def _limited(work: Callable[[], Row], seconds: float) -> Row | None:
    """`work()`, or None if it took longer than `seconds`."""
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        return _limited_by_alarm(work, seconds)
    return _limited_in_thread(work, seconds)


def _limited_by_alarm(work: Callable[[], Row], seconds: float) -> Row | None:
    """Interrupts the main thread by SIGALRM, again and again once the time is up.

    A bare `except:` in a loop catches the first exception; so each alarm also sets a trace that raises a
    second one on the handler's first line, where that `except:` no longer covers it.
    """
    here = sys._getframe()
    late = False

    def ring(_signal: int, frame: FrameType | None) -> None:
        nonlocal late
        late = True
        if frame is here:  # in this function's own lines there is nothing to interrupt
            return
        while frame is not None and frame is not here:
            frame.f_trace = again
            frame = frame.f_back
        sys.settrace(again)
        raise _TimeUp

    def again(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            raise _TimeUp  # which ends the tracing, until the next alarm
        return again

    tracing = sys.gettrace()
    before = signal.signal(signal.SIGALRM, ring)
    row, start, other = None, time.monotonic(), (0.0, 0.0)
    try:
        other = signal.setitimer(signal.ITIMER_REAL, seconds, 0.0001)
        row = work()
    except _TimeUp:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.settrace(tracing)
        signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)
        if other[0]:  # somebody else's alarm was waiting: it goes on
            signal.setitimer(signal.ITIMER_REAL, max(0.001, other[0] - time.monotonic() + start), other[1])
    return None if late else row


def _limited_in_thread(work: Callable[[], Row], seconds: float) -> Row | None:
    """Where there is no alarm (Windows, or not in the main thread): a thread that is asked to stop, then
    left behind.
    """
    box: list[Row] = []
    interrupted: list[KeyboardInterrupt] = []

    def target() -> None:
        try:
            box.append(work())
        except KeyboardInterrupt as error:
            interrupted.append(error)
        except _TimeUp:
            pass

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    deadline = time.monotonic() + seconds
    late = False
    try:
        while thread.is_alive() and time.monotonic() < deadline:
            thread.join(min(0.05, seconds))
        late = thread.is_alive()
    finally:
        give_up = time.monotonic() + _ABANDON_AFTER
        while thread.is_alive() and time.monotonic() < give_up:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_TimeUp)
            )
            thread.join(0.002)
    if interrupted:
        raise interrupted[0]
    return None if late or not box else box[0]
