"""Formats by name: every alias, what is refused, and the fields held against torch's own."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from lecture_lib.accounting import dtypes
from lecture_lib.quantity import LectureError

TORCH = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


@pytest.mark.parametrize("dtype", TORCH, ids=str)
def test_bytes_are_torchs(dtype: torch.dtype) -> None:
    assert dtypes.bytes_per_element(dtype) == torch.empty((), dtype=dtype).element_size()
    assert dtypes.resolve(str(dtype)) is dtypes.resolve(dtype)


@pytest.mark.parametrize("dtype", [d for d in TORCH if d.is_floating_point], ids=str)
def test_fields_give_torchs_spacing_and_smallest_normal(dtype: torch.dtype) -> None:
    fmt = dtypes.resolve(dtype)
    assert isinstance(fmt, dtypes.Format)
    assert None not in (fmt.sign, fmt.exponent, fmt.fraction, fmt.bias)
    assert fmt.sign + fmt.exponent + fmt.fraction == fmt.bits
    # The code after that of 1.0, since finfo's eps for E5M2 fnuz is wrong in torch 2.13 (0.125, not 0.25).
    code = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[fmt.bits // 8]
    after_one = (torch.ones((), dtype=dtype).view(code) + 1).view(dtype).double()
    assert after_one.item() - 1 == 2.0**-fmt.fraction
    # E8M0 has no fraction and no subnormals: its code 0 is a normal number.
    smallest = 0 if fmt is dtypes.E8M0 else 1
    assert 2.0 ** (smallest - fmt.bias) == torch.finfo(dtype).tiny


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("fp32", 32),
        ("Float32", 32),
        (" single ", 32),
        ("torch.bfloat16", 16),
        ("half", 16),
        ("tf32", 32),
        ("fp8-e4m3", 8),
        ("fp6_e3m2", 6),
        ("fp4", 4),
        ("mxfp8", Fraction(33, 4)),
        ("mxfp6", Fraction(25, 4)),
        ("mxfp4", Fraction(17, 4)),
        ("nvfp4", Fraction(9, 2)),
    ],
)
def test_names(name: str, bits: Fraction | int) -> None:
    assert dtypes.bits(name) == bits
    assert dtypes.bytes_per_element(name) == Fraction(bits) / 8


def test_every_alias_names_one_format() -> None:
    seen: dict[str, str] = {}
    for fmt in dtypes.FORMATS.values():
        for alias in (fmt.name, *fmt.aliases):
            assert seen.setdefault(alias, fmt.name) == fmt.name
            assert dtypes.resolve(alias) is fmt


def test_tf32_uses_nineteen_of_its_stored_bits() -> None:
    fmt = dtypes.TF32
    assert (fmt.sign, fmt.exponent, fmt.fraction, fmt.bits) == (1, 8, 10, 32)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bf61", "did you mean bf16"),
        ("float", None),
        ("fp8", "E4M3|'fp8_e4m3' or 'fp8_e5m2'"),
        ("complex64", "known are|did you mean"),
        (32, "known are|did you mean"),
        (None, "known are|did you mean"),
        ("", "known are"),
    ],
)
def test_unknown_names(name: object, said: str | None) -> None:
    if said is None:
        assert dtypes.bits(name) == 32
        return
    with pytest.raises(LectureError, match=said):
        dtypes.resolve(name)
