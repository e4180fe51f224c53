"""Typed quantities: "84 GB", "78.23 GiB", "1.2e9 FLOP/s" read exactly, or refused in words.

Expressions of units are pint's; the names in them are those of `lecture_lib.quantity.UNITS`. pint is loaded
when the first typed quantity is read, not before.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from lecture_lib.quantity import UNITS, LectureError, Quantity

MAX_TEXT = 200

_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_LONG = {"k": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta", "E": "exa"} | {
    "Ki": "kibi",
    "Mi": "mebi",
    "Gi": "gibi",
    "Ti": "tebi",
    "Pi": "pebi",
}
_WORDS = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ALIASES = {  # pint takes a plural s by itself
    "byte": "B",
    "flop": "FLOP",
    "sec": "s",
    "second": "s",
    "minute": "min",
    "hr": "h",
    "hour": "h",
    "param": "parameter",
    "elem": "element",
    "GPU": "device",
}
_DIMENSIONS = {
    "B": "bytes or bits",
    "FLOP": "a count of FLOPs",
    "s": "a time",
    "token": "tokens",
    "parameter": "parameters",
    "element": "elements",
    "device": "devices",
}


class UnitProblem(LectureError):
    """A typed quantity that is refused; `slug` names the kind: "unit-missing", "comma", "kb", "flops",
    "unknown"…
    """

    def __init__(self, slug: str, words: str) -> None:
        super().__init__(words)
        self.slug = slug


@dataclass(frozen=True)
class Measure:
    """A magnitude in a unit as typed: `factor` base units each, `dimensions` with exponents ({"B": 1, "s":
    -1}).
    """

    magnitude: int | float | Fraction
    unit: str
    dimensions: Mapping[str, int]
    factor: Fraction
    note: str = ""  # how it was understood, where that needs saying


def from_quantity(quantity: Quantity) -> Measure:
    """A `Quantity` as a measure."""
    one = Quantity(1, quantity.unit)
    return Measure(quantity.value, quantity.unit, one.dimensions, Fraction(one.base_value))


def read(text: str) -> Measure:
    """The measure that a text like "84 GB" states; a bare number has no dimensions. UnitProblem if it is
    refused.
    """
    if len(text) > MAX_TEXT:
        raise UnitProblem(
            "unreadable", f"That is {len(text)} characters; write one number and its unit, like '84 GB'."
        )
    plain = re.sub(r"^(?=(?:10|2)\s*(?:\^|\*\*))", "1·", _plain(text))  # "10^9 B"
    match = _NUMBER.match(plain)
    if match is None:
        raise UnitProblem(
            "unreadable", f"{text.strip()!r} is not read as a number with a unit; write it like '84 GB'."
        )
    magnitude, note = _magnitude(match, text)
    rest = plain[match.end() :].strip()
    word, _, after = rest.partition(" ")
    if word.lower() in _WORDS:
        magnitude, rest = magnitude * _WORDS[word.lower()], after
    if rest in ("%", "percent"):
        return Measure(magnitude / 100, "", {}, Fraction(1))
    dimensions, factor, understood = _unit(rest, text)
    return Measure(magnitude, rest, dimensions, factor, note or understood)


def _plain(text: str) -> str:
    """One kind of space, minus, times sign and exponent; no sign of approximation in front, no full stop
    behind.
    """
    for signs, one in (
        ("\u00a0\u2007\u2008\u2009\u200a\u202f\t\n\r", " "),
        ("−–", "-"),
        ("×⋅∙", "·"),
        ("μ", "µ"),
    ):
        for sign in signs:
            text = text.replace(sign, one)
    text = re.sub(
        "[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda m: "^" + m[0].translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")), text
    )
    return text.strip().lstrip("~≈=").strip().removesuffix(".").strip()


_NUMBER = re.compile(
    r"""(?P<mantissa>[+-]?(?:\d[\d,_ ]*\d|\d)?(?:\.\d+|\.(?!\w))?)   # 84  1,234.5  1_000  1 000 000  .5
        (?:[eE](?P<e>[+-]?\d+))?
        (?:\s*(?:[x·*]\s*|(?<=\d)\s*(?=10\s*(?:\^|\*\*)))(?P<base>10|2)\s*(?:\^|\*\*)\s*(?P<power>[+-]?\d+))?""",
    re.VERBOSE,
)


def _magnitude(match: re.Match[str], text: str) -> tuple[Fraction, str]:
    mantissa = match["mantissa"].strip()
    if not re.search(r"\d", mantissa):
        raise UnitProblem(
            "unreadable", f"{text.strip()!r} does not begin with a number; write it like '84 GB'."
        )
    note = ""
    whole, point, part = mantissa.partition(".")
    if "," in mantissa:
        if not re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", whole):
            raise UnitProblem(
                "comma", f"A comma in {mantissa!r}: write the decimals after a point, like '78.23 GiB'."
            )
        note = f"{mantissa} was read with the comma between thousands."
        whole = whole.replace(",", "")
    if " " in whole:
        if not re.fullmatch(r"[+-]?\d{1,3}( \d{3})+", whole):
            raise UnitProblem(
                "unreadable", f"{mantissa!r} looks like two numbers; write one and its unit, like '84 GB'."
            )
        whole = whole.replace(" ", "")
    value = Fraction(whole.replace("_", "") + point + (part or ("0" if point else "")))
    exponents = [int(match[name]) for name in ("e", "power") if match[name]]
    if any(abs(exponent) > 400 for exponent in exponents):
        raise UnitProblem("unreadable", "The exponent is too large for any quantity of this course.")
    if match["e"]:
        value *= Fraction(10) ** int(match["e"])
    if match["power"]:
        value *= Fraction(int(match["base"])) ** int(match["power"])
    return value, note


# A power other than a name to one digit, or four of them: written to keep a computer busy.
_TOWER = re.compile(r"(?:\*\*|\^)(?!\s*-?\s*\d(?!\d))|\d\s*(?:\*\*|\^)|(?:(?:\*\*|\^).*){4}")


def _unit(unit: str, text: str) -> tuple[dict[str, int], Fraction, str]:
    """Dimensions, multiple of the base unit, and how the unit was understood where that needs saying."""
    if not unit:
        return {}, Fraction(1), ""
    if re.search(r"\bFLOPS\b|\b[kMGTPE]FLOPS\b", unit):
        name = re.search(r"[kMGTPE]?FLOPS", unit)[0]  # type: ignore[index]
        count = name[:-1]
        raise UnitProblem("flops", f"{name} is read as a count and as a rate; write {count} or {count}/s.")
    if re.search(r"\bK(?:[Bb]|[Bb]ytes?|[Bb]its?)\b", unit):
        raise UnitProblem("kb", "KB is read as 1000 and as 1024 bytes; write kB (1000) or KiB (1024).")
    if re.fullmatch(r"[kMGTKB]?\s*B\s+(param|token|FLOP|elem)\w*", unit):
        raise UnitProblem(
            "billion", "B is bytes here, not billions; write the number out, like '7e9 parameters'."
        )
    if re.search(r"[^\w\s/·*^()µ.\-]", unit) or len(unit) > 60 or _TOWER.search(unit):
        raise _unknown(unit, text)
    spoken = _WORD.sub(lambda match: _spelled(match[0]), unit.replace("·", "*"))
    spoken = spoken.replace("PFLOP-day", "PFLOP_day")
    registry = _registry()
    import pint

    try:
        root = registry.Quantity(Fraction(1), registry.parse_units(spoken)).to_root_units()
        dimensions = {name.strip("[]"): int(power) for name, power in root.dimensionality.items()}
        if any(power != int(power) for power in root.dimensionality.values()):
            raise ValueError(unit)  # the square root of a byte
        factor = Fraction(root.magnitude)
    except (
        pint.errors.PintError,
        ValueError,
        TypeError,
        ArithmeticError,
        AttributeError,
        SyntaxError,
        AssertionError,
    ):
        raise _unknown(unit, text) from None
    except Exception as error:  # pint's tokenizer raises its own kinds
        raise _unknown(unit, text) from error
    note = ""
    for name in re.findall(r"\b(?:[kMGTPE]|Ki|Mi|Gi|Ti|Pi)?b\b", unit):
        note = f"{name} is read as {'' if name == 'b' else _LONG[name[:-1]]}bits; a byte is a capital B."
    return {base: power for base, power in dimensions.items() if power}, factor, note


_WORD = re.compile(r"[A-Za-z]+")
_HALF_SPELLED = re.compile(r"([KMGTP]i|[kMGTPE])(?:([Bb]yte)|([Bb]it)|[Ff]lop)s?")
_PER_SECOND = re.compile(r"((?:[KMGTP]i|[kMGTPE])?[Bb])ps")


def _spelled(word: str) -> str:
    """The name of the unit that is spelled with other capitals ("Gigabytes"), in part ("GBytes", "Tflop") or
    with "ps" for "per second" ("GBps"); any other word as it is.
    """
    half, rate = _HALF_SPELLED.fullmatch(word), _PER_SECOND.fullmatch(word)
    if half is not None:
        return half[1] + ("B" if half[2] else "bit" if half[3] else "FLOP")
    if rate is not None:
        return f"{rate[1]}/s"
    known = _names()
    return word.lower() if len(word) > 3 and word.lower().removesuffix("s") in known else word


_POWER = re.compile(r"(?:\^|\*\*)[\s(]*-?\s*\d+")


def _unknown(unit: str, text: str) -> UnitProblem:
    if re.search(r"(?<!\w)\d", _POWER.sub("", unit)):
        return UnitProblem(
            "unreadable",
            f"There is more than one number in {text.strip()[:60]!r}: write the result and its unit, like "
            "'84 GB', or let Python compute it, like (12 * 7e9, 'B').",
        )
    names = list(_names())
    near = [n for n in names if n.lower() == unit.lower().removesuffix("s")] or difflib.get_close_matches(
        unit, names, n=2, cutoff=0.6
    )
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "write it like 'GB', 'GiB', 'FLOP', 'FLOP/s', 'B/s', 'token'."
    )
    return UnitProblem("unit-unknown", f"The unit {unit[:40]!r} is not known here: {hint}")


@lru_cache(maxsize=1)
def _names() -> dict[str, tuple[str, Fraction]]:
    """Every name -> (base unit, multiple): `UNITS`, bits with prefixes, long names."""
    names = {n: (base, Fraction(m)) for base, table in UNITS.items() for n, m in table.items()}
    for prefix, multiple in {**_DECIMAL, **_BINARY}.items():
        names[f"{_LONG[prefix]}byte"] = ("B", Fraction(multiple))
        for name in (f"{prefix}bit", f"{prefix}b", f"{_LONG[prefix]}bit"):
            names[name] = ("B", Fraction(multiple, 8))
    names["b"] = ("B", Fraction(1, 8))
    for alias, name in _ALIASES.items():
        names.setdefault(alias, names[name])
    return names


@lru_cache(maxsize=1)
def _registry() -> Any:
    """pint with the course's units and no others."""
    import pint

    registry: Any = pint.UnitRegistry(None, non_int_type=Fraction)
    for base in UNITS:
        registry.define(f"{base} = [{base}]")
    for name, (base, multiple) in _names().items():
        if name != base:
            registry.define(f"{name.replace('-', '_')} = {multiple.numerator}/{multiple.denominator} {base}")
    return registry


# -- dimensions in words


def describe(dimensions: Mapping[str, int]) -> str:
    """ "bytes or bits", "a rate (FLOP/s)", "a plain number"."""
    if not dimensions:
        return "a plain number"
    if len(dimensions) == 1 and set(dimensions.values()) == {1}:
        return _DIMENSIONS[next(iter(dimensions))]
    powers = {base: base if abs(power) == 1 else f"{base}^{abs(power)}" for base, power in dimensions.items()}
    over = "·".join(powers[base] for base, power in dimensions.items() if power > 0) or "1"
    under = "".join(f"/{powers[base]}" for base, power in dimensions.items() if power < 0)
    return f"a rate ({over}{under})" if dimensions.get("s") == -1 else f"{over}{under}"


def dimension_slip(wanted: Mapping[str, int], got: Mapping[str, int], unit: str) -> tuple[str, str]:
    """Slug and words for an answer of another dimension than the `unit` wanted."""
    if not got:
        return "unit-missing", f"Unit missing: the number needs its unit, like {unit}."
    if not wanted:
        return "unit-unwanted", f"The exercise asks for a plain number; your answer is {describe(got)}."
    per_second = {**wanted, "s": wanted.get("s", 0) - 1}
    if "s" not in wanted and got == per_second:
        return "rate-for-amount", f"You gave {describe(got)}; the exercise asks for an amount, in {unit}."
    if wanted.get("s") == -1 and got == {base: power for base, power in wanted.items() if base != "s"}:
        return (
            "amount-for-rate",
            f"You gave an amount, {describe(got)}; the exercise asks for a rate, in {unit}.",
        )
    return (
        "other-dimension",
        f"You gave {describe(got)}; the exercise asks for {describe(wanted)}, in {unit}.",
    )
