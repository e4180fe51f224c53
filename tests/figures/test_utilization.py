"""Pictures of utilization refuse what cannot be drawn; the days of a run follow their controls."""

from __future__ import annotations

import time

import pytest

from lecture_lib.figures.utilization import clock_stops, days_of_a_run, misreadings, step_utilization
from lecture_lib.figures.widgets import menu, slider, widget
from lecture_lib.quantity import LectureError


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(LectureError, match="at most 1"):
        misreadings(45, {"sparse peak": 1 / 2})
    with pytest.raises(LectureError, match="longer than a launch"):
        clock_stops(2, [1, 3])
    with pytest.raises(LectureError, match="at least one step"):
        step_utilization({})


def test_the_days_follow_their_controls() -> None:
    made = widget(
        days_of_a_run,
        billions=slider("billion parameters", [7, 70], 70),
        trillions=slider("trillion tokens", [1, 15], 15),
        devices=slider("devices", [256, 1024], 1024),
        device=menu("device", ["H100-SXM", "T4"], "H100-SXM"),
        mfu=slider("MFU", [0.25, 0.5], 0.5),
        stops_a_week=slider("stops a week", [0, 3.8], 3.8),
        hours_each=slider("hours lost by each", [1, 3], 3),
    )
    before = made.html
    assert "153.7 days" in made.text
    made.controls["mfu"].value = 0.25
    assert "Training takes 287.9 days" in made.html
    made.controls["device"].value = "T4"
    assert "Not possible" in made.text and "recorded peak on T4" in made.html
    made.controls["device"].value, made.controls["mfu"].value = "H100-SXM", 0.5
    assert made.html == before
    start = time.perf_counter()
    made.controls["stops_a_week"].value = 0
    assert time.perf_counter() - start < 2  # a tenth of a second on a machine with nothing else to do
