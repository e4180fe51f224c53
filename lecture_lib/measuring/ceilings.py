"""What this machine reaches: bandwidth, matrix products, launches, copies from the host; the best of many.

`ceilings(DEVICE)` stands where `accounting.hardware.device(name)` does, with measured rates for printed ones.
A first call takes some seconds; what it found is kept for this device, torch version and number of threads.

A byte counts once each time the program reads or writes it: a copy of n bytes moves 2·n. What a CPU's caches
fetch to overwrite it is not counted, and so an update in place outruns a copy. The bandwidth is therefore the
best of four patterns, and no operator should be faster.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from platformdirs import user_cache_path
from torch import Tensor

from lecture_lib.accounting.hardware import VECTOR, rate_format, stated_peak
from lecture_lib.accounting.inputs import amount
from lecture_lib.measuring.device import choose, describe
from lecture_lib.measuring.tables import html_table, text_table
from lecture_lib.measuring.timing import measure
from lecture_lib.quantity import LectureError, Quantity

MEASURED = "measured, not a specification"
PATTERNS = ("copy", "triad", "read", "update")
BEYOND_CACHE = 4  # working sets of so many last-level caches are in memory
ASSUMED_CACHE = 64 * 2**20

_CACHE_FORMAT = 2  # of what is kept; a change of the probes raises it
_ROUNDS, _REPEATS = 4, 5
_LONGEST_PRODUCT = {"cpu": 0.02, "cuda": 0.005}  # seconds; larger products reach no higher rate
_LARGEST_PRODUCT = 8192


@dataclass(frozen=True)
class Probe:
    """One ceiling's repeats.

    what:    what was run, in words
    amount:  bytes or FLOPs of one call, 0 for a latency
    unit:    "B", "FLOP", or "" for a latency
    seconds: of one call, one for each repeat
    """

    what: str
    amount: int
    unit: str
    seconds: tuple[float, ...]

    @property
    def best(self) -> Quantity:
        """The highest rate that a repeat reached (of a latency: the shortest time)."""
        fastest = min(self.seconds)
        conventions = (MEASURED, f"best of {len(self.seconds)} repeats", self.what)
        if not self.unit:
            return Quantity(fastest, "s", conventions=conventions)
        return Quantity(
            self.amount / fastest,
            f"{self.unit}/s",
            formula=f"{'Q' if self.unit == 'B' else 'F'}/t",
            inputs={
                "Q" if self.unit == "B" else "F": Quantity(self.amount, self.unit),
                "t": Quantity(fastest, "s"),
            },
            conventions=conventions,
        )

    @property
    def spread(self) -> Quantity:
        """Width of the middle half of the repeats' rates (of a latency: times), as a share of the best."""
        per_call = [1 / second if self.unit else second for second in self.seconds]
        best = max(per_call) if self.unit else min(per_call)
        low, _, high = statistics.quantiles(per_call, n=4, method="inclusive")
        return Quantity((high - low) / best, name="spread of the middle half, of the best")


@dataclass(frozen=True)
class Ceilings:
    """What a device reached; `name`, `memory`, `bandwidth` and `peak` as of a printed one.

    name:    the device in words; where: "cpu", "cuda:0"
    memory:  capacity, B
    cache:   last-level cache that this process can use, B
    probes:  by name: "copy", "triad", "read" and "update", each also "… in cache"; "fp32 product" and so on;
             "launch"; on a GPU "host to device, pinned" and "… pageable"
    date:    of the measurement
    """

    name: str
    where: str
    memory: Quantity
    cache: Quantity
    probes: Mapping[str, Probe]
    date: str

    @property
    def source(self) -> str:
        """Where these figures come from."""
        return f"measured on {self.name}, {self.date}"

    @property
    def bandwidth(self) -> Quantity:
        """Best rate of any pattern, B/s, on working sets of 4 last-level caches and more."""
        return self._best(PATTERNS, "memory bandwidth")

    @property
    def cache_bandwidth(self) -> Quantity:
        """Best rate of any pattern on a working set that a cache holds, B/s."""
        return self._best([f"{pattern} in cache" for pattern in PATTERNS], "cache bandwidth")

    def bandwidth_at(self, working_set: object) -> Quantity:
        """The ceiling for an operator that touches so many bytes: below 4 last-level caches the cache's."""
        if amount("working_set", working_set, "B") >= BEYOND_CACHE * int(self.cache):
            return self.bandwidth
        return max(self.bandwidth, self.cache_bandwidth)

    def peak(self, dtype: object) -> Quantity:
        """Best rate of a square product with operands of `dtype`, FLOP/s; LectureError if none was run."""
        key = rate_format(dtype)
        if f"{key} product" not in self.probes:
            known = ", ".join(
                name.removesuffix(" product") for name in self.probes if name.endswith(" product")
            )
            raise LectureError(
                f"expected a format whose products were measured on {self.name}: {known}; got {dtype!r}"
            )
        rate = self._named(f"{key} product", f"{key.upper()} matrix product, measured")
        return stated_peak(rate, key, self.source)

    def vector_peak(self, dtype: object = "fp32") -> Quantity:
        """Ceiling of elementwise work, FLOP/s: an FP32 product runs on the vector lanes, here as on a GPU."""
        if rate_format(dtype) != "fp32":
            raise LectureError(f"expected 'fp32', in which elementwise kernels compute; got {dtype!r}")
        peak = self._named("fp32 product", "FP32 vector peak, measured")
        return peak.with_(conventions=(VECTOR, *peak.conventions))

    @property
    def launch(self) -> Quantity:
        """Shortest time of an operation on one element, s: what every operation costs besides its work."""
        return self._named("launch", "small-operation latency")

    def host_to_device(self, pinned: bool = True) -> Quantity:
        """Rate of copies from the host's memory to the GPU's, B/s; LectureError on a CPU."""
        if self.where == "cpu":
            raise LectureError(
                "expected a GPU, which the host copies to; got the CPU, whose memory is the host's"
            )
        kind = "pinned" if pinned else "pageable"
        return self._named(f"host to device, {kind}", f"host to device, {kind}")

    def spread(self, name: str) -> Quantity:
        """How far the repeats of a probe lie apart: the middle half's width, as a share of the best."""
        if name not in self.probes:
            raise LectureError(f"expected one of the probes {', '.join(self.probes)}; got {name!r}")
        return self.probes[name].spread

    def _best(self, names: Any, what: str) -> Quantity:
        return self._named(max(names, key=lambda name: self.probes[name].best), what)

    def _named(self, probe: str, what: str) -> Quantity:
        return self.probes[probe].best.with_(name=what, source=self.source)

    def _lines(self) -> list[tuple[str, str, str, str]]:
        return [
            (name, str(probe.best), f"{float(probe.spread.value):.0%}", probe.what)
            for name, probe in self.probes.items()
        ]

    def __str__(self) -> str:
        return "\n".join([f"{self.name}, {self.date}", text_table([_HEAD, *self._lines()])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(f"Ceilings of {self.name}, {self.date}", _HEAD, self._lines())


_HEAD = ("ceiling", "best", "middle half within", "of")


def ceilings(device: torch.device | str = "auto", *, again: bool = False) -> Ceilings:
    """The ceilings of a device of this machine, from its cache, or measured where there are none.

    device: "auto", "cpu", "cuda", "cuda:1"; again: measure anew and keep that
    LectureError for a device that is not there.
    """
    chosen = choose(str(device))
    key = _key(chosen)
    path = _folder() / f"ceilings-{sha256(json.dumps(key).encode()).hexdigest()[:16]}.json"
    kept = None if again else _read(path, key)
    if kept is not None:
        return kept
    found = _measured(chosen)
    _keep(path, key, found)
    return found


# -- what is kept


def _folder() -> Path:
    return user_cache_path("three-budgets", appauthor=False)


def _key(device: torch.device) -> dict[str, Any]:
    """All that a rate depends on and that can differ between two runs on one machine."""
    return {
        "format": _CACHE_FORMAT,
        "device": str(device),
        "name": describe(device),  # hardware, logical cores, threads, torch
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cache": _last_level_cache(device)[0],
    }


def _keep(path: Path, key: Mapping[str, Any], found: Ceilings) -> None:
    content = {
        "key": key,
        "memory": int(found.memory.to("B")),
        "cache": found.cache.conventions[0],
        "date": found.date,
        "probes": {name: asdict(probe) for name, probe in found.probes.items()},
    }
    # A folder that cannot be written costs the next call some seconds, and nothing else.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8"
        ) as file:
            json.dump(content, file, indent=1)
        os.replace(file.name, path)  # whole or not at all, when two notebooks measure at once


def _read(path: Path, key: Mapping[str, Any]) -> Ceilings | None:
    """What was kept, or None for no file, another device's, or one that is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["key"] != key:
            return None
        probes = {name: _checked(probe) for name, probe in content["probes"].items()}
        if not _expected(key["device"]) <= probes.keys():
            return None
        return Ceilings(
            key["name"],
            key["device"],
            Quantity(content["memory"], "B", name="memory"),
            _cache_size(key["cache"], str(content["cache"])),
            probes,
            str(date.fromisoformat(content["date"])),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _expected(device: str) -> set[str]:
    names = {*PATTERNS, *(f"{pattern} in cache" for pattern in PATTERNS), "fp32 product", "launch"}
    return names if device == "cpu" else {*names, "host to device, pinned", "host to device, pageable"}


def _checked(kept: Mapping[str, Any]) -> Probe:
    probe = Probe(**{**kept, "seconds": tuple(kept["seconds"])})
    whole_amount = isinstance(probe.amount, int) and (probe.amount > 0) == bool(probe.unit)
    timed = len(probe.seconds) > 1 and all(math.isfinite(second) and second > 0 for second in probe.seconds)
    if not (isinstance(probe.what, str) and probe.unit in ("", "B", "FLOP") and whole_amount and timed):
        raise ValueError(f"expected a probe; got {kept!r}")
    return probe


# -- what is measured


@dataclass(frozen=True)
class _Task:
    what: str
    amount: int
    unit: str
    run: Callable[[], Any]


def _measured(device: torch.device) -> Ceilings:
    cache, how = _last_level_cache(device)
    with torch.inference_mode(), _full_precision():
        groups: list[Callable[[], dict[str, _Task]]] = [
            lambda: _in_memory(device, cache, how),
            lambda: _in_cache(device, cache),
        ]
        groups += [lambda dtype=dtype: _product(device, dtype) for dtype in _formats(device)]  # type: ignore[misc]
        groups.append(lambda: _launch(device))
        if device.type == "cuda":
            groups.append(lambda: _from_host(device))
        probes: dict[str, Probe] = {}
        for group in groups:  # one after the other, so that only one group's tensors are there
            probes |= _probed(group(), device)
    return Ceilings(
        describe(device),
        str(device),
        Quantity(_memory(device), "B", name="memory"),
        _cache_size(cache, how),
        _best_sizes(probes),
        date.today().isoformat(),
    )


def _cache_size(size: int, how: str) -> Quantity:
    return Quantity(size, "B", name="last-level cache", conventions=(how,))


def _probed(tasks: Mapping[str, _Task], device: torch.device) -> dict[str, Probe]:
    """Every task in turn, several rounds: a disturbance that lasts hits some repeats of each."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(_ROUNDS):
        for name, task in tasks.items():
            seconds[name] += measure(task.run, device=device, repeats=_REPEATS, warmup=1).seconds
    return {
        name: Probe(task.what, task.amount, task.unit, tuple(seconds[name])) for name, task in tasks.items()
    }


def _best_sizes(probes: Mapping[str, Probe]) -> dict[str, Probe]:
    """Of "copy in cache @ 1048576" and its like, the one that is fastest, under the name before the "@"."""
    best: dict[str, Probe] = {}
    for name, probe in probes.items():
        short = name.partition(" @ ")[0]
        if short not in best or probe.best > best[short].best:
            best[short] = probe
    return best


@contextlib.contextmanager
def _full_precision() -> Iterator[None]:
    """FP32 products in FP32: torch may have been told to round their operands."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _patterns(device: torch.device, elements: int, what: str, suffix: str = "") -> dict[str, _Task]:
    a, b, c = (torch.ones(elements, device=device) for _ in range(3))
    size = elements * a.element_size()
    return {
        f"copy{suffix}": _Task(f"a = b, {what}", 2 * size, "B", lambda: a.copy_(b)),
        f"triad{suffix}": _Task(
            f"a = b + 3·c, {what}", 3 * size, "B", lambda: torch.add(b, c, alpha=3.0, out=a)
        ),
        f"read{suffix}": _Task(f"Σ b·c, {what}", 2 * size, "B", lambda: torch.dot(b, c)),
        # Adds zeros in effect: 1e-30 is lost, so that no repeat overflows or slows on odd values.
        f"update{suffix}": _Task(
            f"a = a + b in place, {what}", 3 * size, "B", lambda: a.add_(b, alpha=1e-30)
        ),
    }


def _in_memory(device: torch.device, cache: int, how: str) -> dict[str, _Task]:
    # A pattern touches two arrays or three: two hold 4 caches. A GPU gets more, so that launches do not show.
    each = max(BEYOND_CACHE * cache // 2, 2**30 if device.type == "cuda" else 0)
    each = min(each, _free(device) // 8)
    times = Fraction(2 * each, cache)
    return _patterns(
        device,
        each // 4,
        f"arrays of {Quantity(each, 'B'):MiB}, at least {float(times):.3g} × the last-level cache of "
        f"{Quantity(cache, 'B'):MiB} ({how})",
    )


def _in_cache(device: torch.device, cache: int) -> dict[str, _Task]:
    tasks: dict[str, _Task] = {}
    size = cache // 2
    while size >= min(cache // 2, 2**17):
        what = f"three arrays of {Quantity(size, 'B'):KiB} together"
        tasks |= _patterns(device, max(1, size // 12), what, f" in cache @ {size}")
        size //= 2
    return tasks


def _formats(device: torch.device) -> list[str]:
    """The operands' formats whose products this device has."""
    if device.type == "cpu":
        return ["fp32", "bf16", "fp16"]
    capability = torch.cuda.get_device_capability(device)
    formats = ["fp32", "fp16"]
    if capability >= (8, 0):
        formats += ["tf32", "bf16"]
    if capability >= (8, 9):
        formats.append("fp8")
    return formats


def _product(device: torch.device, dtype: str) -> dict[str, _Task]:
    """Square products, each twice as wide as the last, until one takes long enough."""
    tasks: dict[str, _Task] = {}
    n = 256
    while True:
        run = _multiply(device, dtype, n)
        tasks[f"{dtype} product @ {n}"] = _Task(f"{n} × {n} × {n}", 2 * n**3, "FLOP", run)
        once = min(measure(run, device=device, repeats=2, warmup=1).seconds)
        if once > _LONGEST_PRODUCT[device.type] or n >= _LARGEST_PRODUCT:
            return tasks
        n *= 2


def _multiply(device: torch.device, dtype: str, n: int) -> Callable[[], Any]:
    a, b = (torch.rand(n, n, device=device) for _ in range(2))
    if dtype == "fp8":
        one = torch.ones((), device=device)
        left, right = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()  # the units want columns
        whole = F.ScalingType.TensorWise
        return lambda: F.scaled_mm(left, right, one, whole, one, whole, output_dtype=torch.bfloat16)
    if dtype == "tf32":
        out = torch.empty_like(a)
        return lambda: _in_tf32(a, b, out)
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    a, b = a.to(kind), b.to(kind)
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def _in_tf32(a: Tensor, b: Tensor, out: Tensor) -> None:
    torch.set_float32_matmul_precision("high")
    torch.mm(a, b, out=out)
    torch.set_float32_matmul_precision("highest")


def _launch(device: torch.device) -> dict[str, _Task]:
    one = torch.zeros(1, device=device)
    return {"launch": _Task("adding to one element, one call after the other", 0, "", lambda: one.add_(1.0))}


def _from_host(device: torch.device) -> dict[str, _Task]:
    size = 2**28
    there = torch.empty(size, dtype=torch.uint8, device=device)
    pageable = torch.zeros(size, dtype=torch.uint8)
    pinned = pageable.pin_memory()
    what = f"{Quantity(size, 'B'):MiB}"
    return {
        "host to device, pinned": _Task(what, size, "B", lambda: there.copy_(pinned, non_blocking=True)),
        "host to device, pageable": _Task(what, size, "B", lambda: there.copy_(pageable)),
    }


# -- what the machine says of itself


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    import psutil

    return psutil.virtual_memory().total


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    import psutil

    return psutil.virtual_memory().available


def _last_level_cache(device: torch.device) -> tuple[int, str]:
    """Bytes of the last-level cache that this process can use, and how they are known."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).L2_cache_size, "as the driver says"
    size = {"Linux": _linux_cache, "Darwin": _mac_cache}.get(platform.system(), lambda: 0)()
    return (size, "as the system says") if size else (ASSUMED_CACHE, "assumed: the system does not say")


def _linux_cache(root: Path = Path("/sys/devices/system/cpu")) -> int:
    """Every last-level cache that a processor of this process has, each once, summed; 0 if none is listed."""
    found: dict[str, tuple[int, int]] = {}
    for processor in os.sched_getaffinity(0):
        levels: list[tuple[int, int, str]] = []
        for index in (root / f"cpu{processor}" / "cache").glob("index*"):
            with contextlib.suppress(OSError, ValueError):
                level, size = int((index / "level").read_text()), (index / "size").read_text().strip()
                match = re.fullmatch(r"(\d+)([KMG]?)", size)
                shared = (index / "shared_cpu_list").read_text().strip()
                if match:
                    levels.append(
                        (level, int(match[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[match[2]], shared)
                    )
        if levels:
            level, bytes_, shared = max(levels)
            found[f"{level}: {shared}"] = (level, bytes_)
    return sum(bytes_ for _, bytes_ in found.values())


def _mac_cache() -> int:
    for name in ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize"):
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            done = subprocess.run(
                ["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=True
            )
            if (size := int(done.stdout)) > 0:
                return size
    return 0
