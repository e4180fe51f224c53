"""The one way in which the course makes a widget: labelled controls, and a picture that follows them.

`widget(draw, **controls)` needs a drawing function that takes each control's value by name, and `figure`, the
one that it draws on again and again. What it refuses (LectureError) stands in words in its place.

    widget(draw, M=slider("rows M", [1, 128, 1024], 128), device=menu("device", ["T4", "L4"], "L4"))

Where no kernel runs (GitHub, an exported page) the first picture stands, with its alternative text.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets
from matplotlib.figure import Figure

from lecture_lib.figures.show import Drawing, show
from lecture_lib.quantity import LectureError

_WIDE = {"description_width": "11em"}


def slider(label: str, values: Sequence[Any], start: Any) -> ipywidgets.SelectionSlider:
    """A slider over `values` in their order, which arrow keys move; `start` is one of them."""
    return _control(ipywidgets.SelectionSlider, label, values, start, continuous_update=True)


def menu(label: str, values: Sequence[Any], start: Any) -> ipywidgets.Dropdown:
    """A menu of `values`; `start` is one of them."""
    return _control(ipywidgets.Dropdown, label, values, start)


def _control(kind: Any, label: str, values: Sequence[Any], start: Any, **more: Any) -> Any:
    if not label.strip():
        raise LectureError("expected a label that says what the control changes; got none")
    if start not in values:
        raise LectureError(
            f"expected {label} to start at one of {', '.join(map(str, values))}; got {start!r}"
        )
    options = [(f"{value:,}" if isinstance(value, int) else str(value), value) for value in values]
    layout = ipywidgets.Layout(width="30em")
    return kind(options=options, value=start, description=label, style=_WIDE, layout=layout, **more)


class Widget:
    """Controls above a picture. `controls` by name; `html` and `text` are what is shown now."""

    def __init__(self, draw: Callable[..., Drawing], controls: Mapping[str, Any]) -> None:
        self.controls = dict(controls)
        self._draw = draw
        self._figure: Figure | None = None  # kept: a new one for each picture takes twice as long
        self._picture = ipywidgets.HTML()
        # Side by side as far as there is room: a slide has to hold controls, picture and code.
        rows = ipywidgets.HBox([*self.controls.values()], layout=ipywidgets.Layout(flex_flow="row wrap"))
        self._box = ipywidgets.VBox([rows, self._picture])
        self.html = self.text = ""
        self._redraw()
        for control in self.controls.values():
            control.observe(self._redraw, names="value")

    def _redraw(self, change: object = None) -> None:
        values = {name: control.value for name, control in self.controls.items()}
        self.html, self.text, self._figure = drawn(self._draw, values, self._figure)
        self._picture.value = self.html

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        bundle = self._box._repr_mimebundle_() or {}
        live = {kind: data for kind, data in bundle.items() if kind.startswith("application/")}
        return {**live, "text/html": self.html, "text/plain": repr(self)}

    def __repr__(self) -> str:
        labels = ", ".join(control.description for control in self.controls.values())
        return f"Widget ({labels}). {self.text}"


def widget(draw: Callable[..., Drawing], **controls: Any) -> Widget:
    """The picture that `draw` makes of the controls' values, drawn anew when one is moved.

    draw: called with each control's value under its name and `figure`: None, then the last drawing's figure
    LectureError where there is no control.
    """
    if not controls:
        raise LectureError(
            "expected at least one control, slider(…) or menu(…); got none; show(…) needs none"
        )
    return Widget(draw, controls)


def drawn(
    draw: Callable[..., Drawing], values: Mapping[str, Any], figure: Figure | None = None
) -> tuple[str, str, Figure | None]:
    """HTML, a short text, and the figure to draw on next time; a refusal is a paragraph with its words."""
    try:
        drawing = draw(**values, figure=figure)
    except LectureError as refusal:
        return (
            f'<p role="alert">Not possible: {html.escape(str(refusal))}</p>',
            f"Not possible: {refusal}",
            figure,
        )
    shown = show(drawing, sharper=1)
    return shown._repr_html_(), repr(shown), drawing.figure
