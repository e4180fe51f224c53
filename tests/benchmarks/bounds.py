"""No operator beats its bound: `python tests/benchmarks/bounds.py [cpu|cuda]`. Shown, never asserted.

Each operator's fastest time beside max(F/C, Q/β) from this machine's ceilings, probed in turn with them:
memory's bandwidth where the operator touches at least four last-level caches, the cache's where less. A ratio
below 1 - spread is a bound that was beaten; the spread is that of the probe which set the bound.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from lecture_lib.accounting import operators
from lecture_lib.accounting.operators import Cost
from lecture_lib.measuring.ceilings import BEYOND_CACHE, PATTERNS, Ceilings, ceilings
from lecture_lib.measuring.device import choose
from lecture_lib.measuring.timing import measure
from lecture_lib.quantity import Quantity

MIB = 2**20
TURNS = 3


@dataclass(frozen=True)
class Case:
    name: str
    cost: Cost
    make: Callable[[], Callable[[], Any]]  # the tensors are there only while the case runs


def cases(device: torch.device, large: int) -> list[Case]:
    """large: bytes of a tensor that is beyond the caches."""

    def tensor(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, device=device)

    found = []
    for M, d_in, d_out in [(1, 4096, 4096), (1, 512, 512), (16, 2048, 2048), (128, 1024, 4096), (1024,) * 3]:

        def product(M: int = M, d_in: int = d_in, d_out: int = d_out) -> Callable[[], Any]:
            x, w, y = tensor(M, d_in), tensor(d_in, d_out), tensor(M, d_out)
            return lambda: torch.mm(x, w, out=y)

        found.append(Case(f"product {M} × {d_in} × {d_out}", operators.gemm(M, d_in, d_out, "fp32"), product))

    side = int((large // 4) ** 0.5)

    def vector() -> Callable[[], Any]:
        w, x, y = tensor(side, side), tensor(side), tensor(side)
        return lambda: torch.mv(w, x, out=y)

    found.append(Case(f"matrix {side}² × vector", operators.gemm(side, side, 1, "fp32"), vector))

    def batched() -> Callable[[], Any]:
        a, b, c = tensor(64, 128, 64), tensor(64, 64, 128), tensor(64, 128, 128)
        return lambda: torch.bmm(a, b, out=c)

    found.append(
        Case("64 products 128 × 64 × 128", operators.batched_gemm(64, 128, 64, 128, "fp32"), batched)
    )

    for n in (MIB // 16, MIB, large // 4):
        where = f"of {Quantity(4 * n, 'B'):MiB}"

        def unary(fn: Callable[..., Any], n: int = n) -> Callable[[], Callable[[], Any]]:
            def make() -> Callable[[], Any]:
                x, y = tensor(n), tensor(n)
                return lambda: fn(x, out=y)

            return make

        def plus(n: int = n) -> Callable[[], Any]:
            x, y, z = tensor(n), tensor(n), tensor(n)
            return lambda: torch.add(x, y, out=z)

        def into(n: int = n) -> Callable[[], Any]:
            x, y = tensor(n), tensor(n)
            return lambda: x.add_(y, alpha=1e-30)

        def total(n: int = n) -> Callable[[], Any]:
            x = tensor(n)
            return lambda: x.sum()

        def inner(n: int = n) -> Callable[[], Any]:
            x, y = tensor(n), tensor(n)
            return lambda: torch.dot(x, y)

        found += [
            Case(f"absolute value {where}", operators.elementwise(n, 1, "fp32"), unary(torch.abs)),
            Case(f"exponential {where}", operators.elementwise(n, 1, "fp32"), unary(torch.exp)),
            Case(f"sum of two {where}", operators.elementwise(n, 1, "fp32", inputs=2), plus),
            Case(f"sum in place {where}", operators.elementwise(n, 1, "fp32", inputs=2), into),
            Case(f"sum of all {where}", operators.reduction(1, n, "fp32"), total),
            Case(f"dot product {where}", operators.dot(n, "fp32"), inner),
        ]
    rows = large // 4 // 1024

    def by_row(fn: Callable[[torch.Tensor], Any]) -> Callable[[], Callable[[], Any]]:
        def make() -> Callable[[], Any]:
            x = tensor(rows, 1024)
            return lambda: fn(x)

        return make

    gain, bias = tensor(1024), tensor(1024)
    found += [
        Case("softmax by row", operators.softmax(rows, 1024, "fp32"), by_row(lambda x: x.softmax(-1))),
        Case(
            "LayerNorm",
            operators.layer_norm(rows, 1024, "fp32"),
            by_row(lambda x: F.layer_norm(x, (1024,), gain, bias)),
        ),
        Case("GELU", operators.elementwise(rows * 1024, 1, "fp32"), by_row(F.gelu)),
    ]

    def attend() -> Callable[[], Any]:
        q, k, v = tensor(1, 8, 1024, 64), tensor(1, 8, 1024, 64), tensor(1, 8, 1024, 64)
        return lambda: F.scaled_dot_product_attention(q, k, v)

    products_alone = operators.attention(1, 8, 1024, 1024, 64, "fp32")
    found.append(Case("fused attention, 1,024 positions", products_alone, attend))
    return found


def pooled(turns: list[Ceilings], name: str) -> tuple[float, float]:
    """Best rate of a probe over all turns, and the width of the middle half of all its rates, of the best."""
    rates = [turn.probes[name].amount / second for turn in turns for second in turn.probes[name].seconds]
    low, _, high = statistics.quantiles(rates, n=4, method="inclusive")
    return max(rates), (high - low) / max(rates)


def bound(cost: Cost, turns: list[Ceilings]) -> tuple[float, float, str]:
    """Seconds, the spread of the probe behind them, and what limits."""
    cached = cost.bytes.base_value < BEYOND_CACHE * int(turns[0].cache)
    patterns = [*PATTERNS, *(f"{pattern} in cache" for pattern in PATTERNS if cached)]
    rate, spread_of_rate = pooled(turns, "fp32 product")
    beta, spread_of_beta = max(pooled(turns, name) for name in patterns)
    limit = cost.limit(rate, beta)
    spread = spread_of_rate if limit == "arithmetic" else spread_of_beta
    return float(cost.time_bound(rate, beta).value), spread, limit


def main(device: torch.device) -> int:
    turns = [ceilings(device, again=True)]
    large = max(BEYOND_CACHE * int(turns[0].cache), 256 * MIB if device.type == "cuda" else 0)
    every = cases(device, large)
    times = {case.name: float("inf") for case in every}
    for _ in range(TURNS):
        with torch.inference_mode():
            for case in every:
                fastest = min(measure(case.make(), device=device, repeats=8).seconds)
                times[case.name] = min(times[case.name], fastest)
        turns.append(ceilings(device, again=True))
    print(
        f"{turns[0].name}; {len(every)} FP32 operators, the best of {TURNS} turns, of ceilings {len(turns)}"
    )
    beaten = []
    for case in every:
        least, spread, limit = bound(case.cost, turns)
        ratio = times[case.name] / least
        if ratio < 1 - spread:
            beaten.append(case.name)
        print(
            f"{case.name:<34} {Quantity(times[case.name], 's')}, bound {Quantity(least, 's')} ({limit}), "
            f"measured / bound {ratio:.2f}, spread {spread:.0%}{'  BEATEN' if ratio < 1 - spread else ''}"
        )
    print(f"beaten by more than the spread: {', '.join(beaten) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(choose(sys.argv[1] if len(sys.argv) > 1 else "auto")))
