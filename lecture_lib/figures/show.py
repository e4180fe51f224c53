"""The one way in which a figure is shown: an HTML image that carries its alternative text.

Alternative text survives in JupyterLab and in exported pages only as `<img alt>`, so the picture is HTML with
its PNG inside, and the text representation is one short line.
"""

from __future__ import annotations

import base64
import html
import io
import re
import sys
from dataclasses import dataclass

from matplotlib.figure import Figure

from lecture_lib.quantity import LectureError

_PIXELS_PER_INCH = 96  # CSS
_SHARPER = 1.5  # pixels drawn per CSS pixel: sharp on a projector, still a small file


@dataclass(frozen=True)
class Drawing:
    """A figure with the alternative text that was made from the same data."""

    figure: Figure
    alt: str


class Shown:
    """A picture that is already drawn: HTML in a notebook, "Figure: …" in a terminal."""

    def __init__(self, png: bytes, alt: str, width: int) -> None:
        self.png, self.alt, self.width = png, alt, width

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png).decode("ascii")
        return (
            f'<img alt="{html.escape(self.alt)}" src="data:image/png;base64,{data}" width="{self.width}" '
            'style="max-width:100%">'
        )

    def __repr__(self) -> str:
        first, *_ = re.split(r"(?<=[.?!])\s", self.alt, maxsplit=1)
        return f"Figure: {first}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": repr(self)}


def show(figure: Figure | Drawing, alt: str | None = None, *, sharper: float = _SHARPER) -> Shown:
    """Draw a figure as it is now, close it, and return what a notebook shows.

    figure: what a drawing function returned, or any Matplotlib figure
    alt:    what the picture says, for those who do not see it; its first sentence is the short text.
            A drawing has its own.
    sharper: pixels drawn per CSS pixel; 1 takes half of the time, for a picture that follows a slider
    Raises LectureError without a text.
    """
    if isinstance(figure, Drawing):
        alt = figure.alt if alt is None else alt
        figure = figure.figure
    if not isinstance(figure, Figure):
        raise LectureError(f"expected a Matplotlib figure or a drawing; got {type(figure).__qualname__}")
    alt = " ".join((alt or "").split())
    if not alt:
        raise LectureError(
            "expected alternative text, what the figure shows, in a sentence; got none; show(figure, alt=…)"
        )
    target = io.BytesIO()
    # No "Software" entry: it would hold Matplotlib's version.
    figure.savefig(target, format="png", dpi=_PIXELS_PER_INCH * sharper, metadata={"Software": None})
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:  # a notebook would show an open figure a second time
        pyplot.close(figure)
    return Shown(target.getvalue(), alt, round(figure.get_figwidth() * _PIXELS_PER_INCH))
