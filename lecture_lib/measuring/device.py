"""Which device a notebook runs on, and what to call it."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from lecture_lib.quantity import LectureError, Quantity


def choose(device: str = "auto") -> torch.device:
    """The device that a notebook's DEVICE parameter asks for.

    device: "auto" (a CUDA GPU if torch can use one, else the CPU), "cpu", "cuda", "cuda:1"
    Raises LectureError for any other name, and for a GPU that is not there.
    """
    if device == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    kind, _, index = str(device).partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()):
        raise LectureError(f'expected DEVICE to be "auto", "cpu" or "cuda"; got {device!r}')
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        why = (
            "torch finds no NVIDIA GPU here"
            if torch.version.cuda
            else f"torch {torch.__version__} was built without CUDA"
        )
        raise LectureError(f'expected a CUDA GPU for "{device}"; {why}; set DEVICE = "auto" to use the CPU')
    number, have = int(index or 0), torch.cuda.device_count()
    if number >= have:
        raise LectureError(f'expected a GPU from "cuda:0" to "cuda:{have - 1}"; got "{device}"; {have} found')
    return torch.device("cuda", number)


def present(device: torch.device | str) -> torch.device:
    """A CPU or CUDA device of this machine, as torch names it; LectureError for any other."""
    name = str(device)
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise LectureError(f'expected a CPU or a CUDA device; got {device}; say "cpu", "cuda" or "cuda:1"')
    choose(name)  # refuses what is not there
    return torch.device(name)


def describe(device: torch.device | str) -> str:
    """One line on a device: what it is, how much it has, which torch drives it."""
    device = present(device)
    if device.type == "cuda":
        card = torch.cuda.get_device_properties(device)
        memory = Quantity(card.total_memory, "B")
        return f"{card.name}, {memory:GiB}, {card.multi_processor_count} SMs, torch {torch.__version__}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = torch.get_num_threads()
    return (
        f"CPU: {_cpu_name()}, {cores} logical core{'s' if cores != 1 else ''}, "
        f"{threads} torch thread{'s' if threads != 1 else ''}, torch {torch.__version__}"
    )


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
