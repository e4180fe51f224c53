"""Ledgers as bars: each row a part, each bar a total."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lecture_lib.figures.show import Drawing
from lecture_lib.figures.style import BLACK, GREY, HATCHES, ORANGE, PALE, PURPLE, SKY, YELLOW, course_style
from lecture_lib.quantity import LectureError, Ledger

_FILLS = (SKY, ORANGE, PALE, YELLOW, PURPLE, "white")  # light enough for black words on them
_NUMBERED = 0.045  # of the longest bar: a part from this length on holds its number,
_NAMED = 0.09  # and from this on its name


def ledger_bars(ledgers: Mapping[str, Ledger], unit: str, title: str) -> Drawing:
    """One bar for each ledger, its rows side by side in their order, so that lengths can be compared.

    ledgers: by the name beside the bar; all of `unit`'s dimension. A row has the same filling in every bar.
    unit:    of the axis and of the numbers in the bars; title: the question that the bars answer
    """
    if not ledgers:
        raise LectureError("expected at least one ledger to draw; got none")
    rows = list(dict.fromkeys(row for ledger in ledgers.values() for row in ledger))
    if len(rows) > len(_FILLS):
        raise LectureError(f"expected at most {len(_FILLS)} different rows; got {', '.join(rows)}")
    totals = {name: float(ledger.total.to(unit).value) for name, ledger in ledgers.items()}
    longest = max(totals.values())
    with course_style():
        figure = Figure(figsize=(11.0, 2.1 + 1.25 * len(ledgers)))
        axes = figure.add_subplot()
        for place, (name, ledger) in enumerate(ledgers.items()):
            start = 0.0
            for row, amount in ledger.items():
                length = float(amount.to(unit).value)
                style = rows.index(row)
                axes.barh(
                    place,
                    length,
                    0.62,
                    start,
                    color=_FILLS[style],
                    hatch=HATCHES[style],
                    edgecolor=BLACK,
                    linewidth=1.2,
                )
                if length > _NUMBERED * longest:
                    words = row.partition(",")[0].replace(" ", "\n") if length > _NAMED * longest else ""
                    axes.text(
                        start + length / 2,
                        place,
                        f"{words}\n{length:,.4g}".strip(),
                        ha="center",
                        va="center",
                        fontsize=14,
                        bbox={"facecolor": _FILLS[style], "edgecolor": "none", "pad": 2},
                    )
                start += length
            axes.text(
                start + 0.012 * longest, place, f"{totals[name]:,.4g} {unit}", va="center", fontweight="bold"
            )
        axes.set_yticks(range(len(ledgers)), list(ledgers), fontsize=16)
        axes.set_ylim(len(ledgers) - 0.5, -0.5)
        axes.set_xlim(0, 1.14 * longest)
        axes.set_xlabel(unit)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_color(GREY)
        axes.set_title(title)
        if any(
            float(q.to(unit).value) <= _NAMED * longest
            for ledger in ledgers.values()
            for q in ledger.values()
        ):
            keys = [
                Patch(facecolor=_FILLS[style], hatch=HATCHES[style], edgecolor=BLACK, label=row)
                for style, row in enumerate(rows)
            ]
            figure.legend(handles=keys, loc="outside lower center", ncols=len(rows), handleheight=1.4)
    told = "; ".join(
        f"{name}, {totals[name]:,.4g} {unit}: "
        + ", ".join(f"{row} {float(amount.to(unit).value):,.4g}" for row, amount in ledger.items())
        for name, ledger in ledgers.items()
    )
    return Drawing(figure, f"{title} Bars in {unit}: {told}.")
