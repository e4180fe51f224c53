"""Pictures of checkpoint intervals and microbatches refuse what cannot be drawn; widgets follow controls."""

from __future__ import annotations

import time

import pytest

from lecture_lib.accounting.peak import mlp_peak
from lecture_lib.figures.activations import by_interval, by_microbatches, checkpoint_interval, microbatches
from lecture_lib.figures.widgets import slider, widget
from lecture_lib.quantity import LectureError, Quantity

MB = {k: Quantity(amount, "MB") for k, amount in {None: 9, 1: 8, 2: 5, 3: 4, 4: 6}.items()}


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(LectureError, match="two intervals"):
        by_interval({None: MB[None], 1: MB[1]}, {}, "How much?")
    with pytest.raises(LectureError, match="marked k = 7"):
        by_interval(MB, {}, "How much?", marked=7)
    with pytest.raises(LectureError, match="got none"):
        by_microbatches({}, "How much?")
    with pytest.raises(LectureError, match="1 to 8 layers; got 9"):
        checkpoint_interval(8, 9)


def test_an_interval_is_told_with_its_measurement() -> None:
    alt = by_interval(MB, {2: Quantity(5.1, "MB")}, "How much?").alt
    assert "8 at k = 1, 4 at k = 3, 6 at k = 4; least at k = 3; 9 without a checkpoint" in alt
    assert "at most 2.0% from the line" in alt


def test_microbatches_are_told_by_category() -> None:
    peaks = {K: mlp_peak(64, [32] * 5, microbatches=K) for K in (1, 4)}
    alt = by_microbatches(peaks, "Does it fall?", "kB").alt
    for K, peak in peaks.items():
        assert f"K = {K}, {float(peak.total.to('kB').value):,.3g} kB: parameters 16.4" in alt


def test_an_interval_follows_its_controls() -> None:
    made = widget(
        checkpoint_interval, layers=slider("layers", [8, 24], 24), k=slider("interval", [1, 5, 12], 5)
    )
    assert "k = 5" in made.html and "least at k = 5" in made.html and "96% of the forward" in made.html
    before = made.html
    made.controls["k"].value = 12
    assert "1.73 at k = 1" not in made.html and "2.13 at k = 12" in made.html
    made.controls["layers"].value = 8
    assert "Not possible" in made.text
    made.controls["layers"].value, made.controls["k"].value = 24, 5
    assert made.html == before
    start = time.perf_counter()
    made.controls["k"].value = 1
    assert time.perf_counter() - start < 2  # a tenth of a second on a machine with nothing else to do


def test_microbatches_follow_their_controls() -> None:
    made = widget(
        microbatches,
        width=slider("width", [32, 256], 32),
        rows=slider("rows", [64, 1024], 1024),
        K=slider("microbatches", [1, 3, 4], 4),
    )
    assert "changes the total by -" in made.html
    made.controls["width"].value, made.controls["rows"].value = 256, 64
    assert "changes the total by +8%" in made.html
    made.controls["K"].value = 3
    assert "Not possible" in made.text and "that 3 microbatches divide" in made.text
