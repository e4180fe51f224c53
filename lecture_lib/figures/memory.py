"""Pictures of model states: recipes and devices as bars against a capacity, and where AdaGrad's ε stands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from lecture_lib.accounting import hardware, models
from lecture_lib.accounting.memory import model_states
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
from lecture_lib.quantity import LectureError, Ledger, Quantity

# A row looks the same in every figure, so that two figures can be held side by side.
_ROWS = ("parameters", "gradients", "main gradients", "master copy", "first moment", "second moment")
_COLOURS = (SKY, ORANGE, "white", YELLOW, PALE, PURPLE)
_FILLS = {row: (_COLOURS[i], HATCHES[i]) for i, row in enumerate(_ROWS)}
_NUMBERED = 0.06  # of the axis: a part from this length on holds its number
SHARDINGS = {
    "replicated": 0,
    "optimizer sharded (ZeRO-1)": 1,
    "and gradients (ZeRO-2)": 2,
    "and parameters (ZeRO-3)": 3,
}


def states(
    ledgers: Mapping[str, Ledger],
    unit: str,
    title: str,
    capacity: Quantity | None = None,
    figure: Figure | None = None,
) -> Drawing:
    """A bar for each ledger of model states, its rows side by side, and a line at what a device holds.

    ledgers:  by the name beside the bar, with rows of `accounting.memory.model_states` and AdamW's moments
    unit:     of the axis and of the numbers; capacity: of one device, in the same dimension
    """
    rows = list(dict.fromkeys(row for ledger in ledgers.values() for row in ledger))
    if not rows or not set(rows) <= set(_ROWS):
        raise LectureError(
            f"expected ledgers with rows of {', '.join(_ROWS)}; got {', '.join(rows) or 'none'}"
        )
    rows.sort(key=_ROWS.index)
    totals = {name: _in(ledger.total, unit) for name, ledger in ledgers.items()}
    limit = None if capacity is None else _in(capacity, unit)
    longest = max([*totals.values(), *([limit] if limit else [])])
    with course_style():
        figure, axes = canvas(title, height=2.3 + 0.47 * len(ledgers) + 0.4 * (len(rows) > 5), figure=figure)
        for place, (name, ledger) in enumerate(ledgers.items()):
            start = 0.0
            for row, amount in ledger.items():
                length = _in(amount, unit)
                color, hatch = _FILLS[row]
                axes.barh(
                    place, length, 0.66, start, color=color, hatch=hatch, edgecolor=BLACK, linewidth=1.2
                )
                if length > _NUMBERED * longest:
                    axes.text(
                        start + length / 2,
                        place,
                        f"{length:,.3g}",
                        ha="center",
                        va="center",
                        fontsize=14,
                        bbox={"facecolor": color, "edgecolor": "none", "pad": 1.5},
                    )
                start += length
            over = limit is not None and totals[name] > limit
            words = f"{totals[name]:,.4g}" + ("" if limit is None else ", too much" if over else ", fits")
            # A total that nearly fills the device is written beyond the line, not across it.
            beside = limit if limit is not None and 0.75 * limit < start <= limit else start
            axes.text(
                beside + 0.012 * longest,
                place,
                words,
                va="center",
                fontweight="bold",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
        if limit is not None:
            axes.axvline(limit, color=VERMILLION, linewidth=3, linestyle="--")
            side = "right" if limit > 0.4 * longest else "left"
            words = f"capacity {limit:,.4g} {unit}"
            axes.text(limit, -0.6, words, color=VERMILLION, ha=side, va="bottom")
        axes.set_yticks(range(len(ledgers)), list(ledgers), fontsize=15)
        axes.set_ylim(len(ledgers) - 0.5, -0.55)
        axes.set_xlim(0, 1.25 * longest)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 4, 5, 10]))
        axes.set_xlabel(unit)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_color(GREY)
        keys = [
            Patch(facecolor=_FILLS[row][0], hatch=_FILLS[row][1], edgecolor=BLACK, label=row) for row in rows
        ]
        figure.legend(
            handles=keys,
            loc="outside lower center",
            ncols=len(rows) if len(rows) < 6 else 3,
            handleheight=1.3,
            handlelength=1.5,
            columnspacing=1.1,
            fontsize=14,
        )
    told = "; ".join(
        f"{name}, {totals[name]:,.4g} {unit}"
        + ("" if limit is None else ", too much" if totals[name] > limit else ", fits")
        + ": "
        + ", ".join(f"{row} {_in(amount, unit):,.4g}" for row, amount in ledger.items())
        for name, ledger in ledgers.items()
    )
    line = "" if limit is None else f" A line at a capacity of {limit:,.4g} {unit}."
    return Drawing(figure, f"{title} Bars in {unit}: {told}.{line}")


def _in(amount: Quantity, unit: str) -> float:
    return float(amount.to(unit).value)


def what_fits(
    model: str, recipe: str, device: str, devices: int, sharding: str, figure: Figure | None = None
) -> Drawing:
    """The model states that each of `devices` holds, beside its memory.

    model, device: names in data/models.toml and data/hardware.toml; recipe: a name in `memory.RECIPES`;
    sharding: a name in `SHARDINGS`
    """
    if sharding not in SHARDINGS:
        raise LectureError(f"expected sharding to be one of {', '.join(SHARDINGS)}; got {sharding!r}")
    if devices == 1 and SHARDINGS[sharding]:
        raise LectureError(
            "expected two devices or more to share states; got 1; move the slider, or replicate"
        )
    parameters = models.parameters(models.load(model)).total
    ledger = model_states(parameters, recipe, devices, SHARDINGS[sharding])
    where = "the device" if devices == 1 else f"each of {devices:,}"
    title = f"Do {model}'s model states fit on {device}?"
    return states({where: ledger}, "GB", title, hardware.device(device).memory, figure)


def epsilon_placement(gradients: Sequence[float], eps: float, figure: Figure | None = None) -> Drawing:
    """AdaGrad's first step over its learning rate by the gradient's size: ε inside the root, and outside.

    gradients: positive sizes, two or more; the lines reach from the least to the largest
    """
    if len(gradients) < 2 or min(gradients) <= 0 or not eps > 0:
        raise LectureError(
            f"expected two positive gradients or more and a positive ε; got {gradients!r}, {eps}"
        )
    low, high = math.log10(min(gradients)), math.log10(max(gradients))
    sizes = [10 ** (low + (high - low) * i / 200) for i in range(201)]
    inside = [g / math.sqrt(g * g + eps) for g in sizes]
    outside = [g / (g + eps) for g in sizes]
    root = math.sqrt(eps)
    with course_style():
        figure, axes = canvas("Where does the place of ε change AdaGrad's first step?", figure=figure)
        axes.loglog(sizes, outside, color=BLUE, linestyle="-")
        axes.loglog(sizes, inside, color=VERMILLION, linestyle="--")
        axes.axvline(root, color=GREY, linestyle=":", linewidth=1.5)
        axes.text(root * 1.2, min(inside), "√ε", color=GREY, va="bottom")
        axes.text(root * 3, 1.25, "ε outside: η·g / (√s + ε), torch", color=BLUE, va="bottom", ha="left")
        axes.text(
            root * 3, 0.35, "ε inside: η·g / √(s + ε), the lecture", color=VERMILLION, va="top", ha="left"
        )
        axes.set(xlabel="size of the gradient, |g|", ylabel="step / η", ylim=(min(inside) / 2, 4))
        axes.grid(color=GREY, alpha=0.25, linewidth=1)
        axes.minorticks_off()
    told = ", ".join(
        f"at |g| = {g:.0e} {g / math.sqrt(g * g + eps):.2g} inside and {g / (g + eps):.2g} outside"
        for g in gradients
    )
    return Drawing(
        figure,
        f"AdaGrad's first step over η by the size of the gradient, for ε = {eps:.0e}. On logarithmic axes, "
        f"{told}. With ε inside, the step shrinks with the gradient below √ε; with ε outside, only below ε.",
    )
