"""Pictures of utilization: slips that move an MFU, where a clock stops, a step's MFU, days of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lecture_lib.accounting.flops import training_run
from lecture_lib.accounting.hardware import device as known_device
from lecture_lib.accounting.utilization import device_hours, run_ledger, run_time
from lecture_lib.figures.show import Drawing
from lecture_lib.figures.style import BLACK, BLUE, GREY, ORANGE, SKY, VERMILLION, canvas, course_style
from lecture_lib.quantity import LectureError, Quantity


def misreadings(right: float, slips: Mapping[str, float]) -> Drawing:
    """One run's MFU as it is, and as each slip would report it; those that report the same are beside it.

    right: the MFU, above 0 and at most 1; slips: what was done wrong -> the factor that it puts on the MFU
    """
    if not 0 < right <= 1 or not slips or any(factor <= 0 for factor in slips.values()):
        raise LectureError(
            f"expected an MFU above 0 and at most 1, and factors above 0; got {right}, {slips}"
        )
    bars = [("as it is", right), *((name, right * factor) for name, factor in slips.items())]
    title = f"What does one slip make of an MFU of {right:.2f}?"
    with course_style():
        figure, axes = canvas(title, height=1.9 + 0.62 * len(bars))
        for row, (_, value) in enumerate(bars):
            style: dict[str, Any] = {"color": BLUE} if row == 0 else {"color": ORANGE, "hatch": "//"}
            axes.barh(row, value, height=0.58, edgecolor=BLACK, linewidth=1.2, **style)
            axes.annotate(
                f"{value:.2f}",
                (value, row),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                fontweight="bold",
            )
        _rows(axes, [name for name, _ in bars])
        axes.set_xlim(0, 1.15 * max(value for _, value in bars))
        axes.set_xlabel("reported as MFU")
    told = "; ".join(f"{name}: {value:.2f}" for name, value in bars[1:])
    return Drawing(figure, f"{title} Bars. As it is: {right:.2f}; {told}.")


def clock_stops(launch: float, kernels: Sequence[float]) -> Drawing:
    """Host and device over time: when the last launch has returned, and when the last kernel has ended.

    launch: ms that the host takes to queue a kernel, shorter than any; kernels: ms of each, two or more
    """
    if len(kernels) < 2 or not 0 < launch < min(kernels):
        raise LectureError(
            f"expected two kernels or more, each longer than a launch; got {launch} ms and {list(kernels)} ms"
        )
    queued = [launch * (i + 1) for i in range(len(kernels))]
    spans, free = [], 0.0
    for ready, length in zip(queued, kernels, strict=True):
        start = max(ready, free)
        free = start + length
        spans.append((start, length))
    title = "When may the clock stop?"
    with course_style():
        figure, axes = canvas(title, height=4.6)
        for number, (start, length) in enumerate(spans, start=1):
            axes.barh(1, launch, left=queued[number - 1] - launch, height=0.5, color=SKY, edgecolor=BLACK)
            axes.barh(0, length, left=start, height=0.5, color=BLUE, edgecolor=BLACK)
            axes.text(
                start + length - 0.01 * sum(kernels),
                0,
                f"kernel {number}",
                ha="right",  # what is left of it may have the dashed line
                va="center",
                color="white",
                fontweight="bold",
            )
        for at, words, side, colour, dashes in (
            (queued[-1], f"without synchronize:\n{queued[-1]:g} ms", "left", VERMILLION, "--"),
            (free, f"after synchronize:\n{free:g} ms", "right", BLACK, "-"),
        ):
            axes.plot([at, at], [-0.45, 1.5], color=colour, linestyle=dashes)
            axes.text(at, 1.6, words, color=colour, fontweight="bold", va="bottom", ha=side)
        axes.set_yticks([1, 0], ["host launches", "device works"])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.5, 2.45)
        axes.set_xlim(-free * 0.06, free * 1.14)
        axes.set_xlabel("ms since the clock started")
    return Drawing(
        figure,
        f"{title} {len(kernels)} launches of {launch:g} ms each return at {queued[-1]:g} ms; the device "
        f"works on their kernels, one after another, until {free:g} ms. A clock that stops without "
        f"synchronize reads {queued[-1]:g} ms, after it {free:g} ms.",
    )


def step_utilization(steps: Mapping[str, tuple[Quantity, Quantity]]) -> Drawing:
    """What each version of a step reached of its peak, beside the most that its time bound allows.

    steps: the version -> (MFU at the bound, MFU measured)
    """
    if not steps:
        raise LectureError("expected at least one step; got none")
    title = "Which change raised the MFU of this step?"
    bars = {name: (float(bound.value), float(got.value)) for name, (bound, got) in steps.items()}
    with course_style():
        figure, axes = canvas(title, height=2.2 + 0.7 * len(bars))
        for row, (bound, got) in enumerate(bars.values()):
            axes.barh(row, got, height=0.5, color=BLUE, edgecolor=BLACK, linewidth=1.2)
            axes.plot([bound], [row], "D", color=VERMILLION, markerfacecolor="white", markeredgewidth=2.5)
            inside = got > 0.25
            axes.annotate(
                f"{got:.2f}",
                (got, row),
                xytext=(-7 if inside else 7, 0),
                textcoords="offset points",
                ha="right" if inside else "left",
                va="center",
                color="white" if inside else BLACK,
                fontweight="bold",
            )
        _rows(axes, list(bars))
        axes.set_xlim(0, 1.08 * max(1.0, *(max(pair) for pair in bars.values())))
        axes.set_xlabel("MFU: bar, measured; diamond, at most by its time bound")
    told = "; ".join(
        f"{name}: {got:.2f} measured, {bound:.2f} at most" for name, (bound, got) in bars.items()
    )
    return Drawing(figure, f"{title} {told}.")


_PLACE = (0.04, 0.2, 0.92, 0.5)  # of the axes: laying them out anew would double a widget's time
_WEEK = 7


def days_of_a_run(
    billions: float,
    trillions: float,
    devices: int,
    device: str,
    mfu: float,
    stops_a_week: float,
    hours_each: float,
    figure: Figure | None = None,
) -> Drawing:
    """Days of a run on the calendar: training at a sustained MFU in BF16, and interruptions beside it.

    billions, trillions: of parameters and of tokens; stops_a_week: interruptions for each week of training;
    hours_each: lost by each of them
    LectureError where the device has no recorded BF16 peak.
    """
    peak = known_device(device).peak("bf16")
    work = training_run(round(billions * 10**9), round(trillions * 10**12))
    training = run_time(work, devices, peak, mfu, dtype="bf16")
    stops = round(float(training.value) / _WEEK * stops_a_week)
    ledger = run_ledger(training, stops, Quantity(hours_each, "h"))
    parts = {name: float(row.to("day").value) for name, row in ledger.items()}
    total = sum(parts.values())
    title = f"{_days(total)}, {_days(parts['interruptions'])} of them lost to {stops:,} stops"
    hours = device_hours(ledger.total, devices)
    under = (
        f"{work.value:.2e} FLOP on {devices:,} × {device} at {mfu:.0%} of {peak:TFLOP/s}; "
        f"{hours.value:,.0f} device·h"
    )
    with course_style():
        figure, axes = canvas(title, height=3.6, figure=figure)
        figure.set_layout_engine("none")
        axes.set_position(_PLACE)
        axes.barh(0, parts["training"], height=0.7, color=BLUE, edgecolor=BLACK)
        axes.barh(
            0,
            parts["interruptions"],
            left=parts["training"],
            height=0.7,
            color=ORANGE,
            hatch="//",
            edgecolor=BLACK,
        )
        axes.set_xlim(0, total)
        axes.set_ylim(-0.45, 1.3)
        inside: dict[str, Any] = {"va": "center", "fontweight": "bold"}
        axes.text(total * 0.01, 0, f"training {_days(parts['training'])}", color="white", **inside)
        axes.text(total, 0.55, f"stops {_days(parts['interruptions'])}", ha="right", va="bottom", fontsize=15)
        axes.text(0, 1.0, under, va="bottom", fontsize=14, color=GREY)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("days on the calendar")
    return Drawing(
        figure, f"{title}. {under}. Training takes {_days(parts['training'])}, without any interruption."
    )


def _days(days: float) -> str:
    text = f"{days:,.0f}" if days >= 1000 else f"{days:.1f}" if days >= 10 else f"{days:.2g}"
    return f"{text} {'day' if text == '1' else 'days'}"


def _rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
