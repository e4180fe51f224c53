"""What a contraction costs, from its pattern with named axes: FLOPs, bytes and arithmetic intensity.

>>> scores = contraction("batch query dim, batch key dim -> batch query key", dtype="bf16",
...                      batch=2, query=128, key=128, dim=64)
>>> scores.summed, int(scores.flops)
(('dim',), 4194304)
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass

from lecture_lib.accounting.dtypes import bytes_per_element, resolve
from lecture_lib.accounting.inputs import closest, whole
from lecture_lib.accounting.tensors import tensor_bytes
from lecture_lib.quantity import LectureError, Quantity

FMA = "a multiply and its add are 2 FLOPs"


@dataclass(frozen=True)
class Contraction:
    """A pattern with the size of each axis: its shapes, and its cost.

    operands: names of each input's axes; output: names of the output's axes; sizes: axis -> size;
    dtype: of all tensors
    """

    pattern: str
    operands: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    sizes: Mapping[str, int]
    dtype: str

    @property
    def summed(self) -> tuple[str, ...]:
        """Axes that the output does not have: they are summed over."""
        names = dict.fromkeys(axis for operand in self.operands for axis in operand)
        return tuple(axis for axis in names if axis not in self.output)

    @property
    def input_shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(self.sizes[axis] for axis in operand) for operand in self.operands)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple(self.sizes[axis] for axis in self.output)

    @property
    def flops(self) -> Quantity:
        """Leading count: a multiply and an add for each term of each output (2·M·d_in·d_out for X·W).

        With nothing summed there is no add, and the leading count is the exact one.
        """
        factor = len(self.operands) if self.summed else len(self.operands) - 1
        symbols = [str(factor), *self.output, *self.summed]
        return self._count(factor * self._outputs * self._terms, "·".join(symbols), "leading order")

    @property
    def flops_exact(self) -> Quantity:
        """Exact count: for every output one multiply for each term and an add for each term but the first."""
        n, terms = len(self.operands), "·".join(self.summed)
        each = f"({n}·{terms} - 1)" if terms else str(n - 1)
        return self._count(
            self._outputs * (n * self._terms - 1),
            "·".join([*self.output, each]),
            "exact: the first term needs no add",
        )

    @property
    def bytes(self) -> Quantity:
        """Bytes moved at best: each input read once, the output written once."""
        tensors = (*self.operands, self.output)
        total = sum(int(tensor_bytes([self.sizes[a] for a in axes], self.dtype)) for axes in tensors)
        products = " + ".join("·".join(axes) or "1" for axes in tensors)
        fmt = resolve(self.dtype)
        return Quantity(
            total,
            "B",
            name="bytes moved at best",
            formula=f"s·({products})",
            inputs={"s": bytes_per_element(fmt), **self.sizes},
            conventions=("each input read once, the output written once", f"all tensors in {fmt.name}"),
        )

    @property
    def intensity(self) -> Quantity:
        """Leading FLOPs per byte moved at best."""
        ratio = self.flops / self.bytes
        return ratio.with_(
            name="arithmetic intensity", formula="F/Q", inputs={"F": self.flops, "Q": self.bytes}
        )

    @property
    def _outputs(self) -> int:
        return math.prod(self.output_shape)

    @property
    def _terms(self) -> int:
        return math.prod(self.sizes[axis] for axis in self.summed)

    def _count(self, value: int, formula: str, order: str) -> Quantity:
        return Quantity(
            value,
            "FLOP",
            name=f"FLOPs ({order})",
            formula=formula,
            inputs=dict(self.sizes),
            conventions=(FMA, order),
        )

    def _rows(self) -> list[tuple[str, str]]:
        shapes = " , ".join(map(str, self.input_shapes))
        return [
            ("shapes", f"{shapes} -> {self.output_shape}"),
            ("summed", ", ".join(self.summed) or "nothing"),
            ("FLOPs", f"{self.flops} = {self.flops.formula}"),
            ("FLOPs, exact", self.flops_exact.exact),
            ("bytes", f"{self.bytes} = {self.bytes.formula}"),
            ("intensity", str(self.intensity)),
        ]

    def __str__(self) -> str:
        wide = max(len(label) for label, _ in self._rows())
        return "\n".join([self.pattern, *(f"  {label:<{wide}}  {text}" for label, text in self._rows())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        left = ' style="text-align:left"'
        rows = "".join(
            f'<tr><th scope="row"{left}>{html.escape(label)}</th><td{left}>{html.escape(text)}</td></tr>'
            for label, text in self._rows()
        )
        return (
            f"<table><caption><code>{html.escape(self.pattern)}</code></caption><tbody>{rows}</tbody></table>"
        )


def contraction(pattern: str, /, dtype: object = "fp32", **sizes: int) -> Contraction:
    """The contraction that an einops `einsum` pattern of one or two operands states, with each axis's size.

    `contraction("row d_in, d_in d_out -> row d_out", dtype="bf16", row=128, d_in=4096, d_out=4096)`

    LectureError, with the close names, for an axis without a size, a size without an axis, or an output
    axis that no input has. Three operands are refused: which two are contracted first decides the cost.
    """
    operands, output = _parse(pattern)
    names = dict.fromkeys(axis for operand in operands for axis in operand)
    for axis in names:
        if axis not in sizes and len(axis) > 1 and all(letter in sizes for letter in axis):
            raise LectureError(
                f"expected axis names separated by spaces; got {axis!r} in {pattern!r}; "
                f"write {' '.join(axis)!r}"
            )
    for axis in output:
        if axis not in names:
            raise _axis_error(
                pattern, f"every output axis in an input; got {axis!r}, which no input has", axis, names
            )
    for axis in names:
        if axis not in sizes:
            spare = [name for name in sizes if name not in names] or list(sizes)
            text = f"a size for each axis; got none for {axis!r}"
            raise _axis_error(pattern, text, axis, spare)
    for axis in sizes:
        if axis not in names:
            raise _axis_error(
                pattern, f"sizes of axes in the pattern only; got {axis}={sizes[axis]!r}", axis, names
            )
    checked = {axis: whole(f"axis {axis!r}", sizes[axis]) for axis in names}
    return Contraction(" ".join(pattern.split()), operands, output, checked, resolve(dtype).name)


def _parse(pattern: object) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    if not isinstance(pattern, str) or pattern.count("->") != 1:
        raise LectureError(f"expected one '->' in a pattern; got {pattern!r}; write 'i k, k j -> i j'")
    left, right = pattern.split("->")
    operands = tuple(_axes(pattern, operand) for operand in left.split(","))
    if len(operands) > 2:
        raise LectureError(
            f"expected one or two operands; got {len(operands)} in {pattern!r}; write two contractions: "
            "the order decides the cost"
        )
    return operands, _axes(pattern, right)


def _axes(pattern: str, text: str) -> tuple[str, ...]:
    axes = tuple(text.split())
    for axis in axes:
        if not axis.isidentifier():
            raise LectureError(
                f"expected axis names separated by spaces; got {axis!r} in {pattern!r}; "
                "groups, numbers and '...' have no meaning in a contraction: give every axis its name"
            )
        if axes.count(axis) > 1:
            raise LectureError(
                f"expected each axis once in a tensor; got {axis!r} twice in {text.strip()!r} of {pattern!r}"
            )
    return axes


def _axis_error(pattern: str, text: str, axis: str, known: object) -> LectureError:
    names = list(known)  # type: ignore[call-overload]
    near = closest(axis, names)
    hint = (
        f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(names) or 'none'}"
    )
    return LectureError(f"expected {text}; {hint} (pattern {pattern!r})")
