"""Operators' least times beside the times that they took, each with the ratio of the two."""

from __future__ import annotations

from collections.abc import Mapping

from lecture_lib.accounting.operators import Cost
from lecture_lib.measuring.tables import html_table, text_table
from lecture_lib.quantity import LectureError, Quantity

_HEAD = ("", "intensity", "limit", "at least", "measured", "measured / least")


class Bounds:
    """What `beside_bounds` returns: `ratios` by label, and a table of all."""

    def __init__(self, lines: list[tuple[str, ...]], ratios: dict[str, float], name: str) -> None:
        self._lines, self.ratios, self.name = lines, ratios, name

    def __str__(self) -> str:
        return "\n".join([self.name, text_table([_HEAD, *self._lines])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.name, _HEAD, self._lines)


def beside_bounds(
    costs: Mapping[str, Cost], measured: Mapping[str, Quantity], peak: Quantity, bandwidth: Quantity
) -> Bounds:
    """A line for each operator: intensity, which budget sets its bound, the bound, its time, time over bound.

    costs, measured: by the same labels; seconds. peak: FLOP/s; bandwidth: B/s, of the memory they ran from.
    A ratio under 1 means that a ceiling is too low, or that the bytes came from a nearer memory.
    """
    if not costs or set(costs) != set(measured):
        wanted, got = (", ".join(given) or "none" for given in (costs, measured))
        raise LectureError(f"expected a time for each of {wanted}, one or more; got {got}")
    lines: list[tuple[str, ...]] = []
    ratios: dict[str, float] = {}
    for label, cost in costs.items():
        least = cost.time_bound(peak, bandwidth)
        ratios[label] = float(measured[label] / least)
        lines.append(
            (
                label,
                str(cost.intensity),
                cost.limit(peak, bandwidth),
                str(least),
                str(measured[label]),
                f"{ratios[label]:.3g}",
            )
        )
    return Bounds(lines, ratios, f"At {peak} and {bandwidth}")
