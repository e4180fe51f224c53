"""Bytes of what torch holds: the values that tensors show, and the storages that stand behind them.

A tensor is a view on a storage: several tensors can share one, and a small view keeps a large one alive.
`logical_bytes` adds up the views; `storage_bytes` adds up the memory, each byte once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor
from torch.optim import Optimizer

from lecture_lib.measuring.device import present
from lecture_lib.quantity import LectureError, Quantity

_HOLDS_NOTHING = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


def tensors_in(*things: object) -> Iterator[Tensor]:
    """Every tensor in tensors, modules, optimizers and containers of them, once per place where it stands.

    A module gives its parameters and buffers (a tied weight once per name), an optimizer its state alone.
    Numbers, strings and None inside a container hold no tensor; anything else raises LectureError.
    """
    for thing in things:
        if isinstance(thing, _HOLDS_NOTHING):
            raise LectureError(f"expected tensors, modules, optimizers or containers of them; got {thing!r}")
        yield from _walk(thing, set())


def _walk(thing: object, open_containers: set[int]) -> Iterator[Tensor]:
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, nn.Module):
        for _, parameter in thing.named_parameters(remove_duplicate=False):
            yield parameter
        for _, buffer in thing.named_buffers(remove_duplicate=False):
            yield buffer
    elif isinstance(thing, Optimizer):
        yield from _walk(list(thing.state.values()), open_containers)
    elif isinstance(thing, _HOLDS_NOTHING):
        return
    elif isinstance(thing, Iterable) and not hasattr(thing, "__array__"):  # NumPy's arrays have that
        if id(thing) in open_containers:  # a container that holds itself
            return
        for part in thing.values() if isinstance(thing, Mapping) else thing:
            yield from _walk(part, open_containers | {id(thing)})
    else:
        raise LectureError(
            f"expected tensors, modules, optimizers or containers of them; got {type(thing).__qualname__}; "
            "turn an array into a tensor with torch.from_numpy, which copies nothing"
        )


def dense_parts(tensor: Tensor) -> list[Tensor]:
    """The strided tensors that a tensor is made of: itself, or a sparse, nested or wrapper tensor's parts."""
    if hasattr(tensor, "__tensor_flatten__"):  # torch's protocol for a tensor that wraps others
        names, _ = tensor.__tensor_flatten__()
        inner = [getattr(tensor, name) for name in names]  # a DTensor names its mesh too
        return [part for wrapped in inner if isinstance(wrapped, Tensor) for part in dense_parts(wrapped)]
    layout = tensor.layout
    if layout == torch.strided:
        return [tensor]
    if layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    raise LectureError(f"expected a strided or sparse tensor, whose storage can be read; got layout {layout}")


def storage_key(tensor: Tensor) -> tuple[str, int]:
    """What tells one storage of a strided tensor from another while both are alive."""
    return str(tensor.device), tensor.untyped_storage()._cdata


def logical_bytes(*things: object) -> Quantity:
    """Element size times number of elements, summed over every tensor: shared storage counts at each.

    things: as for `tensors_in`. A sparse tensor counts the elements of its shape, stored or not.
    """
    found = list(tensors_in(*things))
    return Quantity(
        sum(tensor.numel() * tensor.element_size() for tensor in found),
        "B",
        name="logical bytes",
        conventions=(f"shared storage counted at each of {_count(len(found), 'tensor')}",),
    )


def storage_bytes(*things: object) -> Quantity:
    """Bytes of the storages behind every tensor, each byte once: views and tied tensors add nothing.

    things: as for `tensors_in`. Tensors on the meta device and fake tensors count what they would hold.
    What an allocator rounds up is not in it.
    """
    found = list(tensors_in(*things))  # kept, so that no address is used twice while counting
    held = _Held()
    for tensor in found:
        for part in dense_parts(tensor):
            held.add(part)
    conventions = [f"each storage once: {_count(len(found), 'tensor')} in {_count(held.storages, 'storage')}"]
    if held.imagined:
        conventions.append("meta and fake tensors: what they would hold")
    return Quantity(held.total(), "B", name="storage bytes", conventions=tuple(conventions))


def keeps_alive(view: Tensor) -> Quantity:
    """Bytes of the storage that lives as long as this tensor does, however little of it the tensor shows."""
    if not isinstance(view, Tensor):
        raise LectureError(f"expected a tensor; got {type(view).__qualname__}")
    kept = storage_bytes(view)
    shown = view.numel() * view.element_size()
    return kept.with_(name=f"kept alive by a tensor of {shown:,} B", conventions=())


@dataclass(frozen=True)
class AllocatorReading:
    """What a GPU's caching allocator has given out, and what it holds from the driver (given out or not)."""

    allocated: Quantity
    reserved: Quantity


def allocated_and_reserved(device: torch.device | str) -> AllocatorReading:
    """PyTorch's CUDA caching allocator now: bytes in blocks given to tensors, and bytes held in segments.

    Raises LectureError for a CPU: its allocator keeps no such counts.
    """
    if str(device).partition(":")[0] != "cuda":
        raise LectureError(
            f"expected a CUDA device; got {device}; torch counts allocated and reserved bytes on a GPU alone "
            "(lecture_lib.accounting.allocator.CachingAllocator follows the same rules without one)"
        )
    device = present(device)
    return AllocatorReading(
        Quantity(torch.cuda.memory_allocated(device), "B", name="allocated"),
        Quantity(torch.cuda.memory_reserved(device), "B", name="reserved"),
    )


class _Held:
    """Memory in use: address ranges per device where there are addresses, storages where there are none."""

    def __init__(self) -> None:
        self._ranges: dict[str, dict[int, int]] = {}
        self._imagined: dict[tuple[str, int], int] = {}
        self._seen: set[tuple[str, int]] = set()

    def add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage_key(tensor)
        self._seen.add(key)
        if tensor.is_meta or isinstance(tensor, FakeTensor):
            self._imagined[key] = storage.nbytes()
        else:
            # Two storages can share memory (torch.from_numpy of one array twice), so addresses decide.
            ranges = self._ranges.setdefault(str(tensor.device), {})
            start = storage.data_ptr()
            ranges[start] = max(ranges.get(start, 0), storage.nbytes())

    @property
    def storages(self) -> int:
        return len(self._seen)

    @property
    def imagined(self) -> bool:
        return bool(self._imagined)

    def total(self) -> int:
        total = sum(self._imagined.values())
        for ranges in self._ranges.values():
            reached = 0
            for start, size in sorted(ranges.items()):
                total += max(0, start + size - max(start, reached))
                reached = max(reached, start + size)
        return total


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
