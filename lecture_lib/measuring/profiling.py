"""Where a step's time goes, operation by operation: torch's profiler as a ledger."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from lecture_lib.accounting.inputs import whole
from lecture_lib.measuring.device import present
from lecture_lib.quantity import LectureError, Ledger, Quantity


def time_by_operation(fn: Callable[[], Any], *, device: torch.device | str = "cpu", rows: int = 5) -> Ledger:
    """Seconds within each operation of one call of `fn`, its own without those it calls, largest first.

    On a CUDA device the GPU's time, kernel by kernel. rows: how many to name; the last row is the rest.
    The profiler itself takes time: shares are worth more than seconds.
    """
    if not callable(fn):
        raise LectureError(f"expected a function to call, such as `lambda: x @ w`; got {fn!r}")
    rows, device = whole("rows", rows), present(device)
    # Kineto announces each start and stop on stderr; it reads this when it is used for the first time.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    on_gpu = device.type == "cuda"
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if on_gpu:
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as recorded:
        fn()
        if on_gpu:
            torch.cuda.synchronize()
    spent = {
        event.key: event.self_device_time_total if on_gpu else event.self_cpu_time_total
        for event in recorded.key_averages()
    }
    times = sorted(((Fraction(us), name) for name, us in spent.items() if us > 0), reverse=True)
    if not times:
        raise LectureError("expected a function that runs at least one operation of torch; got none")
    ledger = {name.removeprefix("aten::"): Quantity(us, "µs").to("s") for us, name in times[:rows]}
    rest = sum(us for us, _ in times[rows:])
    if rest:
        ledger[f"{len(times) - rows} others"] = Quantity(rest, "µs").to("s")
    return Ledger(ledger, name=f"time by operation, on {device}")
