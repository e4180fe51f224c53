"""Widgets without a browser: controls are moved as the browser moves them, and what is shown is read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.figure import Figure

from lecture_lib.figures.roofline import decode_batches, gemm_on_roofline
from lecture_lib.figures.show import Drawing
from lecture_lib.figures.widgets import Widget, drawn, menu, slider, widget
from lecture_lib.quantity import LectureError

VIEW = "application/vnd.jupyter.widget-view+json"


def gemm_widget() -> Widget:
    return widget(
        gemm_on_roofline,
        M=slider("rows M", [1, 128, 1024], 128),
        d_in=slider("d_in", [1024, 4096], 4096),
        d_out=slider("d_out", [1024, 4096], 4096),
        device=menu("device", ["H100-SXM", "T4"], "H100-SXM"),
        dtype=menu("values in", ["bf16", "fp16", "fp32"], "bf16"),
    )


def decode_widget() -> Widget:
    return widget(
        decode_batches,
        model=menu("model", ["llama-3.1-8b"], "llama-3.1-8b"),
        context=slider("context, tokens", [1024, 8192], 8192),
        batch=slider("sequences at once", [1, 8, 64], 8),
        device=menu("device", ["H100-SXM", "H200-SXM"], "H100-SXM"),
    )


def test_a_picture_stands_before_anyone_moves_it() -> None:
    made = gemm_widget()
    bundle = made._repr_mimebundle_()
    assert set(bundle) == {VIEW, "text/html", "text/plain"}
    assert bundle["text/html"].startswith('<img alt="H100-SXM, BF16: bandwidth is the limit.')
    assert "M = 128, at least 10.64 µs" in bundle["text/html"]
    said = bundle["text/plain"]
    assert said == (
        "Widget (rows M, d_in, d_out, device, values in). Figure: H100-SXM, BF16: bandwidth is the limit."
    )


def test_it_follows_its_controls_on_one_figure() -> None:
    made = gemm_widget()
    before, figure = made.html, made._figure
    made.controls["M"].value = 1024
    assert "arithmetic is the limit" in made.html and made.html != before
    assert made._figure is figure and made._picture.value == made.html
    made.controls["M"].value = 128
    assert made.html == before  # nothing of the last picture is left on it


def test_what_is_impossible_is_refused_in_words_and_mended() -> None:
    made = gemm_widget()
    before = made.html
    made.controls["device"].value = "T4"
    assert made.html.startswith('<p role="alert">Not possible: expected a format with a recorded peak on T4')
    made.controls["dtype"].value = "fp16"
    assert made.html.startswith('<img alt="T4, FP16')
    made.controls["device"].value, made.controls["dtype"].value = "H100-SXM", "bf16"
    assert made.html == before


def test_a_batch_beyond_the_memory_is_refused() -> None:
    made = decode_widget()
    made.controls["batch"].value = 64
    assert "take 59 sequences at most" in made.html
    made.controls["device"].value = "H200-SXM"
    assert "llama-3.1-8b on H200-SXM, 64 at once: bandwidth is the limit" in made.html


@pytest.mark.parametrize("make", [gemm_widget, decode_widget])
def test_every_control_has_a_label_and_takes_the_keyboard(make: Callable[[], Widget]) -> None:
    for control in make().controls.values():
        assert control.description.strip()
        assert type(control).__name__ in ("SelectionSlider", "Dropdown")


@pytest.mark.parametrize("make", [gemm_widget, decode_widget])
def test_a_picture_is_drawn_anew_within_a_tenth_of_a_second(make: Callable[[], Widget]) -> None:
    made = make()
    control = made.controls["M" if "M" in made.controls else "batch"]
    spent = []
    for value in (1, 8 if "batch" in made.controls else 1024) * 4:
        start = time.process_time()  # of this process: others may have the processor
        control.value = value
        spent.append(time.process_time() - start)
    assert min(spent[1:]) < 0.1


def test_the_same_values_give_the_same_picture() -> None:
    values = {"model": "llama-3.1-8b", "context": 1024, "batch": 8, "device": "H100-SXM"}
    html, text, figure = drawn(decode_batches, values)
    assert isinstance(figure, Figure)
    drawn(decode_batches, {**values, "batch": 16}, figure)
    assert drawn(decode_batches, values, figure) == (html, text, figure)


def test_bad_input_is_refused() -> None:
    with pytest.raises(LectureError, match="at least one control"):
        widget(gemm_on_roofline)
    with pytest.raises(LectureError, match="start at one of 1, 2"):
        slider("rows M", [1, 2], 3)
    with pytest.raises(LectureError, match="label"):
        menu(" ", [1, 2], 1)


def test_a_refusal_cannot_write_html() -> None:
    def refuse(figure: Any, x: str) -> Drawing:
        raise LectureError(f"expected <b>; got {x}")

    said, text, _ = drawn(refuse, {"x": "<script>"})
    assert "<script>" not in said and "&lt;script&gt;" in said
    assert text == "Not possible: expected <b>; got <script>"
