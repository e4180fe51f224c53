"""How many elements a tensor has, what they weigh, and how much of a storage a view spans."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lecture_lib.accounting.dtypes import BlockFormat, bytes_per_element, resolve
from lecture_lib.accounting.inputs import sizes, whole
from lecture_lib.quantity import LectureError, Quantity


def elements(shape: Sequence[int]) -> Quantity:
    """Number of elements of a dense tensor, the product of its dimensions; 1 for the shape ().

    A dimension may be 0, as in torch; a negative or fractional one is a LectureError.
    """
    dims = sizes("shape", shape, least=0)
    symbols = _symbols(dims)
    return Quantity(
        math.prod(dims), "element", name="elements", formula="·".join(symbols) or "1", inputs=symbols
    )


def tensor_bytes(shape: Sequence[int], dtype: object) -> Quantity:
    """Logical bytes of a dense tensor: bytes per element times the product of its dimensions.

    Values of less than a byte are packed, and the last byte is rounded up. In a block format each run of
    `block` values along the last axis has its own scale, which counts.
    """
    dims = sizes("shape", shape, least=0)
    fmt = resolve(dtype)
    count, symbols = math.prod(dims), _symbols(dims)
    product = "·".join(symbols) or "1"
    if isinstance(fmt, BlockFormat):
        *outer, last = dims or (1,)
        scales = math.prod(outer) * -(-last // fmt.block)
        total = -(-count * fmt.element.bits // 8) + scales * fmt.scale.bits // 8
        formula = "(n·b + n_scales·b_scale)/8"
        inputs: dict[str, object] = {
            "n": count,
            "b": fmt.element.bits,
            "n_scales": scales,
            "b_scale": fmt.scale.bits,
        }
        notes = [f"{fmt.name}: one {fmt.scale.name} scale for each {fmt.block} values along the last axis"]
    else:
        total = -(-count * fmt.bits // 8)
        formula, inputs = f"s·{product}", {"s": bytes_per_element(fmt), **symbols}
        notes = [f"{fmt.name}: {fmt.bits} bits a value"]
    return Quantity(
        total,
        "B",
        name="logical bytes",
        formula=formula,
        inputs=inputs,
        conventions=(*notes, "dense, no padding"),
    )


def storage_span(shape: Sequence[int], strides: Sequence[int], dtype: object, offset: int = 0) -> Quantity:
    """Bytes from the start of a storage to the end of the last element that a strided view touches.

    shape, strides: of the view, in elements; offset: its first element. At least this much storage must
    exist, and all of the storage stays alive with the view, whatever the span. 0 if the view has no element.
    """
    dims, steps = sizes("shape", shape, least=0), sizes("strides", strides, least=0)
    if len(dims) != len(steps):
        raise LectureError(
            f"expected one stride for each of {len(dims)} dimensions; got {len(steps)} strides {steps}; "
            "give both as tensor.shape and tensor.stride()"
        )
    start = whole("offset", offset, least=0)
    fmt = resolve(dtype)
    size = bytes_per_element(fmt)
    if isinstance(fmt, BlockFormat) or not isinstance(size, int):
        raise LectureError(
            f"expected a format of whole bytes; got {fmt.name!r}; torch has no strided views of it"
        )
    last = start + sum((n - 1) * step for n, step in zip(dims, steps, strict=True))
    terms = "".join(f" + (d_{i}-1)·t_{i}" for i in range(1, len(dims) + 1))
    inputs = {"s": size, "o": start, **_symbols(dims), **{f"t_{i}": step for i, step in enumerate(steps, 1)}}
    return Quantity(
        0 if 0 in dims else size * (last + 1),
        "B",
        name="storage spanned by a view",
        formula=f"s·(o{terms} + 1)",
        inputs=inputs,
        conventions=("from the start of the storage",),
    )


def _symbols(dims: Sequence[int]) -> dict[str, int]:
    return {f"d_{i}": n for i, n in enumerate(dims, 1)}
