"""Pictures of model states refuse what cannot be drawn; what fits follows its controls."""

from __future__ import annotations

import time

import pytest

from lecture_lib.accounting.memory import bytes_per_parameter, model_states
from lecture_lib.figures.memory import SHARDINGS, epsilon_placement, states, what_fits
from lecture_lib.figures.widgets import menu, slider, widget
from lecture_lib.quantity import LectureError, Ledger, Quantity


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(LectureError, match="got none"):
        states({}, "GB", "What fits?")
    with pytest.raises(LectureError, match="got activations"):
        states({"a": Ledger({"activations": Quantity(1, "GB")})}, "GB", "What fits?")
    with pytest.raises(LectureError, match="dimension"):
        states({"a": bytes_per_parameter("lecture")}, "GB", "What fits?")
    with pytest.raises(LectureError, match="positive gradients"):
        epsilon_placement([0.0, 1.0], 1e-10)
    with pytest.raises(LectureError, match="positive gradients"):
        epsilon_placement([1e-3, 1.0], 0.0)
    with pytest.raises(LectureError, match="sharding to be one of"):
        what_fits("llama-3.1-8b", "lecture", "H100-SXM", 8, "ZeRO-4")


def test_a_total_as_large_as_the_device_fits() -> None:
    full = {"all of it": model_states(5 * 10**9, "fp32")}
    assert "80 GB, fits" in states(full, "GB", "What fits?", Quantity(80, "GB")).alt
    assert "80 GB, too much" in states(full, "GB", "What fits?", Quantity(79, "GB")).alt


def test_what_fits_follows_its_controls() -> None:
    made = widget(
        what_fits,
        model=menu("model", ["llama-3.1-8b", "llama-3.1-405b"], "llama-3.1-8b"),
        recipe=menu("recipe", ["lecture", "bf16-master-both-gradients"], "lecture"),
        device=menu("device", ["H100-SXM", "B200"], "H100-SXM"),
        devices=slider("devices", [1, 8, 1024], 8),
        sharding=menu("sharding", list(SHARDINGS), "replicated"),
    )
    before = made.html
    assert "each of 8, 96.36 GB, too much" in made.html
    made.controls["sharding"].value = "and parameters (ZeRO-3)"
    assert "each of 8, 12.05 GB, fits: parameters 2.008" in made.html
    made.controls["devices"].value = 1
    assert "Not possible" in made.text and "two devices or more" in made.html
    made.controls["sharding"].value, made.controls["devices"].value = "replicated", 8
    assert made.html == before
    start = time.perf_counter()
    made.controls["model"].value = "llama-3.1-405b"
    assert time.perf_counter() - start < 2  # a tenth of a second on a machine with nothing else to do
