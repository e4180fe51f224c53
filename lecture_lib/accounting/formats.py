"""Number formats at work: values to codes and back, spacing, range, and blocks that share a scale.

A code is the whole number that a value's bits spell: sign, exponent and fraction side by side, first to last.
TF32's codes have 19 bits, whatever it is stored in. Values are Python floats, which hold every value of every
format here exactly; a value is rounded once, from there to the format.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real

from lecture_lib.accounting.dtypes import E4M3, E8M0, FLOATS, FP32, BlockFormat, Format, resolve
from lecture_lib.accounting.inputs import amount, several, whole
from lecture_lib.quantity import LectureError, Quantity

NVFP4_SCALES = "an E4M3 scale for each 16 values and one FP32 scale for the whole tensor"
_NVFP4_SOURCE = "NVIDIA, Pretraining Large Language Models with NVFP4 (2509.25149), appendix C"


# -- what a code says


@dataclass(frozen=True)
class Fields:
    """The three fields of a code, as stored. `str()` shows their bits: "0 01111 1000000000"."""

    format: Format
    sign: int
    exponent: int
    fraction: int

    def __str__(self) -> str:
        widths = _widths(self.format)
        stored = (self.sign, self.exponent, self.fraction)
        return " ".join(f"{bits:0{width}b}" for bits, width in zip(stored, widths, strict=True) if width)


def fields(code: int, dtype: object) -> Fields:
    """The sign, exponent and fraction fields of a code."""
    fmt = _float(dtype)
    _, exponent_bits, fraction_bits = _widths(fmt)
    number = _code(code, fmt)
    return Fields(
        fmt,
        number >> (exponent_bits + fraction_bits),
        number >> fraction_bits & (1 << exponent_bits) - 1,
        number & (1 << fraction_bits) - 1,
    )


def decode(code: int, dtype: object) -> float:
    """The value that a code stands for: (-1)^s·2^(e-bias)·(1 + f/2^m), or (-1)^s·2^(1-bias)·f/2^m if e is 0.

    An infinity or a NaN where the code is one. LectureError for a code that the format has no bits for.
    """
    parts = fields(code, dtype)
    fmt = parts.format
    if is_nan(code, fmt):
        return math.nan
    _, exponent_bits, m = _widths(fmt)
    bias = _bias(fmt)
    sign = -1.0 if parts.sign else 1.0
    if fmt.specials == "ieee" and parts.exponent == (1 << exponent_bits) - 1:
        return sign * math.inf
    if parts.exponent or not m:  # E8M0, without a fraction, has no subnormals
        return sign * math.ldexp((1 << m) + parts.fraction, parts.exponent - bias - m)
    return sign * math.ldexp(parts.fraction, 1 - bias - m)


def is_nan(code: int, dtype: object) -> bool:
    """Whether a code is no number."""
    parts = fields(code, dtype)
    fmt = parts.format
    _, exponent_bits, m = _widths(fmt)
    top = parts.exponent == (1 << exponent_bits) - 1
    if fmt.specials == "ieee":
        return top and parts.fraction != 0
    if fmt.specials == "nan":
        return top and parts.fraction == (1 << m) - 1
    return fmt.specials == "nan at -0" and (parts.sign, parts.exponent, parts.fraction) == (1, 0, 0)


def codes(dtype: object) -> range:
    """Every code of a format, 0 first."""
    return range(1 << sum(_widths(_float(dtype))))


def nan_codes(dtype: object) -> Quantity:
    """How many codes are NaN."""
    fmt = _float(dtype)
    _, exponent_bits, m = _widths(fmt)
    count, formula = {
        "ieee": (2 * ((1 << m) - 1), "2·(2^m - 1)"),
        "nan": (1 << _widths(fmt)[0], "2^s"),
        "nan at -0": (1, "1"),
        "none": (0, "0"),
    }[fmt.specials]
    return _of(fmt, count, "NaN codes", formula)


# -- from a value to a code


def encode(value: float, dtype: object, saturate: bool = False) -> int:
    """The code of the nearest value of the format; of two equally near, the even code.

    Beyond the largest value: infinity, NaN where the format has no infinity, the largest value where it has
    neither (FP6, FP4). With `saturate`, the largest value in every format, infinity included.
    torch 2.12 and later saturate in a cast to E4M3, and in no other; 2.11 gives NaN there.

    E8M0 has neither sign nor zero: a negative value is a LectureError (torch drops the sign), what is below
    the smallest power of two becomes that, and a tie (1.5·2^k) goes up, as in torch.
    LectureError for a NaN in a format that has none.
    """
    fmt = _float(dtype)
    number = _number(value)
    if fmt is E8M0:
        return _encode_scale(number, saturate)
    sign_bits, exponent_bits, m = _widths(fmt)
    bias = _bias(fmt)
    sign = (1 if math.copysign(1.0, number) < 0 else 0) << (exponent_bits + m)
    if math.isnan(number):
        return _quiet_nan(fmt)
    size = abs(number)
    top = _top(fmt)
    if math.isinf(size):
        return _overflow(fmt, sign, top, saturate)
    # The unit in the last place of the binade that the value is in; below the smallest normal it stays.
    exponent = max(math.frexp(size)[1] - 1, 1 - bias) if size else 1 - bias
    steps = _round_half_even(size, exponent - m)
    if not steps and fmt.specials == "nan at -0":
        return 0  # the code of -0 is NaN
    # A subnormal has fewer steps than 2^m, and its exponent field is 0: no implicit one to take away.
    # Rounding up to the next binade carries into the exponent field by itself.
    code = ((exponent + bias - 1) << m) + steps
    return _overflow(fmt, sign, top, saturate) if code > top else sign | code


def rounded(value: float, dtype: object, saturate: bool = False) -> float:
    """What is left of a value once it is stored in the format: decode(encode(value))."""
    return decode(encode(value, dtype, saturate), dtype)


def _round_half_even(size: float, exponent: int) -> int:
    """size / 2^exponent as a whole number, ties to even. `size` is exact, so one rounding is all there is."""
    numerator, denominator = size.as_integer_ratio()  # the denominator is a power of two
    shift = exponent + denominator.bit_length() - 1
    if shift <= 0:
        return numerator << -shift
    whole_steps, rest = numerator >> shift, numerator & (1 << shift) - 1
    half = 1 << (shift - 1)
    return whole_steps + (rest > half or (rest == half and whole_steps & 1))


def _overflow(fmt: Format, sign: int, top: int, saturate: bool) -> int:
    if saturate or fmt.specials == "none":
        return sign | top
    if fmt.specials == "ieee":
        return sign | (top + 1)  # infinity is the code after the largest value's
    return sign | _quiet_nan(fmt)  # -0's code is the NaN of the fnuz formats, whatever the sign


def _quiet_nan(fmt: Format) -> int:
    """The NaN that a cast makes: IEEE's quiet one; all ones in FP8 (as in torch); the code of -0 in fnuz."""
    _, exponent_bits, m = _widths(fmt)
    if fmt.specials == "none":
        raise LectureError(
            f"expected a number for {fmt.name}, which has no NaN; got NaN; deal with it before the cast"
        )
    if fmt.specials == "nan at -0":
        return 1 << (exponent_bits + m)
    if fmt.specials == "nan" or fmt.bits == 8:
        return (1 << (exponent_bits + m)) - 1
    return ((1 << exponent_bits) - 1) << m | 1 << (m - 1)


def _encode_scale(number: float, saturate: bool) -> int:
    if number < 0:
        raise LectureError(f"expected a scale of at least 0 for e8m0, which has no sign; got {number!r}")
    nan = 255
    if math.isnan(number) or (math.isinf(number) and not saturate):
        return nan
    if math.isinf(number):
        return nan - 1
    mantissa, exponent = math.frexp(number) if number else (0.5, -127)
    nearest = exponent - 1 + (mantissa >= 0.75) + _bias(E8M0)  # number = 2·mantissa · 2^(exponent - 1)
    if nearest >= nan:
        return nan - 1 if saturate else nan
    return max(nearest, 0)


# -- range and spacing


def largest(dtype: object) -> Quantity:
    """The largest finite value."""
    fmt = _float(dtype)
    _, _, m = _widths(fmt)
    top = fields(_top(fmt), fmt)
    inputs = {"m": m, "f_max": top.fraction, "e_max": top.exponent - _bias(fmt)}
    found = _of(fmt, decode(_top(fmt), fmt), "largest value", "(1 + f_max/2^m)·2^e_max", inputs)
    return found.with_(conventions=(f"beyond it: {overflow(fmt)}",))


def overflow(dtype: object) -> str:
    """What lies beyond the largest value where a cast does not saturate: "infinity", "NaN", "the largest"."""
    return {"ieee": "infinity", "none": "the largest"}.get(_float(dtype).specials, "NaN")


def smallest_normal(dtype: object) -> Quantity:
    """The smallest positive value with all of its fraction bits: 2^(1-bias), in E8M0 2^-bias."""
    fmt = _float(dtype)
    least = 0 if fmt is E8M0 else 1
    return _of(fmt, math.ldexp(1.0, least - _bias(fmt)), "smallest normal", f"2^({least} - bias)")


def smallest_subnormal(dtype: object) -> Quantity:
    """The smallest positive value: 2^(1-bias-m). LectureError for E8M0, which has no subnormals."""
    fmt = _float(dtype)
    if fmt is E8M0:
        raise LectureError(
            "expected a format with subnormals; got e8m0, whose smallest value is a normal one; "
            "use smallest_normal"
        )
    value = math.ldexp(1.0, 1 - _bias(fmt) - _widths(fmt)[2])
    return _of(fmt, value, "smallest subnormal", "2^(1 - bias - m)")


def spacing(value: float, dtype: object) -> Quantity:
    """Distance from |value|, rounded down to the format, to the next larger value of it (the ulp).

    2^(e-m), e = floor(log2|value|), and 2^(1-bias-m) below the smallest normal. LectureError beyond the
    largest value, where there is no next one.
    """
    fmt = _float(dtype)
    size = abs(_number(value))
    if not size <= float(largest(fmt)):
        raise LectureError(
            f"expected a value of at most {largest(fmt).value:g}, the largest of {fmt.name}; got {value!r}"
        )
    m, least = _widths(fmt)[2], (0 if fmt is E8M0 else 1) - _bias(fmt)
    e = max(math.frexp(size)[1] - 1, least) if size else least
    step = math.ldexp(1.0, e - m)
    return _of(fmt, step, f"spacing of {fmt.name} at {value:g}", "2^(e - m)", {"e": e, "m": m})


def _of(
    fmt: Format, value: float | int, name: str, formula: str, inputs: Mapping[str, object] | None = None
) -> Quantity:
    sign, _, m = _widths(fmt)
    symbols: Mapping[str, object] = inputs or {"bias": _bias(fmt), "m": m, "s": sign}
    shown = {key: symbols[key] for key in symbols if key in formula}
    if isinstance(value, float) and value.is_integer() and value < 2**53:  # 300 digits help nobody
        value = int(value)
    return Quantity(value, "1", name=name, formula=formula, inputs=shown, source=fmt.source)


# -- what every function asks of a format


def _float(dtype: object) -> Format:
    fmt = resolve(dtype)
    if isinstance(fmt, BlockFormat):
        raise LectureError(
            f"expected a format of single values; got the block format {fmt.name!r}; its values are "
            f"{fmt.element.name}, its scales {fmt.scale.name} (quantize makes both)"
        )
    if fmt.fraction is None:
        known = ", ".join(f.name for f in FLOATS)
        raise LectureError(f"expected a floating-point format; got {fmt.name!r}; known are {known}")
    return fmt


def _widths(fmt: Format) -> tuple[int, int, int]:
    """Bits of sign, exponent and fraction."""
    assert fmt.sign is not None and fmt.exponent is not None and fmt.fraction is not None
    return fmt.sign, fmt.exponent, fmt.fraction


def _bias(fmt: Format) -> int:
    assert fmt.bias is not None
    return fmt.bias


def _top(fmt: Format) -> int:
    """The code of the largest finite value."""
    _, exponent_bits, m = _widths(fmt)
    highest = (1 << (exponent_bits + m)) - 1
    return highest - {"ieee": 1 << m, "nan": 1}.get(fmt.specials, 0)


def _code(code: object, fmt: Format) -> int:
    number = whole("code", code, least=0)
    count = codes(fmt).stop
    if number >= count:
        raise LectureError(f"expected a code of {fmt.name} from 0 to {count - 1:,}; got {number:,}")
    return number


def _number(value: object) -> float:
    """A Python, NumPy or dimensionless quantity's number as the float that it is exactly."""
    if isinstance(value, Quantity) and not value.dimensions:
        value = value.base_value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise LectureError(
            f"expected a number; got {value!r}; give a float or an int (tensor.tolist() holds such)"
        )
    try:
        number = float(value)
    except OverflowError:
        assert isinstance(value, int | Fraction)  # the others are no larger than a float
        return math.inf if value > 0 else -math.inf
    if isinstance(value, int | Fraction) and Fraction(number) != value:
        raise LectureError(
            f"expected a number that a Python float holds exactly; got {value}; give the float that is "
            "meant: a second rounding could change the result"
        )
    return number


# -- blocks of values that share a scale


@dataclass(frozen=True)
class Quantized:
    """Values in a block format: a code for each, a scale's code for each block, in the order of the values.

    tensor_scale: what all values are multiplied by besides; 1 but in NVFP4.
    """

    format: BlockFormat
    codes: tuple[int, ...]
    scales: tuple[int, ...]
    tensor_scale: float = 1.0

    @property
    def values(self) -> tuple[float, ...]:
        """The values again: element · scale of its block · scale of the tensor."""
        fmt = self.format
        scales = [decode(code, fmt.scale) for code in self.scales]
        return tuple(
            decode(code, fmt.element) * scales[position // fmt.block] * self.tensor_scale
            for position, code in enumerate(self.codes)
        )

    @property
    def bits(self) -> Quantity:
        """Bits that the elements and all scales take."""
        n, blocks, fmt = len(self.codes), len(self.scales), self.format
        once = FP32.bits if _two_levels(fmt) else 0
        return Quantity(
            n * fmt.element.bits + blocks * fmt.scale.bits + once,
            "bit",
            name=f"bits of {n:,} values in {fmt.name}",
            formula="n·b + n_blocks·b_scale" + (" + b_tensor" if once else ""),
            inputs={
                "n": n,
                "b": fmt.element.bits,
                "n_blocks": blocks,
                "b_scale": fmt.scale.bits,
                **({"b_tensor": once} if once else {}),
            },
            conventions=("scales counted", "a last block that is not full has a scale too"),
            source=fmt.source,
        )


def bits_per_value(dtype: object) -> Quantity:
    """Bits of one value with its share of the block's scale, in full blocks: b + b_scale/n_block."""
    fmt = _block(dtype)
    apart = ("without the one FP32 scale of the whole tensor",) if _two_levels(fmt) else ()
    return Quantity(
        fmt.bits,
        "bit/element",
        name=f"bits per value of {fmt.name}",
        formula="b + b_scale/n_block",
        inputs={"b": fmt.element.bits, "b_scale": fmt.scale.bits, "n_block": fmt.block},
        conventions=("full blocks", *apart),
        source=fmt.source,
    )


def quantize(values: Sequence[float], dtype: object) -> Quantized:
    """Values along one axis, in a block format; `.values` of the result are what is left of them.

    MX formats: the scale of a block is 2^(floor(log2 amax) - e_max), amax its largest magnitude and e_max
    the exponent of the element's largest value; elements are value / scale, to nearest even, saturating. So
    an amax within the last binade can be cut off. A block of zeros takes the smallest scale.
    NVFP4: the tensor's scale is amax/(448·6) in FP32, a block's the E4M3 nearest to amax_block/6 over it.
    A block whose scale rounds to 0 becomes 0.
    LectureError for infinities and NaN, which the specification leaves to the implementation.
    """
    fmt = _block(dtype)
    numbers = [_number(value) for value in several("values", values, "numbers", "[0.5, -3.0]")]
    for position, number in enumerate(numbers):
        if not math.isfinite(number):
            raise LectureError(f"expected finite values to quantize; got {number!r} at position {position}")
    blocks = [numbers[start : start + fmt.block] for start in range(0, len(numbers), fmt.block)]
    if _two_levels(fmt):
        return _quantize_two_levels(fmt, blocks)
    scales = [_mx_scale(max(map(abs, block)), fmt.element) for block in blocks]
    elements = [
        encode(number / decode(scale, fmt.scale), fmt.element, saturate=True)
        for block, scale in zip(blocks, scales, strict=True)
        for number in block
    ]
    return Quantized(fmt, tuple(elements), tuple(scales))


def _mx_scale(amax: float, element: Format) -> int:
    """Code of the E8M0 scale of a block."""
    e_max = fields(_top(element), element).exponent - _bias(element)
    shared = math.frexp(amax)[1] - 1 - e_max if amax else -_bias(E8M0)
    return min(max(shared + _bias(E8M0), 0), 254)


def nvfp4_encode_scale(amax: float | Quantity) -> Quantity:
    """What NVFP4 multiplies a tensor by before its blocks are scaled: 448·6/amax, amax its largest magnitude.

    448 and 6 are the largest values of the block scales (E4M3) and of the elements (E2M1).
    """
    largest_magnitude = float(amount("amax", amax, "1"))
    return Quantity(
        448 * 6 / largest_magnitude,
        "1",
        name="encode scale of the tensor",
        formula="448·6/amax",
        inputs={"amax": largest_magnitude},
        conventions=(NVFP4_SCALES,),
        source=_NVFP4_SOURCE,
    )


def _quantize_two_levels(fmt: BlockFormat, blocks: list[list[float]]) -> Quantized:
    """NVFP4, in FP32 where NVIDIA's recipe computes in FP32."""
    amax = max((abs(number) for block in blocks for number in block), default=0.0)
    forward = rounded(float(nvfp4_encode_scale(amax)), FP32, saturate=True) if amax else 1.0
    back = rounded(1 / forward, FP32)
    element_top = float(largest(fmt.element))
    scales, elements = [], []
    for block in blocks:
        wanted = rounded(rounded(max(map(abs, block)) / element_top, FP32) * forward, FP32)
        scales.append(encode(wanted, E4M3, saturate=True))
        step = rounded(decode(scales[-1], E4M3) * back, FP32)
        inverse = rounded(1 / step, FP32, saturate=True) if step else 0.0
        elements += [
            encode(rounded(number * inverse, FP32, saturate=True), fmt.element, saturate=True)
            for number in block
        ]
    return Quantized(fmt, tuple(elements), tuple(scales), back)


def _two_levels(fmt: BlockFormat) -> bool:
    """Block scales that are no powers of two (E4M3) need a scale of the whole tensor to stay in range."""
    return fmt.scale is E4M3


def _block(dtype: object) -> BlockFormat:
    fmt = resolve(dtype)
    if not isinstance(fmt, BlockFormat) or fmt.scale not in (E8M0, E4M3):
        raise LectureError(
            f"expected a block format with a rule for its scales; got {fmt.name!r}; "
            "take mxfp8_e4m3, mxfp8_e5m2, mxfp6_e2m3, mxfp6_e3m2, mxfp4 or nvfp4"
        )
    return fmt
