"""A number that is never bare: its unit, the formula it came from, the conventions in it and its source.

`Quantity` is what every accounting function returns; `Ledger` is an ordered list of quantities that adds up
exactly to its total. Unit names are plain strings, products of the names in `UNITS`: "B", "FLOP/s",
"B/token", "device·h". No units library is loaded here: one is needed only where a typed answer is read
(`lecture_lib.exercises.units`).
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

Number = int | float | Fraction

_SI = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18, "Z": 10**21, "Y": 10**24}
_IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}

# base unit -> every name it has, as a multiple of the base. Tokens, parameters and elements are dimensions of
# their own, so that a count of one is never taken for a count of another.
UNITS: dict[str, dict[str, Number]] = {
    "B": {
        "B": 1,
        "bit": Fraction(1, 8),
        **{f"{p}B": n for p, n in _SI.items()},
        **{f"{p}B": n for p, n in _IEC.items()},
    },
    "FLOP": {"FLOP": 1, **{f"{p}FLOP": n for p, n in _SI.items()}, "PFLOP-day": 10**15 * 86_400},
    "s": {
        "s": 1,
        "ms": Fraction(1, 10**3),
        "us": Fraction(1, 10**6),
        "µs": Fraction(1, 10**6),
        "ns": Fraction(1, 10**9),
        "min": 60,
        "h": 3_600,
        "day": 86_400,
    },
    "token": {"token": 1},
    "parameter": {"parameter": 1},
    "element": {"element": 1},
    "device": {"device": 1},
}
_BASE_OF = {name: (base, multiple) for base, names in UNITS.items() for name, multiple in names.items()}


class LectureError(ValueError):
    """Bad input to the course's library: says what was expected, what came and what to do."""


class _NoSuchRow(LectureError, KeyError):
    """A ledger has no such row. A KeyError too, so that `ledger.get(label)` answers None."""

    __str__ = ValueError.__str__  # a KeyError would show itself in quotes


def _parse_unit(unit: str) -> tuple[tuple[tuple[str, int], ...], Number]:
    """Unit name -> (base dimensions with exponents, in order of appearance; multiple of the base)."""
    if not isinstance(unit, str):
        raise LectureError(f"expected the name of a unit; got {unit!r}; write 'B' or 'FLOP/s'")
    return _parsed(unit)


@lru_cache(maxsize=1024)
def _parsed(unit: str) -> tuple[tuple[tuple[str, int], ...], Number]:
    dimensions: dict[str, int] = {}
    multiple: Number = 1
    for position, side in enumerate(unit.split("/")):
        sign = 1 if position == 0 else -1
        for factor in re.split(r"[·*]", side):
            name, _, power = factor.strip().partition("^")
            if name in ("", "1"):
                continue
            if name not in _BASE_OF:
                known = ", ".join(UNITS)
                raise LectureError(
                    f"expected a unit made of {known} (with prefixes, · and /); got {name!r} in {unit!r}; "
                    "add it to lecture_lib.quantity.UNITS if the course needs it"
                )
            if power and not re.fullmatch(r"-?[0-9]{1,2}", power):
                raise LectureError(
                    f"expected a whole power in a unit; got {power!r} in {unit!r}; write 's^2'"
                )
            base, scale = _BASE_OF[name]
            exponent = sign * (int(power) if power else 1)
            dimensions[base] = dimensions.get(base, 0) + exponent
            multiple = multiple * (
                Fraction(scale) ** exponent if not isinstance(scale, float) else scale**exponent
            )
    kept = tuple((base, exponent) for base, exponent in dimensions.items() if exponent)
    return kept, _tidy(multiple)


def _unit_name(dimensions: Mapping[str, int]) -> str:
    def side(sign: int) -> str:
        names = []
        for base, exponent in dimensions.items():
            if exponent * sign > 0:
                names.append(base if abs(exponent) == 1 else f"{base}^{abs(exponent)}")
        return "·".join(names)

    over, under = side(1), side(-1).replace("·", "/")
    return (over or "1") + (f"/{under}" if under else "")


def _tidy(value: Number) -> Number:
    """Whole fractions become ints; other fractions stay exact; floats stay floats."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    return value


def _times(a: Number, b: Number) -> Number:
    return _tidy(a * b) if isinstance(a, float) or isinstance(b, float) else _tidy(Fraction(a) * Fraction(b))


@dataclass(frozen=True, eq=False, repr=False)
class Quantity:
    """A value with its unit and where it came from.

    value:       int where the count is exact, else float or Fraction, in `unit`
    unit:        product of names in `UNITS`, "1" if dimensionless
    name:        what it is ("forward FLOPs")
    formula:     in the lecture's symbols ("2·M·d_in·d_out")
    inputs:      the symbols' values in this case, put into the formula by `numbers`
    conventions: what was counted how ("FMA = 2 FLOPs", "dense peak", "causal attention")
    source:      where a constant comes from
    """

    value: Number
    unit: str = "1"
    name: str = ""
    formula: str = ""
    inputs: Mapping[str, object] = field(default_factory=dict)
    conventions: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float | Fraction):
            raise LectureError(f"expected a number for {self.name or 'a quantity'}; got {self.value!r}")
        object.__setattr__(self, "value", _tidy(self.value))
        _parse_unit(self.unit)

    # -- value and unit

    @property
    def dimensions(self) -> dict[str, int]:
        """Base units with their exponents: {"FLOP": 1, "s": -1}."""
        return dict(_parse_unit(self.unit)[0])

    @property
    def base_value(self) -> Number:
        """The value in base units (B, FLOP, s …), exact where it can be."""
        return _times(self.value, _parse_unit(self.unit)[1])

    def to(self, unit: str) -> Quantity:
        """The same quantity in another unit of the same dimension; LectureError if the dimension differs."""
        dimensions, multiple = _parse_unit(unit)
        self._same_dimension(dict(dimensions), unit)
        base = self.base_value
        value = (
            base / float(multiple) if isinstance(base, float) else _tidy(Fraction(base) / Fraction(multiple))
        )
        return replace(self, value=value, unit=unit)

    def with_(self, **changes: object) -> Quantity:
        """A copy with a new name, formula, inputs, conventions or source."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def _same_dimension(self, dimensions: Mapping[str, int], came: str) -> None:
        if self.dimensions != dict(dimensions):
            raise LectureError(
                f"expected the dimension of {self.unit!r} ({self.name or self}); "
                f"got {came!r}, which is another one"
            )

    # -- arithmetic: same dimension to add or compare, any to multiply or divide

    def __add__(self, other: object) -> Quantity:
        if isinstance(other, int) and not isinstance(other, bool) and other == 0:  # so that sum() works
            return self
        self._refuse_bare(other, "add")
        if not isinstance(other, Quantity):
            return NotImplemented
        self._same_dimension(other.dimensions, other.unit)
        same = other.value if other.unit == self.unit else other.to(self.unit).value
        total = self.value + same
        return Quantity(total, self.unit, conventions=_merged(self, other))

    __radd__ = __add__

    def __neg__(self) -> Quantity:
        return replace(self, value=-self.value)

    def __sub__(self, other: object) -> Quantity:
        self._refuse_bare(other, "subtract")
        return self + (-other) if isinstance(other, Quantity) else NotImplemented

    def __rsub__(self, other: object) -> Quantity:
        self._refuse_bare(other, "subtract from")
        return NotImplemented

    def _refuse_bare(self, other: object, verb: str) -> None:
        if isinstance(other, int | float | Fraction):
            raise LectureError(
                f"expected a quantity to {verb}, in {self.unit}; got the bare number {other!r}; "
                f"write Quantity({other!r}, {self.unit!r}) if that is meant"
            )

    def __mul__(self, other: object) -> Quantity:
        if isinstance(other, Quantity):
            return self._product(other, 1)
        if isinstance(other, int | float | Fraction) and not isinstance(other, bool):
            return Quantity(_times(self.value, other), self.unit, conventions=self.conventions)
        return NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Quantity:
        if isinstance(other, Quantity):
            return self._product(other, -1)
        if isinstance(other, int | float | Fraction) and not isinstance(other, bool):
            if not other:
                raise LectureError(f"expected a number other than 0 to divide {self} by; got {other!r}")
            inverse = 1 / other if isinstance(other, float) else Fraction(1) / Fraction(other)
            return Quantity(_times(self.value, inverse), self.unit, conventions=self.conventions)
        return NotImplemented

    def __rtruediv__(self, other: object) -> Quantity:
        if isinstance(other, int | float | Fraction) and not isinstance(other, bool):
            return Quantity(other) / self
        return NotImplemented

    def _product(self, other: Quantity, power: int) -> Quantity:
        a, b = self.base_value, other.base_value
        if power < 0 and b == 0:
            raise LectureError(f"expected a non-zero {other.name or other.unit} to divide by; got 0")
        inverse = 1 / b if power < 0 and isinstance(b, float) else Fraction(b) ** power if power < 0 else b
        dimensions = self.dimensions
        for base, exponent in other.dimensions.items():
            dimensions[base] = dimensions.get(base, 0) + power * exponent
        unit = _unit_name({base: exponent for base, exponent in dimensions.items() if exponent})
        return Quantity(_times(a, inverse), unit, conventions=_merged(self, other))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Quantity):
            return self.dimensions == other.dimensions and self.base_value == other.base_value
        if isinstance(other, int | float | Fraction):
            raise LectureError(
                f"expected a quantity to compare with {self}; got the bare number {other!r}; "
                f"compare the value (`.value == {other!r}`) or Quantity({other!r}, {self.unit!r})"
            )
        return NotImplemented

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.dimensions.items())), self.base_value))

    def _ordered(self, other: object) -> tuple[Number, Number]:
        if not isinstance(other, Quantity):
            raise LectureError(f"expected a quantity to compare with {self}; got {other!r}; compare `.value`")
        self._same_dimension(other.dimensions, other.unit)
        return self.base_value, other.base_value

    def __lt__(self, other: object) -> bool:
        a, b = self._ordered(other)
        return a < b

    def __le__(self, other: object) -> bool:
        a, b = self._ordered(other)
        return a <= b

    def __gt__(self, other: object) -> bool:
        a, b = self._ordered(other)
        return a > b

    def __ge__(self, other: object) -> bool:
        a, b = self._ordered(other)
        return a >= b

    def __int__(self) -> int:
        if not math.isfinite(self.value) or self.value != int(self.value):
            raise LectureError(f"expected a whole number; got {self.value!r} {self.unit}; use float()")
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    # -- how it shows itself

    @property
    def numbers(self) -> str:
        """The formula with this case's numbers in it."""
        if not self.inputs:
            return ""
        names = sorted(self.inputs, key=len, reverse=True)
        pattern = r"(?<![\w.])(" + "|".join(re.escape(name) for name in names) + r")(?![\w])"
        return re.sub(pattern, lambda m: _plain(self.inputs[m.group(1)]), self.formula)

    @property
    def exact(self) -> str:
        """All digits of an exact count, or the value as it is stored, with its unit."""
        value = self.value
        if huge := _beyond_floats(value):
            return _with_unit(huge, self.unit)
        text = f"{value:,}" if isinstance(value, int) else f"{float(value):.10g}"
        return _with_unit(text, self.unit)

    def explain(self) -> str:
        """Several lines for a terminal: formula, numbers, exact value, conventions, source."""
        head = f"{self.name} = {self}" if self.name else str(self)
        return "\n".join([head, *(f"  {label}: {text}" for label, text in self._details())])

    def _details(self) -> list[tuple[str, str]]:
        rows = [
            ("formula", self.formula),
            ("numbers", self.numbers),
            ("exact", self.exact if self.exact != str(self) else ""),
            ("conventions", "; ".join(self.conventions)),
            ("source", self.source),
        ]
        return [(label, text) for label, text in rows if text]

    def __str__(self) -> str:
        return _readable(self)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        """`f"{q}"`, `f"{q:GiB}"` or `f"{q:.1f GiB}"`: a number format, a unit, or both."""
        if not spec:
            return str(self)
        number, _, unit = spec.rpartition(" ")
        if not number and re.fullmatch(r"[<>=^+\-#0-9,_.]*[eEfFgGnd%]", unit):
            number, unit = unit, self.unit
        shown = self.to(unit)
        value = shown.value if isinstance(shown.value, int) else float(shown.value)
        try:
            return _with_unit(format(value, number) if number else _significant(value), unit)
        except ValueError:
            raise LectureError(
                f"expected a number format, a unit, or both; got {spec!r}; write '.1f', 'GiB' or '.1f GiB'"
            ) from None

    def _repr_html_(self) -> str:
        head = html.escape(f"{self.name} = {self}" if self.name else str(self))
        rows = "".join(
            f"<div><em>{html.escape(label)}</em>: {html.escape(text)}</div>"
            for label, text in self._details()
        )
        return f"<details><summary>{head}</summary>{rows}</details>" if rows else f"<div>{head}</div>"


def _merged(a: Quantity, b: Quantity) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*a.conventions, *b.conventions)))


def _plain(value: object) -> str:
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _with_unit(text: str, unit: str) -> str:
    return text if unit == "1" else f"{text} {unit}"


def _significant(value: Number, digits: int = 4) -> str:
    """Four significant digits, no trailing zeros, thousands separated; a power of ten beyond 1e15."""
    number = float(value)
    if not math.isfinite(number) or number == 0:
        return f"{number:g}"
    if not 1e-4 <= abs(number) < 1e15:
        mantissa, _, exponent = f"{number:.{digits - 1}e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')} × 10^{int(exponent)}"
    places = max(0, digits - 1 - _magnitude(number))
    text = f"{number:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _magnitude(number: float) -> int:
    return int(f"{number:e}".partition("e")[2])


_TIMES = (
    ("day", 86_400.0),
    ("h", 3_600.0),
    ("min", 60.0),
    ("s", 1.0),
    ("ms", 1e-3),
    ("µs", 1e-6),
    ("ns", 1e-9),
)
# "YFLOP" helps nobody.
_SHOWN_SI = {prefix: multiple for prefix, multiple in _SI.items() if multiple <= 10**15}
# Exact counts below this show every digit; above, four digits, and the exact value on unfolding.
_ALL_DIGITS = 10**7


def _beyond_floats(value: Number) -> str:
    """How large a number is that no float holds; "" for all others."""
    try:
        float(value)
    except OverflowError:
        digits = math.log10(abs(int(value)))  # of an int of any size
        return f"about {'-' if value < 0 else ''}10^{int(digits)}"
    return ""


def _readable(q: Quantity) -> str:
    if huge := _beyond_floats(q.value):
        return _with_unit(huge, q.unit)
    dimensions, _ = _parse_unit(q.unit)
    lead = q.unit.partition("/")[0].partition("·")[0]
    value = q.value
    if q.unit == "s":
        return _readable_time(float(value))
    if lead != (dimensions[0][0] if dimensions else None) or lead not in ("B", "FLOP"):
        return _with_unit(
            f"{value:,}" if isinstance(value, int) and abs(value) < 10**15 else _significant(value), q.unit
        )
    rest = q.unit[len(lead) :]
    if isinstance(value, int) and abs(value) < _ALL_DIGITS:
        text = f"{value:,} {q.unit}"
    else:
        text = _prefixed(float(value), lead, _SHOWN_SI, 1e3) + rest
    if lead == "B" and q.unit == "B" and abs(float(value)) >= 1024:
        text += f" ({_prefixed(float(value), 'B', _IEC, 1024.0)})"
    return text


def _prefixed(number: float, unit: str, prefixes: Mapping[str, int], step: float) -> str:
    best = ("", 1)
    for prefix, multiple in prefixes.items():
        if abs(number) >= multiple:
            best = (prefix, multiple)
    if abs(number) / best[1] >= step * 10:  # past the largest prefix
        return f"{_significant(number)} {unit}"
    return f"{_significant(number / best[1])} {best[0]}{unit}"


def _readable_time(seconds: float) -> str:
    for name, length in _TIMES:
        if abs(seconds) >= length * (2 if length > 1 else 1):
            return f"{_significant(seconds / length)} {name}{'s' if name == 'day' else ''}"
    return f"{_significant(seconds)} s"


class Ledger(Mapping[str, Quantity]):
    """An ordered list of named quantities of one dimension that adds up exactly to its total.

    `ledger["gradients"]` is a row, `ledger.total` the sum (an exact int where every row is one).
    """

    def __init__(
        self,
        rows: Mapping[str, Quantity] | Sequence[tuple[str, Quantity]],
        name: str = "",
        unit: str | None = None,
    ) -> None:
        pairs = list(rows.items()) if isinstance(rows, Mapping) else list(rows)
        if not pairs and unit is None:
            raise LectureError(
                "expected at least one row in a ledger, or a unit for an empty one; got neither"
            )
        self.name = name
        for label, quantity in pairs:
            if not isinstance(quantity, Quantity):
                raise LectureError(
                    f"expected a quantity in the row {label!r}; got {quantity!r}; give its unit"
                )
        self.unit = unit or pairs[0][1].unit
        self._rows: dict[str, Quantity] = {}
        for label, quantity in pairs:
            if label in self._rows:
                raise LectureError(f"expected each ledger row once; got {label!r} twice")
            self._rows[label] = quantity.to(self.unit)

    @property
    def total(self) -> Quantity:
        """The exact sum of the rows."""
        conventions = tuple(dict.fromkeys(c for q in self._rows.values() for c in q.conventions))
        value: Number = sum((q.value for q in self._rows.values()), 0)
        return Quantity(value, self.unit, name=f"{self.name or 'ledger'}: total", conventions=conventions)

    def __getitem__(self, label: str) -> Quantity:
        if label not in self._rows:
            raise _NoSuchRow(f"expected one of the rows {', '.join(self._rows)}; got {label!r}")
        return self._rows[label]

    def __contains__(self, label: object) -> bool:
        return label in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _lines(self) -> list[tuple[str, str, str]]:
        total = self.total
        whole = float(total.value)
        lines = [
            (label, str(q), f"{float(q.value) / whole:.1%}" if whole else "")
            for label, q in self._rows.items()
        ]
        return [*lines, ("total", str(total), "100.0%" if whole else "")]

    def __str__(self) -> str:
        lines = self._lines()
        wide = [max(len(line[i]) for line in lines) for i in range(3)]
        body = [f"{a:<{wide[0]}}  {b:>{wide[1]}}  {c:>{wide[2]}}".rstrip() for a, b, c in lines]
        rule = "-" * max(map(len, body))
        return "\n".join([*([self.name] if self.name else []), *body[:-1], rule, body[-1]])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def cells(line: tuple[str, str, str], q: Quantity | None) -> str:
            label, value, share = (html.escape(text) for text in line)
            shown = q.with_(name="")._repr_html_() if q is not None else f"<strong>{value}</strong>"
            left, right = ' style="text-align:left"', ' style="text-align:right"'
            return (
                f'<tr><th scope="row"{left}>{label}</th><td{right}>{shown}</td><td{right}>{share}</td></tr>'
            )

        lines = self._lines()
        body = "".join(cells(line, q) for line, q in zip(lines, [*self._rows.values(), None], strict=True))
        caption = f"<caption>{html.escape(self.name)}</caption>" if self.name else ""
        head = '<tr><th scope="col">row</th><th scope="col">amount</th><th scope="col">share</th></tr>'
        return f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>"
