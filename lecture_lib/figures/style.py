"""How every figure of the course looks: large type, direct labels, colours that also differ as greys.

Colour is never the only difference: lines differ in their dashes, fills in their hatching, and each is
labelled where it stands.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with every common kind of colour blindness; from dark to light grey.
BLACK = "#000000"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
ORANGE = "#E69F00"
YELLOW = "#F0E442"
GREY = "#595959"  # text and lines that stand back: 7:1 on white
PALE = "#E8E8E8"

# Fills that differ in pattern as well as in colour, for parts of a whole.
HATCHES = ("", "//", "..", "\\\\", "xx", "--")

_STYLE: Any = {
    "figure.figsize": (11.0, 5.2),  # 1056 CSS pixels: fits a 1280 × 720 slide under its title
    "figure.dpi": 96,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with Matplotlib: the same on every machine
    "font.size": 15,
    "axes.titlesize": 19,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 14,
    "axes.labelsize": 16,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 1.2,
    "axes.prop_cycle": cycler(color=[BLUE, VERMILLION, GREEN, BLACK], linestyle=["-", "--", "-.", ":"]),
    "xtick.labelsize": 14.5,
    "ytick.labelsize": 14.5,
    "lines.linewidth": 2.5,
    "lines.markersize": 11,
    "hatch.linewidth": 1.2,
    "legend.frameon": False,
    "text.usetex": False,
}


def course_style() -> AbstractContextManager[None]:
    """`with course_style():` draws as the course does, and leaves Matplotlib's own settings as they were."""
    return mpl.rc_context(_STYLE)


def canvas(title: str, height: float = 5.2, figure: Figure | None = None) -> tuple[Figure, Axes]:
    """A figure as wide as a slide with one pair of axes under its title, which is the question it answers.

    To be called within `course_style()`. The figure is not pyplot's: nothing shows it but `show`.
    figure: one that is drawn on anew, as widgets do; its height stays
    """
    if figure is None:
        figure = Figure(figsize=(11.0, height), layout="constrained")
    else:
        figure.clear()
    axes = figure.add_subplot()
    figure.suptitle(title, x=0.012, ha="left", fontsize=19, fontweight="bold")
    return figure, axes
