"""What a forward pass keeps for its backward, tensor by tensor."""

from __future__ import annotations

import contextlib
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lecture_lib.measuring.storage import dense_parts, storage_key
from lecture_lib.measuring.tables import html_table, text_table
from lecture_lib.quantity import LectureError, Ledger, Quantity

KINDS = ("activation", "input", "parameter")


@dataclass(frozen=True)
class Saved:
    """One tensor that autograd saved.

    keeper: the backward node that keeps it and the name it has there ("Addmm: mat1"); "?" where the node
            does not say
    kind:   "activation" (made while the function ran), "input" (made before it) or "parameter"
    bytes:  of the storage behind it; 0 if an earlier row already counts that storage
    """

    keeper: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    bytes: int

    @property
    def shared(self) -> bool:
        """Whether an earlier row already counts this tensor's storage."""
        return self.bytes == 0 and 0 not in self.shape


class SavedTensors(tuple[Saved, ...]):
    """Every tensor that autograd saved, in that order; `bytes` counts each storage once."""

    @property
    def by_kind(self) -> Ledger:
        """Bytes of activations, inputs and parameters, each storage once."""
        sums = {kind: sum(row.bytes for row in self if row.kind == kind) for kind in KINDS}
        return Ledger(
            {f"{kind}s": Quantity(size, "B", name=f"saved {kind}s") for kind, size in sums.items()},
            name="Saved for the backward pass",
        )

    @property
    def activations(self) -> Quantity:
        """Bytes that live only because the backward pass is still to come: what checkpointing can save."""
        return self.by_kind["activations"]

    @property
    def total(self) -> Quantity:
        """All that was saved, parameters and inputs included, each storage once."""
        return self.by_kind.total

    def _lines(self) -> list[tuple[str, ...]]:
        return [
            (
                row.keeper,
                "×".join(map(str, row.shape)) or "scalar",
                row.dtype,
                row.kind,
                "counted above" if row.shared else str(Quantity(row.bytes, "B")),
            )
            for row in self
        ]

    def __str__(self) -> str:
        lines = [_HEAD, *self._lines(), ("total", "", "", "", str(self.total))]
        return text_table(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = [*self._lines(), ("total", "", "", "", str(self.total))]
        return html_table("Saved for the backward pass, each storage once", _HEAD, lines)


_HEAD = ("kept by", "shape", "dtype", "kind", "bytes")


def saved_tensors(fn: Callable[[], Any]) -> SavedTensors:
    """Run `fn` once and list what autograd saved for a backward from what it returns.

    fn: takes nothing and returns the loss or output tensors (in any container), their graph still attached.
        A checkpointed part shows what it keeps (its inputs), not what it will compute again.
    """
    if not callable(fn):
        raise LectureError(f"expected a function to call, such as `lambda: model(x).sum()`; got {fn!r}")
    packed: list[weakref.ref[_Kept]] = []
    opened: list[_Kept] = []
    running = True

    def pack(tensor: Tensor) -> _Kept:
        # An output saved as it is would hold the graph that holds it.
        kept = _Kept(tensor.detach(), "Checkpoint: input" if _is_checkpoint(sys._getframe(1)) else "?")
        packed.append(
            weakref.ref(kept)
        )  # so that a part of the graph that `fn` drops takes its tensors with it
        return kept

    def unpack(kept: _Kept) -> Tensor:
        if running:
            raise LectureError("expected a function that stops before backward(), which frees what was saved")
        if sys._getframe(1).f_code is not _open.__code__:  # a checkpoint wants its inputs, to compute again
            raise _RecomputeRefused
        opened.append(kept)
        return kept.tensor

    with _Origins() as origins, torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        result = fn()
    running = False

    for node in _nodes(result):
        for role in _roles(node):
            opened.clear()
            _open(node, role)
            for kept in opened:
                kept.keeper = _readable(type(node).__name__, role)
    opened.clear()
    rows, counted = [], set()
    for kept in filter(None, (reference() for reference in packed)):
        size, kind = 0, "activation"
        for part in dense_parts(kept.tensor):
            key = storage_key(part)
            kind = origins.kind(key)
            if key not in counted:
                counted.add(key)
                size += part.untyped_storage().nbytes()
        dtype = str(kept.tensor.dtype).removeprefix("torch.")
        rows.append(Saved(kept.keeper, tuple(kept.tensor.shape), dtype, kind, size))
    if packed and not rows:
        raise LectureError(
            f"expected a function that returns what backward() starts from; got {type(result).__qualname__}, "
            "with no graph behind it; return the loss itself, not loss.item() or loss.detach()"
        )
    return SavedTensors(rows)


class _Kept:
    """What stands in the graph in place of a saved tensor."""

    def __init__(self, tensor: Tensor, keeper: str) -> None:
        self.tensor, self.keeper = tensor, keeper


def _nodes(result: object) -> Iterator[Any]:
    """Every node of the graph behind the tensors in `result`."""
    leaves = (leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
    waiting: list[Any] = [leaf.grad_fn for leaf in leaves]
    seen = {None}  # a leaf's grad_fn
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            yield node
            waiting.extend(following for following, _ in node.next_functions)


def _open(node: Any, role: str) -> None:
    """Ask a node for a saved tensor, so that `unpack` learns whose it is."""
    with contextlib.suppress(_RecomputeRefused):
        getattr(node, role)


class _RecomputeRefused(Exception):
    pass


def _is_checkpoint(frame: FrameType | None) -> bool:
    """Whether torch.utils.checkpoint saves a segment's inputs here: no graph leads to their node."""
    for _ in range(3):  # its own line, through Function.apply
        if frame is None:
            return False
        if frame.f_code.co_filename == torch.utils.checkpoint.__file__:
            return True
        frame = frame.f_back
    return False


def _readable(node: str, role: str) -> str:
    operation = re.sub(r"Backward\d*$", "", node)
    return operation if role == "saved_tensors" else f"{operation}: {role.removeprefix('_saved_')}"


def _roles(node: Any) -> list[str]:
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return ["saved_tensors"]
    return [name for name in dir(node) if name.startswith("_saved_")]


class _Origins(TorchDispatchMode):
    """Tells storages that operations made from those that were there before, parameters among these."""

    def __init__(self) -> None:
        super().__init__()
        self._made: set[tuple[str, int]] = set()
        self._before: dict[tuple[str, int], Any] = {}
        self._parameters: set[tuple[str, int]] = set()

    def kind(self, key: tuple[str, int]) -> str:
        if key in self._parameters:
            return "parameter"
        return "activation" if key in self._made else "input"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for leaf, part in _parts((args, kwargs)):
            if (key := storage_key(part)) not in self._made:
                self._before[key] = part.untyped_storage()  # kept: a freed address would be used again
            if isinstance(leaf, nn.Parameter):
                self._parameters.add(key)
        result = func(*args, **kwargs)
        made = {storage_key(part) for _, part in _parts(result)}
        self._made |= made - self._before.keys()
        return result


def _parts(tree: object) -> Iterator[tuple[Tensor, Tensor]]:
    """Every tensor among an operation's arguments or results, with each strided tensor it is made of."""
    for leaf in tree_leaves(tree):
        if isinstance(leaf, Tensor):
            for part in dense_parts(leaf):
                yield leaf, part
