"""Values as plain data (JSON), both ways, and nothing else: what a student's code returns is never pickled or
trusted.

    None, True, "text", 3, 2.5, [1, 2]   themselves
    {"int": "9007199254740993"}          whole numbers beyond 2**53
    {"float": "nan"}                     nan, inf, -inf, -0.0
    {"fraction": ["1", "3"]}             exact ratios
    {"tuple": [...]}                     tuples
    {"dict": [[key, value], ...]}        dicts, in order
    {"quantity": [magnitude, "GB"]}      a Quantity
    {"array": {"dtype": "bfloat16", "shape": [2, 3], "values": [...]}}   tensors, NumPy arrays and their
    scalars {"ellipsis": true}                   ... {"other": "generator", "repr": ""}   anything else, by
    the name of its type

`encode` looks at exact types and calls no method that a student's class could define. `decode` refuses what
it does not know and what is too large: its input may come from hostile code.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import CoroutineType
from typing import Any

from lecture_lib.quantity import LectureError, Ledger, Quantity

MAX_TEXT = 2_000  # characters of one string
MAX_BITS = 10_000  # of one whole number
MAX_NODES = 20_000  # values in one answer, array elements aside
MAX_ELEMENTS = 200_000  # of all arrays in one answer
MAX_DEPTH = 20
_EXACT_JSON = 2**53  # beyond it a JSON number is not read as an exact whole number everywhere

_FLOAT_DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_INT_DTYPES = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*_FLOAT_DTYPES, *_INT_DTYPES, "bool")


@dataclass(frozen=True)
class Array:
    """A decoded array: dtype by name, shape, values in row-major order."""

    dtype: str
    shape: tuple[int, ...]
    values: tuple[Any, ...]

    @property
    def is_float(self) -> bool:
        return self.dtype in _FLOAT_DTYPES

    @property
    def is_int(self) -> bool:
        return self.dtype in _INT_DTYPES


@dataclass(frozen=True)
class Other:
    """A decoded value that cannot be compared: the name of its type, and text for a person."""

    type: str
    repr: str = ""


class _TooLarge(Exception):
    pass


# -- out


def encode(value: object) -> Any:
    """`value` as plain data that `json.dumps` takes. Never raises on account of the value."""
    try:
        return _encode(value, _Budget(), 0)
    except _TooLarge as error:
        return {"other": type_name(value), "repr": f"too large to compare ({error})"}
    except Exception:  # a tensor without storage, an object changed from outside
        return {"other": type_name(value), "repr": "cannot be read"}


class _Budget:
    def __init__(self) -> None:
        self.nodes, self.elements = MAX_NODES, MAX_ELEMENTS

    def spend(self, depth: int) -> None:
        self.nodes -= 1
        if self.nodes < 0:
            raise _TooLarge(f"more than {MAX_NODES:,} values")
        if depth > MAX_DEPTH:
            raise _TooLarge(f"nested more than {MAX_DEPTH} deep")

    def spend_elements(self, count: int) -> None:
        self.elements -= count
        if self.elements < 0:
            raise _TooLarge(f"more than {MAX_ELEMENTS:,} elements")


def _encode(value: Any, budget: _Budget, depth: int) -> Any:
    budget.spend(depth)
    kind = type(value)
    if value is None or kind is bool:
        return value
    if value is ...:
        return {"ellipsis": True}
    if issubclass(kind, int):
        return _encode_int(int.__int__(value))  # a plain int, whatever a subclass says about itself
    if issubclass(kind, float):
        return _encode_float(float.__float__(value))
    if issubclass(kind, str):
        return _encode_str(str.__str__(value))
    if kind is Fraction:
        return _encode_fraction(value)
    if kind is Decimal:
        if not value.is_finite():
            return _encode_float(float(value))
        if abs(value.adjusted()) > 3_000:
            return {"other": "Decimal", "repr": "too large to compare"}
        return _encode_fraction(Fraction(value))
    if kind is list or (kind is dict and _is_array_spec(value)):
        if kind is dict:
            return _encode_spec(value, budget)
        return [_encode(item, budget, depth + 1) for item in value]
    if issubclass(kind, list):
        return [_encode(item, budget, depth + 1) for item in list.__iter__(value)]
    if issubclass(kind, tuple):  # named tuples and torch.Size too
        return {"tuple": [_encode(item, budget, depth + 1) for item in tuple.__iter__(value)]}
    if issubclass(kind, dict):  # Counter, OrderedDict and defaultdict too
        pairs = dict.items(value)
        return {"dict": [[_encode(k, budget, depth + 1), _encode(v, budget, depth + 1)] for k, v in pairs]}
    if kind is Quantity:
        return {"quantity": [_encode(value.value, budget, depth + 1), _encode_str(value.unit)]}
    if kind is Ledger:
        return {
            "dict": [[_encode_str(label), _encode(row, budget, depth + 1)] for label, row in value.items()]
        }
    array = _encode_array(value, kind, budget)
    return array if array is not None else _encode_other(value, kind)


def _encode_int(value: int) -> Any:
    if abs(value) <= _EXACT_JSON:
        return value
    bits = value.bit_length()
    if bits > MAX_BITS:
        return {"other": "int", "repr": f"a whole number of {bits:,} bits"}
    return {"int": str(value)}


def _encode_float(value: float) -> Any:
    if math.isfinite(value) and not (value == 0 and math.copysign(1, value) < 0):
        return value
    return {"float": repr(value)}


def _encode_str(value: str) -> Any:
    value = value[: MAX_TEXT + 1].encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates
    if len(value) > MAX_TEXT:
        return {"other": "str", "repr": f"text longer than {MAX_TEXT:,} characters"}
    return value


def _encode_fraction(value: Fraction) -> Any:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        return {"other": "Fraction", "repr": "too large to compare"}
    return {"fraction": [str(value.numerator), str(value.denominator)]}


def _encode_other(value: object, kind: type) -> Any:
    if kind is CoroutineType:
        value.close()  # type: ignore[attr-defined]  # else Python warns that it was never awaited
    text = ""
    if kind in (complex, range) or (kind is bytes and len(value) <= 60):  # type: ignore[arg-type]
        text = repr(value)
    elif isinstance(value, type):
        return {"other": "class", "repr": _name_of(value)}
    return {"other": type_name(value), "repr": text}


def type_name(value: object) -> str:
    """The name of a value's type, whatever its class says about itself."""
    return _name_of(type(value))


def _name_of(kind: type) -> str:
    name = type.__dict__["__name__"].__get__(kind)
    return str(_encode_str(name)) if len(name) <= 80 else f"{name[:80]}…".encode("utf-8", "replace").decode()


def _is_array_spec(value: Mapping[Any, Any]) -> bool:
    return len(value) == 2 and "array" in value and "dtype" in value


def _encode_spec(spec: Mapping[str, Any], budget: _Budget) -> Any:
    """An array as a key writes it: {"array": nested list, "dtype": "float32"}."""
    shape: list[int] = []
    level = spec["array"]
    while type(level) in (list, tuple):
        shape.append(len(level))
        level = level[0] if level else None
    flat: list[Any] = []
    _flatten(spec["array"], tuple(shape), flat)
    budget.spend_elements(len(flat))
    if spec["dtype"] not in DTYPES or len(shape) > MAX_DEPTH:
        return {"other": "array", "repr": f"unknown dtype {str(spec['dtype'])[:40]!r}"}
    return {"array": {"dtype": spec["dtype"], "shape": shape, "values": [_encode_element(v) for v in flat]}}


def _flatten(level: Any, shape: tuple[int, ...], into: list[Any]) -> None:
    if not shape:
        into.append(level)
        return
    if type(level) not in (list, tuple) or len(level) != shape[0]:
        raise LectureError(f"expected an array whose rows have equal lengths; got {level!r:.60}")
    for item in level:
        _flatten(item, shape[1:], into)


def _encode_element(value: Any) -> Any:
    if type(value) is bool:
        return value
    return _encode_int(value) if type(value) is int else _encode_float(float(value))


def _encode_array(value: Any, kind: type, budget: _Budget) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(kind, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            return _encode_tensor(torch, value, budget)
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, numpy.ndarray | numpy.generic):
        return _encode_numpy(numpy, value, budget)
    if torch is not None and kind is torch.dtype:
        return {"other": "dtype", "repr": str(value)}
    return None


def _encode_tensor(torch: Any, tensor: Any, budget: _Budget) -> Any:
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = [int(n) for n in tensor.shape]
    if dtype not in DTYPES or tensor.layout is not torch.strided or tensor.device.type == "meta":
        return {
            "other": "tensor",
            "repr": f"{dtype} on {tensor.device.type}, {str(tensor.layout)}, shape {shape}",
        }
    budget.spend_elements(tensor.numel())
    tensor = torch.Tensor.detach(tensor).to("cpu")
    if dtype in _FLOAT_DTYPES:
        tensor = tensor.to(torch.float64)  # every value of the narrower types is exact in it
    return {
        "array": {
            "dtype": dtype,
            "shape": shape,
            "values": [_encode_element(v) for v in tensor.flatten().tolist()],
        }
    }


def _encode_numpy(numpy: Any, value: Any, budget: _Budget) -> Any:
    array = numpy.array(value, copy=True, subok=False)
    dtype = str(array.dtype)
    if dtype == "bool" and array.ndim == 0:
        return bool(array)
    if dtype not in DTYPES:
        return {"other": "array", "repr": f"{dtype}, shape {list(array.shape)}"}
    budget.spend_elements(array.size)
    if array.dtype.kind == "f":
        array = array.astype(numpy.float64)
    values = [_encode_element(v) for v in array.flatten().tolist()]
    return {"array": {"dtype": dtype, "shape": list(array.shape), "values": values}}


# -- in


def decode(data: object) -> Any:
    """The value that `encode` wrote: plain Python, Quantity, `Array` or `Other`; LectureError for anything
    else.
    """
    return _decode(data, _Budget(), 0)


def loads(text: str | bytes, limit: int = 20_000_000) -> Any:
    """JSON text, of `limit` characters at most, as plain data; LectureError where it is not that."""
    if len(text) > limit:
        raise LectureError(f"expected at most {limit:,} characters of data; got {len(text):,}")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise LectureError(f"expected JSON; got text that does not parse ({error})") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse(data: object, why: str) -> LectureError:
    return LectureError(f"expected a value as `encode` writes it; got {why} ({type(data).__name__})")


def _decode(data: Any, budget: _Budget, depth: int) -> Any:
    try:
        budget.spend(depth)
    except _TooLarge as error:
        raise _refuse(data, str(error)) from None
    if data is None or type(data) is bool:
        return data
    if type(data) is int:
        if abs(data) > _EXACT_JSON:
            raise _refuse(data, "a large number outside its tag")
        return data
    if type(data) is float:
        if not math.isfinite(data):
            raise _refuse(data, "a number that is not finite outside its tag")
        return data
    if type(data) is str:
        return _decode_text(data, MAX_TEXT)
    if type(data) is list:
        return [_decode(item, budget, depth + 1) for item in data]
    if type(data) is not dict or not data:
        raise _refuse(data, "another type")
    tag = next(iter(data))
    if tag not in _DECODERS or set(data) - {tag, *(("repr",) if tag == "other" else ())}:
        raise _refuse(data, "an unknown tag")
    return _DECODERS[tag](data, budget, depth)


def _decode_text(text: Any, limit: int) -> str:
    if type(text) is not str or len(text) > limit:
        raise _refuse(text, f"no text of at most {limit} characters")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _refuse(text, "text with a lone surrogate") from None
    return text


def _decode_int(text: Any) -> int:
    digits = text[1:] if type(text) is str and text.startswith("-") else text
    if (
        type(text) is not str
        or not (digits.isascii() and digits.isdigit())
        or len(digits) > MAX_BITS * 31 // 100
    ):
        raise _refuse(text, "no whole number")
    return int(text)


def _decode_float(text: Any) -> float:
    if text not in ("nan", "inf", "-inf", "-0.0") or type(text) is not str:
        raise _refuse(text, "no special float")
    return float(text)


def _decode_fraction(parts: Any) -> Fraction:
    if type(parts) is not list or len(parts) != 2:
        raise _refuse(parts, "no fraction")
    over, under = _decode_int(parts[0]), _decode_int(parts[1])
    if under <= 0:
        raise _refuse(parts, "no fraction")
    return Fraction(over, under)


def _decode_list(items: Any, budget: _Budget, depth: int) -> list[Any]:
    if type(items) is not list:
        raise _refuse(items, "no list")
    return [_decode(item, budget, depth + 1) for item in items]


def _decode_dict(pairs: Any, budget: _Budget, depth: int) -> dict[Any, Any]:
    if type(pairs) is not list or not all(type(p) is list and len(p) == 2 for p in pairs):
        raise _refuse(pairs, "no list of pairs")
    found: dict[Any, Any] = {}
    for key, value in pairs:
        key = _decode(key, budget, depth + 1)
        try:
            found[key] = _decode(value, budget, depth + 1)
        except TypeError:  # a list as a key cannot be; an Array or Quantity could
            raise _refuse(key, "a key that is no plain value") from None
    return found


def _decode_quantity(parts: Any, budget: _Budget, depth: int) -> Quantity:
    if type(parts) is not list or len(parts) != 2:
        raise _refuse(parts, "no quantity")
    unit = _decode_text(parts[1], 80)
    if any(a.isdigit() and b.isdigit() for a, b in itertools.pairwise(unit)):
        raise _refuse(parts, "a power of a unit that would take long to compute")
    try:
        return Quantity(_decode(parts[0], budget, depth + 1), unit)
    except (LectureError, ValueError, OverflowError, ZeroDivisionError):
        raise _refuse(parts, "no quantity of the course's units") from None


def _decode_array(spec: Any, budget: _Budget) -> Array:
    if type(spec) is not dict or set(spec) != {"dtype", "shape", "values"}:
        raise _refuse(spec, "no array")
    dtype, shape, values = spec["dtype"], spec["shape"], spec["values"]
    if type(dtype) is not str or dtype not in DTYPES:
        raise _refuse(dtype, "an unknown dtype")
    if (
        type(shape) is not list
        or len(shape) > MAX_DEPTH
        or not all(type(n) is int and 0 <= n <= _EXACT_JSON for n in shape)
    ):
        raise _refuse(shape, "no shape")
    if type(values) is not list or len(values) != math.prod(shape):
        raise _refuse(values, "values that do not fill the shape")
    try:
        budget.spend_elements(len(values))
    except _TooLarge as error:
        raise _refuse(values, str(error)) from None
    return Array(dtype, tuple(shape), tuple(_decode_element(value, dtype) for value in values))


def _decode_element(value: Any, dtype: str) -> bool | int | float:
    if dtype == "bool":
        if type(value) is bool:
            return value
    elif dtype in _INT_DTYPES:
        if type(value) is int and abs(value) <= _EXACT_JSON:
            return value
        if type(value) is dict and set(value) == {"int"}:
            return _decode_int(value["int"])
    elif type(value) is float and math.isfinite(value):
        return value
    elif type(value) is int and abs(value) <= _EXACT_JSON:
        return float(value)
    elif type(value) is dict and set(value) == {"float"}:
        return _decode_float(value["float"])
    raise _refuse(value, f"no element of {dtype}")


def _decode_ellipsis(flag: Any) -> Any:
    if flag is not True:
        raise _refuse(flag, "no ellipsis")
    return ...


_DECODERS: dict[str, Any] = {
    "int": lambda data, budget, depth: _decode_int(data["int"]),
    "float": lambda data, budget, depth: _decode_float(data["float"]),
    "fraction": lambda data, budget, depth: _decode_fraction(data["fraction"]),
    "tuple": lambda data, budget, depth: tuple(_decode_list(data["tuple"], budget, depth)),
    "dict": lambda data, budget, depth: _decode_dict(data["dict"], budget, depth),
    "quantity": lambda data, budget, depth: _decode_quantity(data["quantity"], budget, depth),
    "array": lambda data, budget, depth: _decode_array(data["array"], budget),
    "ellipsis": lambda data, budget, depth: _decode_ellipsis(data["ellipsis"]),
    "other": lambda data, budget, depth: Other(
        _decode_text(data["other"], 200), _decode_text(data.get("repr", ""), MAX_TEXT)
    ),
}
