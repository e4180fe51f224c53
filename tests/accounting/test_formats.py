"""Formats at work, held bit for bit against torch's casts and struct, and against tables written out here."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch

from lecture_lib.accounting import dtypes, formats
from lecture_lib.quantity import LectureError, Quantity

CODE = {1: torch.uint8, 2: torch.int16}
EIGHT_BITS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
SMALL = [*EIGHT_BITS, torch.float16, torch.bfloat16]
# torch 2.12 began to saturate casts to E4M3 (pytorch/pytorch#178817); 2.11 gives NaN.
E4M3_SATURATES = torch.full((), 1e9).to(torch.float8_e4m3fn).float().item() == 448


def saturates(dtype: torch.dtype) -> bool:
    return dtype == torch.float8_e4m3fn and E4M3_SATURATES


def torch_codes(values: torch.Tensor, dtype: torch.dtype) -> list[int]:
    bits = values.to(dtype).view(CODE[dtype.itemsize]).long()
    return (bits & (1 << 8 * dtype.itemsize) - 1).tolist()


def same(ours: float, theirs: float) -> bool:
    """Equal, signs of zeros included; NaN equals NaN."""
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    return ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)


# -- decode: every code


@pytest.mark.parametrize("dtype", [*SMALL, torch.float8_e8m0fnu], ids=str)
def test_every_code_decodes_as_torch_reads_it(dtype: torch.dtype) -> None:
    every = formats.codes(dtype)
    assert every == range(256**dtype.itemsize)
    values = torch.arange(len(every)).to(CODE[dtype.itemsize]).view(dtype).double().tolist()
    wrong = [code for code in every if not same(formats.decode(code, dtype), values[code])]
    assert wrong == []
    assert int(formats.nan_codes(dtype)) == sum(map(math.isnan, values))
    assert [code for code in every if formats.is_nan(code, dtype)] == [
        code for code in every if math.isnan(values[code])
    ]


@pytest.mark.parametrize("name", ["fp64", "fp32"])
def test_wide_codes_decode_as_struct_reads_them(name: str) -> None:
    rng, letters = random.Random(1), {"fp64": ("<d", "<Q", 64), "fp32": ("<f", "<I", 32)}[name]
    floats, whole, bits = letters
    edges = [0, 1, 2, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1]
    for code in [*edges, *(rng.getrandbits(bits) for _ in range(20_000))]:
        (value,) = struct.unpack(floats, struct.pack(whole, code))
        assert same(formats.decode(code, name), value), code


# OCP Microscaling Formats 1.0, tables 2 to 5: 2^(e-bias)·(1 + f/2^m) for e > 0, else 2^(1-bias)·f/2^m.
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
E2M3 = [j / 8 for j in range(8)] + [2**e * (1 + j / 8) for e in range(3) for j in range(8)]
E3M2 = [j / 16 for j in range(4)] + [2.0**e * (1 + j / 4) for e in range(-2, 5) for j in range(4)]
SIX_AND_FOUR = {"fp4_e2m1": E2M1, "fp6_e2m3": E2M3, "fp6_e3m2": E3M2}


@pytest.mark.parametrize("name", SIX_AND_FOUR)
def test_every_code_of_six_and_four_bits(name: str) -> None:
    table = SIX_AND_FOUR[name]
    both = [*map(float, table), *(-float(value) for value in table)]
    got = [formats.decode(code, name) for code in formats.codes(name)]
    assert len(got) == len(both) and all(map(same, got, both))


# -- encode: every code again, every rounding boundary, random bits


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_every_value_encodes_to_its_code(dtype: torch.dtype) -> None:
    for code in formats.codes(dtype):
        value = formats.decode(code, dtype)
        if not math.isnan(value):
            assert formats.encode(value, dtype) == code


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_every_rounding_boundary_falls_as_in_torch(dtype: torch.dtype) -> None:
    """Halfway between each two neighbours, and one FP32 step to either side; beyond the largest too."""
    top = formats.encode(float(formats.largest(dtype)), dtype)
    values = torch.tensor([formats.decode(code, dtype) for code in range(top + 1)], dtype=torch.float64)
    beyond = values[-1] + (values[-1] - values[-2]) / 2
    halves = torch.cat([(values[1:] + values[:-1]) / 2, beyond[None]]).float()
    infinity = torch.tensor(math.inf)
    around = torch.cat([halves, halves.nextafter(infinity), halves.nextafter(-infinity)])
    inputs = torch.cat([around, -around])
    expected = torch_codes(inputs, dtype)
    mode = saturates(dtype)
    got = [formats.encode(value, dtype, saturate=mode) for value in inputs.tolist()]
    assert got == expected


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_random_fp32_bits_encode_as_in_torch(dtype: torch.dtype) -> None:
    rng = random.Random(str(dtype))
    bits = [rng.getrandbits(32) - (1 << 31) for _ in range(30_000)]
    near_one = torch.tensor([rng.gauss(0, 10 ** rng.uniform(-6, 3)) for _ in range(30_000)])
    edges = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-149, 1e38, -1e38])
    inputs = torch.cat([torch.tensor(bits, dtype=torch.int32).view(torch.float32), near_one, edges])
    expected = torch_codes(inputs, dtype)
    mode = saturates(dtype)
    for value, code in zip(inputs.tolist(), expected, strict=True):
        if math.isnan(value):  # torch keeps sign and payload in some formats
            assert formats.is_nan(formats.encode(value, dtype), dtype) and formats.is_nan(code, dtype)
        else:
            assert formats.encode(value, dtype, saturate=mode) == code, value


@pytest.mark.parametrize(
    ("dtype", "code"), list(zip(SMALL, [0x7F, 0x7F, 0x80, 0x80, 0x7E00, 0x7FC0], strict=True)), ids=str
)
def test_a_cast_makes_the_quiet_nan(dtype: torch.dtype, code: int) -> None:
    """Which NaN torch makes of one hangs on the processor's instructions; that it is one does not."""
    assert formats.encode(math.nan, dtype) == code
    assert formats.is_nan(code, dtype)
    assert formats.is_nan(torch_codes(torch.tensor([math.nan]), dtype)[0], dtype)


def test_fp32_from_fp64_is_rounded_as_by_the_processor() -> None:
    rng = random.Random(3)
    inputs = [rng.gauss(0, 1) * 10 ** rng.uniform(-46, 39) for _ in range(20_000)]
    inputs += [2.0**-150, 2.0**-149, 1.5 * 2.0**-149, 3.4028235677973366e38, 3.4028235677973362e38, -0.0]
    bits = torch.tensor(inputs, dtype=torch.float64).float().view(torch.int32).tolist()
    for value, expected in zip(inputs, bits, strict=True):
        assert formats.encode(value, "fp32") == expected % (1 << 32), value
        assert formats.encode(value, "fp64") == struct.unpack("<Q", struct.pack("<d", value))[0]


def test_a_value_is_rounded_once() -> None:
    """By way of FP32, as torch goes, 2^-40 is lost first, and the tie that is left falls to the even code."""
    value = 1 + 2.0**-8 + 2.0**-40
    assert formats.rounded(value, "bf16") == 1 + 2.0**-7
    assert torch.tensor(value, dtype=torch.float64).to(torch.bfloat16).item() == 1


def test_tf32_is_fp32_without_its_last_13_bits_rounded() -> None:
    rng = random.Random(4)
    bits = [rng.getrandbits(31) for _ in range(20_000)] + [0x3F801000, 0x3F803000, 0x7F7FF000]
    for code in bits:
        value = formats.decode(code, "fp32")
        if math.isnan(value):
            continue
        assert formats.encode(value, "tf32") == (code + 0xFFF + (code >> 13 & 1)) >> 13, hex(code)
    assert len(formats.codes("tf32")) == 2**19


@pytest.mark.parametrize("name", SIX_AND_FOUR)
def test_six_and_four_bits_take_the_nearest_even(name: str) -> None:
    """Against a search for the nearest of all values, exact in fractions."""
    table = [Fraction(value) for value in SIX_AND_FOUR[name]]
    rng = random.Random(5)
    halves = [float((a + b) / 2) for a, b in pairwise(table)]
    inputs = halves + [math.nextafter(h, way) for h in halves for way in (0, 99)]
    inputs += [rng.uniform(0, 1.2 * float(table[-1])) for _ in range(2_000)] + [1e30, math.inf]
    sign = len(table)
    for value in inputs:
        exact = Fraction(min(value, 1e30))
        nearest = min(range(sign), key=lambda code: (abs(table[code] - exact), code % 2))
        assert formats.encode(value, name) == nearest, value
        assert formats.encode(-value, name) == nearest + sign


def test_beyond_the_largest_value() -> None:
    cases = {
        "fp16": (math.inf, 65504),
        "bf16": (math.inf, float(formats.largest("bf16"))),
        "fp8_e5m2": (math.inf, 57344),
        "fp8_e4m3": (math.nan, 448),
        "fp8_e4m3fnuz": (math.nan, 240),
        "fp4_e2m1": (6, 6),
        "e8m0": (math.nan, 2.0**127),
    }
    for name, (plain, saturated) in cases.items():
        for value in (1e39, math.inf):
            assert same(formats.rounded(value, name), plain), name
            assert formats.rounded(value, name, saturate=True) == saturated
    # 2.2: 65,504 is FP16's largest; 65,520 is halfway to what would come next, and overflows.
    assert formats.rounded(65519.9, "fp16") == 65504 and formats.rounded(65520, "fp16") == math.inf
    assert formats.rounded(1e-8, "fp16") == 0 and formats.rounded(1e-8, "bf16") > 0
    assert formats.rounded(1 + 2.0**-9, "bf16") == 1


def test_scales_round_as_in_torch() -> None:
    rng = random.Random(6)
    inputs = [2.0 ** rng.uniform(-126, 127.9) for _ in range(5_000)]
    inputs += [1.5 * 2.0**e for e in range(-126, 128)] + [0.0, math.inf, math.nan, 2.0**-127]
    tensor = torch.tensor(inputs, dtype=torch.float32)
    expected = tensor.to(torch.float8_e8m0fnu).view(torch.uint8).tolist()
    assert [formats.encode(value, "e8m0") for value in tensor.tolist()] == expected
    # Between the two smallest torch's cast goes up at once, where the nearest is the smaller.
    value = 1.25 * 2.0**-127
    assert formats.rounded(value, "e8m0") == 2.0**-127
    assert torch.tensor(value).to(torch.float8_e8m0fnu).float().item() == 2.0**-126


# -- range and spacing


@pytest.mark.parametrize("dtype", [*SMALL, torch.float32, torch.float64, torch.float8_e8m0fnu], ids=str)
def test_range_is_that_of_finfo(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    assert float(formats.largest(dtype)) == info.max
    assert float(formats.smallest_normal(dtype)) == info.tiny
    if dtype != torch.float8_e8m0fnu:
        least = float(formats.smallest_subnormal(dtype))
        assert formats.encode(least, dtype) == 1 and formats.rounded(least / 2, dtype) == 0


@pytest.mark.parametrize("name", ["fp16", "fp8_e4m3", "fp8_e5m2", "fp6_e2m3", "fp6_e3m2", "fp4_e2m1"])
def test_spacing_is_the_distance_to_the_next_code(name: str) -> None:
    top = formats.encode(float(formats.largest(name)), name)
    for code in range(top):
        value, after = formats.decode(code, name), formats.decode(code + 1, name)
        assert formats.spacing(value, name).value == after - value
        assert formats.spacing(-(value + after) / 2, name).value == after - value


def test_spacing_of_the_lecture() -> None:
    assert formats.spacing(1.0, "bf16").value == 2.0**-7
    assert formats.spacing(256.0, "bf16").value == 2
    assert formats.spacing(1.0, "fp32").value == torch.finfo(torch.float32).eps
    assert "2^(0 - 7)" in formats.spacing(1.0, "bf16").explain()


def test_fields_show_their_bits() -> None:
    assert str(formats.fields(formats.encode(1.5, "fp16"), "fp16")) == "0 01111 1000000000"
    assert str(formats.fields(formats.encode(-6, "fp4"), "fp4")) == "1 11 1"
    assert str(formats.fields(127, "e8m0")) == "01111111"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: formats.encode(1, "int8"), "floating-point format; got 'int8'"),
        (lambda: formats.encode(1, "mxfp8"), "block format 'mxfp8_e4m3'"),
        (lambda: formats.encode("1.5", "fp16"), "expected a number; got '1.5'"),
        (lambda: formats.encode(True, "fp16"), "expected a number; got True"),
        (lambda: formats.encode(2**53 + 1, "fp16"), "holds exactly"),
        (lambda: formats.encode(Fraction(1, 3), "fp16"), "holds exactly"),
        (lambda: formats.encode(math.nan, "fp4"), "has no NaN"),
        (lambda: formats.encode(-1.0, "e8m0"), "no sign"),
        (lambda: formats.decode(256, "e4m3"), "from 0 to 255"),
        (lambda: formats.decode(-1, "e4m3"), "at least 0"),
        (lambda: formats.decode(1.5, "e4m3"), "whole number"),
        (lambda: formats.spacing(500.0, "e4m3"), "at most 448"),
        (lambda: formats.spacing(math.nan, "fp32"), "at most"),
        (lambda: formats.smallest_subnormal("e8m0"), "smallest_normal"),
        (lambda: formats.quantize([1.0], "fp4"), "mxfp4"),
        (lambda: formats.quantize([1.0, math.nan], "mxfp4"), "position 1"),
        (lambda: formats.nvfp4_encode_scale(0.0), "above 0"),
        (lambda: formats.largest("fp7"), "number format"),
    ],
)
def test_bad_input(call: object, expected: str) -> None:
    with pytest.raises(LectureError, match=expected):
        call()  # type: ignore[operator]


def test_numbers_of_other_kinds() -> None:
    """NumPy's are taken as what they are, a quantity too if it has no unit."""
    assert formats.encode(np.float32(0.1), "fp32") == formats.encode(float(np.float32(0.1)), "fp32")
    assert formats.rounded(formats.largest("fp16"), "fp16") == 65504
    assert formats.rounded(Fraction(3, 4), "fp4") == 1 and formats.rounded(3, "bf16") == 3
    assert formats.quantize(np.array([0.5, -6.0], dtype=np.float32), "mxfp4").values == (0.5, -6.0)
    with pytest.raises(LectureError, match="expected a number"):
        formats.encode(Quantity(3, "B"), "fp16")
    with pytest.raises(LectureError, match="tolist"):
        formats.encode(torch.tensor(1.0), "fp16")


def test_what_lies_beyond() -> None:
    wanted = {"fp16": "infinity", "e5m2": "infinity", "e4m3": "NaN", "e4m3fnuz": "NaN", "fp4": "the largest"}
    assert {name: formats.overflow(name) for name in wanted} == wanted
    assert formats.largest("e4m3").conventions == ("beyond it: NaN",)


def test_numbers_too_large_for_a_float_are_infinite() -> None:
    assert formats.rounded(10**400, "fp32") == math.inf and formats.rounded(-(10**400), "fp4") == -6


# -- blocks


def draw(n: int, seed: int) -> torch.Tensor:
    """FP32 values whose blocks differ in size by powers of ten, with a block of zeros and signed zeros."""
    rng = random.Random(seed)
    values = [rng.gauss(0, 1) * 10 ** ((i // 16) % 7 - 3) for i in range(n)]
    values[32:64] = [0.0] * 32
    values[70] = -0.0
    return torch.tensor(values)


def nearest_codes(values: torch.Tensor, table: list[float]) -> torch.Tensor:
    """Codes of the nearest values of the table, ties to the even code, signs above."""
    points = torch.tensor(table, dtype=torch.float64)
    size = values.double().abs()
    above = torch.bucketize(size, points).clamp(1, len(table) - 1)
    low, high = size - points[above - 1], points[above] - size
    up = (high < low) | ((high == low) & (above % 2 == 0))
    codes = torch.where(up, above, above - 1)
    return torch.where(values.signbit(), codes + len(table), codes)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("name", "dtype", "e_max"), [("mxfp8", torch.float8_e4m3fn, 8), ("mxfp8_e5m2", torch.float8_e5m2, 15)]
)
def test_mxfp8_agrees_with_torchs_casts(name: str, dtype: torch.dtype, e_max: int, seed: int) -> None:
    values = draw(2_000, seed)  # the last block is not full
    got = formats.quantize(values.tolist(), name)
    padded = torch.nn.functional.pad(values, (0, -len(values) % 32)).view(-1, 32)
    amax = padded.abs().amax(dim=1, keepdim=True).double()
    powers = torch.where(amax > 0, amax.log2().floor() - e_max, -127.0).clamp(min=-127)
    scales = torch.exp2(powers)
    assert list(got.scales) == scales.float().to(torch.float8_e8m0fnu).view(torch.uint8).flatten().tolist()
    limit = torch.finfo(dtype).max
    elements = (padded.double() / scales).clamp(-limit, limit).float().to(dtype)
    assert list(got.codes) == elements.view(torch.uint8).flatten()[: len(values)].tolist()
    again = (elements.double() * scales).flatten()[: len(values)].tolist()
    assert list(got.values) == again


@pytest.mark.parametrize(
    ("name", "table", "e_max"), [("mxfp6", E2M3, 2), ("mxfp6_e3m2", E3M2, 4), ("mxfp4", E2M1, 2)]
)
def test_small_mx_formats_agree_with_a_search(name: str, table: list[float], e_max: int) -> None:
    values = draw(1_984, 2)
    got = formats.quantize(values.tolist(), name)
    blocks = values.view(-1, 32).double()
    powers = torch.frexp(blocks.abs().amax(dim=1, keepdim=True))[1].double() - 1 - e_max
    scales = torch.exp2(torch.where(blocks.any(dim=1, keepdim=True), powers, -127.0))
    assert list(got.codes) == nearest_codes((blocks / scales).flatten(), table).tolist()
    assert [formats.decode(code, "e8m0") for code in got.scales] == scales.flatten().tolist()
    bits = {"mxfp6": 6, "mxfp6_e3m2": 6, "mxfp4": 4}[name]
    assert int(got.bits) == 1_984 * bits + 62 * 8


@pytest.mark.parametrize("seed", [3, 4])
def test_nvfp4_agrees_with_torch(seed: int) -> None:
    values = draw(1_008, seed)
    got = formats.quantize(values.tolist(), "nvfp4")
    forward = (448 * 6 / values.abs().max().double()).float()
    back = 1 / forward
    blocks = values.view(-1, 16)
    scales = (blocks.abs().amax(dim=1, keepdim=True) / 6 * forward).clamp(max=448).to(torch.float8_e4m3fn)
    step = scales.float() * back
    elements = nearest_codes((blocks * torch.where(step > 0, 1 / step, 0.0)).flatten(), E2M1)
    assert list(got.scales) == scales.view(torch.uint8).flatten().tolist()
    assert list(got.codes) == elements.tolist()
    assert got.tensor_scale == back.item()
    assert int(got.bits) == 1_008 * 4 + 63 * 8 + 32


def test_a_block_shares_its_range() -> None:
    """One large neighbour takes the small ones' precision away, and an amax near the next power is cut."""
    alone = formats.quantize([0.01] * 32, "mxfp4").values
    beside = formats.quantize([100.0] + [0.01] * 31, "mxfp4").values
    assert alone[1] == pytest.approx(0.01, rel=0.25) and beside[1] == 0
    assert formats.quantize([7.9], "mxfp4").values == (6.0,)
    assert formats.quantize([0.0] * 5, "nvfp4").values == (0.0,) * 5
    assert formats.quantize([], "mxfp4").bits.value == 0
    # Twice a block's values are twice its scale, and the same codes.
    once = formats.quantize([k * 0.3 for k in range(-9, 9)], "mxfp8")
    twice = formats.quantize([k * 0.6 for k in range(-9, 9)], "mxfp8")
    assert twice.codes == once.codes and twice.scales[0] == once.scales[0] + 1


@pytest.mark.parametrize("block", dtypes.BLOCKS, ids=lambda block: block.name)
def test_error_is_within_half_a_step(block: dtypes.BlockFormat) -> None:
    """No value that is not cut off is farther than half the element's spacing times the scale."""
    values = draw(960, 7).tolist()
    got = formats.quantize(values, block)
    top = float(formats.largest(block.element))
    for position, (value, kept) in enumerate(zip(values, got.values, strict=True)):
        scale = formats.decode(got.scales[position // block.block], block.scale) * got.tensor_scale
        if scale and abs(value / scale) <= top:
            half = formats.spacing(value / scale, block.element).value / 2 * scale
            assert abs(value - kept) <= half * (1 + 1e-6)


@pytest.mark.parametrize(
    ("name", "bits"),
    [("mxfp8", 8.25), ("mxfp6", 6.25), ("mxfp6_e3m2", 6.25), ("mxfp4", 4.25), ("nvfp4", 4.5)],
)
def test_bits_per_value(name: str, bits: float) -> None:
    assert float(formats.bits_per_value(name)) == bits
    full = formats.quantize([1.0] * 320, name)
    apart = 32 if name == "nvfp4" else 0
    assert (int(full.bits) - apart) / 320 == bits
