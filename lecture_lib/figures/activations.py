"""Pictures of what a step keeps for its backward: checkpoint intervals and microbatches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from matplotlib.figure import Figure

from lecture_lib.accounting.checkpointing import mlp_checkpoint_flops
from lecture_lib.accounting.peak import CATEGORIES, PeakMemory, mlp_peak
from lecture_lib.figures.show import Drawing
from lecture_lib.figures.style import (
    BLACK,
    BLUE,
    GREY,
    HATCHES,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    canvas,
    course_style,
)
from lecture_lib.quantity import LectureError, Quantity

_FILLS = (SKY, ORANGE, PURPLE, "white", YELLOW, PALE, PALE)
_NUMBERED = 0.075  # of the axis: a part from this length on holds its number


def by_interval(
    predicted: Mapping[int | None, Quantity],
    measured: Mapping[int | None, Quantity],
    title: str,
    marked: int | None = None,
    figure: Figure | None = None,
) -> Drawing:
    """Peak bytes over the layers k under one checkpoint: predicted a line, measured diamonds on it.

    predicted: by k, None for no checkpoint, which is drawn as a level; measured: for some of these k
    marked:    a k to point at; the least predicted one if left out
    """
    line = {k: _mb(peak) for k, peak in predicted.items() if k is not None}
    if len(line) < 2:
        raise LectureError(f"expected predictions for two intervals or more; got {len(line)}")
    best = min(line, key=lambda k: (line[k], k))
    at = best if marked is None else marked
    if at not in line:
        raise LectureError(f"expected a prediction for the marked k = {at}; got those for {sorted(line)}")
    points = {k: _mb(peak) for k, peak in measured.items() if k is not None}
    level = _mb(predicted[None]) if None in predicted else None
    top = max([*line.values(), *points.values(), level or 0])
    with course_style():
        figure, axes = canvas(title, figure=figure)
        ks = sorted(line)
        axes.plot(ks, [line[k] for k in ks], "-", color=BLUE, zorder=2)
        words: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "fontweight": "bold"}
        axes.text(0.99, 0.25, "predicted (line)", color=BLUE, **words)
        if points:
            axes.plot(list(points), list(points.values()), "D", color=VERMILLION, markersize=8, zorder=3)
            axes.text(0.99, 0.16, "measured (diamonds)", color=VERMILLION, **words)
        if level is not None:
            axes.axhline(level, color=GREY, linestyle="--", linewidth=1.8)
            axes.text(
                (ks[0] + ks[-1]) / 2,
                level + 0.015 * top,
                f"no checkpoint: {level:,.3g} MB",
                color=GREY,
                ha="center",
                va="bottom",
            )
        axes.plot([at], [line[at]], "o", markersize=20, color=BLACK, markerfacecolor="none", zorder=4)
        axes.annotate(
            f"k = {at}: {line[at]:,.3g} MB",
            (at, line[at]),
            xytext=(10, -16),
            textcoords="offset points",
            va="top",
            fontweight="bold",
        )
        axes.set_xlabel("layers k under one checkpoint")
        axes.set_ylabel("peak in MB")
        axes.set_ylim(0, 1.14 * top)
        axes.set_xticks(
            [k for k in ks if k == 1 or k % (1 if len(ks) < 13 else 2 if len(ks) < 27 else 4) == 0]
        )
    told = ", ".join(f"{line[k]:,.3g} at k = {k}" for k in dict.fromkeys([ks[0], at, best, ks[-1]]))
    told = f"{title} Predicted peak in MB: {told}; least at k = {best}"
    told += "" if level is None else f"; {level:,.3g} without a checkpoint"
    if points:
        farthest = max(abs(points[k] / line[k] - 1) for k in points)
        told += f". Measured at {len(points)} values of k, at most {farthest:.1%} from the line"
    return Drawing(figure, told + ".")


def by_microbatches(
    peaks: Mapping[int, PeakMemory], title: str, unit: str = "MB", figure: Figure | None = None
) -> Drawing:
    """A bar for each number of microbatches: what is live at a step's peak, by category."""
    if not peaks:
        raise LectureError("expected a peak for at least one number of microbatches; got none")
    totals = {K: float(peak.total.to(unit).value) for K, peak in peaks.items()}
    longest = max(totals.values())
    shown = [c for c in CATEGORIES if any(_row(peak, c, unit) for peak in peaks.values())]
    said = []
    with course_style():
        figure, axes = canvas(title, height=2.6 + 0.62 * len(peaks), figure=figure)
        for place, (K, peak) in enumerate(peaks.items()):
            start, parts = 0.0, []
            for category in shown:
                length = _row(peak, category, unit)
                style = CATEGORIES.index(category)
                axes.barh(
                    place,
                    length,
                    0.66,
                    start,
                    color=_FILLS[style],
                    hatch=HATCHES[style % len(HATCHES)],
                    edgecolor=BLACK,
                    linewidth=1.2,
                    label=category if place == 0 else None,
                )
                if length > _NUMBERED * longest:
                    axes.text(
                        start + length / 2,
                        place,
                        f"{length:,.3g}",
                        ha="center",
                        va="center",
                        fontsize=14,
                        bbox={"facecolor": _FILLS[style], "edgecolor": "none", "pad": 2},
                    )
                start += length
                parts.append(f"{category} {length:,.3g}")
            axes.text(start + 0.012 * longest, place, f"{start:,.3g} {unit}", va="center", fontweight="bold")
            said.append(f"K = {K}, {start:,.3g} {unit}: {', '.join(parts)}")
        axes.set_yticks(range(len(peaks)), [f"K = {K}" for K in peaks], fontsize=16)
        axes.set_ylim(len(peaks) - 0.5, -0.5)
        axes.set_xlim(0, 1.16 * longest)
        axes.set_xlabel(f"live at the peak of a step, in {unit}")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside lower center", ncols=len(shown), handleheight=1.4)
    return Drawing(figure, f"{title} {'; '.join(said)}.")


# -- what the widgets draw

ROWS, WIDTH, LAYERS = 1024, 32, 8  # of the networks behind the sliders


def checkpoint_interval(layers: int, k: int, figure: Figure | None = None) -> Drawing:
    """Predicted peak of a chain of `layers` equal layers over every interval, and what k computes again."""
    if k > layers:
        raise LectureError(f"expected an interval k of 1 to {layers} layers; got {k}; move one of the two")
    flops = _flops(layers, k)
    again = flops["computed again"].value / flops["forward"].value
    title = f"What does a checkpoint every k = {k} of {layers} layers keep, and cost?"
    drawing = by_interval(_peaks(layers), {}, title, k, figure)
    words = f"{float(again):.0%} of the forward is computed again, {flops['computed again']}"
    axes = drawing.figure.axes[0]
    axes.text(0.99, 0.04, words, transform=axes.transAxes, ha="right", fontsize=15)
    return Drawing(drawing.figure, f"{drawing.alt} {words}.")


def microbatches(width: int, rows: int, K: int, figure: Figure | None = None) -> Drawing:
    """What is live at the peak of a step of 8 layers, with one microbatch and with K."""
    whole = mlp_peak(rows, [width] * (LAYERS + 1))
    split = mlp_peak(rows, [width] * (LAYERS + 1), microbatches=K)
    change = float((split.total / whole.total).value) - 1
    title = f"Does K = {K} lower the peak of {rows} rows at width {width}?"
    drawing = by_microbatches({1: whole, K: split}, title, figure=figure)
    return Drawing(drawing.figure, f"{drawing.alt} Cutting the batch changes the total by {change:+.0%}.")


@lru_cache(maxsize=64)
def _peaks(layers: int) -> dict[int | None, Quantity]:
    widths = [WIDTH] * (layers + 1)
    return {k: mlp_peak(ROWS, widths, segment=k).total for k in [None, *range(1, layers + 1)]}


@lru_cache(maxsize=256)
def _flops(layers: int, k: int) -> Mapping[str, Quantity]:
    return mlp_checkpoint_flops(ROWS, [WIDTH] * (layers + 1), k)


def _mb(amount: Quantity) -> float:
    return float(amount.to("MB").value)


def _row(peak: PeakMemory, category: str, unit: str) -> float:
    return float(peak.by_category[category].to(unit).value) if category in peak.by_category else 0.0
