"""The ceilings' products beside the BLAS's own: `python tests/benchmarks/matmul.py`. Never asserted.

NumPy's product (its BLAS) and `torch.mm` (torch's), timed with the clock alone, in the formats both have.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from lecture_lib.measuring.ceilings import ceilings
from lecture_lib.quantity import Quantity

SIZES = (256, 512, 1024, 2048)
SECONDS, TURNS = 0.4, 3  # of each product, and of all


def best(multiply: Callable[[], object]) -> float:
    """Shortest seconds of one call."""
    multiply()
    shortest, end = float("inf"), time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        multiply()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def products(n: int) -> dict[str, Callable[[], object]]:
    a, b = (np.random.default_rng(i).random((n, n), dtype=np.float32) for i in range(2))
    out = np.empty_like(a)
    found: dict[str, Callable[[], object]] = {"fp32, NumPy": lambda: np.matmul(a, b, out=out)}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        x, y = torch.from_numpy(a).to(dtype), torch.from_numpy(b).to(dtype)
        z = torch.empty_like(x)
        found[f"{name}, torch.mm"] = lambda x=x, y=y, z=z: torch.mm(x, y, out=z)  # type: ignore[misc]
    return found


def main() -> int:
    rates: dict[str, float] = {}
    ours: dict[str, float] = {}
    for _ in range(TURNS):
        here = ceilings("cpu", again=True)
        for dtype in ("fp32", "bf16"):
            ours[dtype] = max(float(here.peak(dtype)), ours.get(dtype, 0))
        for n in SIZES:
            for name, multiply in products(n).items():
                rates[name] = max(2 * n**3 / best(multiply), rates.get(name, 0))
    print(f"{here.name}; best over sizes {', '.join(map(str, SIZES))}")
    for name, rate in rates.items():
        dtype = name.partition(",")[0]
        mine = Quantity(ours[dtype], "FLOP/s")
        print(f"{name:<15} {Quantity(rate, 'FLOP/s')}; ceiling {mine}, ratio {float(mine) / rate:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
