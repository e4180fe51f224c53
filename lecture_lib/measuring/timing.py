"""How long a callable takes on a device, and how far its repeats lie apart."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from lecture_lib.accounting.inputs import whole
from lecture_lib.measuring.device import present
from lecture_lib.quantity import LectureError, Quantity

# A repeat calls a short function often enough to last this long: well above what a clock and a loop cost.
_SHORTEST_REPEAT = 200e-6
# Written between repeats to push a function's data out of the caches: more than any L2 holds.
_FLUSHED = 256 * 2**20


@dataclass(frozen=True)
class Timing:
    """Seconds a call, one for each repeat, in the order in which they ran.

    calls: how often each repeat called the function; its seconds are divided by that
    """

    seconds: tuple[float, ...]
    calls: int
    device: str

    @property
    def median(self) -> Quantity:
        """Half the repeats took less: one interrupted repeat does not move it, as it would a mean."""
        return self._quantity(statistics.median(self.seconds), "median time")

    @property
    def fastest(self) -> Quantity:
        """The repeat that was disturbed least."""
        return self._quantity(min(self.seconds), "fastest time")

    @property
    def spread(self) -> Quantity:
        """Width of the middle half of the repeats (interquartile range)."""
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return self._quantity(high - low, "spread of the middle half")

    def _quantity(self, seconds: float, name: str) -> Quantity:
        conventions = (f"{len(self.seconds)} repeats", f"on {self.device}")
        return Quantity(seconds, "s", name=name, conventions=conventions)

    def __str__(self) -> str:
        repeats = f"median of {len(self.seconds)}, middle half within {self.spread}"
        return f"{self.median} ({repeats}, on {self.device})"

    __repr__ = __str__


def measure(
    fn: Callable[[], Any],
    *,
    device: torch.device | str = "cpu",
    repeats: int = 20,
    warmup: int = 3,
    flush: bool = False,
) -> Timing:
    """Time `fn` after a warm-up, with nothing pending on the device before or after.

    fn:      takes nothing; what it returns is dropped
    device:  where its work runs; on a CUDA device the GPU's own clock is read (events), so that the launch of
             work is not taken for the work
    repeats: at least 2; warmup: calls that are not timed (allocations, caches, compilation), at least 1
    flush:   256 MiB are written on the device before each repeat, untimed, so that it finds none of its data
             in a cache (L2 on a GPU); each repeat is then one call
    """
    if not callable(fn):
        raise LectureError(f"expected a function to call, such as `lambda: x @ w`; got {fn!r}")
    repeats, warmup, device = whole("repeats", repeats, 2), whole("warmup", warmup), present(device)
    collecting = gc.isenabled()
    gc.disable()  # a collection in one repeat would be timed with it
    try:
        if device.type == "cuda":
            with torch.cuda.device(device):
                seconds, calls = _on_cuda(fn, repeats, warmup, _flusher(device, flush))
        else:
            seconds, calls = _on_cpu(fn, repeats, warmup, _flusher(device, flush))
    finally:
        if collecting:
            gc.enable()
    return Timing(tuple(seconds), calls, str(device))


_Flush = Callable[[], Any]


def _flusher(device: torch.device, wanted: bool) -> _Flush | None:
    return torch.empty(_FLUSHED, dtype=torch.uint8, device=device).zero_ if wanted else None


def _on_cpu(
    fn: Callable[[], Any], repeats: int, warmup: int, flush: _Flush | None
) -> tuple[list[float], int]:
    warm = [_timed(fn, 1) for _ in range(warmup)]
    calls = 1 if flush else _calls(warm)
    seconds = []
    for _ in range(repeats):
        if flush:
            flush()
        seconds.append(_timed(fn, calls) / calls)
    return seconds, calls


def _timed(fn: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        fn()
    return time.perf_counter() - start


def _on_cuda(
    fn: Callable[[], Any], repeats: int, warmup: int, flush: _Flush | None
) -> tuple[list[float], int]:
    def timed_and_waited() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        fn()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    warm = [timed_and_waited() for _ in range(warmup)]
    calls = 1 if flush else _calls(warm)
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)
    ]
    torch.cuda.synchronize()
    for start, end in events:
        if flush:
            flush()
        start.record()
        for _ in range(calls):
            fn()
        end.record()
    torch.cuda.synchronize()  # an event's time exists when the GPU has passed it
    return [start.elapsed_time(end) / 1e3 / calls for start, end in events], calls


def _calls(warmup_seconds: Any) -> int:
    return max(1, math.ceil(_SHORTEST_REPEAT / max(min(warmup_seconds), 1e-9)))
