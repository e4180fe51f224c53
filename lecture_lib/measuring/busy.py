"""Busy time: what `nvidia-smi` and a system monitor show, which says nothing of how much was computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from lecture_lib.accounting.inputs import whole
from lecture_lib.measuring.device import present
from lecture_lib.quantity import LectureError, Quantity


def busy_share(fn: Callable[[], Any], *, device: torch.device | str = "cpu", calls: int = 20) -> Quantity:
    """Share of a loop's time in which the device was at work.

    CPU: processor time of this process over wall time and torch's threads; what other programs take of the
    cores lowers it. CUDA: time within `fn` on the GPU's own clock (events around each call) over wall time.
    """
    if not callable(fn):
        raise LectureError(f"expected a function to call, such as `lambda: x @ w`; got {fn!r}")
    calls, device = whole("calls", calls), present(device)
    fn()
    if device.type == "cuda":
        with torch.cuda.device(device):
            share = _on_cuda(fn, calls)
    else:
        share = _on_cpu(fn, calls)
    return Quantity(share, name="busy share", conventions=(f"over {calls} calls", f"on {device}"))


def _on_cpu(fn: Callable[[], Any], calls: int) -> float:
    start, used = time.perf_counter(), time.process_time()
    for _ in range(calls):
        fn()
    return (time.process_time() - used) / ((time.perf_counter() - start) * torch.get_num_threads())


def _on_cuda(fn: Callable[[], Any], calls: int) -> float:
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(calls)
    ]
    torch.cuda.synchronize()
    start = time.perf_counter()
    for before, after in events:
        before.record()
        fn()
        after.record()
    torch.cuda.synchronize()
    wall = time.perf_counter() - start
    return sum(before.elapsed_time(after) for before, after in events) / 1e3 / wall
