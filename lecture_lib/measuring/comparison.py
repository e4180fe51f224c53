"""A prediction beside its measurement: both, the error, and what is left unexplained."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from lecture_lib.measuring.tables import html_table, text_table
from lecture_lib.quantity import LectureError, Ledger, Quantity

_NOT_ASKED = object()


@dataclass(frozen=True)
class Row:
    """One line of a comparison; None where there is nothing on that side."""

    label: str
    predicted: Quantity | None
    measured: Quantity | None

    @property
    def remainder(self) -> Quantity | None:
        """Measured minus predicted, in the prediction's unit: what the prediction does not explain."""
        if self.predicted is None or self.measured is None:
            return None
        return self.measured.to(self.predicted.unit) - self.predicted

    @property
    def error(self) -> float | None:
        """(predicted − measured) / measured, 0.0 only if equal; None without a side, or if measured is 0."""
        if self.predicted is None or self.measured is None:
            return None
        got, wanted = self.predicted.base_value, self.measured.base_value
        if got == wanted:
            return 0.0
        if wanted == 0:
            return None
        return float((Fraction(got) - Fraction(wanted)) / Fraction(wanted))


class Comparison:
    """What `compare` returns: `rows` with the total last, and the total's `error` and `remainder`."""

    def __init__(self, rows: list[Row], name: str, both_ledgers: bool, guess: object) -> None:
        self.rows, self.name = rows, name
        self._both, self._guess = both_ledgers, guess

    @property
    def error(self) -> float | None:
        """(predicted − measured) / measured of the whole."""
        return self.rows[-1].error

    @property
    def remainder(self) -> Quantity | None:
        """Measured minus predicted of the whole: the unexplained remainder; None without a measurement."""
        return self.rows[-1].remainder

    def _lines(self) -> list[tuple[str, str, str, str, str]]:
        lines = []
        for row in self.rows:
            lines.append(
                (
                    row.label,
                    ("not predicted" if self._both else "") if row.predicted is None else str(row.predicted),
                    ("not measured" if self._both else "") if row.measured is None else str(row.measured),
                    _percent(row),
                    "" if row.remainder is None else _signed(row.remainder),
                )
            )
        if self._guess is not _NOT_ASKED:
            lines.insert(0, ("your guess", *self._guess_cells()))
        return lines

    def _guess_cells(self) -> tuple[str, str, str, str]:
        whole = self.rows[-1]
        guess, truth = self._guess, whole.measured or whole.predicted
        if guess is None or guess is ...:
            return "no guess yet", "", "", ""
        assert truth is not None
        read = _read_guess(guess, truth.unit)
        if read is None:
            return str(guess), "", "not a number with a unit", ""
        if read.dimensions != truth.dimensions:
            return str(read), "", f"another dimension than {truth.unit}", ""
        row = Row("", read, truth)
        return str(read), "", _percent(row), ""

    def __str__(self) -> str:
        return "\n".join([*([self.name] if self.name else []), text_table([_HEAD, *self._lines()])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.name or "Predicted and measured", _HEAD, self._lines())


_HEAD = ("", "predicted", "measured", "error of prediction", "unexplained")


def compare(
    predicted: Quantity | Ledger, measured: Quantity | Ledger | None, *, guess: object = _NOT_ASKED
) -> Comparison:
    """A prediction beside a measurement of the same dimension, row by row where both are ledgers.

    measured: None where this machine cannot measure it
    guess:    what the reader guessed for the whole, shown first and never judged: a quantity, "84 GB", a
              number in the measurement's unit, or `...` for no guess yet
    Raises LectureError if either is not a Quantity or Ledger, or their dimensions differ.
    """
    for thing in (predicted,) if measured is None else (predicted, measured):
        if not isinstance(thing, Quantity | Ledger):
            raise LectureError(f"expected a Quantity or a Ledger to compare; got {thing!r}")
    whole_predicted = predicted.total if isinstance(predicted, Ledger) else predicted
    whole_measured = measured.total if isinstance(measured, Ledger) else measured
    if whole_measured is not None and whole_predicted.dimensions != whole_measured.dimensions:
        raise LectureError(
            f"expected a prediction and a measurement of one dimension; got {whole_predicted} predicted "
            f"and {whole_measured} measured"
        )
    rows: list[Row] = []
    if isinstance(predicted, Ledger) or isinstance(measured, Ledger):
        left = dict(predicted.items()) if isinstance(predicted, Ledger) else {}
        right = dict(measured.items()) if isinstance(measured, Ledger) else {}
        rows = [Row(label, left.get(label), right.get(label)) for label in dict.fromkeys((*left, *right))]
    names = [thing.name for thing in (predicted, measured) if thing is not None and thing.name]
    label = "total" if rows else next(iter(names), "value")
    name = next(iter(names), "") if rows else ""
    both = measured is None or (isinstance(predicted, Ledger) and isinstance(measured, Ledger))
    return Comparison([*rows, Row(label, whole_predicted, whole_measured)], name, both, guess)


def _percent(row: Row) -> str:
    if row.error is None:
        return ""
    if row.error == 0:
        return "equal"
    if abs(row.error) >= 10:
        return f"{1 + row.error:,.3g} times"
    text = f"{100 * row.error:+.1g}%" if abs(row.error) < 1e-4 else f"{row.error:+.2%}"
    return text.replace("-", "−", 1)


def _signed(quantity: Quantity) -> str:
    if quantity.value == 0:
        return "0"
    return f"+{quantity}" if quantity.value > 0 else str(quantity).replace("-", "−", 1)


def _read_guess(guess: object, unit: str) -> Quantity | None:
    if isinstance(guess, Quantity):
        return guess
    try:
        if isinstance(guess, str):
            found = re.fullmatch(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*(\S*)\s*", guess.replace(",", ""))
            return Quantity(float(found[1]), found[2] or unit) if found else None
        return Quantity(guess, unit)  # type: ignore[arg-type]
    except (LectureError, ValueError):
        return None
