from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from lecture_lib.measuring.profiling import time_by_operation
from lecture_lib.quantity import LectureError


def test_the_largest_rows_are_named_and_the_rest_is_one() -> None:
    a = torch.rand(200, 200)
    found = time_by_operation(lambda: (a @ a).relu().sum(), rows=2)
    rows = dict(found.items())
    assert "mm" in rows and len(rows) == 3 and list(rows)[-1].endswith(" others")
    assert found.total == sum(list(rows.values())[1:], list(rows.values())[0]) and found.total.unit == "s"
    named = list(rows.values())[:-1]
    assert named == sorted(named, reverse=True)


def test_nothing_is_said_on_stderr() -> None:
    code = (
        "import torch; from lecture_lib.measuring.profiling import time_by_operation; "
        "a = torch.rand(9, 9); time_by_operation(lambda: a @ a)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "profiler" not in done.stderr


def test_what_cannot_be_profiled_is_refused() -> None:
    with pytest.raises(LectureError, match="at least one operation"):
        time_by_operation(lambda: None)
    with pytest.raises(LectureError, match="rows of at least 1; got 0"):
        time_by_operation(lambda: None, rows=0)
