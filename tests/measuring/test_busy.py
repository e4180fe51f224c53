from __future__ import annotations

import time

import pytest

from lecture_lib.measuring.busy import busy_share
from lecture_lib.quantity import LectureError


def spin() -> None:
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass


def test_work_is_busy_and_waiting_is_not() -> None:
    waited = busy_share(lambda: time.sleep(0.02), calls=5)
    worked = busy_share(spin, calls=5)
    assert 0 <= waited.value < 0.5 * worked.value and worked.unit == "1"
    assert "over 5 calls" in worked.conventions


@pytest.mark.parametrize("bad", [{"fn": 3}, {"fn": spin, "calls": 0}, {"fn": spin, "device": "meta"}])
def test_what_cannot_be_run_is_refused(bad: dict) -> None:
    with pytest.raises(LectureError):
        busy_share(**bad)
