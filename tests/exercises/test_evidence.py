from __future__ import annotations

import functools
import json
import linecache
import random
import signal
import sys
import threading
import time
import warnings
from typing import Any

import pytest

from lecture_lib.exercises import evidence
from lecture_lib.exercises.encoding import decode
from lecture_lib.exercises.evidence import Evidence, collect
from lecture_lib.quantity import LectureError

CASES = [{"x": 2}, {"x": 5}]


def rows(answer: Any, cases: Any = CASES, time_limit: float = 5.0) -> tuple[evidence.Row, ...]:
    return collect("function", answer, cases, time_limit=time_limit).rows


def from_cell(source: str, name: str = "f") -> Any:
    """A function as a notebook's cell defines it."""
    filename = f"/tmp/ipykernel_1/{random.random()}.py"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    names: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), names)
    return names[name]


def test_every_case_is_run_and_its_value_kept() -> None:
    assert [row.value for row in rows(lambda x: x * x)] == [4, 25]


def test_inputs_are_fresh_for_every_call_and_changes_to_them_are_seen() -> None:
    shared = [{"items": [1, 2]}, {"items": [1, 2]}]

    def f(items):
        items.append(len(items))
        return len(items)

    found = rows(f, shared)
    assert [row.value for row in found] == [3, 3] and shared == [{"items": [1, 2]}] * 2
    assert [row.changed for row in found] == [("items",), ("items",)]


def test_arrays_come_as_fresh_tensors() -> None:
    import torch

    spec = {"X": {"array": [[1, 2]], "dtype": "float32"}}

    def f(X):
        assert X.dtype is torch.float32 and X.shape == (1, 2)
        X.zero_()
        return X

    found = rows(f, [spec, spec])
    assert [row.changed for row in found] == [("X",), ("X",)] and spec["X"]["array"] == [[1, 2]]
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        assert rows(f, [spec])[0].error is None, "whatever a notebook has set before"
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    assert rows(lambda X: X.T, [spec])[0].value["array"]["shape"] == [2, 1], "a view is an answer"


@pytest.mark.parametrize(
    "body", ["...", "pass", "return ...", "return", "'words'", "'words'\n    return ..."]
)
def test_a_blank(body: str) -> None:
    assert collect("function", from_cell(f"def f(x):\n    {body}"), CASES).blank


def test_other_blanks() -> None:
    assert collect("function", lambda x: (..., ...), CASES).blank
    assert collect("function", ..., CASES).blank and collect("quantity", ..., [{}]).blank
    assert collect("driver", ..., CASES, driver="einops").blank
    assert not collect("function", lambda x: ... if x == 2 else 3, CASES).blank
    assert not collect("function", lambda x: 3, CASES).blank
    assert not collect("quantity", None, [{}]).blank


def test_an_error_has_the_students_own_line() -> None:
    source = "import json\n\ndef f(x):\n    text = '{'\n    return json.loads(text)  # here\n"
    error = rows(from_cell(source))[0].error
    assert error is not None and error.type == "JSONDecodeError"
    assert (error.line, error.source) == (5, "return json.loads(text)  # here")


def test_an_error_in_a_helper_of_another_cell_has_its_line_there() -> None:
    helper = from_cell("def helper(x):\n    return 1 / (x - x)\n", "helper")
    error = rows(lambda x: helper(x))[0].error
    assert error is not None and (error.type, error.line, error.source) == (
        "ZeroDivisionError",
        2,
        "return 1 / (x - x)",
    )


def test_endless_recursion() -> None:
    def f(x):
        return f(x)

    assert [row.error.type for row in rows(f) if row.error] == ["RecursionError"] * 2


def test_a_list_that_holds_itself_is_no_error_of_the_students() -> None:
    itself: list[Any] = []
    itself.append(itself)
    deep: Any = functools.reduce(lambda inner, _: [inner], range(5_000), 1)
    for value in (itself, {"x": itself}, deep):
        row = rows(lambda x, value=value: value)[0]
        assert row.error is None and "nested more than" in row.value["repr"]


def test_a_stream_names_its_encoding() -> None:
    assert rows(lambda x: (sys.stdout.encoding, sys.stderr.isatty()))[0].value == {"tuple": ["utf-8", False]}


class _Cruel(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")

    __repr__ = __str__


class _Crueler(Exception):
    def __str__(self) -> str:
        raise SystemExit


class _Base(BaseException):
    pass


@pytest.mark.parametrize(
    ("raised", "type_", "words"),
    [
        (SystemExit(0), "SystemExit", "return the value"),
        (_Cruel(), "_Cruel", ""),
        (_Crueler(), "_Crueler", ""),
        (_Base("deep"), "_Base", "deep"),
        (MemoryError(), "MemoryError", ""),
        (GeneratorExit(), "GeneratorExit", ""),
        (ValueError("x" * 10**6), "ValueError", "…"),
        (ValueError("\ud800"), "ValueError", "\\ud800"),
        (ValueError("<function f at 0x7f0123456789> fails"), "ValueError", "<function f> fails"),
    ],
)
def test_whatever_is_raised_is_reported(raised: BaseException, type_: str, words: str) -> None:
    def f(x):
        raise raised

    error = rows(f)[0].error
    assert error is not None and error.type == type_ and words in error.message and len(error.message) < 600


def test_an_interrupt_by_the_user_passes_through() -> None:
    def f(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rows(f)
    with pytest.raises(KeyboardInterrupt):
        evidence._limited_in_thread(lambda: f(1), 1.0)


@pytest.mark.filterwarnings("ignore:careful")
def test_output_is_kept_short_and_standard_streams_come_back() -> None:
    out, err = sys.stdout, sys.stderr

    def f(x):
        for _ in range(200_000):
            print("line after line")
        print("to stderr", file=sys.stderr)
        warnings.warn("careful", stacklevel=1)
        return x

    row = rows(f)[0]
    assert row.value == 2 and len(row.printed) == evidence.MAX_PRINTED and row.printed_length > 3_000_000
    assert (sys.stdout, sys.stderr) == (out, err)


def test_input_is_refused_in_words() -> None:
    error = rows(lambda x: input("how many? "))[0].error
    assert error is not None and "as arguments" in error.message


def test_parameters_may_have_other_names() -> None:
    cases = [{"M": 3, "d_in": 5}]
    assert rows(lambda a, b: a - b, cases)[0].value == -2
    assert rows(lambda d_in, M: M - d_in, cases)[0].value == -2, "by name where the names fit"
    assert rows(lambda d_in, rows: (d_in, rows), cases)[0].value == {"tuple": [5, 3]}, "the rest in order"
    assert rows(lambda d_in, *, rows: (d_in, rows), cases)[0].value == {"tuple": [5, 3]}
    assert rows(lambda a, b=7, *c: (a, b, c), cases)[0].value == {"tuple": [3, 5, {"tuple": []}]}
    assert rows(lambda a, /, d_in: (a, d_in), cases)[0].value == {"tuple": [3, 5]}
    assert rows(lambda *args: len(args), cases)[0].value == 2
    assert rows(lambda **names: sorted(names), cases)[0].value == ["M", "d_in"]
    error = rows(lambda only: only, cases)[0].error
    assert error is not None and "takes (only); it is called with M, d_in" in error.message


def test_a_value_where_a_function_is_wanted() -> None:
    assert collect("function", 210, CASES).instead == 210
    assert collect("function", int, CASES).instead == {"other": "class", "repr": "int"}
    assert collect("function", len, [{"x": [1, 2, 3]}]).rows[0].value == 3


def test_objects_are_encoded() -> None:
    assert decode(rows(lambda x: (i for i in range(x)))[0].value).type == "generator"
    assert decode(rows(lambda x: rows)[0].value).type == "function"
    assert decode(rows(lambda x: math_module())[0].value).type == "module"

    async def f(x):
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode(rows(f)[0].value).type == "coroutine"


def math_module() -> Any:
    import math

    return math


# -- time


def _sleeps(x):
    while True:
        time.sleep(0.01)


def _spins(x):
    while True:
        pass


def _swallows(x):
    while True:
        try:
            time.sleep(10)
        except:  # noqa: E722
            continue


def _swallows_quickly(x):
    while True:
        try:
            x += 1
        except BaseException:
            continue


def _answers_late(x):
    try:
        while True:
            pass
    except:  # noqa: E722
        return 4


def _nests(x):
    def inner():
        try:
            _sleeps(x)
        finally:
            _swallows(x)

    while True:
        try:
            inner()
        except:  # noqa: E722
            print("not stopping")


ENDLESS = [_sleeps, _spins, _swallows, _swallows_quickly, _answers_late, _nests]


@pytest.mark.parametrize("endless", ENDLESS)
def test_the_time_limit_ends_it(endless: Any) -> None:
    before = signal.getsignal(signal.SIGINT)
    start = time.monotonic()
    found = rows(endless, time_limit=0.3)
    assert time.monotonic() - start < 10
    assert found[0].timed_out and not found[1].ran, "later cases are not waited for"
    assert signal.getsignal(signal.SIGINT) is before
    assert rows(lambda x: x)[0].value == 2, "and the next one runs"


@pytest.mark.parametrize("endless", ENDLESS)
def test_the_time_limit_outside_the_main_thread(endless: Any) -> None:
    """The way of Windows, and of any thread."""
    found: list[evidence.Row] = []
    start = time.monotonic()
    thread = threading.Thread(target=lambda: found.extend(rows(endless, time_limit=0.3)))
    thread.start()
    thread.join(20)
    assert not thread.is_alive() and time.monotonic() - start < 20
    assert found[0].timed_out and not found[1].ran


def test_a_value_in_another_thread() -> None:
    found: list[evidence.Row] = []
    thread = threading.Thread(target=lambda: found.extend(rows(lambda x: x)))
    thread.start()
    thread.join(10)
    assert [row.value for row in found] == [2, 5]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no alarm on this system")
def test_an_alarm_that_was_set_goes_on() -> None:
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    waiting = signal.setitimer(signal.ITIMER_REAL, 100.0)
    try:
        rows(_spins, time_limit=0.3)
        assert 90 < signal.getitimer(signal.ITIMER_REAL)[0] < 99.8
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
        signal.setitimer(signal.ITIMER_REAL, 0)
        rows(_spins, time_limit=0.1)
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *waiting)


def test_a_trace_that_was_set_is_set_again() -> None:
    def tracer(frame: Any, event: str, arg: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        rows(_spins, time_limit=0.1)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


# -- as data


def test_there_and_back() -> None:
    def f(x):
        print("hello")
        return 1 / (x - 2)

    found = collect("function", f, CASES)
    assert Evidence.from_plain(json.loads(json.dumps(found.plain()))) == found


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 3},
        {"rows": [3]},
        {"rows": [{"value": 1}]},
        {"rows": [{}] * 2_000},
        {"blank": 1},
        {"more": 1},
        {"time_limit": "x"},
    ],
)
def test_evidence_in_another_form_is_refused(change: dict[str, Any]) -> None:
    plain = {**collect("function", lambda x: x, CASES).plain(), **change}
    with pytest.raises(LectureError):
        Evidence.from_plain(json.loads(json.dumps(plain)))


@pytest.mark.parametrize(
    "change",
    [
        {"error": "boom"},
        {"error": {"type": 3, "message": "", "line": None, "source": ""}},
        {"timed_out": 1},
        {"printed": "x" * 10**5},
        {"changed": ["x" * 100]},
        {"changed": [3]},
        {"more": 1},
    ],
)
def test_a_row_in_another_form_is_refused(change: dict[str, Any]) -> None:
    plain = json.loads(json.dumps(collect("function", lambda x: x, CASES).plain()))
    plain["rows"][0].update(change)
    with pytest.raises(LectureError):
        Evidence.from_plain(plain)


def test_nothing_expected_is_in_the_process_that_collects() -> None:
    """Grading runs these modules beside the student's code."""
    import subprocess

    code = "import lecture_lib.exercises.evidence, sys; print([m for m in sys.modules if 'lecture_lib' in m])"
    # The package's own __init__ brings the checks; the key and its reader stay out.
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "exercises.key" not in out
