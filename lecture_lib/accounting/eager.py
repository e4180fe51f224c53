"""PyTorch's eager mode on tensors that have a shape and a dtype, but no values: what is allocated when, and
what frees it. `steps` writes networks on it; `peak` and `activations` read off what it recorded.

Each operation allocates what torch's own allocates, saves for the backward pass what torch's saves, and its
backward allocates its temporaries in the same order. Python frees a storage here when torch would: when the
last tensor on it is dropped. Networks are therefore written as their forward functions are, and nothing is
fitted. First come the machine, autograd and checkpoints, then the operations, a function each.

Source of every rule: torch 2.13 (tools/autograd/derivatives.yaml, torch/csrc/autograd/engine.cpp and
input_buffer.cpp, aten/src/ATen/native); tests/accounting/test_activations.py and tests/measuring/test_peak.py
hold it against torch.
"""

from __future__ import annotations

import heapq
import math
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lecture_lib.accounting.allocator import Block, CachingAllocator
from lecture_lib.accounting.dtypes import bytes_per_element

HALF = ("bf16", "fp16")
RNG_STATE = 5056  # bytes of torch.get_rng_state(): a checkpoint keeps one for each segment on the CPU


@dataclass(slots=True)
class Record:
    """One storage of a walk, kept after it is freed. phase, module: where it was allocated."""

    nbytes: int
    label: str
    category: str
    phase: str
    module: str


class Storage:
    """Bytes that live as long as a tensor on them does."""

    __slots__ = ("machine", "number", "block")

    def __init__(self, machine: Machine, number: int, block: Block | None) -> None:
        self.machine, self.number, self.block = machine, number, block

    def __del__(self) -> None:
        self.machine.free(self)


class Machine:
    """The memory of one device and the state of one process: live bytes, their peak, autocast, gradient mode.

    device:  "cpu" counts what is asked for, "cuda" what the caching allocator hands out for it
    threads: of the CPU, each with its own scratch in fused attention and in a norm's backward
    """

    def __init__(self, device: str = "cpu", threads: int = 1) -> None:
        self.cuda, self.threads = device == "cuda", threads
        self.records: list[Record] = []
        self.live = self.peak = 0
        self.grad_enabled = True
        self.autocast: str | None = None
        self.phase, self.module = "before", ""
        self.saved: list[tuple[str, Tensor]] | None = None  # what autograd saved, if asked for
        self._events: list[tuple[int, int]] = []  # storage number, +1 or -1
        self._peak_at = 0
        self._casts: dict[int, Tensor] = {}
        self._allocator = CachingAllocator() if self.cuda else None
        self._frame: Frame | None = None
        self._again = False  # whether the frame is being computed again
        self._numbers = 0

    # -- bytes

    def allocate(self, nbytes: int, label: str, category: str = "temporaries") -> Storage:
        block = None
        if self._allocator is not None:
            block = self._allocator.malloc(nbytes)
            nbytes = block.size
        number = len(self.records)
        self.records.append(Record(nbytes, label, category, self.phase, self.module))
        self._events.append((number, 1))
        self.live += nbytes
        if self.live > self.peak:
            self.peak, self._peak_at = self.live, len(self._events)
        return Storage(self, number, block)

    def free(self, storage: Storage) -> None:
        self._events.append((storage.number, -1))
        self.live -= self.records[storage.number].nbytes
        if self._allocator is not None and storage.block is not None:
            self._allocator.free(storage.block)

    def at_peak(self) -> tuple[Record, list[Record]]:
        """The allocation that reached the peak, and every storage live at that moment, oldest first."""
        alive: dict[int, None] = {}
        for number, change in self._events[: self._peak_at]:
            if change > 0:
                alive[number] = None
            else:
                del alive[number]
        return self.records[self._events[self._peak_at - 1][0]], [self.records[number] for number in alive]

    def empty(self, shape: Sequence[int], dtype: str, label: str, category: str = "temporaries") -> Tensor:
        """A new contiguous tensor."""
        shape = tuple(shape)
        storage = self.allocate(math.prod(shape) * _size(dtype), label, category)
        return Tensor(shape, contiguous_strides(shape), dtype, storage)

    def leaf(self, shape: Sequence[int], dtype: str, name: str) -> Tensor:
        """A parameter."""
        tensor = self.empty(shape, dtype, name, "parameters")
        tensor.node, tensor.needs_grad = Leaf(tensor), True
        return tensor

    def scalar(self, dtype: str) -> list[Tensor]:
        """A Python number in an operation on the CPU: 8 bytes, and a copy of the operation's dtype."""
        if self.cuda:
            return []
        return [self.empty((), "fp64", "a Python number"), self.empty((), dtype, "a Python number")]

    # -- modes

    @contextmanager
    def inside(self, module: str) -> Iterator[None]:
        before, self.module = self.module, module
        try:
            yield
        finally:
            self.module = before

    @contextmanager
    def during(self, phase: str, grad: bool = True) -> Iterator[None]:
        before = self.phase, self.grad_enabled
        self.phase, self.grad_enabled = phase, grad
        try:
            yield
        finally:
            self.phase, self.grad_enabled = before

    @contextmanager
    def autocasting(self, dtype: str | None) -> Iterator[None]:
        """Casts of weights are kept until the outermost context ends."""
        before, self.autocast = self.autocast, dtype
        try:
            yield
        finally:
            self.autocast = before
            if before is None:
                self._casts.clear()

    def cast_for_product(self, tensor: Tensor) -> Tensor:
        if self.autocast is None or tensor.dtype == self.autocast or tensor.dtype not in ("fp32", *HALF):
            return tensor
        if tensor.record.category != "parameters":
            return cast(tensor, self.autocast)
        number = tensor.storage.number
        if number not in self._casts:
            self._casts[number] = cast(tensor, self.autocast)
        return self._casts[number]

    # -- autograd

    def node(self, name: str, *inputs: Tensor | None) -> Node | None:
        """A node whose backward returns one gradient per input, if any of them needs one."""
        if not self.grad_enabled or not any(t is not None and t.needs_grad for t in inputs):
            return None
        self._numbers += 1
        edges = [
            Edge(t.node, t.index, t.shape, t.dtype) if t is not None and t.needs_grad else None
            for t in inputs
        ]
        return Node(self, name, self._numbers, self.module, edges)

    def checkpoint(self, run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """`torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False)`."""
        frame = Frame(self, run, x)
        return frame.first(x)


class Tensor:
    """A view on a storage. base: the tensor that it is a view of; node, index: where its gradient goes."""

    __slots__ = ("shape", "strides", "dtype", "storage", "base", "node", "index", "needs_grad", "grad")

    def __init__(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, storage: Storage
    ) -> None:
        self.shape, self.strides, self.dtype, self.storage = shape, strides, dtype, storage
        self.base: Tensor | None = None
        self.node: Node | Leaf | None = None
        self.index = 0
        self.needs_grad = False
        self.grad: Tensor | None = None

    @property
    def machine(self) -> Machine:
        return self.storage.machine

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def record(self) -> Record:
        return self.machine.records[self.storage.number]

    def detached(self) -> Tensor:
        return Tensor(self.shape, self.strides, self.dtype, self.storage)

    @property
    def contiguous(self) -> bool:
        return all(
            stride == wanted
            for size, stride, wanted in zip(
                self.shape, self.strides, contiguous_strides(self.shape), strict=True
            )
            if size != 1
        )


@dataclass(slots=True)
class Edge:
    """Where a gradient goes, and the shape and dtype it must have there."""

    target: Any
    index: int
    shape: tuple[int, ...]
    dtype: str


class Node:
    """One backward function, with what it saved."""

    __slots__ = ("machine", "name", "number", "module", "edges", "saved", "backward", "results")

    def __init__(
        self, machine: Machine, name: str, number: int, module: str, edges: list[Edge | None]
    ) -> None:
        self.machine, self.name, self.number, self.module, self.edges = machine, name, number, module, edges
        self.saved: dict[str, Tensor | Holder] = {}
        self.backward: Callable[[list[Any], dict[str, Tensor]], list[Tensor | None]] | None = None
        self.results = 1

    def save(self, /, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            frame = self.machine._frame
            if frame is not None and not self.machine._again:
                self.saved[name] = frame.hold()
                continue
            self.keep(name, tensor)
            if frame is not None:
                frame.fill(tensor)
            elif self.machine.saved is not None:
                where = f"{self.module}: " if self.module else ""
                self.machine.saved.append((f"{where}{self.name} {name}", tensor.detached()))

    def keep(self, name: str, tensor: Tensor) -> None:
        """As `save`, but unseen by hooks, so that a checkpoint does not drop it: a Python number."""
        self.saved[name] = tensor.detached()
        if tensor.record.category == "temporaries":
            tensor.record.category = "activations"

    def gives(self, *outputs: Tensor) -> None:
        self.results = len(outputs)
        for index, tensor in enumerate(outputs):
            tensor.node, tensor.index, tensor.needs_grad = self, index, True

    def run(self, grads: list[Tensor | None]) -> list[Tensor | None]:
        assert self.backward is not None
        opened = {
            name: kept.open() if isinstance(kept, Holder) else kept for name, kept in self.saved.items()
        }
        returned = self.backward(grads, opened)
        del opened
        for position, edge in enumerate(self.edges):
            gradient = returned[position]
            if edge is None or gradient is None:
                returned[position] = None
            else:
                returned[position] = fitted(gradient, edge)
            del gradient
        return returned


class Leaf:
    """AccumulateGrad: keeps the first gradient of a parameter, adds later ones in place."""

    __slots__ = ("parameter", "number", "results")

    def __init__(self, parameter: Tensor) -> None:
        self.parameter, self.results = parameter, 1
        self.number = sys.maxsize  # the engine takes it as soon as it can

    def accumulate(self, grads: list[Any]) -> None:
        if self.parameter.grad is None:
            same_layout = grads[0].strides == self.parameter.strides or (
                grads[0].contiguous and self.parameter.contiguous
            )
            if not (same_layout and _alone(grads, 0)):
                grads[0] = like(grads[0], "gradient")
            self.parameter.grad = grads[0].detached()
            self.parameter.grad.record.category = "gradients"
            self.parameter.grad.record.label = f"{self.parameter.record.label}.grad"


def _alone(tensors: list[Any], position: int) -> bool:
    """Whether the list holds the only reference to its tensor."""
    return sys.getrefcount(tensors[position]) <= _ALONE


_ALONE = 0
_ALONE = (lambda held: sys.getrefcount(held[0]))([object()])


def fitted(gradient: Tensor, edge: Edge) -> Tensor:
    """A gradient summed over the axes that a broadcast added, and cast to its tensor's dtype."""
    fit = gradient
    if fit.shape != edge.shape:
        fit = gradient.machine.empty(edge.shape, gradient.dtype, "gradient summed")
    return cast(fit, edge.dtype)


def backward(loss: Tensor) -> None:
    """`loss.backward()`: nodes in the order in which torch's engine takes them."""
    machine = loss.machine
    with machine.during("backward", grad=False), machine.inside(""):
        root = machine.empty(loss.shape, loss.dtype, "gradient of the loss")
        waiting = _dependencies(loss.node)
        buffers: dict[Any, list[Any]] = {loss.node: [root]}
        ready: list[tuple[int, int, Any]] = [(0, 0, loss.node)]
        order = 0
        while ready:
            _, _, node = heapq.heappop(ready)
            grads = buffers.pop(node)
            if isinstance(node, Leaf):
                node.accumulate(grads)
                del grads
                continue
            machine.module = node.module
            machine.phase = "backward"
            returned = node.run(grads)
            del grads
            node.saved.clear()
            for position, edge in enumerate(node.edges):
                if edge is None:
                    continue
                target = edge.target
                if returned[position] is not None:
                    if target not in buffers:
                        buffers[target] = [None] * target.results
                    _add(buffers[target], edge.index, returned, position)
                waiting[target] -= 1
                if waiting[target] == 0 and target in buffers:
                    order += 1
                    heapq.heappush(ready, (-target.number, order, target))


def _add(buffer: list[Any], index: int, returned: list[Any], position: int) -> None:
    """torch's InputBuffer: in place if nobody else holds the sum so far and it is no view."""
    if buffer[index] is None:
        buffer[index] = returned[position]
    elif not (buffer[index].base is None and _alone(buffer, index)):
        buffer[index] = elementwise("gradients added", buffer[index], returned[position])
    returned[position] = None


def _dependencies(root: Any) -> dict[Any, int]:
    counts: dict[Any, int] = {root: 0}
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Leaf):
            continue
        for edge in node.edges:
            if edge is not None:
                if edge.target not in counts:
                    counts[edge.target] = 0
                    stack.append(edge.target)
                counts[edge.target] += 1
    return counts


# -- checkpoints


class Frame:
    """One checkpointed segment: its input, how to run it, and what it saved the first time."""

    def __init__(self, machine: Machine, run: Callable[[Tensor], Tensor], x: Tensor) -> None:
        self.machine, self.run = machine, run
        self.autocast = machine.autocast
        self.rng = None if machine.cuda else machine.allocate(RNG_STATE, "random state", "activations")
        self.input = x.detached()
        self.input.needs_grad = x.needs_grad
        if x.record.category == "temporaries":
            x.record.category = "activations"
        if machine.saved is not None:
            machine.saved.append((f"{machine.module}: Checkpoint input".lstrip(": "), x.detached()))
        self.holders: list[weakref.ref[Holder]] = []
        self.filled = 0
        self.done = False

    def first(self, x: Tensor) -> Tensor:
        with self._hooks(again=False):
            return self.run(x)

    def again(self) -> None:
        """The segment once more, up to its last saved tensor (torch's early stop)."""
        machine = self.machine
        rng = None if machine.cuda else machine.allocate(RNG_STATE, "random state")
        with (
            self._hooks(again=True),
            machine.during("recompute"),
            machine.autocasting(self.autocast),
            machine.inside(machine.module),
        ):
            x = self.input.detached()
            x.needs_grad = self.input.needs_grad
            x.node = Leaf(x) if x.needs_grad else None
            with suppress(_Enough):
                self.run(x)
            x.node = None
        del x, rng
        self.done = True

    def hold(self) -> Holder:
        holder = Holder(self)
        self.holders.append(weakref.ref(holder))
        return holder

    def fill(self, tensor: Tensor) -> None:
        holder = self.holders[self.filled]()
        if holder is not None:
            holder.value = tensor.detached()
        self.filled += 1
        if self.filled == len(self.holders):
            raise _Enough

    @contextmanager
    def _hooks(self, again: bool) -> Iterator[None]:
        machine = self.machine
        before = machine._frame, machine._again
        machine._frame, machine._again = self, again
        try:
            yield
        finally:
            machine._frame, machine._again = before


class Holder:
    """What stands in a node for a tensor that is computed again when it is asked for."""

    __slots__ = ("frame", "value", "__weakref__")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.value: Tensor | None = None

    def open(self) -> Tensor:
        if not self.frame.done:
            self.frame.again()
        value, self.value = self.value, None
        assert value is not None
        return value


class _Enough(Exception):
    pass


# -- layouts


def _size(dtype: str) -> int:
    return int(bytes_per_element(dtype))


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def like(tensor: Tensor, label: str, dtype: str | None = None) -> Tensor:
    """A new dense tensor of that shape, its axes in memory in the same order."""
    new = tensor.machine.empty(tensor.shape, dtype or tensor.dtype, label)
    order = sorted(range(len(tensor.shape)), key=lambda axis: -tensor.strides[axis])
    packed = contiguous_strides([tensor.shape[axis] for axis in order])
    strides = [0] * len(order)
    for axis, stride in zip(order, packed, strict=True):
        strides[axis] = stride
    new.strides = tuple(strides)
    return new


def view_strides(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides with which the same memory shows the wanted shape; None if it must be copied."""
    runs: list[list[int]] = []  # size and inner stride of axes that lie one after another
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    found: list[int] = []
    left, step = 1, 1
    for size in reversed(wanted):
        if size == 1:
            found.append(step)
            continue
        if left == 1:
            if not runs:
                return None
            left, step = runs.pop()
        if left % size:
            return None
        found.append(step)
        left //= size
        step *= size
    return tuple(reversed(found))


def _view(x: Tensor, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    out = Tensor(tuple(shape), tuple(strides), x.dtype, x.storage)
    out.base = x.base if x.base is not None else x
    return out


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """A view if the layout allows one, else a contiguous copy."""
    shape = tuple(shape)
    if shape == x.shape:
        return x
    source = x
    if (strides := view_strides(x.shape, x.strides, shape)) is None:
        source = copied(x)
        strides = contiguous_strides(shape)
    node = x.machine.node("ViewBackward", source)
    out = _view(source, shape, strides)
    if node:
        before = x.shape
        node.backward = lambda grads, _: [reshape(grads[0], before)]
        node.gives(out)
    return out


def copied(x: Tensor) -> Tensor:
    """`clone` into contiguous memory."""
    node = x.machine.node("CloneBackward", x)
    out = x.machine.empty(x.shape, x.dtype, "copy")
    if node:
        node.backward = lambda grads, _: [grads[0]]
        node.gives(out)
    return out


def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    node = x.machine.node("PermuteBackward", x)
    out = _view(x, [x.shape[a] for a in axes], [x.strides[a] for a in axes])
    if node:
        back = [list(axes).index(a) for a in range(len(axes))]
        node.backward = lambda grads, _: [permute(grads[0], back)]
        node.gives(out)
    return out


def unbind(x: Tensor) -> list[Tensor]:
    """Views along the first axis; the backward stacks their gradients."""
    node = x.machine.node("UnbindBackward", x)
    outs = [_view(x, x.shape[1:], x.strides[1:]) for _ in range(x.shape[0])]
    if node:
        shape = x.shape
        node.backward = lambda grads, _: [grads[0].machine.empty(shape, grads[0].dtype, "stacked gradients")]
        node.gives(*outs)
    return outs


def cat(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the last axis; the backward gives views."""
    machine = tensors[0].machine
    node = machine.node("CatBackward", *tensors)
    widths = [t.shape[-1] for t in tensors]
    out = machine.empty((*tensors[0].shape[:-1], sum(widths)), tensors[0].dtype, "cat")
    if node:
        node.backward = lambda grads, _: [
            _view(grads[0], (*grads[0].shape[:-1], width), grads[0].strides) for width in widths
        ]
        node.gives(out)
    return out


# -- elementwise operations


def promoted(*dtypes: str) -> str:
    return max(dtypes, key=lambda dtype: (_size(dtype), dtype))


def elementwise(label: str, *operands: Tensor, dtype: str | None = None) -> Tensor:
    """One result; an operand of another dtype is cast to a temporary on the CPU, on the fly on a GPU."""
    machine = operands[0].machine
    common = dtype or promoted(*(t.dtype for t in operands))
    shape = _broadcast(*(t.shape for t in operands))
    casts = [] if machine.cuda else [like(t, "cast", common) for t in operands if t.dtype != common]
    full = next((t for t in operands if t.shape == shape), None)
    out = machine.empty(shape, common, label) if full is None else like(full, label, common)
    del casts
    return out


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) for sizes in zip(*padded, strict=True))


def cast(x: Tensor, dtype: str) -> Tensor:
    if x.dtype == dtype:
        return x
    node = x.machine.node("ToCopyBackward0", x)
    out = like(x, "cast", dtype)
    if node:
        before = x.dtype
        node.backward = lambda grads, _: [cast(grads[0], before)]
        node.gives(out)
    return out


def add(a: Tensor, b: Tensor) -> Tensor:
    node = a.machine.node("AddBackward0", a, b)
    out = elementwise("add", a, b)
    if node:
        node.backward = lambda grads, _: [grads[0], grads[0]]
        node.gives(out)
    return out


def subtract(a: Tensor, b: Tensor) -> Tensor:
    node = a.machine.node("SubBackward0", a, b)
    out = elementwise("sub", a, b)
    if node:
        node.backward = lambda grads, _: [grads[0], elementwise("neg", grads[0])]
        node.gives(out)
    return out


def multiply(a: Tensor, b: Tensor) -> Tensor:
    node = a.machine.node("MulBackward0", a, b)
    if node:
        if b.needs_grad:
            node.save(self=a)
        if a.needs_grad:
            node.save(other=b)
    out = elementwise("mul", a, b)
    if node:
        node.backward = lambda grads, saved: [
            elementwise("mul", grads[0], saved[name]) if name in saved else None for name in ("other", "self")
        ]
        node.gives(out)
    return out


def scale(x: Tensor, operation: str = "mul") -> Tensor:
    """x times, or over, a Python number."""
    machine = x.machine
    node = machine.node("MulBackward0" if operation == "mul" else "DivBackward0", x)
    number = machine.scalar(x.dtype)
    if node and number:
        node.keep("other", number[0])
    out = like(x, operation)
    if node:
        node.backward = lambda grads, saved: [_scaled(grads[0], operation)]
        node.gives(out)
    return out


def _scaled(x: Tensor, label: str = "mul") -> Tensor:
    number = None if x.machine.cuda else x.machine.empty((), x.dtype, "a Python number")
    out = like(x, label)
    del number
    return out


def _unary(x: Tensor, name: str, save: str) -> Tensor:
    node = x.machine.node(f"{name.title().replace('_', '')}Backward0", x)
    if node and save == "self":
        node.save(self=x)
    out = like(x, name)
    if node:
        if save == "result":
            node.save(result=out)
        node.backward = lambda grads, _: [like(grads[0], f"{name} backward")]
        node.gives(out)
    return out


def relu(x: Tensor) -> Tensor:
    return _unary(x, "relu", "result")


def gelu(x: Tensor) -> Tensor:
    return _unary(x, "gelu", "self")


def silu(x: Tensor) -> Tensor:
    return _unary(x, "silu", "self")


def softmax(x: Tensor) -> Tensor:
    machine = x.machine
    wide = cast(x, "fp32") if machine.cuda and machine.autocast else x  # in autocast's FP32 list on CUDA only
    return _unary(wide, "softmax", "result")


def masked_fill(x: Tensor, mask: Tensor) -> Tensor:
    node = x.machine.node("MaskedFillBackward0", x)
    if node:
        node.save(mask=mask)
    out = like(x, "masked_fill")
    if node:
        node.backward = lambda grads, _: [like(grads[0], "masked_fill")]
        node.gives(out)
    return out


# -- matrix products


def _product(label: str, a: Tensor, b: Tensor) -> Tensor:
    """(…, M, K) · (…, K, N), the result contiguous."""
    shape = (*a.shape[:-1], b.shape[-1])
    return a.machine.empty(shape, a.dtype, label)


def _transposed(x: Tensor) -> Tensor:
    axes = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
    return permute(x, axes)


def _right_gradient(gradient: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """In the right factor's own layout: of a transposed weight the weight's."""
    if right.strides[0] == 1 and right.strides[1] == right.shape[0]:
        return _transposed(_product("weight gradient", _transposed(gradient), left))
    return _product("weight gradient", _transposed(left), gradient)


def mm(a: Tensor, b: Tensor) -> Tensor:
    node = a.machine.node("MmBackward0", a, b)
    if node:
        _save_factors(node, a, b)
    out = _product("mm", a, b)
    if node:

        def back(grads: list[Any], saved: dict[str, Tensor]) -> list[Tensor | None]:
            right = _right_gradient(grads[0], saved["mat1"], b_meta) if "mat1" in saved else None
            left = (
                _product("input gradient", grads[0], _transposed(saved["mat2"])) if "mat2" in saved else None
            )
            return [left, right]

        b_meta = _meta(b)
        node.backward = back
        node.gives(out)
    return out


def addmm(bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
    node = a.machine.node("AddmmBackward0", bias, a, b)
    if node:
        _save_factors(node, a, b)
    out = _product("addmm", a, b)
    if node:

        def back(grads: list[Any], saved: dict[str, Tensor]) -> list[Tensor | None]:
            left = (
                _product("input gradient", grads[0], _transposed(saved["mat2"])) if "mat2" in saved else None
            )
            right = _right_gradient(grads[0], saved["mat1"], b_meta) if "mat1" in saved else None
            return [grads[0], left, right]

        b_meta = _meta(b)
        node.backward = back
        node.gives(out)
    return out


class _Meta:
    __slots__ = ("shape", "strides")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.shape, self.strides = shape, strides


def _meta(x: Tensor) -> Any:
    return _Meta(x.shape, x.strides)


def _save_factors(node: Node, a: Tensor, b: Tensor) -> None:
    if b.needs_grad:
        node.save(mat1=a)
    if a.needs_grad:
        node.save(mat2=b)


def bmm(a: Tensor, b: Tensor) -> Tensor:
    """(B, M, K) · (B, K, N)."""
    machine = a.machine
    right = machine.cast_for_product(b)
    left = machine.cast_for_product(a)
    node = machine.node("BmmBackward0", left, right)
    if node:
        _save_factors(node, left, right)
    out = _product("bmm", left, right)
    if node:

        def back(grads: list[Any], saved: dict[str, Tensor]) -> list[Tensor | None]:
            right = _product("bmm", _transposed(saved["mat1"]), grads[0]) if "mat1" in saved else None
            left = _product("bmm", grads[0], _transposed(saved["mat2"])) if "mat2" in saved else None
            return [left, right]

        node.backward = back
        node.gives(out)
    return out


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(…, d_in) → (…, d_out), weight (d_out, d_in)."""
    machine = x.machine
    shift = None if bias is None else machine.cast_for_product(bias)
    matrix = machine.cast_for_product(weight)
    rows = machine.cast_for_product(x)
    if shift is None:
        turned = _transposed(matrix)
        flat = reshape(rows, (rows.elements // rows.shape[-1], rows.shape[-1]))
        return reshape(mm(flat, turned), (*x.shape[:-1], weight.shape[0]))
    flat = reshape(rows, (rows.elements // rows.shape[-1], rows.shape[-1]))
    turned = _transposed(matrix)
    return reshape(addmm(shift, flat, turned), (*x.shape[:-1], weight.shape[0]))


def einsum(a: Tensor, b: Tensor, left: str, right: str, out: str) -> Tensor:
    """Two operands as torch.einsum contracts them: permuted, flattened, one batched product, permuted back.

    left, right, out: a letter for each axis. An axis of size 1 in both counts as the right operand's own.
    """
    if a.machine.cuda:  # autocast casts the operands there, and not the flattened ones
        a, b = a.machine.cast_for_product(a), b.machine.cast_for_product(b)
    sizes = {**dict(zip(left, a.shape, strict=True)), **dict(zip(right, b.shape, strict=True))}
    summed = [axis for axis in left if axis not in out]
    shared = [x for x in out if x in left and x in right and sizes[x] != 1]
    own_left = [x for x in out if x in left and x not in shared and (x not in right or sizes[x] != 1)]
    own_left = [x for x in own_left if sizes[x] != 1]
    own_right = [x for x in out if x not in shared and x not in own_left]

    def flat(t: Tensor, letters: str, groups: Sequence[Sequence[str]]) -> Tensor:
        axes = [letters.index(x) for group in groups for x in group if x in letters]
        axes += [position for position in range(len(letters)) if position not in axes]
        sizes_ = [math.prod(sizes[x] for x in group if x in letters) for group in groups]
        return reshape(permute(t, axes), sizes_)

    product = bmm(flat(a, left, (shared, own_left, summed)), flat(b, right, (shared, summed, own_right)))
    order = [*shared, *own_left, *own_right]
    whole = reshape(product, [sizes[x] for x in order])
    return permute(whole, [order.index(x) for x in out])


# -- norms, embeddings, losses


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Over the last axis. Statistics: FP32 on CUDA or with FP32 parameters, else the input's dtype."""
    machine = x.machine
    wide = cast(x, "fp32") if machine.cuda and machine.autocast else x
    node = machine.node("NativeLayerNormBackward0", wide, weight, bias)
    if node:
        node.save(bias=bias, input=wide, weight=weight)
    out = machine.empty(x.shape, wide.dtype, "layer_norm")
    dtype = "fp32" if machine.cuda else promoted(wide.dtype, weight.dtype)
    mean, rstd = (machine.empty((*x.shape[:-1], 1), dtype, f"layer_norm {what}") for what in ("mean", "rstd"))
    if node:
        node.save(mean=mean, rstd=rstd)

        def back(grads: list[Any], saved: dict[str, Tensor]) -> list[Tensor | None]:
            width = saved["input"].shape[-1]
            dx = machine.empty(saved["input"].shape, saved["input"].dtype, "layer_norm backward")
            dw, db = (machine.empty((width,), saved["weight"].dtype, "layer_norm backward") for _ in range(2))
            if not machine.cuda:  # partial sums of each thread, freed with the kernel
                machine.empty((2, machine.threads, width), saved["weight"].dtype, "layer_norm partial sums")
            return [dx, dw, db]

        node.backward = back
        node.gives(out)
    return out


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Over the last axis: composed of elementwise operations on the CPU, one kernel on CUDA."""
    machine = x.machine
    if machine.cuda and machine.autocast:  # in autocast's FP32 list on CUDA only
        return _fused_rms_norm(cast(x, "fp32"), weight)
    if machine.cuda and x.dtype == weight.dtype:
        return _fused_rms_norm(x, weight)
    wide = cast(x, "fp32") if x.dtype in HALF else x
    rstd = _rsqrt(_mean(_square(wide)))
    result = multiply(multiply(wide, rstd), weight)
    if not result.contiguous:
        result = copied(result)
    return cast(result, x.dtype)


def _fused_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    machine = x.machine
    node = machine.node("FusedRmsNormBackward0", x, weight)
    if node:
        node.save(input=x, weight=weight)
    out = machine.empty(x.shape, x.dtype, "rms_norm")
    rstd = machine.empty((*x.shape[:-1], 1), "fp32", "rms_norm rstd")
    if node:
        node.save(rstd=rstd)
        node.backward = lambda grads, saved: [
            machine.empty(saved["input"].shape, saved["input"].dtype, "rms_norm backward"),
            machine.empty(saved["weight"].shape, saved["weight"].dtype, "rms_norm backward"),
        ]
        node.gives(out)
    return out


def _square(x: Tensor) -> Tensor:
    node = x.machine.node("PowBackward0", x)
    if node:
        node.save(self=x)
    out = like(x, "pow")
    if node:

        def back(grads: list[Any], saved: dict[str, Tensor]) -> list[Tensor | None]:
            power = like(saved["self"], "pow backward")
            number = x_machine.scalar(grads[0].dtype)
            factor = like(power, "pow backward")
            del number
            return [elementwise("pow backward", grads[0], factor)]

        x_machine = x.machine
        node.backward = back
        node.gives(out)
    return out


def _mean(x: Tensor) -> Tensor:
    machine = x.machine
    node = machine.node("MeanBackward1", x)
    out = machine.empty((*x.shape[:-1], 1), x.dtype, "mean")
    machine.scalar(x.dtype)
    if node:

        def back(grads: list[Any], saved: dict[str, Tensor]) -> list[Tensor | None]:
            number = machine.scalar(grads[0].dtype)
            spread = machine.empty(shape, grads[0].dtype, "mean backward")
            del number
            return [spread]

        shape = x.shape
        node.backward = back
        node.gives(out)
    return out


def _rsqrt(x: Tensor) -> Tensor:
    node = x.machine.node("RsqrtBackward0", x)
    out = like(x, "rsqrt")
    if node:
        node.save(result=out)

        def back(grads: list[Any], saved: dict[str, Tensor]) -> list[Tensor | None]:
            cubed = like(saved["result"], "rsqrt backward")
            halved = like(grads[0], "rsqrt backward")
            return [elementwise("rsqrt backward", halved, cubed)]

        node.backward = back
        node.gives(out)
    return out


def embedding(weight: Tensor, indices: Tensor) -> Tensor:
    """Rows of a table; the table's gradient is dense."""
    machine = weight.machine
    node = machine.node("EmbeddingBackward0", weight)
    if node:
        node.save(indices=indices)
    out = machine.empty((*indices.shape, weight.shape[1]), weight.dtype, "embedding")
    if node:

        def back(grads: list[Any], saved: dict[str, Tensor]) -> list[Tensor | None]:
            packed = grads[0] if grads[0].contiguous else copied(grads[0])
            table = machine.empty(shape, packed.dtype, "embedding gradient")
            return [table]

        shape = weight.shape
        node.backward = back
        node.gives(out)
    return out


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Mean over rows: logits (N, V), target (N,) of class numbers."""
    machine = logits.machine
    if machine.cuda:  # autocast has nll_loss in its FP32 list there, and on the CPU the whole
        shares = _unary(logits, "log_softmax", "result")
        return _nll_loss(cast(shares, "fp32") if machine.autocast else shares, target)
    wide = cast(logits, "fp32") if machine.autocast else logits
    return _nll_loss(_unary(wide, "log_softmax", "result"), target)


def _nll_loss(log_probabilities: Tensor, target: Tensor) -> Tensor:
    machine = log_probabilities.machine
    node = machine.node("NllLossBackward0", log_probabilities)
    if node:
        node.save(self=log_probabilities, target=target)
    loss = machine.empty((), log_probabilities.dtype, "loss")
    weight = machine.empty((), log_probabilities.dtype, "number of targets")
    if node:
        node.save(total_weight=weight)
        node.backward = lambda grads, saved: [like(saved["self"], "nll_loss backward")]
        node.gives(loss)
    return loss


# -- fused attention


def fused_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal scaled_dot_product_attention by the flash kernel: q (B, H, S, d), k and v (B, K, S, d)."""
    machine = q.machine
    values = machine.cast_for_product(v)
    keys = machine.cast_for_product(k)
    queries = machine.cast_for_product(q)
    node = machine.node("ScaledDotProductFlashAttentionBackward0", queries, keys, values)
    if node:
        node.save(query=queries, key=keys, value=values)
    B, H, S, d = queries.shape
    if machine.cuda:  # (B, S, H, d) in memory, whatever the queries' layout
        stored = machine.empty((B, S, H, d), queries.dtype, "attention")
        out = Tensor(queries.shape, (S * H * d, d, H * d, 1), queries.dtype, stored.storage)
        del stored
    else:
        out = like(queries, "attention")
    sums = machine.empty((B, H, S), "fp32", "attention log-sum-exp")
    if machine.cuda:
        state = machine.empty((2,), "int64", "attention random state")
    else:
        scratch = _attention_scratch(machine, queries, backward=False)
        del scratch
    if node:
        node.save(out=out, logsumexp=sums)
        if machine.cuda:
            node.save(rng_state=state)

        def back(grads: list[Any], saved: dict[str, Tensor]) -> list[Tensor | None]:
            if machine.cuda:
                return _flash_backward_cuda(saved)
            made = [like(saved[name], "attention backward") for name in ("query", "key", "value")]
            scratch = _attention_scratch(machine, saved["query"], backward=True)
            del scratch
            return [*made]

        node.backward = back
        node.gives(out)
    return out


def _attention_scratch(machine: Machine, queries: Tensor, backward: bool) -> list[Tensor]:
    """Blocks of scores of each thread (FlashAttentionKernel.cpp: cpu_flash_attention and its backward)."""
    _, _, S, d = queries.shape
    rows = min(S, 256 if S >= 768 else 64 if S >= 192 else 32)
    columns = min(S, 512)
    per_thread = 2 * rows * columns if backward else rows * columns + 2 * rows + rows * d
    scratch = [machine.empty((machine.threads, per_thread), "fp32", "attention scratch")]
    if queries.dtype in HALF:
        copies = 2 * rows * columns if backward else rows * columns
        scratch.append(machine.empty((machine.threads, copies), queries.dtype, "attention scratch"))
    if backward:
        scratch.append(machine.empty((machine.threads, rows), "fp32", "attention scratch"))
    return scratch


def _flash_backward_cuda(saved: dict[str, Tensor]) -> list[Tensor | None]:
    """dQ, dK, dV; the row sums and dQ's accumulator in FP32, rounded up (flash_attn: mha_bwd)."""
    q, k, v = saved["query"], saved["key"], saved["value"]
    machine, (B, H, S, d) = q.machine, q.shape
    rows, width = -(-S // 128) * 128, -(-d // 32) * 32
    dq, dk, dv = (like(t, "attention backward") for t in (q, k, v))
    row_sums = machine.empty((B, H, rows), "fp32", "attention row sums")
    accumulator = machine.empty((B, H, rows, width), "fp32", "attention dQ accumulator")
    if k.shape[1] != H:  # each query head's own, summed over a group afterwards
        wide_k, wide_v = (machine.empty((B, S, H, d), q.dtype, "attention dK, dV") for _ in range(2))
        del wide_k, wide_v
    del row_sums, accumulator
    return [dq, dk, dv]
