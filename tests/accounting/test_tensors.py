"""Bytes of tensors and views, held against torch's own storages."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
import torch

from lecture_lib.accounting import tensors
from lecture_lib.quantity import LectureError, Quantity

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2, torch.int64, torch.bool]


def test_the_lectures_example() -> None:
    shape = (2, 128, 8, 64)
    assert tensors.elements(shape) == Quantity(131_072, "element")
    assert tensors.tensor_bytes(shape, "fp32") == Quantity(512, "KiB")
    assert tensors.tensor_bytes(shape, "bf16").value == 262_144
    assert tensors.tensor_bytes(shape, "bf16").numbers == "2·2·128·8·64"


def test_against_torch_on_drawn_shapes() -> None:
    rng = random.Random(1)
    for _ in range(60):
        shape = tuple(rng.choice([0, 1, 2, 3, 5, 7]) for _ in range(rng.randint(0, 4)))
        dtype = rng.choice(DTYPES)
        x = torch.empty(shape, dtype=dtype)
        assert tensors.elements(shape).value == x.numel()
        assert tensors.tensor_bytes(x.shape, x.dtype).value == x.numel() * x.element_size()


def test_views_span_what_torch_would_need() -> None:
    """A storage of exactly the spanned bytes is enough for torch, and one element less is not."""
    rng = random.Random(2)
    for _ in range(60):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 3)))
        strides = tuple(rng.randint(0, 5) for _ in shape)
        offset, dtype = rng.randint(0, 6), rng.choice(DTYPES)
        span = int(tensors.storage_span(shape, strides, dtype, offset))
        size = torch.empty((), dtype=dtype).element_size()
        assert span % size == 0
        enough = torch.empty(span // size, dtype=dtype)
        assert enough.as_strided(shape, strides, offset).untyped_storage().nbytes() == span
        with pytest.raises(RuntimeError, match="out of bounds"):
            torch.empty(span // size - 1, dtype=dtype).as_strided(shape, strides, offset)


def test_known_views() -> None:
    x = torch.zeros(6, 4)
    for view, wanted in [(x, 96), (x.T, 96), (x[1], 32), (x[:, 1], 88), (x[0, :1].expand(9), 4), (x[:0], 0)]:
        span = tensors.storage_span(view.shape, view.stride(), view.dtype, view.storage_offset())
        assert span.value == wanted


@pytest.mark.parametrize(
    ("shape", "dtype", "wanted"),
    [
        ((3,), "fp4", 2),  # 12 bits, rounded up
        ((4, 3), "fp6_e2m3", 9),
        ((4096, 4096), "mxfp4", 8_912_896),
        ((2, 33), "mxfp8", 66 + 2 * 2),  # two scales for each row of 33
        ((32,), "nvfp4", 16 + 2),
        ((), "mxfp8", 2),
    ],
)
def test_values_below_a_byte_and_blocks(shape: tuple[int, ...], dtype: str, wanted: int) -> None:
    assert tensors.tensor_bytes(shape, dtype).value == wanted


def test_formula_of_half_bytes() -> None:
    assert tensors.tensor_bytes((8,), "fp4").inputs["s"] == Fraction(1, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tensors.elements((2, -1)),
        lambda: tensors.elements((2.5,)),
        lambda: tensors.elements((True,)),
        lambda: tensors.elements(("3",)),
        lambda: tensors.elements("23"),
        lambda: tensors.elements(5),
        lambda: tensors.tensor_bytes((2, 3), "fp33"),
        lambda: tensors.storage_span((2, 3), (1,), "fp32"),
        lambda: tensors.storage_span((2,), (-1,), "fp32"),
        lambda: tensors.storage_span((2,), (1,), "fp4"),
        lambda: tensors.storage_span((2,), (1,), "mxfp8"),
        lambda: tensors.storage_span((2,), (1,), "fp32", offset=-1),
    ],
)
def test_bad_input(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LectureError, match="expected .*; got "):
        call()
