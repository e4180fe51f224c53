"""Pictures of what stands behind a tensor: a storage, and the allocator's blocks and segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from lecture_lib.accounting.allocator import block_bytes, segment_bytes
from lecture_lib.figures.show import Drawing
from lecture_lib.figures.style import BLACK, BLUE, GREY, SKY, VERMILLION, course_style
from lecture_lib.quantity import LectureError


def storage_map(elements: int, views: Mapping[str, Sequence[int]]) -> Drawing:
    """One row for each view over a storage of up to 32 elements: which it touches, and in which order.

    views: positions in the storage, in the view's own order (row by row); a position may come several times
    """
    if not 1 <= elements <= 32:
        raise LectureError(
            f"expected a storage of 1 to 32 elements, so that each can be seen; got {elements}"
        )
    with course_style():
        figure = Figure(figsize=(11.0, 1.5 + 0.72 * len(views)))
        axes = figure.add_subplot()
        for place, (name, positions) in enumerate(views.items()):
            order: dict[int, list[int]] = {}
            for step, position in enumerate(positions):
                order.setdefault(position, []).append(step)
            for position in range(elements):
                touched = position in order
                axes.add_patch(
                    Rectangle(
                        (position, place),
                        1,
                        0.74,
                        facecolor=SKY if touched else "white",
                        edgecolor=BLACK if touched else GREY,
                        linestyle="-" if touched else ":",
                        linewidth=1.2,
                    )
                )
                if touched:
                    steps = order[position]
                    text = f"{steps[0]}" if len(steps) == 1 else f"{len(steps)}×"
                    axes.text(position + 0.5, place + 0.37, text, ha="center", va="center", fontsize=14)
            axes.text(
                -0.4, place + 0.37, name, ha="right", va="center", family="DejaVu Sans Mono", fontsize=14.5
            )
        for position in range(0, elements, 6):
            axes.text(position + 0.5, -0.12, f"{position}", ha="center", va="bottom", fontsize=14, color=GREY)
        axes.set(xlim=(-8.2, elements + 0.1), ylim=(len(views) + 0.05, -0.65))
        axes.axis("off")
        axes.set_title("Which elements of the storage does each view touch, in which order?")
    told = "; ".join(
        f"{name} touches {len(set(positions))} of {elements}"
        + (
            f", each {len(positions) // len(set(positions))} times"
            if len(positions) > len(set(positions))
            else ""
        )
        + f", beginning with {', '.join(map(str, positions[:4]))}"
        for name, positions in views.items()
    )
    return Drawing(
        figure, f"Several views of one storage of {elements} elements. By position in the storage: {told}."
    )


def allocator_steps(largest: int = 2**26) -> Drawing:
    """What one request takes (its block) and what it makes an empty allocator reserve (its segment), from "
    "1 B to `largest`."""
    if largest < 2**11:
        raise LectureError(f"expected a largest request from 2,048 B, to show the steps; got {largest:,}")
    fine = {round(2 ** (step / 32)) for step in range(32 * largest.bit_length())}
    edges = {edge + side for edge in (512, 1024, 2**20, 10 * 2**20) for side in (-1, 0, 1)}
    requests = sorted(size for size in fine | edges if 1 <= size <= largest)
    blocks = [int(block_bytes(size)) for size in requests]
    segments = [int(segment_bytes(size)) for size in requests]
    with course_style():
        figure = Figure()
        axes = figure.add_subplot()
        axes.loglog(requests, segments, color=VERMILLION, linestyle="--", base=2)
        axes.loglog(requests, blocks, color=BLUE, linestyle="-", base=2)
        axes.loglog(requests, requests, color=GREY, linestyle=":", base=2)
        axes.text(1.5, segments[0] * 1.5, "reserved: one segment", color=VERMILLION, va="bottom")
        axes.text(1.5, blocks[0] * 1.5, "allocated: one block", color=BLUE, va="bottom")
        axes.text(10, 8, "asked for", color=GREY, va="top")
        ticks = [size for size in (1, 2**9, 2**20, 10 * 2**20, 2**26) if size <= largest]
        axes.set_xticks(ticks, [_size(size) for size in ticks])
        marks = [1, 2**9, 2**21, 20 * 2**20]
        axes.set_yticks(marks, [_size(size) for size in marks])
        axes.minorticks_off()
        axes.set(xlabel="size of the request", ylabel="bytes")
        axes.grid(color=GREY, alpha=0.25, linewidth=1)
        axes.set_title("What does one tensor make an empty GPU allocator reserve?")
    told = "; ".join(
        f"{_size(size)} asked, {_size(int(block_bytes(size)))} allocated, {_size(int(segment_bytes(size)))} "
        f"reserved"
        for size in (2, 513, 2**20, 2**20 + 1, 2**26)
        if size <= largest
    )
    return Drawing(
        figure,
        "Asked for, allocated and reserved bytes of one request, on logarithmic axes. Allocated is the "
        "request rounded up "
        "to 512 B; reserved is 2 MiB for any request up to 1 MiB, 20 MiB for one below 10 MiB, and from "
        "there a multiple "
        f"of 2 MiB. {told}.",
    )


def _size(size: int) -> str:
    """In MiB where that is short, else in B."""
    return f"{size / 2**20:g} MiB" if size >= 2**20 and size % 2**18 == 0 else f"{size:,} B"
