"""The largest number of bytes live at once during a step, and what they were.

Read from the allocator's own events, which the profiler records with address, size and time: nothing about
the step changes while it is watched. (A dispatch mode would change it: autograd adds gradients in place only
where no mode is active.)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile, record_function

from lecture_lib.accounting.eager import Record
from lecture_lib.accounting.peak import PeakMemory, peak_of
from lecture_lib.measuring.storage import dense_parts, tensors_in
from lecture_lib.quantity import LectureError

_MODULE, _GRADIENT = "three_budgets module: ", "three_budgets gradient: "
_BACKWARD, _STEP = "autograd::engine::evaluate_function: ", "Optimizer.step#"


def peak_memory(
    step: Callable[[], Any],
    *,
    parameters: nn.Module | Iterable[Tensor],
    optimizer: Optimizer | None = None,
    inputs: object = (),
) -> PeakMemory:
    """Run `step` once and give the peak of live bytes on the parameters' device, by category.

    step:       takes nothing; a whole training step, such as `lambda: training_step(model, data, optimizer)`.
                Run it once before, so that the optimizer's state exists, as it does in every later step.
    parameters: the model, whose module names then appear, or its parameters
    optimizer:  whose state is told apart; inputs: tensors made before the step that it reads
    Counts these, gradients that exist already, and everything allocated during the step on that device; what
    else existed before is not in it on a CPU, and is the row "workspaces" on a GPU, whose allocator holds it.
    Activations are what the forward made and the backward freed, and what a checkpoint computed again for it;
    workspaces on a CPU what a matrix product allocates and frees itself (oneDNN's scratch for BF16).
    """
    if not callable(step):
        raise LectureError(f"expected a function to call, such as `lambda: train(batch)`; got {step!r}")
    model = parameters if isinstance(parameters, nn.Module) else None
    known = _Known(parameters, optimizer, inputs)
    names = {} if model is None else {module: name for name, module in model.named_modules() if name}
    cuda = known.device.type == "cuda"
    before = _cuda_before(known.device) if cuda else 0
    start = known.held()
    # Kineto writes two lines to stderr at every profile, unless told before the first one not to.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with _named(names), known.watching_gradients():
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
        with profile(activities=activities, profile_memory=True) as profiled:
            step()
            if cuda:
                torch.cuda.synchronize(known.device)
    state = known.state_after()
    timeline = _Timeline(profiled, known.device.type)
    records = timeline.records(start, state)
    first, alive = _largest(records)
    name = "Peak memory"
    if not cuda:
        return peak_of(first, alive, name)
    total = torch.cuda.max_memory_allocated(known.device)
    elsewhere = before - sum(record.nbytes for record in start.values())
    unseen = total - elsewhere - sum(record.nbytes for record in alive)
    return peak_of(first, alive, name, elsewhere + unseen)


class _Known:
    """What exists before the step, by address."""

    def __init__(self, parameters: Any, optimizer: Optimizer | None, inputs: object) -> None:
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise LectureError(f"expected a torch optimizer or None; got {type(optimizer).__qualname__}")
        if isinstance(parameters, nn.Module):
            self.named = [*parameters.named_parameters(), *parameters.named_buffers()]
        else:
            self.named = [(f"parameter {i}", p) for i, p in enumerate(tensors_in(parameters))]
        if not self.named:
            raise LectureError("expected a model or its parameters; got none")
        self.optimizer, self.inputs = optimizer, list(tensors_in(inputs))
        self.device = self.named[0][1].device
        if self.device.type not in ("cpu", "cuda"):
            raise LectureError(f"expected parameters on a CPU or a CUDA device; got {self.device}")

    def held(self) -> dict[int, Record]:
        """Address -> record of what is live as the step begins."""
        found: dict[int, Record] = {}
        for name, tensor in self.named:
            self._add(found, tensor, name, "parameters")
            if tensor.grad is not None:
                self._add(found, tensor.grad, f"{name}.grad", "gradients")
        for tensor in self._state():
            self._add(found, tensor, "optimizer state", "optimizer")
        for tensor in self.inputs:
            self._add(found, tensor, "inputs", "inputs")
        return found

    def state_after(self) -> set[int]:
        return {part.untyped_storage().data_ptr() for t in self._state() for part in dense_parts(t)}

    def _state(self) -> list[Tensor]:
        return [] if self.optimizer is None else list(tensors_in(self.optimizer))

    def _add(self, found: dict[int, Record], tensor: Tensor, label: str, category: str) -> None:
        for part in dense_parts(tensor):
            storage = part.untyped_storage()
            if part.device == self.device and storage.nbytes():
                size = _block(storage.nbytes()) if self.device.type == "cuda" else storage.nbytes()
                found.setdefault(storage.data_ptr(), Record(size, label, category, "before the step", ""))

    @contextlib.contextmanager
    def watching_gradients(self) -> Iterator[None]:
        """A mark in the profile with the address of each gradient, as soon as it is a parameter's."""

        def mark(name: str) -> Callable[[Tensor], None]:
            def hook(parameter: Tensor) -> None:
                if parameter.grad is not None:
                    for part in dense_parts(parameter.grad):
                        with record_function(f"{_GRADIENT}{part.untyped_storage().data_ptr()} {name}"):
                            pass

            return hook

        handles = [
            tensor.register_post_accumulate_grad_hook(mark(name))
            for name, tensor in self.named
            if tensor.requires_grad and tensor.is_leaf
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@dataclass(slots=True)
class _Allocation:
    """An allocator event. size below 0: a free; product: start of the matrix product around it, else 0."""

    time: int
    address: int
    size: int
    phase: str
    module: str
    operation: str
    product: int


class _Timeline:
    """The allocator's events of one device in order of time, with where in the step each was."""

    def __init__(self, profiled: Any, device: str) -> None:
        self.events: list[_Allocation] = []
        self.gradients: list[tuple[int, int, str]] = []  # time, address, parameter
        self._modules: dict[int, str] = {}  # of the forward operation that a backward node belongs to
        self._device = device
        roots = profiled.profiler.kineto_results.experimental_event_tree()
        self._read(sorted(roots, key=lambda root: root.start_time_ns))
        self.events.sort(key=lambda event: event.time)
        self.gradients.sort()
        if not self.events:
            raise LectureError("expected a step that allocates memory on the parameters' device; got none")

    def _read(self, roots: list[Any]) -> None:
        stack = [(root, "forward", "", "Python", 0) for root in reversed(roots)]
        while stack:
            node, phase, module, operation, product = stack.pop()
            name = node.name
            if node.tag.name == "Allocation":
                fields = node.extra_fields
                if fields.device.type == self._device:
                    self.events.append(
                        _Allocation(
                            node.start_time_ns,
                            fields.ptr,
                            fields.alloc_size,
                            phase,
                            module,
                            operation,
                            product,
                        )
                    )
                continue
            if name.startswith(_GRADIENT):
                address, _, parameter = name.removeprefix(_GRADIENT).partition(" ")
                self.gradients.append((node.start_time_ns, int(address), parameter))
            elif name.startswith(_MODULE):
                module = name.removeprefix(_MODULE)
                phase = "recompute" if phase == "backward" else phase
            elif name.startswith(_BACKWARD):
                phase, operation = "backward", name.removeprefix(_BACKWARD)
                module = self._modules.get(getattr(node.extra_fields, "sequence_number", -1), "")
            elif name.startswith(_STEP):
                phase, module, operation = "optimizer step", "", name.removeprefix(_STEP)
            elif name.startswith("aten::"):
                if operation == "Python" or phase == "recompute":
                    operation = name.removeprefix("aten::")
                product = node.start_time_ns if name in _PRODUCTS else 0
                if phase == "forward" and (number := node.extra_fields.sequence_number) >= 0:
                    self._modules[number] = module
            stack += [(child, phase, module, operation, product) for child in reversed(node.children)]

    def records(self, start: dict[int, Record], state: set[int]) -> list[tuple[Record, int]]:
        """Every storage with +1 where it begins and −1 where it ends, in order of time."""
        alive: dict[int, tuple[Record, _Allocation]] = {}
        changes: list[tuple[Record, int]] = [(record, 1) for record in start.values()]
        known = dict(start)
        gradients = iter([*self.gradients, (1 << 63, 0, "")])
        marked = next(gradients)
        for event in self.events:
            while marked[0] < event.time:
                if marked[1] in alive:
                    alive[marked[1]][0].category = "gradients"
                    alive[marked[1]][0].label = f"{marked[2]}.grad"
                marked = next(gradients)
            if event.size > 0:
                record = Record(event.size, event.operation, "temporaries", event.phase, event.module)
                alive[event.address] = (record, event)
                changes.append((record, 1))
            elif event.address in alive:
                record, made = alive.pop(event.address)
                if record.category == "temporaries" and (made.phase, event.phase) in _FREED_BY_BACKWARD:
                    record.category = "activations"
                elif made.product and made.product == event.product:
                    record.category = "workspaces"
                changes.append((record, -1))
            elif event.address in known:
                changes.append((known.pop(event.address), -1))
        for address, (record, _) in alive.items():
            if address in state:
                record.category, record.label = "optimizer", "optimizer state"
        return changes


_PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
_FREED_BY_BACKWARD = {("forward", "backward"), ("recompute", "backward")}


def _largest(changes: list[tuple[Record, int]]) -> tuple[Record, list[Record]]:
    live = peak = at = 0
    for position, (record, change) in enumerate(changes, 1):
        live += change * record.nbytes
        if live > peak:
            peak, at = live, position
    alive: dict[int, Record] = {}
    for record, change in changes[:at]:
        if change > 0:
            alive[id(record)] = record
        else:
            del alive[id(record)]
    return changes[at - 1][0], list(alive.values())


@contextlib.contextmanager
def _named(names: dict[nn.Module, str]) -> Iterator[None]:
    """Each forward of a named module as a range in the profile."""
    open_ranges: list[tuple[nn.Module, Any]] = []

    def enter(module: nn.Module, args: Any) -> None:
        if module in names:
            open_range = record_function(_MODULE + names[module])
            open_range.__enter__()
            open_ranges.append((module, open_range))

    def leave(module: nn.Module, args: Any, result: Any) -> None:
        if open_ranges and open_ranges[-1][0] is module:
            open_ranges.pop()[1].__exit__(None, None, None)

    handles = [
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),  # a checkpoint leaves by an exception
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _cuda_before(device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def _block(nbytes: int) -> int:
    from lecture_lib.accounting.allocator import block_bytes

    return int(block_bytes(nbytes))
