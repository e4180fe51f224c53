"""Pictures of named axes: what a misspelt one does to attention scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy
from matplotlib.figure import Figure

from lecture_lib.figures.show import Drawing
from lecture_lib.figures.style import course_style
from lecture_lib.quantity import LectureError

_MOST_MAPS = 3


def score_maps(maps: Mapping[str, Sequence[Sequence[float]]]) -> Drawing:
    """Score matrices side by side, each in greys from its least value (white) to its largest (black).

    maps: one to three matrices (query × key) of one shape by what they are; each one's range and matrix rank
    stand beneath it
    Raises LectureError for more matrices, or for shapes that differ.
    """
    scores = {name: numpy.asarray(values, dtype=float) for name, values in maps.items()}
    shapes = {matrix.shape for matrix in scores.values()}
    if not 1 <= len(scores) <= _MOST_MAPS or len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise LectureError(
            f"expected one to {_MOST_MAPS} matrices of one shape; got {len(scores)} of {sorted(shapes)}"
        )
    queries, keys = next(iter(shapes))
    ranges = {
        name: f"from {matrix.min():.1f} to {matrix.max():.1f}".replace("-", "−")
        for name, matrix in scores.items()
    }
    ranks = {name: int(numpy.linalg.matrix_rank(matrix)) for name, matrix in scores.items()}
    with course_style():
        figure = Figure(figsize=(11.0, 5.2), layout="constrained")
        figure.suptitle(
            "What does a misspelt axis do to the scores?", x=0.012, ha="left", fontsize=19, fontweight="bold"
        )
        for place, (name, matrix) in enumerate(scores.items()):
            axes = figure.add_subplot(1, len(scores), place + 1)
            axes.imshow(matrix, cmap="Greys", interpolation="nearest", aspect="equal")
            axes.set(xticks=[], yticks=[])
            axes.set_title(name, fontsize=15.5, loc="left")
            if place == 0:
                axes.set_ylabel(f"{queries} queries")
            axes.set_xlabel(f"{keys} keys\n{ranges[name]}\nrank {ranks[name]}")
    told = "; ".join(
        f"{name}: {ranges[name]}, rank {ranks[name]}"
        + (", every row a multiple of the others" if ranks[name] == 1 else "")
        for name in scores
    )
    return Drawing(
        figure,
        f"Attention scores of {queries} queries and {keys} keys, as grey maps. From left to right: {told}.",
    )
