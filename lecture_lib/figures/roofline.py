"""Rooflines: what a device allows at each intensity, with bounds on the roof and measurements under it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from lecture_lib.accounting import models
from lecture_lib.accounting.dtypes import bytes_per_element
from lecture_lib.accounting.hardware import dense_rate
from lecture_lib.accounting.hardware import device as known_device
from lecture_lib.accounting.inputs import amount
from lecture_lib.accounting.kv_cache import kv_cache
from lecture_lib.accounting.operators import Cost, decode_step, gemm
from lecture_lib.accounting.roofline import attainable, ridge
from lecture_lib.figures.show import Drawing
from lecture_lib.figures.style import BLACK, BLUE, GREY, PALE, VERMILLION, canvas, course_style
from lecture_lib.quantity import LectureError, Quantity

# Of the axes, as shares of the figure: laying it out anew would double the time of a redrawn widget.
_PLACE = (0.135, 0.13, 0.85, 0.77)  # left, bottom, width, height

_BEHIND = {"facecolor": PALE, "edgecolor": "none", "pad": 1}  # words over the ridge's line


@dataclass(frozen=True)
class Point:
    """An operator on a roofline.

    label:     short, such as "M = 128"; cost: its FLOPs and bytes
    measured:  seconds that it took; None draws its bound alone
    """

    label: str
    cost: Cost
    measured: Quantity | None = None


def under_the_roof(
    title: str,
    peak: Quantity,
    bandwidth: Quantity,
    points: Sequence[Point],
    others: Mapping[str, Quantity] | None = None,
    lowest: float | None = None,
    figure: Figure | None = None,
) -> Drawing:
    """Rate over intensity: the roof, bounds on it as circles, measurements as diamonds.

    peak:   FLOP/s; bandwidth: B/s; others: further ceilings by name, FLOP/s, drawn dashed
    lowest: an intensity in FLOP/B that is on the picture too, so that a widget's axis stays
    points: at least one; a label is at its diamond, or at its circle where nothing was measured
    """
    if not points:
        raise LectureError("expected at least one point under the roof; got none")
    C, beta = float(dense_rate(peak)), float(amount("bandwidth", bandwidth, "B/s"))
    star = C / beta
    places = [
        (float(p.cost.intensity.value), p.cost.flops / p.measured if p.measured else None) for p in points
    ]
    low = min(star / 60, *(x / 6 for x in (lowest or star, *(x for x, _ in places))))
    high = max(star * 60, *(x * 5 for x, _ in places))
    floor = min([beta * low, *(float(rate.value) / 4 for _, rate in places if rate)])
    with course_style():
        figure, axes = canvas(title, height=4.7, figure=figure)
        figure.set_layout_engine("none")
        axes.set_position(_PLACE)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(low, high)
        axes.set_ylim(floor, C * 6)
        axes.fill_between([low, star, high], [beta * low, C, C], floor, color=PALE, linewidth=0)
        axes.plot([low, star, high], [beta * low, C, C], color=BLACK, linestyle="-", linewidth=3)
        axes.plot([star, star], [floor, C], color=GREY, linestyle=":", linewidth=2)
        _words(axes, low, star, C, beta, peak, bandwidth)
        for name, ceiling in (others or {}).items():
            level = float(amount(name, ceiling, "FLOP/s"))
            axes.plot([level / beta, high], [level, level], color=GREY, linestyle="--", linewidth=2)
            _label(
                axes,
                f"{name} {ceiling}",
                (high, level),
                (-4, -6),
                ha="right",
                va="top",
                color=GREY,
                bbox=_BEHIND,
            )
        for point, (x, rate) in zip(points, places, strict=True):
            _point(axes, point.label, x, min(C, beta * x), rate, on_slope=x < star)
        if any(p.measured for p in points):
            axes.plot([], [], "o", color=BLUE, markerfacecolor="white", markeredgewidth=2.5, label="bound")
            axes.plot([], [], "D", color=VERMILLION, label="measured")
            axes.legend(loc="lower right", fontsize=15, handletextpad=0.2)
        axes.set_xlabel("arithmetic intensity in FLOP/B")
        _powers_of_ten(axes.xaxis, "")
        _powers_of_ten(axes.yaxis, "FLOP/s")
    return Drawing(figure, _told(title, points, peak, bandwidth, others or {}))


def _words(
    axes: Axes, low: float, star: float, C: float, beta: float, peak: Quantity, bandwidth: Quantity
) -> None:
    """The roof's own labels, above it, where no point is."""
    _label(axes, f"ridge\n{star:.4g} FLOP/B", (star, C), (-6, 8), ha="right", va="bottom", color=GREY)
    left: dict[str, Any] = {"ha": "left", "va": "bottom", "fontweight": "bold"}
    _label(axes, f"arithmetic:\n{peak}", (star, C), (12, 8), **left)
    _label(axes, f"bandwidth:\n{bandwidth}", (low, beta * low), (10, 80), **left)


def _label(axes: Axes, words: str, at: tuple[float, float], moved: tuple[float, float], **style: Any) -> None:
    axes.annotate(words, at, xytext=moved, textcoords="offset points", **style)


def _powers_of_ten(axis: Axis, unit: str) -> None:
    """Ticks in words ("10 TFLOP/s"): powers are hard to read from afar, and slow to draw."""
    low, high = axis.get_view_interval()
    ticks = [10**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    axis.set_ticks(ticks, [f"{Quantity(tick, unit)}" if unit else f"{tick:,.10g}" for tick in ticks])
    axis.set_minor_locator(NullLocator())


def _point(axes: Axes, label: str, x: float, bound: float, rate: Quantity | None, on_slope: bool) -> None:
    axes.plot([x], [bound], "o", color=BLUE, markerfacecolor="white", markeredgewidth=2.5, zorder=3)
    y = bound
    if rate is not None:
        y = float(rate.value)
        axes.plot([x, x], [min(y, bound), max(y, bound)], color=VERMILLION, linestyle="-", linewidth=1.5)
        axes.plot([x], [y], "D", color=VERMILLION, zorder=4)
    _label(
        axes,
        label,
        (x, min(y, bound)),
        (9, -9) if on_slope else (0, -11),
        ha="left" if on_slope else "center",
        va="top",
        fontsize=14,
        bbox=_BEHIND,
    )


def _told(
    title: str,
    points: Sequence[Point],
    peak: Quantity,
    bandwidth: Quantity,
    others: Mapping[str, Quantity],
) -> str:
    said = []
    for point in points:
        limit = point.cost.limit(peak, bandwidth)
        bound = attainable(point.cost.intensity, peak, bandwidth)
        words = f"{', '.join(point.label.splitlines())}: {point.cost.intensity}, at most {bound}"
        words += f", limited by {limit}"
        if point.measured:
            rate = point.cost.flops / point.measured
            words += f", measured {rate}, {float(rate / bound):.0%} of the bound"
        said.append(words)
    further = "".join(f", {name} {ceiling}" for name, ceiling in others.items())
    return (
        f"{title} A roofline: {bandwidth} times the intensity, at most {peak}{further}; "
        f"ridge at {ridge(peak, bandwidth)}. {'; '.join(said)}."
    )


def gemm_on_roofline(
    M: int, d_in: int, d_out: int, device: str, dtype: str, figure: Figure | None = None
) -> Drawing:
    """X·W on a device's roofline; ticks on the roof show where M = 1, 2, 4 to 16,384 would be.

    LectureError where the device has no recorded peak for the format.
    """
    there = known_device(device)
    peak, cost = there.peak(dtype), gemm(M, d_in, d_out, dtype)
    limit, least = cost.limit(peak, there.bandwidth), cost.time_bound(peak, there.bandwidth)
    drawn = under_the_roof(
        f"{there.name}, {dtype.upper()}: {limit} is the limit.",
        peak,
        there.bandwidth,
        [Point(f"M = {M:,}\nat least {least}", cost)],
        lowest=1.0,
        figure=figure,
    )
    for power in range(15):
        other = gemm(2**power, d_in, d_out, dtype).intensity
        rate = attainable(other, peak, there.bandwidth)
        drawn.figure.axes[0].plot(
            [float(other.value)], [float(rate.value)], "|", color=BLACK, markersize=16, zorder=2
        )
    return Drawing(
        drawn.figure,
        f"{drawn.alt} W is {d_in:,} × {d_out:,}; the product takes at least {least}. "
        "Ticks on the roof: M = 1, 2, 4 to 16,384.",
    )


_BATCHES = [2**power for power in range(11)]


@lru_cache(maxsize=256)  # a widget asks for the same curve again and again
def _most_tokens(model: str, context: int, device: str, dtype: str) -> list[float]:
    """Tokens a second at most, for each of _BATCHES."""
    there, config = known_device(device), models.load(model)
    peak, beta = there.peak(dtype), there.bandwidth
    steps = [decode_step(config, batch, context, dtype).time_bound(peak, beta) for batch in _BATCHES]
    return [batch / float(step.value) for batch, step in zip(_BATCHES, steps, strict=True)]


def decode_batches(
    model: str, context: int, batch: int, device: str, dtype: str = "bf16", figure: Figure | None = None
) -> Drawing:
    """Tokens a second at most, over the sequences that are decoded at once, with caches and without.

    LectureError where weights and caches of such a batch do not fit into the device's memory.
    """
    there, config = known_device(device), models.load(model)
    peak, beta = there.peak(dtype), there.bandwidth
    weights = models.parameters(config).total.value * Fraction(bytes_per_element(dtype))
    cache = kv_cache(config, 1, context, dtype).total
    room = int((int(there.memory) - weights) // int(cache))
    if batch > room:
        raise LectureError(
            f"expected weights and caches that fit in {there.memory:GB}; got {Quantity(weights, 'B'):GB} and "
            f"{batch:,} × {cache:GB}; "
            + (f"take {room:,} sequences at most" if room > 0 else "take more memory or a shorter context")
        )

    step = decode_step(config, batch, context, dtype)
    limit, here = step.limit(peak, beta), batch / float(step.time_bound(peak, beta).value)
    without, with_caches = (_most_tokens(model, c, device, dtype) for c in (1, context))
    title = f"{model} on {there.name}, {batch:,} at once: {limit} is the limit."
    with course_style():
        figure, axes = canvas(title, height=4.7, figure=figure)
        figure.set_layout_engine("none")
        axes.set_position(_PLACE)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.plot(_BATCHES, without, color=GREY, linestyle="--")
        axes.plot(_BATCHES, with_caches, color=BLUE, linestyle="-")
        axes.set_xlim(0.8, _BATCHES[-1] * 1.25)
        axes.set_ylim(min(with_caches) / 2.5, max(without) * 3)
        _label(axes, "caches empty", (1, without[0]), (0, 45), color=GREY, va="bottom")
        if room < _BATCHES[-1]:
            axes.axvspan(room, _BATCHES[-1] * 1.25, color=PALE, linewidth=0)
            _label(axes, f"beyond {there.memory:GB}", (_BATCHES[-1], axes.get_ylim()[0]), (0, 10), ha="right")
        axes.plot([batch], [here], "o", color=BLUE, markerfacecolor="white", markeredgewidth=2.5, zorder=3)
        _label(
            axes,
            f"{here:,.0f} tokens/s at most",
            (batch, here),
            (10 if batch < 32 else -10, -14),
            ha="left" if batch < 32 else "right",
            va="top",
            fontweight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
        _powers_of_ten(axes.yaxis, "")
        axes.set_ylabel("tokens/s")
        axes.xaxis.set_ticks(_BATCHES[::2], [f"{b:,}" for b in _BATCHES[::2]])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("sequences decoded at once")
    return Drawing(
        figure,
        f"{title} Tokens a second over sequences, both logarithmic, at a context of {context:,}. One: "
        f"{with_caches[0]:,.0f} at most; {batch:,}: {here:,.0f}; {_BATCHES[-1]:,} if they fitted: "
        f"{with_caches[-1]:,.0f}, or {without[-1]:,.0f} with empty caches. "
        f"{room:,} fit into {there.memory:GB}.",
    )
