"""Number formats by name: how many bits a value has, and how they are divided.

`resolve` takes the names people write: "fp32", "float32", "torch.float32" and a torch dtype itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from lecture_lib.accounting.inputs import closest
from lecture_lib.quantity import LectureError

_IEEE = "IEEE 754-2019"
_OCP_FP8 = "OCP 8-bit Floating Point Specification (OFP8) 1.0; Micikevicius et al. 2022, Table 1"
_OCP_MX = "OCP Microscaling Formats (MX) 1.0"
_FNUZ = "Noune et al. 2022; the FP8 variants of AMD MI300"


@dataclass(frozen=True)
class Format:
    """A number format.

    name:      the course's short name
    bits:      bits that one value occupies in memory (TF32 is stored in 32, and uses 19)
    sign, exponent, fraction: bits of each field; None in an integer format
    bias:      subtracted from the stored exponent
    specials:  which codes are no numbers: "ieee" (all-ones exponent: infinities and NaNs), "nan" (no
               infinity; the all-ones code is NaN), "nan at -0" (no infinity; the code of -0 is NaN) or "none"
    aliases:   other names it goes by
    """

    name: str
    bits: int
    sign: int | None = None
    exponent: int | None = None
    fraction: int | None = None
    bias: int | None = None
    specials: str = "none"
    aliases: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class BlockFormat:
    """A format in which `block` neighbouring values of `element` share one scale.

    bits: bits per value with the block's scale included, without NVFP4's one FP32 scale for the whole tensor.
    """

    name: str
    element: Format
    block: int
    scale: Format
    aliases: tuple[str, ...] = ()
    source: str = ""

    @property
    def bits(self) -> Fraction:
        return self.element.bits + Fraction(self.scale.bits, self.block)


FP64 = Format("fp64", 64, 1, 11, 52, 1023, "ieee", ("float64", "double", "f64"), _IEEE)
FP32 = Format("fp32", 32, 1, 8, 23, 127, "ieee", ("float32", "float", "single", "f32"), _IEEE)
TF32 = Format("tf32", 32, 1, 8, 10, 127, "ieee", ("tensorfloat32",), "NVIDIA A100 architecture whitepaper")
FP16 = Format("fp16", 16, 1, 5, 10, 15, "ieee", ("float16", "half", "f16"), _IEEE)
BF16 = Format("bf16", 16, 1, 8, 7, 127, "ieee", ("bfloat16",), "Kalamkar et al. 2019")
E4M3 = Format("fp8_e4m3", 8, 1, 4, 3, 7, "nan", ("e4m3", "e4m3fn", "float8_e4m3fn", "float8_e4m3"), _OCP_FP8)
E5M2 = Format("fp8_e5m2", 8, 1, 5, 2, 15, "ieee", ("e5m2", "float8_e5m2"), _OCP_FP8)
E4M3FNUZ = Format("fp8_e4m3fnuz", 8, 1, 4, 3, 8, "nan at -0", ("e4m3fnuz", "float8_e4m3fnuz"), _FNUZ)
E5M2FNUZ = Format("fp8_e5m2fnuz", 8, 1, 5, 2, 16, "nan at -0", ("e5m2fnuz", "float8_e5m2fnuz"), _FNUZ)
E2M3 = Format("fp6_e2m3", 6, 1, 2, 3, 1, "none", ("e2m3", "float6_e2m3fn"), _OCP_MX)
E3M2 = Format("fp6_e3m2", 6, 1, 3, 2, 3, "none", ("e3m2", "float6_e3m2fn"), _OCP_MX)
E2M1 = Format("fp4_e2m1", 4, 1, 2, 1, 1, "none", ("e2m1", "fp4", "float4_e2m1fn"), _OCP_MX)
E8M0 = Format("e8m0", 8, 0, 8, 0, 127, "nan", ("float8_e8m0fnu", "e8m0fnu"), _OCP_MX)

INTEGERS = (
    Format("int64", 64, aliases=("long", "i64")),
    Format("int32", 32, aliases=("int", "i32")),
    Format("int16", 16, aliases=("short", "i16")),
    Format("int8", 8, aliases=("i8",)),
    Format("uint8", 8, aliases=("u8",)),
    Format("int4", 4, aliases=("i4",)),
    Format("bool", 8, aliases=()),  # a byte in memory, whatever it means
)
FLOATS = (FP64, FP32, TF32, FP16, BF16, E4M3, E5M2, E4M3FNUZ, E5M2FNUZ, E2M3, E3M2, E2M1, E8M0)
BLOCKS = (
    BlockFormat("mxfp8_e4m3", E4M3, 32, E8M0, ("mxfp8",), _OCP_MX),
    BlockFormat("mxfp8_e5m2", E5M2, 32, E8M0, (), _OCP_MX),
    BlockFormat("mxfp6_e2m3", E2M3, 32, E8M0, ("mxfp6",), _OCP_MX),
    BlockFormat("mxfp6_e3m2", E3M2, 32, E8M0, (), _OCP_MX),
    BlockFormat("mxfp4", E2M1, 32, E8M0, ("mxfp4_e2m1",), _OCP_MX),
    BlockFormat(
        "nvfp4", E2M1, 16, E4M3, (), "NVIDIA Blackwell architecture; Pretraining LLMs with NVFP4, 2025"
    ),
)

FORMATS: dict[str, Format | BlockFormat] = {f.name: f for f in (*FLOATS, *INTEGERS, *BLOCKS)}
_BY_NAME = {alias: f for f in FORMATS.values() for alias in (f.name, *f.aliases)}


def resolve(dtype: object) -> Format | BlockFormat:
    """The format that a name, or a torch dtype, stands for.

    LectureError names the close ones; "fp8" alone is refused, since E4M3 and E5M2 differ in range.
    """
    if isinstance(dtype, Format | BlockFormat):
        return dtype
    name = str(dtype).strip().lower().removeprefix("torch.").replace("-", "_")
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name in ("fp8", "float8"):
        raise LectureError(
            f"expected one FP8 format; got {dtype!r}; say 'fp8_e4m3' or 'fp8_e5m2', whose ranges differ"
        )
    near = closest(name, _BY_NAME)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(FORMATS)}"
    raise LectureError(
        f"expected a number format; got {dtype!r}; {hint} (new ones go into lecture_lib.accounting.dtypes)"
    )


def bits(dtype: object) -> int | Fraction:
    """Bits that one value occupies in memory: an int, or a Fraction in a block format (MXFP8 = 8 + 8/32)."""
    return resolve(dtype).bits


def bytes_per_element(dtype: object) -> int | Fraction:
    """Bytes of one value: 4 for "fp32", 2 for "bf16", Fraction(1, 2) for "fp4"."""
    exact = Fraction(bits(dtype), 8)
    return exact.numerator if exact.denominator == 1 else exact
