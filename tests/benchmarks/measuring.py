"""Ratios of times on this machine: `python tests/benchmarks/measuring.py [cpu|cuda]`. Shown, never asserted.

- `measure` against torch.utils.benchmark on the same product: 1 if both time the same thing.
- A backward against its forward, which 4·M·P against 2·M·P predicts as 2.
- The matrix product's rate as `measure` sees it.
"""

import sys

import torch
from torch.utils.benchmark import Timer

from lecture_lib.accounting.flops import linear_forward
from lecture_lib.measuring.device import choose, describe
from lecture_lib.measuring.timing import measure


def main(device: torch.device) -> None:
    print(describe(device))
    for size in (64, 512, 2048):
        x = torch.rand(size, size, device=device, requires_grad=True)
        w = torch.rand(size, size, device=device, requires_grad=True)
        grad = torch.rand(size, size, device=device)
        y = x @ w
        forward = measure(lambda x=x, w=w: x @ w, device=device)
        backward = measure(
            lambda y=y, x=x, w=w, grad=grad: torch.autograd.grad(y, (x, w), grad, retain_graph=True),
            device=device,
        )
        timer = Timer("x @ w", globals={"x": x, "w": w}, num_threads=torch.get_num_threads())
        theirs = timer.blocked_autorange(min_run_time=0.5).median
        rate = linear_forward(size, size, size) / forward.median
        print(
            f"{size:>5}³  forward {forward.median}, {rate.to('GFLOP/s')}; "
            f"torch.utils.benchmark / measure {theirs / float(forward.median):.2f}; "
            f"backward / forward {float(backward.median / forward.median):.2f} (predicted 2)"
        )


if __name__ == "__main__":
    main(choose(sys.argv[1] if len(sys.argv) > 1 else "auto"))
