"""Pictures of number formats: bits, range and spacing, sums that stall, gradients in range, shared scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from lecture_lib.accounting.dtypes import Format
from lecture_lib.accounting.formats import (
    Fields,
    decode,
    encode,
    fields,
    largest,
    rounded,
    smallest_normal,
    smallest_subnormal,
    spacing,
)
from lecture_lib.figures.show import Drawing
from lecture_lib.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILLION,
    YELLOW,
    canvas,
    course_style,
)
from lecture_lib.quantity import LectureError

_NAMES = {
    "fp32": "FP32",
    "tf32": "TF32",
    "fp16": "FP16",
    "bf16": "BF16",
    "fp8_e4m3": "E4M3",
    "fp8_e5m2": "E5M2",
    "fp4_e2m1": "E2M1",
}
_FIELDS = (("sign", ORANGE), ("exponent", SKY), ("fraction", "white"))
_LINES = (
    (BLUE, "-"),
    (VERMILLION, "--"),
    (GREEN, "-."),
    (BLACK, ":"),
    (GREY, (0, (5, 1, 1, 1, 1, 1))),
)


def _name(fmt: Format) -> str:
    return _NAMES.get(fmt.name, fmt.name)


def bit_layout(value: float, dtypes: Sequence[object]) -> Drawing:
    """The bits of one value in several formats, field by field, with what is left of the value beside them.

    LectureError for more than six formats or one of more than 32 bits
    """
    codes = [(fields(0, dtype).format, encode(value, dtype)) for dtype in dtypes]
    if not 1 <= len(codes) <= 6 or any(fmt.bits > 32 for fmt, _ in codes):
        raise LectureError("expected one to six formats of at most 32 bits, so that each bit can be seen")
    rows = [(_name(fmt), fields(code, fmt), decode(code, fmt)) for fmt, code in codes]
    return _bits(f"Where are the bits of {value:.6g}?", f"bits of {value:.6g}", rows, None)


def flipped_bit(dtype: object, value: float, bit: int, figure: Figure | None = None) -> Drawing:
    """A value's bits in one format, and what it becomes when one of them is flipped; bit 0 is the last.

    figure: one that is drawn on anew. LectureError for a bit that the format does not have.
    """
    fmt = fields(0, dtype).format
    width = (fmt.sign or 0) + (fmt.exponent or 0) + (fmt.fraction or 0)
    if not 0 <= bit < width:
        raise LectureError(f"expected one of {_name(fmt)}'s bits, 0 (the last) to {width - 1}; got {bit}")
    code = encode(value, fmt)
    flipped = code ^ 1 << bit
    rows = [
        (_name(fmt), fields(code, fmt), decode(code, fmt)),
        (f"bit {bit} flipped", fields(flipped, fmt), decode(flipped, fmt)),
    ]
    told = f"bits of {value:.6g} in {_name(fmt)}, and with bit {bit} flipped"
    return _bits("What does one flipped bit change?", told, rows, figure, width - 1 - bit)


def _bits(
    title: str,
    told: str,
    rows: Sequence[tuple[str, Fields, float]],
    figure: Figure | None,
    marked: int | None = None,
) -> Drawing:
    """Rows of (name, fields, value); `marked` is a bit's place in the last row, from the left."""
    with course_style():
        figure, axes = canvas(title, 1.7 + 0.62 * len(rows), figure)
        _by_hand(figure, axes)
        widest = max(len(str(parts).replace(" ", "")) for _, parts, _ in rows)
        for place, (name, parts, value) in enumerate(rows):
            x = 0
            for (_, fill), text in zip(_FIELDS, str(parts).split(" "), strict=True):
                around = Rectangle(
                    (x, place), len(text), 0.78, facecolor=fill, edgecolor=BLACK, linewidth=2.4
                )
                axes.add_patch(around)
                for bit in text:
                    this = place == len(rows) - 1 and x == marked
                    look: Any = {"fontweight": "bold"} if this else {}
                    shown = f"[{bit}]" if this else bit
                    axes.text(x + 0.5, place + 0.4, shown, ha="center", va="center", fontsize=14, **look)
                    x += 1
            axes.text(-0.3, place + 0.4, name, ha="right", va="center", fontweight="bold")
            axes.text(x + 0.3, place + 0.4, f"= {value:.8g}", va="center")
        x = 0
        for (label, _), text in zip(_FIELDS, str(rows[0][1]).split(" "), strict=True):
            ends = {
                "sign": (0.7, "right"),
                "exponent": (x + 0.1, "left"),
                "fraction": (x + len(text) / 2, "left"),
            }
            axes.text(ends[label][0], -0.2, label, ha=ends[label][1], va="bottom", color=GREY)
            x += len(text)
        axes.set(xlim=(-6.0 * widest / 24, widest * 1.27), ylim=(len(rows), -1.0))
        axes.axis("off")
    lines = "; ".join(f"{name}: {parts} is {value:.8g}" for name, parts, value in rows)
    return Drawing(figure, f"Sign, exponent and fraction {told}. {lines}.")


def _by_hand(figure: Figure, axes: Axes) -> None:
    """Axes where they are wanted: with this many words, Matplotlib's own layout takes most of the time."""
    figure.set_layout_engine("none")
    axes.set_position((0.0, 0.0, 1.0, 1.0 - 0.55 / figure.get_figheight()))


def survivors(value: float, update: float, figure: Figure | None = None) -> Drawing:
    """What five formats keep of a value, and of an update that is added to it, in words and numbers.

    figure: one that is drawn on anew
    """
    rows = []
    for dtype in ("fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"):
        kept = rounded(value, dtype)
        moved = rounded(kept + update, dtype) if math.isfinite(kept) else kept
        if not math.isfinite(kept):
            word = "value too large"
        elif value and not kept:
            word = "value becomes 0"
        else:
            word = "update survives" if moved != kept else "update is lost"
        rows.append((_name(fields(0, dtype).format), f"{kept:.7g}", f"{moved:.7g}", word))
    with course_style():
        figure, axes = canvas(f"Which format survives {value:g}, and {update:g} added to it?", 4.6, figure)
        _by_hand(figure, axes)
        heads = ("", "stored", "after the update", "")
        for place, row in enumerate([heads, *rows]):
            for x, text in zip((0, 1.6, 4.0, 7.2), row, strict=True):
                lost = row[-1] not in ("update survives", "")
                look: Any = {"fontweight": "bold"} if x in (0, 7.2) else {}
                color = GREY if place == 0 else VERMILLION if x == 7.2 and lost else BLACK
                axes.text(x, place, text, va="center", color=color, **look)
        axes.set(xlim=(-0.2, 10), ylim=(len(rows) + 0.5, -0.6))
        axes.axis("off")
    lines = "; ".join(f"{name}: {kept}, then {moved}, {word}" for name, kept, moved, word in rows)
    return Drawing(figure, f"What formats keep of {value:g} and of {update:g} added to it. {lines}.")


def range_and_spacing(dtypes: Sequence[object], mark: float | None = None) -> Drawing:
    """Spacing over value across each format's range: how wide a line is, and how low, on logarithmic axes.

    mark: a value to draw a vertical line at
    """
    formats = [fields(0, dtype).format for dtype in dtypes]
    if not 1 <= len(formats) <= len(_LINES):
        raise LectureError(f"expected one to {len(_LINES)} formats; got {len(formats)}")
    told = []
    with course_style():
        figure, axes = canvas("How far does each format reach, and how far apart are its values?")
        for fmt, (color, dash) in zip(formats, _LINES, strict=False):
            low, high = float(smallest_subnormal(fmt)), float(largest(fmt))
            ends = [low, float(smallest_normal(fmt)), 2.0 ** math.floor(math.log2(high))]
            relative = [float(spacing(end, fmt)) / end for end in ends]
            axes.plot([*ends, high], [*relative, relative[-1]], color=color, linestyle=dash)
            axes.plot([high], [relative[-1]], color=color, marker="|", markersize=12, markeredgewidth=2.5)
            axes.annotate(
                f"{_name(fmt)}, up to {_short(high)}",
                (high, relative[-1]),
                xytext=(11, 0) if high < 1e10 else (-6, 8),  # beyond its end, or above it at the edge
                textcoords="offset points",
                ha="left" if high < 1e10 else "right",
                va="center" if fmt.fraction in (3, 10) else "bottom",
                color=color,
                fontweight="bold",
            )
            told.append(
                f"{_name(fmt)}: from {low:.2g} to {high:.5g}, spacing {relative[-1]:.2g} of a power of two"
            )
        if mark is not None:
            axes.axvline(mark, color=GREY, linewidth=1.5, linestyle=(0, (2, 2)))
            axes.annotate(
                _short(mark),
                (mark, 2**-21),
                xytext=(-7, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                color=GREY,
            )
        axes.set_xscale("log")
        axes.set_yscale("log", base=2)
        axes.set_xticks([10.0**power for power in range(-40, 41, 10)])
        axes.minorticks_off()
        axes.set(xlabel="value, logarithmic", ylabel="spacing / value")
        axes.set_ylim(2**-25, 2**0.8)
    return Drawing(
        figure,
        "Spacing over value against value, one line for each format: flat in the normal range, rising to 1 "
        f"at its smallest value. {'; '.join(told)}.",
    )


def _short(value: float) -> str:
    if 1e-3 <= value < 1e6:
        return f"{value:,.0f}" if value >= 1 else f"{value:g}"
    mantissa, _, power = f"{value:.1e}".partition("e")
    lead = "" if float(mantissa) == 1 else f"{float(mantissa):g}·"
    return f"{lead}10$^{{{int(power)}}}$"


def running_sums(dtypes: Sequence[object], additions: int) -> Drawing:
    """The running sum of ones, rounded to the format after every addition: where does each one stall?"""
    formats = [fields(0, dtype).format for dtype in dtypes]
    if not 1 <= len(formats) <= len(_LINES) or not 2 <= additions <= 10_000:
        raise LectureError(f"expected one to {len(_LINES)} formats and 2 to 10,000 additions")
    told = []
    with course_style():
        figure, axes = canvas("Where does a running sum of ones stall?")
        for fmt, (color, dash) in zip(formats, _LINES, strict=False):
            sums = [0.0]
            for _ in range(additions):
                sums.append(rounded(sums[-1] + 1, fmt))
            axes.plot(range(1, additions + 1), sums[1:], color=color, linestyle=dash)
            stalled = sums[-1] == sums[-2]
            words = f"{_name(fmt)} stalls at {sums[-1]:,.0f}" if stalled else f"{_name(fmt)} goes on"
            axes.annotate(
                words,
                (additions, sums[-1]),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                color=color,
                fontweight="bold",
                annotation_clip=False,
            )
            told.append(words)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        ticks = [2**power for power in range(0, additions.bit_length(), 2)]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlim(1, additions * 1.02)
        axes.set(xlabel="ones added, logarithmic", ylabel="running sum")
    return Drawing(figure, f"Running sums of {additions:,} ones, rounded after each. {'; '.join(told)}.")


def gradients_in_range(exponents: Mapping[int, int], dtype: object, scale: float) -> Drawing:
    """How many gradients have each exponent, and which of them the format can hold: as they are, and scaled.

    exponents: floor(log2 of the magnitude) → how many
    """
    fmt = fields(0, dtype).format
    low, top = math.log2(float(smallest_subnormal(fmt))), math.log2(float(largest(fmt)))
    shift = math.log2(scale)
    told = []
    with course_style():
        figure, axes = canvas(f"Which gradients can {_name(fmt)} hold?", height=5.0)
        most = max(exponents.values())
        for row, (words, moved) in enumerate((("as they are", 0.0), (f"loss × {scale:,.0f}", shift))):
            lost = sum(n for e, n in exponents.items() if e + moved < low - 1)
            for e, n in exponents.items():
                kept = e + moved >= low - 1
                axes.bar(
                    e + moved + 0.5,
                    n / most * 0.8,
                    0.9,
                    bottom=1 - row,
                    color=SKY if kept else ORANGE,
                    hatch="" if kept else "//",
                    edgecolor=BLACK,
                    linewidth=1.0,
                )
            share = lost / sum(exponents.values())
            axes.text(top + 1.5, 1.4 - row, f"{words}:\n{share:.1%} become 0", va="center")
            told.append(f"{words}, {share:.1%} become 0")
        axes.axvspan(low, top, color=YELLOW, alpha=0.25, zorder=0)
        for edge, place, text in ((low, "left", "smallest"), (top, "right", "largest")):
            axes.axvline(edge, color=BLACK, linewidth=2)
            words = f" {text} {_name(fmt)} value " + (f"2$^{{{low:.0f}}}$ " if text == "smallest" else "")
            axes.text(edge, 2.02, words, ha=place, va="bottom", color=GREY)
        first = min(min(exponents), int(low)) - 2
        axes.set_xlim(first, top + 13)
        axes.set_ylim(-0.02, 2.25)
        ticks = list(range(-40, 17, 8))
        ticks = [tick for tick in ticks if tick >= first]
        axes.set_xticks(ticks, [f"2$^{{{tick}}}$" for tick in ticks])
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("magnitude of a gradient, logarithmic (hatched: becomes 0)")
    return Drawing(
        figure,
        f"Gradients by magnitude against the range of {_name(fmt)}, from 2^{low:.0f} to "
        f"{float(largest(fmt)):,.0f}: {'; '.join(told)}.",
    )


def shared_scale(
    blocks: Mapping[str, tuple[Sequence[float], Sequence[float]]], levels: Mapping[str, Sequence[float]]
) -> Drawing:
    """Values and what each became, one line for each block, with the levels that its scale allows as ticks.

    blocks: name → (values, what is left of them); levels: name → element values · scale
    """
    told = []
    with course_style():
        figure, axes = canvas(
            "What does a block's scale leave of its values?", height=1.9 + 1.3 * len(blocks)
        )
        both = [value for values, left in blocks.values() for value in (*values, *left)]
        low, high = min(both), max(both)
        margin = 0.06 * (high - low)
        for row, (name, (values, left)) in enumerate(blocks.items()):
            axes.axhline(row, color=GREY, linewidth=1)
            shown = [level for level in levels[name] if low - margin <= level <= high + margin]
            axes.plot(shown, [row] * len(shown), color=GREY, marker="|", markersize=22, linestyle="")
            for value, kept in zip(values, left, strict=True):
                axes.plot([value, kept], [row - 0.42, row], color=GREY, linewidth=1.2, linestyle="-")
                axes.plot([value], [row - 0.42], color=BLUE, marker="o", markersize=9, linestyle="")
                axes.plot([kept], [row], color=VERMILLION, marker="x", markersize=11, markeredgewidth=2.5)
            zeros = sum(1 for value, kept in zip(values, left, strict=True) if value and not kept)
            words = f"{name}\n{zeros} of {len(values)} become 0"
            axes.annotate(
                words,
                (0, row - 0.2),
                xycoords=("axes fraction", "data"),
                xytext=(-8, 0),
                textcoords="offset points",
                ha="right",
                va="center",
            )
            told.append(
                f"{name}: {zeros} of {len(values)} values become 0, and levels near 0 are "
                f"{min(level for level in levels[name] if level > 0):g} apart"
            )
        axes.text(
            high + margin, -0.68, "circle: value   cross: what is left", ha="right", va="bottom", color=GREY
        )
        axes.set_ylim(len(blocks) - 0.6, -0.75)
        axes.set_xlim(low - margin, high + margin)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("value (grey ticks: the levels of the block)")
    return Drawing(figure, f"Values and what a block format leaves of them. {'; '.join(told)}.")


def error_by_scales(points: Mapping[str, tuple[float, float]]) -> Drawing:
    """Error against bits per value: what finer scales cost, and what they are worth.

    points: name → (bits per value, relative error)
    """
    told = "; ".join(f"{name}: {bits:.4g} bits, {error:.1%}" for name, (bits, error) in points.items())
    with course_style():
        figure, axes = canvas("What does a finer scale cost, and what is it worth?")
        for number, (name, (bits, error)) in enumerate(points.items()):
            own: Any = {"marker": "osD^v"[number % 5], "color": _LINES[number % len(_LINES)][0]}
            axes.plot([bits], [100 * error], linestyle="", **own)
            axes.annotate(
                f"{name}, {100 * error:.0f}%",
                (bits, 100 * error),
                xytext=(12, 8 if number % 2 == 0 else -8),
                textcoords="offset points",
                va="center",
            )
        widest = max(bits for bits, _ in points.values())
        least = min(bits for bits, _ in points.values())
        axes.set_xlim(least - 0.05, widest + 0.75 * (widest - least) + 0.05)
        errors = [100 * error for _, error in points.values()]
        axes.set_yscale("log")
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100) if min(errors) / 2 < tick < 2 * max(errors)]
        axes.set_yticks(ticks, [f"{tick}%" for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(min(errors) / 1.5, max(errors) * 1.4)
        axes.set(xlabel="bits per value, scales included", ylabel="relative error, logarithmic")
    return Drawing(figure, f"Relative error of a quantized tensor against bits per value. {told}.")
