"""Pictures of arithmetic: a linear layer's three matrix products, and where 6PT fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from lecture_lib.figures.show import Drawing
from lecture_lib.figures.style import BLACK, BLUE, GREY, ORANGE, SKY, VERMILLION, canvas, course_style
from lecture_lib.quantity import LectureError, Ledger

_MOST_CELLS = 10


def three_products(M: int, d_in: int, d_out: int) -> Drawing:
    """Y = X·W, dX = G·Wᵀ and dW = Xᵀ·G, cell by cell, with the row and column behind one entry hatched.

    M, d_in, d_out: 1 to 10, so that each entry is a square to be seen; LectureError beyond
    """
    sizes = {"M": M, "d_in": d_in, "d_out": d_out}
    if any(not isinstance(size, int) or not 1 <= size <= _MOST_CELLS for size in sizes.values()):
        raise LectureError(
            f"expected M, d_in and d_out of 1 to {_MOST_CELLS}, to draw each entry; got {sizes}"
        )
    products = [
        ("forward", ("X", "M", "d_in"), ("W", "d_in", "d_out"), ("Y", "M", "d_out")),
        ("input gradient", ("G", "M", "d_out"), ("Wᵀ", "d_out", "d_in"), ("dX", "M", "d_in")),
        ("weight gradient", ("Xᵀ", "d_in", "M"), ("G", "M", "d_out"), ("dW", "d_in", "d_out")),
    ]
    cell = 3.2 / max(sizes.values())
    with course_style():
        figure, axes = canvas("What does each of the three products sum over?", height=5.6)
        axes.axis("off")
        axes.set_aspect("equal")
        for number, (name, left, right, out) in enumerate(products):
            _product(axes, 7.9 * number, name, left, right, out, sizes, cell)
        axes.set_xlim(-1.0, 22.0)
        axes.set_ylim(-8.6, 2.1)
    told = " ".join(
        f"{name.capitalize()}: {left[0]} ({left[1]} × {left[2]}) times {right[0]} ({right[1]} × {right[2]}) "
        f"is {out[0]} ({out[1]} × {out[2]}); each entry sums {sizes[left[2]]} products, over {left[2]}."
        for name, left, right, out in products
    )
    return Drawing(
        figure,
        f"A linear layer's three matrix products, drawn for M = {M}, d_in = {d_in}, d_out = {d_out}. {told}",
    )


_Matrix = tuple[str, str, str]


def _product(
    axes: Axes,
    x: float,
    name: str,
    left: _Matrix,
    right: _Matrix,
    out: _Matrix,
    sizes: Mapping[str, int],
    cell: float,
) -> None:
    """A product as it is computed by hand: the right factor above the result, the left factor beside it."""
    axes.text(x, 1.75, name, fontsize=17, fontweight="bold", va="center")
    axes.text(x, 0.95, f"{out[0]} = {left[0]}·{right[0]}", fontsize=15, va="center")
    axes.text(x, 0.15, f"sums over {_symbol(left[2])}", color=VERMILLION, fontweight="bold", va="center")
    gap, right_top = 0.6, -1.2
    out_x, out_top = x + sizes[left[2]] * cell + gap, right_top - sizes[right[1]] * cell - gap
    out_width, out_height = sizes[out[2]] * cell, sizes[out[1]] * cell
    row, column = sizes[out[1]] // 2, sizes[out[2]] // 2
    _cells(axes, x, out_top, left, sizes, cell, lambda i, j: i == row)
    _cells(axes, out_x, right_top, right, sizes, cell, lambda i, j: j == column)
    _cells(axes, out_x, out_top, out, sizes, cell, lambda i, j: (i, j) == (row, column), filled="white")

    middle = (out_x + out_width / 2, out_top - out_height / 2)
    left_middle = x + sizes[left[2]] * cell / 2
    bold: dict[str, Any] = {"fontsize": 17, "fontweight": "bold"}
    axes.text(left_middle, out_top - out_height - 0.45, left[0], ha="center", va="center", **bold)
    axes.text(middle[0], out_top - out_height - 0.45, out[0], ha="center", va="center", **bold)
    axes.text(out_x + out_width + 0.15, right_top - sizes[right[1]] * cell / 2, right[0], va="center", **bold)
    summed: dict[str, Any] = {"fontsize": 14, "color": VERMILLION, "fontweight": "bold"}
    kept: dict[str, Any] = {"fontsize": 14}
    above: dict[str, Any] = {"ha": "center", "va": "bottom"}
    beside: dict[str, Any] = {"ha": "right", "va": "center"}
    axes.text(left_middle, out_top + 0.12, _symbol(left[2]), **above, **summed)
    axes.text(out_x - 0.12, right_top - sizes[right[1]] * cell / 2, _symbol(right[1]), **beside, **summed)
    axes.text(x - 0.12, middle[1], _symbol(left[1]), **beside, **kept)
    axes.text(middle[0], right_top + 0.12, _symbol(right[2]), **above, **kept)


def _cells(
    axes: Axes,
    x: float,
    top: float,
    matrix: _Matrix,
    sizes: Mapping[str, int],
    cell: float,
    marked: Callable[[int, int], bool],
    filled: str = SKY,
) -> None:
    _, rows, columns = matrix
    for i in range(sizes[rows]):
        for j in range(sizes[columns]):
            axes.add_patch(
                Rectangle(
                    (x + j * cell, top - (i + 1) * cell),
                    cell,
                    cell,
                    linewidth=1.2,
                    edgecolor=BLACK,
                    facecolor=ORANGE if marked(i, j) else filled,
                    hatch="///" if marked(i, j) else None,
                )
            )


def _symbol(name: str) -> str:
    first, _, lower = name.partition("_")
    return f"{first}$_{{{lower}}}$" if lower else first


def full_over_6pt(ledgers: Mapping[str, Ledger]) -> Drawing:
    """The full count of each case over its 6PT, as bars from 1, with the row that weighs most.

    ledgers: what `accounting.flops.beyond_6pt` returns, by the name beside the bar; each has a row "6PT"
    """
    if not ledgers or any("6PT" not in ledger for ledger in ledgers.values()):
        raise LectureError('expected one or more ledgers with a row "6PT", as beyond_6pt gives; got none')
    bars = []
    for name, ledger in ledgers.items():
        base = ledger["6PT"].base_value
        others = {row: float(amount.base_value / base) for row, amount in ledger.items() if row != "6PT"}
        heaviest = max(others, key=lambda row: abs(others[row]), default="")
        words = f"{heaviest} {_percent(others[heaviest])}" if heaviest else "nothing beside it"
        bars.append((name, float(ledger.total.base_value / base), words))
    low, high = min(1.0, *(ratio for _, ratio, _ in bars)), max(1.0, *(ratio for _, ratio, _ in bars))
    with course_style():
        figure, axes = canvas("How many times 6·P·T is the full count?", height=1.7 + 0.86 * len(bars))
        for row, (_, ratio, words) in enumerate(bars):
            more = ratio >= 1
            axes.barh(
                row,
                ratio - 1,
                left=1,
                height=0.5,
                color=BLUE if more else ORANGE,
                hatch="" if more else "//",
                edgecolor=BLACK,
                linewidth=1.2,
            )
            axes.annotate(
                f"{ratio:.3g}×",
                (ratio, row),
                xytext=(7 if more else -7, 0),
                textcoords="offset points",
                ha="left" if more else "right",
                va="center",
                fontweight="bold",
            )
            axes.annotate(
                words,
                (1, row),
                xytext=(-8 if more else 8, 0),
                textcoords="offset points",
                ha="right" if more else "left",
                va="center",
                fontsize=14,
                color=GREY,
            )
        axes.axvline(1, color=BLACK, linewidth=2)
        axes.set_xscale("log")
        axes.set_xlim(low / 6, high * 3)
        ticks = [tick for tick in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if low / 6 <= tick <= high * 3]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(
            "full count / 6·P·T, logarithmic\n(grey: the row that changes most, as a share of 6·P·T)"
        )
    told = "; ".join(f"{name}: {ratio:.3g} times, {words}" for name, ratio, words in bars)
    return Drawing(figure, f"Training FLOPs over 6·P·T, with the row that changes them most. {told}.")


def _percent(share: float) -> str:
    size = abs(share) * 100
    text = f"{size:,.0f}" if size >= 10 else f"{size:.2g}"
    return f"{'+' if share > 0 else '−'}{text}%"
