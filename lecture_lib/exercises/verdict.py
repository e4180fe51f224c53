"""Judges evidence: pure, on plain data, in a process that never runs a student's code.

A slip is named only if the answer shows that mistake's values on every case where the mistake makes a
difference and is right elsewhere. If two fit, both are named; if none does, the verdict says what is right
about the answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lecture_lib.exercises import patterns, units
from lecture_lib.exercises.definition import Case, Definition, KnownMistake, Raises
from lecture_lib.exercises.encoding import Array, Other, decode
from lecture_lib.exercises.evidence import Error, Evidence, Row
from lecture_lib.quantity import LectureError, Quantity

OUTCOMES = ("passed", "wrong", "error", "not_attempted")

# Relative to the largest element wanted: sums in another order, on another machine, differ by less.
_ARRAY_TOLERANCE = {
    "float64": 1e-9,
    "float32": 1e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float8_e4m3fn": 0.13,
    "float8_e5m2": 0.26,
}
_FLOAT_TOLERANCE = Fraction(1, 10**12)  # the same formula in another order


@dataclass(frozen=True)
class CaseResult:
    """One line of the table: the case, what came and what was wanted, in words; `note` says what is off."""

    case: str
    got: str
    wanted: str
    right: bool
    note: str = ""
    ran: bool = True


@dataclass(frozen=True)
class Verdict:
    """What a check concludes.

    outcome:   "passed", "wrong", "error" or "not_attempted"
    headline:  the outcome in a word or two ("Unit missing" is a kind of wrong)
    sentences: what is to be said, in order
    mistakes:  ids of the slips that the answer shows, both of two that fit; else the kinds of difference that
               are more than another value ("unit-missing", "rate-for-amount", "type", "shape", "dtype" …)
    share:     right cases over all cases
    """

    exercise: str
    outcome: str
    headline: str
    sentences: tuple[str, ...] = ()
    results: tuple[CaseResult, ...] = ()
    mistakes: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
    share: Fraction = Fraction(0)


class _Unreadable:
    """Stands for evidence that does not decode; equal to nothing."""


@dataclass(frozen=True)
class _Difference:
    """Why a value is not the wanted one: a slug for the machine ("" if only the number differs), words for a
    person.
    """

    slug: str = ""
    words: str = ""


def judge(exercise: Definition, evidence: Evidence) -> Verdict:
    """The verdict on `evidence` collected on `exercise.cases`."""
    if evidence.blank:
        return Verdict(exercise.id, "not_attempted", "Not attempted", (_blank_words(exercise),))
    if not evidence.rows:
        return Verdict(exercise.id, "wrong", "Wrong", (_instead_words(exercise, evidence.instead),))
    if len(evidence.rows) != len(exercise.cases):
        raise LectureError(f"expected evidence on {len(exercise.cases)} cases; got {len(evidence.rows)}")
    values = [_value(row) for row in evidence.rows]
    if exercise.kind == "choice":
        values = [_letter(value) for value in values]
    differences = [
        _row_difference(row, value, case, exercise)
        for row, value, case in zip(evidence.rows, values, exercise.cases, strict=True)
    ]
    right = [difference is None for difference in differences]
    results = tuple(
        _result(exercise, evidence, i, values[i], difference) for i, difference in enumerate(differences)
    )
    share = Fraction(sum(right), len(right))
    asides = _asides(exercise, evidence)
    if all(right):
        return Verdict(
            exercise.id, "passed", "Passed", (*_passed_words(exercise), *asides), results, share=share
        )
    fitting = _fitting(exercise, evidence.rows, values, right)
    if fitting:
        sentences = _slip_words(exercise, fitting, values)
        see = tuple(dict.fromkeys(m.see for m in fitting if m.see))
        ids = tuple(m.id for m in fitting)
        return Verdict(exercise.id, "wrong", "Wrong", (*sentences, *asides), results, ids, see, share)
    if any(row.error is not None or row.timed_out for row in evidence.rows):
        sentences = (*_error_words(exercise, evidence), *_right_cases(exercise, right))
        return Verdict(exercise.id, "error", "Error", (*sentences, *asides), results, share=share)
    two = _two_slips(exercise, values)
    if two is not None:
        sentences, slips = two
        see = tuple(dict.fromkeys(m.see for m in slips if m.see))
        ids = tuple(m.id for m in slips)
        return Verdict(exercise.id, "wrong", "Wrong", (*sentences, *asides), results, ids, see, share)
    slugs = tuple(dict.fromkeys(d.slug for d in differences if d is not None and d.slug))
    headline = "Unit missing" if slugs == ("unit-missing",) else "Wrong"
    sentences = tuple(_unnamed_words(exercise, values, differences, right))
    return Verdict(exercise.id, "wrong", headline, (*sentences, *asides), results, slugs, share=share)


def _result(
    exercise: Definition, evidence: Evidence, i: int, value: Any, difference: _Difference | None
) -> CaseResult:
    row, case = evidence.rows[i], exercise.cases[i]
    note = difference.words if difference is not None else ""
    got, wanted = _got_text(row, value, evidence.time_limit), show(case.wanted, exercise.unit)
    if note and got == show(case.wanted):  # they look the same in as many digits as are shown
        got = f"{got} ({note})"
    return CaseResult(case_text(exercise, case), got, wanted, difference is None, note, row.ran)


def _value(row: Row) -> Any:
    if row.error is not None or row.timed_out or not row.ran:
        return _Unreadable()
    try:
        return decode(row.value)
    except LectureError:
        return _Unreadable()


def _letter(value: Any) -> Any:
    return value.strip().strip("()").rstrip(".").lower() if isinstance(value, str) else value


# -- comparing


def _row_difference(row: Row, value: Any, case: Case, exercise: Definition) -> _Difference | None:
    if isinstance(value, _Unreadable):
        return _Difference("error" if row.ran else "not-run")
    return _difference(value, case.wanted, exercise)


def equal(got: Any, wanted: Any, exercise: Definition) -> bool:
    """Whether a decoded value is the wanted one within the exercise's unit and tolerance."""
    return _difference(got, wanted, exercise) is None


def _difference(got: Any, wanted: Any, exercise: Definition) -> _Difference | None:
    """None if `got` is as good as `wanted`, else what tells them apart beyond the number itself."""
    if isinstance(wanted, str) and exercise.kind == "quantity":
        wanted = _measure_wanted(wanted)
    if exercise.kind == "quantity" and isinstance(got, str | tuple | list):
        try:
            got = _typed(got)
        except units.UnitProblem as problem:
            return _Difference(problem.slug, str(problem))
    if isinstance(got, Other):
        return _other_difference(got, wanted)
    if got is ...:
        return _Difference("blank", "`...` is still there")
    if isinstance(wanted, bool) or wanted is None or isinstance(wanted, str):
        return _plain_difference(got, wanted)
    if isinstance(wanted, int | float | Fraction | Quantity | units.Measure):
        return _number_difference(got, wanted, exercise)
    if isinstance(wanted, tuple | list):
        return _sequence_difference(got, wanted, exercise)
    if isinstance(wanted, dict):
        return _dict_difference(got, wanted, exercise)
    if isinstance(wanted, Array):
        return _array_difference(got, wanted)
    return _Difference("type", f"{kind_of(got)} came")


def _measure_wanted(text: str) -> Any:
    measure = units.read(text)
    return measure if measure.dimensions else measure.magnitude


def _typed(value: str | tuple[Any, ...] | list[Any]) -> Any:
    """A typed quantity: "84 GB", or a number and its unit as a pair."""
    if isinstance(value, str):
        return units.read(value)
    if len(value) == 2 and isinstance(value[1], str):
        number = _scalar(value[0])
        if isinstance(number, str):
            return units.read(f"{number} {value[1]}")
        if _is_number(number):
            measure = units.read(f"1 {value[1]}")
            return units.Measure(number, measure.unit, measure.dimensions, measure.factor, measure.note)
    if ... in value:
        raise units.UnitProblem("blank", "`...` is still there.")
    if len(value) == 1:
        raise units.UnitProblem(
            "unreadable", "A tuple or list came: leave the brackets, and a comma behind the answer, away."
        )
    raise units.UnitProblem("unreadable", "Write one number and its unit, like '84 GB'.")


def _scalar(value: Any) -> Any:
    """The number in an array without dimensions; anything else as it is."""
    return value.values[0] if isinstance(value, Array) and not value.shape else value


def _plain_difference(got: Any, wanted: bool | str | None) -> _Difference | None:
    if type(got) is type(wanted):
        if got == wanted:
            return None
        near = (
            isinstance(got, str) and isinstance(wanted, str) and got.strip().lower() == wanted.strip().lower()
        )
        return _Difference("", "only spaces or capitals differ" if near else "")
    if isinstance(got, Array) and got.dtype == "bool" and not got.shape and isinstance(wanted, bool):
        return None if got.values[0] == wanted else _Difference()
    if wanted is None:
        return _Difference("", "" if _is_number(got) else f"{kind_of(got)} came")
    return _Difference("type", f"{kind_of(got)} came where {kind_of(wanted)} was wanted")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool)


def _number_difference(got: Any, wanted: Any, exercise: Definition) -> _Difference | None:
    typed = exercise.kind == "quantity"
    unit = wanted.unit if isinstance(wanted, Quantity | units.Measure) else exercise.unit or "1"
    right = _as_measure(wanted, unit)
    if isinstance(got, Array) and not got.shape:
        if got.dtype == "bool" or (
            got.is_float and got.dtype != "float64" and isinstance(wanted, int | Fraction)
        ):
            few = "" if got.dtype == "bool" else f": {got.dtype} has too few digits for a count"
            return _Difference("type", f"{kind_of(got)} came where {kind_of(wanted)} was wanted{few}")
        got = _scalar(got)
    if _is_number(got):
        if typed and right.dimensions:
            return _Difference(*units.dimension_slip(right.dimensions, {}, unit))
        came = _as_measure(got, unit)
    elif isinstance(got, Quantity):
        came = units.from_quantity(got)
    elif isinstance(got, units.Measure):
        came = got
    else:
        return _not_a_number(got, wanted)
    if came.dimensions != right.dimensions:
        return _Difference(*units.dimension_slip(right.dimensions, came.dimensions, unit))
    if _close(came, right, exercise.tolerance):
        return None
    if typed and came.note:
        return _Difference("", came.note)
    return _Difference("", _nearly(came, right, exercise.tolerance))


def _as_measure(value: Any, unit: str) -> units.Measure:
    if isinstance(value, units.Measure):
        return value
    if isinstance(value, Quantity):
        return units.from_quantity(value)
    one = units.from_quantity(Quantity(1, unit))
    return units.Measure(value, unit, one.dimensions, one.factor)


def _not_a_number(got: Any, wanted: Any) -> _Difference:
    if isinstance(got, bool):
        return _Difference("type", f"{got} came where {kind_of(wanted)} was wanted")
    if isinstance(got, str):
        return _Difference("type", "text came where a number was wanted: leave the quotes away")
    if got is None:
        return _Difference("none", "nothing was returned")
    if isinstance(got, tuple | list) and len(got) == 1:
        comma = " (a comma behind it makes a tuple)" if isinstance(got, tuple) else ""
        return _Difference("type", f"{kind_of(got)} came: return the number itself{comma}")
    return _Difference("type", f"{kind_of(got)} came where {kind_of(wanted)} was wanted")


def _close(got: units.Measure, wanted: units.Measure, tolerance: str | float) -> bool:
    special = [
        not math.isfinite(m.magnitude) if isinstance(m.magnitude, float) else False for m in (got, wanted)
    ]
    if any(special):
        a, b = float(got.magnitude) if special[0] else 0.0, float(wanted.magnitude) if special[1] else 0.0
        return a == b or (math.isnan(a) and math.isnan(b))
    g, w = Fraction(got.magnitude) * got.factor, Fraction(wanted.magnitude) * wanted.factor
    if g == w:
        return True
    if tolerance == "3 digits":
        w_in_unit = w / got.factor
        if w_in_unit == 0:
            return False
        half_a_unit = Fraction(10) ** (_exponent(w_in_unit) - 2) / 2
        return abs(g - w) / got.factor <= half_a_unit
    if tolerance == "exact":
        whole = not isinstance(wanted.magnitude, float) and w.denominator == 1
        allowed = Fraction(0) if whole or w == 0 else _FLOAT_TOLERANCE
    else:
        allowed = Fraction(tolerance)
    return abs(g - w) <= allowed * abs(w)


def _exponent(value: Fraction) -> int:
    """Exponent of the first digit: 2 for 846, -3 for 0.00846."""
    value = abs(value)
    exponent = len(str(value.numerator)) - len(str(value.denominator))
    return exponent if value >= Fraction(10) ** exponent else exponent - 1


def _nearly(got: units.Measure, wanted: units.Measure, tolerance: str | float) -> str:
    try:
        g, w = Fraction(got.magnitude) * got.factor, Fraction(wanted.magnitude) * wanted.factor
    except (ValueError, OverflowError):
        return ""
    off = abs(g - w) / abs(w) if w else None
    if (
        tolerance == "exact"
        and off is not None
        and off < Fraction(1, 10**12)
        and isinstance(got.magnitude, float)
    ):
        return "a float does not hold this whole number exactly: stay with whole numbers (`//`, not `/`)"
    if off is not None and off < Fraction(1, 100):
        return {
            "exact": "close, but not exact",
            "3 digits": "within 1% of the value, but not to three digits",
        }.get(str(tolerance), "close, but outside the tolerance")
    return ""


def _sequence_difference(got: Any, wanted: Sequence[Any], exercise: Definition) -> _Difference | None:
    if isinstance(got, Array) and len(got.shape) == 1 and all(_is_number(item) for item in wanted):
        got = list(got.values)
    if not isinstance(got, tuple | list):
        return _Difference("none" if got is None else "type", _came(got, wanted))
    if len(got) != len(wanted):
        values, were = ("value" if len(got) == 1 else "values"), ("was" if len(wanted) == 1 else "were")
        return _Difference("length", f"{len(got)} {values} came where {len(wanted)} {were} wanted")
    parts = [_difference(g, w, exercise) for g, w in zip(got, wanted, strict=True)]
    names = [f"value {i + 1}" for i in range(len(parts))]
    return _parts_difference(names, parts)


def _dict_difference(got: Any, wanted: Mapping[Any, Any], exercise: Definition) -> _Difference | None:
    if not isinstance(got, dict):
        return _Difference("none" if got is None else "type", _came(got, wanted))
    missing = [key for key in wanted if key not in got]
    extra = [key for key in got if key not in wanted]
    if missing or extra:
        words = [f"missing: {_listed(missing)}"] if missing else []
        words += [f"not asked for: {_listed(extra)}"] if extra else []
        return _Difference("keys", "; ".join(words))
    return _parts_difference(
        [str(k)[:40] for k in wanted], [_difference(got[k], wanted[k], exercise) for k in wanted]
    )


def _came(got: Any, wanted: Any) -> str:
    return (
        "nothing was returned" if got is None else f"{kind_of(got)} came where {kind_of(wanted)} was wanted"
    )


def _listed(items: Sequence[Any]) -> str:
    shown = ", ".join(str(item)[:40] for item in items[:6])
    return shown + (", …" if len(items) > 6 else "")


def _parts_difference(names: Sequence[str], parts: Sequence[_Difference | None]) -> _Difference | None:
    wrong = [(name, part) for name, part in zip(names, parts, strict=True) if part is not None]
    if not wrong:
        return None
    right = [name for name, part in zip(names, parts, strict=True) if part is None]
    words = "; ".join(
        f"{name}: {part.words}" if part.words else f"{name} differs" for name, part in wrong[:4]
    )
    if len(wrong) > 4:
        words += f"; {len(wrong) - 4} more differ"
    if right:
        words = f"right: {_listed(right)}; {words}"
    slugs = {part.slug for _, part in wrong}
    return _Difference(slugs.pop() if len(slugs) == 1 else "", words)


def _array_difference(got: Any, wanted: Array) -> _Difference | None:
    if not isinstance(got, Array):
        return _Difference("none" if got is None else "type", _came(got, wanted))
    if got.shape != wanted.shape:
        return _Difference("shape", f"shape {_shape(got.shape)} came where {_shape(wanted.shape)} was wanted")
    values = _array_values_close(got, wanted)
    if got.dtype != wanted.dtype:
        state = "the values are right, but " if values else ""
        return _Difference("dtype", f"{state}dtype {got.dtype} came where {wanted.dtype} was wanted")
    return None if values else _Difference("", "shape and dtype are right, values differ")


def _array_values_close(got: Array, wanted: Array) -> bool:
    if not wanted.is_float:
        return got.values == wanted.values
    finite = [abs(v) for v in wanted.values if math.isfinite(v)]
    # The narrower of the two dtypes decides how far the same computation may differ.
    allowed = max(_ARRAY_TOLERANCE[wanted.dtype], _ARRAY_TOLERANCE.get(got.dtype, 0.0)) * max(
        finite, default=0.0
    )
    return all(
        g == w or (math.isnan(g) and math.isnan(w)) or (math.isfinite(w) and abs(g - w) <= allowed)
        for g, w in zip(got.values, wanted.values, strict=True)
    )


def _other_difference(got: Other, wanted: Any) -> _Difference:
    advice = {
        "generator": "a generator came: use sum(...) or list(...) to get its values",
        "coroutine": "a coroutine came: an exercise's function is a plain `def`, not `async def`",
        "function": "a function came: was it meant to be called?",
        "builtin_function_or_method": "a function came: was it meant to be called?",
        "method": "a method came: was it meant to be called, with ()?",
    }
    words = advice.get(got.type)
    if got.type == "int":
        words = f"{got.repr} came, far more than was wanted"
    if words is None:
        detail = f" ({got.repr})" if got.repr else ""
        words = f"{_article(got.type)}{detail} came where {kind_of(wanted)} was wanted"
    return _Difference("type", words)


# -- naming the slip


def _fitting(
    exercise: Definition, rows: Sequence[Row], values: Sequence[Any], right: Sequence[bool]
) -> list[KnownMistake]:
    return [m for m in exercise.mistakes if _fits(exercise, m, rows, values, right)]


def _fits(
    exercise: Definition,
    mistake: KnownMistake,
    rows: Sequence[Row],
    values: Sequence[Any],
    right: Sequence[bool],
) -> bool:
    """The mistake's own value wherever it makes a difference (somewhere it does), the right one elsewhere."""
    differs = _deciding(exercise, mistake)
    return bool(differs) and all(
        _shows(exercise, rows[i], values[i], mistake.values[i]) if i in differs else right[i]
        for i in range(len(rows))
    )


def _deciding(exercise: Definition, mistake: KnownMistake) -> list[int]:
    """Indices of the cases on which the mistake gives something else than the right value."""
    return [
        i
        for i, (case, value) in enumerate(zip(exercise.cases, mistake.values, strict=True))
        if isinstance(value, Raises) or not equal(value, case.wanted, exercise)
    ]


def _shows(exercise: Definition, row: Row, value: Any, mistaken: Any) -> bool:
    if isinstance(mistaken, Raises):
        return row.error is not None and row.error.type == mistaken.type
    if isinstance(value, _Unreadable) or isinstance(mistaken, Other) or mistaken is ...:
        return False
    return equal(value, mistaken, exercise)


def _slip_words(
    exercise: Definition, fitting: Sequence[KnownMistake], values: Sequence[Any]
) -> tuple[str, ...]:
    told = [_message(exercise, mistake, values) for mistake in fitting]
    if len(told) == 1:
        return (told[0],)
    return (
        f"{'Two' if len(told) == 2 else len(told)} slips give exactly these values.",
        *told,
        "Which one is it? Look in your answer for what separates them: these cases cannot.",
    )


def _two_slips(
    exercise: Definition, values: Sequence[Any]
) -> tuple[tuple[str, ...], tuple[KnownMistake, ...]] | None:
    """What is to be said where two known slips, or one and a wrong unit, together give every value."""
    if exercise.kind != "function":
        return None
    wanted = [case.wanted for case in exercise.cases]
    got, right = _fractions(exercise, values), _fractions(exercise, wanted)
    if got is None or right is None:
        return None
    if patterns.facts(got, right, [case.inputs for case in exercise.cases], exercise.unit, one_cause=True):
        return None
    known = {m.id: m for m in exercise.mistakes}
    mistaken = {}
    for m in exercise.mistakes:
        numbers = _fractions(exercise, m.values)
        if numbers is not None:
            mistaken[m.id] = numbers
    pair = patterns.pair(got, right, mistaken)
    if pair is not None:
        two = (known[pair[0]], known[pair[1]])
        told = (_message(exercise, m, values) for m in two)
        return ("Two slips together give exactly these values.", *told), two
    single = patterns.with_unit(got, right, mistaken, exercise.unit)
    if single is not None:
        slip = known[single[0]]
        return (_message(exercise, slip, values), single[1]), (slip,)
    return None


def _fractions(exercise: Definition, values: Sequence[Any]) -> list[Fraction] | None:
    """Numbers in the exercise's unit; None unless all are finite numbers without another unit."""
    found = []
    for value in values:
        number = _scalar(value)
        if isinstance(number, Quantity) and number.unit == (exercise.unit or "1"):
            number = number.value
        if not _is_number(number) or (isinstance(number, float) and not math.isfinite(number)):
            return None
        if abs(number) > 10**100:  # nothing is counted in such numbers
            return None
        found.append(Fraction(number))
    return found


def _message(exercise: Definition, mistake: KnownMistake, values: Sequence[Any]) -> str:
    i = _deciding(exercise, mistake)[0]
    case = exercise.cases[i]
    words = {name: _Shown(value) for name, value in case.inputs.items()}
    words |= {"got": _Shown(values[i], exercise.unit), "wanted": _Shown(case.wanted, exercise.unit)}
    return mistake.message.format_map(words)


# -- words


def _blank_words(exercise: Definition) -> str:
    typed = exercise.answer_name.startswith("answer_")  # a value, or the text that a driver takes
    if exercise.kind in ("function", "driver") and not typed:
        return f"Write the body of {exercise.answer_name}, run its cell, then run this one again."
    unit = f", in {exercise.unit}," if exercise.unit else ""
    name = exercise.answer_name
    return f"Put your answer{unit} in place of the dots behind {name}, run its cell, then this one again."


def _instead_words(exercise: Definition, encoded: Any) -> str:
    try:
        value = decode(encoded)
    except LectureError:
        value = Other("something")
    name = exercise.answer_name
    if isinstance(value, Other) and value.type == "class":
        return f"A class came; the check wants a function: define {name} with `def`."
    return (
        f"{_sentence(kind_of(value))} came ({show(value)}); the check wants the function itself, "
        f'without calling it: check("{exercise.id}", {name}).'
    )


def _passed_words(exercise: Definition) -> tuple[str, ...]:
    if exercise.graded:
        return (f"All {len(exercise.cases)} cases are right. Grading uses fresh cases.",)
    if exercise.kind in ("function", "driver"):
        return (f"All {len(exercise.cases)} cases are right.",)
    return ("Right.",)


def _error_words(exercise: Definition, evidence: Evidence) -> Iterator[str]:
    for row, case in zip(evidence.rows, exercise.cases, strict=True):
        if row.timed_out:
            yield (
                f"On {case_text(exercise, case)} your code still ran after {evidence.time_limit:g} s: "
                "is there a loop that does not end? Later cases were not run."
            )
            return
        if row.error is not None:
            yield f"On {case_text(exercise, case)}: {_error_text(row.error)}"
            if row.error.line is not None:
                yield f"Line {row.error.line} of your cell" + (
                    f": {row.error.source}" if row.error.source else "."
                )
            if row.error.type == "RecursionError" and row.error.line is not None:
                yield "The function calls itself without an end."
            return


def _error_text(error: Error) -> str:
    return f"{error.type}: {error.message}" if error.message else error.type


def _right_cases(exercise: Definition, right: Sequence[bool]) -> Iterator[str]:
    if len(right) < 2:
        return
    if any(right):
        names = [case_text(exercise, case) for case, ok in zip(exercise.cases, right, strict=True) if ok]
        verb = "is" if len(names) == 1 else "are"
        yield f"{len(names)} of {len(right)} cases {verb} right: {_listed_cases(names)}."


def _listed_cases(names: Sequence[str]) -> str:
    return "; ".join(names[:3]) + ("; …" if len(names) > 3 else "")


def _unnamed_words(
    exercise: Definition,
    values: Sequence[Any],
    differences: Sequence[_Difference | None],
    right: Sequence[bool],
) -> Iterator[str]:
    """What is right about an answer that shows no known slip; never a guess at what went wrong."""
    wrong = [d for d in differences if d is not None]
    if exercise.kind == "choice":
        letters = ", ".join(exercise.options or ())
        if any(isinstance(v, str) and v in (exercise.options or ()) for v in values):
            yield "That is not the one."
        elif any(isinstance(v, tuple) and len(v) == 1 for v in values):
            yield f"The check wants one of the letters {letters}; a comma behind the letter makes a tuple."
        else:
            yield f"The check wants one of the letters {letters}, in quotes."
        return
    if exercise.kind == "quantity" and wrong[0].slug == "none":
        yield "Your answer is None: write a number and its unit, like '84 GB'."
    elif all(d.slug == "none" for d in wrong):
        where = [
            case_text(exercise, c) for c, d in zip(exercise.cases, differences, strict=True) if d is not None
        ]
        if len(where) == len(values):
            yield "Your function returns nothing: is there a `return`?"
        else:
            yield f"It returns nothing on {_listed_cases(where)}: does every path end in a `return`?"
    else:
        for words in list(dict.fromkeys(d.words for d in wrong if d.words))[:3]:
            yield _sentence(words) + ("" if words.endswith((".", "?", "!")) else ".")
    yield from _right_cases(exercise, right)
    if not any(d.slug for d in wrong):
        common = _common_words(exercise, values)
        yield from common or _magnitude_words(exercise, values, right)
        if not common:
            yield "The course knows no slip that gives " + (
                "this value." if len(values) == 1 else "these values."
            )


def _common_words(exercise: Definition, values: Sequence[Any]) -> list[str]:
    """What a function's values, or a quantity's number, have in common with what is wanted."""
    wanted = [case.wanted for case in exercise.cases]
    if exercise.kind == "function":
        got, right = _fractions(exercise, values), _fractions(exercise, wanted)
        if got is None or right is None:
            return []
        return patterns.facts(got, right, [case.inputs for case in exercise.cases], exercise.unit)
    if exercise.kind != "quantity" or not exercise.unit or not _ratios(exercise, values):
        return []
    came = _typed(values[0]) if isinstance(values[0], str | tuple | list) else values[0]
    if not isinstance(came, Quantity | units.Measure):
        return []
    came, one = _as_measure(came, came.unit), _as_measure(1, exercise.unit)
    goal = _as_measure(_measure_wanted(wanted[0]) if isinstance(wanted[0], str) else wanted[0], exercise.unit)
    amount = Fraction(goal.magnitude) * goal.factor / one.factor
    return patterns.unit_facts(Fraction(came.magnitude), came.unit, amount, exercise.unit)


def _magnitude_words(exercise: Definition, values: Sequence[Any], right: Sequence[bool]) -> Iterator[str]:
    ratios = _ratios(exercise, values)
    if not ratios:
        return
    typed = exercise.kind == "quantity"
    logs = [abs(math.log10(ratio)) if ratio > 0 else math.inf for ratio in ratios]
    if typed and exercise.unit is not None:
        yield "The unit fits."
    if any(ratio < 0 for ratio in ratios):
        yield "The sign is not right on every case." if len(ratios) > 1 else "The sign is not right."
    elif all(log < 0.5 for log in logs):
        yield "The order of magnitude is right."
    elif typed:
        yield "The order of magnitude is not right yet."


def _ratios(exercise: Definition, values: Sequence[Any]) -> list[float]:
    """Value over wanted value on every case, [] unless all are numbers of the right dimension."""
    ratios = []
    for value, case in zip(values, exercise.cases, strict=True):
        try:
            wanted = _measure_wanted(case.wanted) if isinstance(case.wanted, str) else case.wanted
            got = _typed(value) if isinstance(value, str | tuple | list) else value
            if not isinstance(got, Quantity | units.Measure) and not _is_number(got):
                return []
            unit = wanted.unit if isinstance(wanted, Quantity | units.Measure) else exercise.unit or "1"
            g, w = _as_measure(got, unit), _as_measure(wanted, unit)
            ratio = float((Fraction(g.magnitude) * g.factor) / (Fraction(w.magnitude) * w.factor))
        except (LectureError, ArithmeticError, ValueError, TypeError, AttributeError):
            return []
        if ratio == 0:
            return []
        ratios.append(ratio)
    return ratios


def _asides(exercise: Definition, evidence: Evidence) -> Iterator[str]:
    if exercise.kind == "function":
        changed = list(dict.fromkeys(name for row in evidence.rows for name in row.changed))
        if changed:
            yield f"Your function changes its input {_listed(changed)}; whoever calls it may still need it."
    printed = next((row for row in evidence.rows if row.printed), None)
    if printed is not None:
        beginning = printed.printed.strip()
        shown = beginning if len(beginning) <= 200 else beginning[:200] + " …"
        if shown:
            yield f"Printed on the first case that prints: {shown}"


def case_text(exercise: Definition, case: Case) -> str:
    """How a case reads: the exercise's own form, or "M=3, d_in=5, X float32 (2, 3)"."""
    if exercise.case_text:
        return exercise.case_text.format_map({name: _Shown(value) for name, value in case.inputs.items()})
    return ", ".join(_named(name, value) for name, value in case.inputs.items()) or "your answer"


def _named(name: str, value: Any) -> str:
    return (
        f"{name} {value.dtype} {_shape(value.shape)}" if isinstance(value, Array) else f"{name}={show(value)}"
    )


def _got_text(row: Row, value: Any, time_limit: float) -> str:
    if row.error is not None:
        return row.error.type
    if row.timed_out:
        return f"stopped after {time_limit:g} s"
    if not row.ran:
        return "not run"
    return _shown_value(value, None)


class _Shown:
    """A value in a message: as `show` writes it, or by the format that the message gives (`{P:g}`)."""

    def __init__(self, value: Any, unit: str | None = None) -> None:
        self.value, self.unit = value, unit

    def __format__(self, spec: str) -> str:
        if spec:
            try:
                return format(self.value, spec)
            except (ValueError, TypeError, OverflowError):  # what came is no number
                pass
        if isinstance(self.value, str):
            return self.value[:200]
        return _shown_value(self.value, self.unit)


def _shown_value(value: Any, unit: str | None) -> str:
    return "something that cannot be read" if isinstance(value, _Unreadable) else show(value, unit)


def show(value: Any, unit: str | None = None, limit: int = 100) -> str:
    """A decoded value as short text, numbers with `unit` behind them."""
    text = _show(value)
    if unit and unit != "1" and _is_number(value):
        text = f"{text} {unit}"
    return text if len(text) <= limit else text[: limit - 2] + " …"


def _show(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if value is ...:
        return "..."
    if isinstance(value, int):
        return f"{value:,}" if value.bit_length() < 10_000 else "a very large whole number"
    if isinstance(value, float):
        return f"{value:.10g}" if math.isfinite(value) else str(value)
    if isinstance(value, Fraction):
        return (
            f"{value.numerator}/{value.denominator}"
            if value.denominator < 10**6
            else f"{_as_float(value):.10g}"
        )
    if isinstance(value, str):
        return repr(value[:120])
    if isinstance(value, Quantity):
        number = value.value
        shown = f"{number:,}" if isinstance(number, int) else f"{_as_float(number):.10g}"
        return shown if value.unit == "1" else f"{shown} {value.unit}"
    if isinstance(value, Array):
        return _show_array(value)
    if isinstance(value, tuple):
        inner = ", ".join(_show(item) for item in value[:8])
        return f"({inner}{',' if len(value) == 1 else ', …' if len(value) > 8 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(_show(item) for item in value[:8])}{', …' if len(value) > 8 else ''}]"
    if isinstance(value, dict):
        pairs = ", ".join(f"{_show(k)}: {_show(v)}" for k, v in list(value.items())[:8])
        return f"{{{pairs}{', …' if len(value) > 8 else ''}}}"
    if isinstance(value, Other):
        return value.repr or _article(value.type)
    return type(value).__name__


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _show_array(array: Array) -> str:
    if not array.shape:
        return f"{_show(array.values[0])} ({array.dtype})"
    values = ", ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in array.values[:4])
    return f"{array.dtype} {_shape(array.shape)}: {values}{', …' if len(array.values) > 4 else ''}"


def _shape(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "True or False"),
    (int, "a whole number"),
    (float, "a number"),
    (Fraction, "a number"),
    (str, "text"),
    (list, "a list"),
    (tuple, "a tuple"),
    (dict, "a dict"),
    (Quantity, "a quantity"),
    (units.Measure, "a quantity"),
)


def kind_of(value: Any) -> str:
    """What a decoded value is, in words."""
    if value is None:
        return "None"
    if isinstance(value, Array):
        return f"{_article(value.dtype)} {'array' if value.shape else 'scalar'}"
    if isinstance(value, Other):
        return "a class" if value.type == "class" else _article(value.type)
    return next((words for kind, words in _KINDS if isinstance(value, kind)), type(value).__name__)


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' and not name.startswith('uint') else 'a'} {name}"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
