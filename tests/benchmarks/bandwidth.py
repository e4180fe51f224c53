"""The ceilings' bandwidth beside STREAM's in C: `python tests/benchmarks/bandwidth.py`. Never asserted.

Compiles stream.c (`cc -O3 -march=native -fopenmp`) into a temporary folder and runs both in turn, with arrays
of the same size and the same number of threads. 1 if torch's kernels move bytes as fast as C.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from lecture_lib.measuring.ceilings import PATTERNS, ceilings
from lecture_lib.quantity import Quantity

SOURCE = Path(__file__).with_name("stream.c")
TURNS = 3


def stream(program: str, elements: int) -> dict[str, float]:
    """B/s by pattern."""
    threads = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run(
        [program, str(elements), "50"], capture_output=True, text=True, check=True, env=threads
    )
    return {name: float(rate) for name, rate in map(str.split, done.stdout.splitlines())}


def main() -> int:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        print("no C compiler here: install gcc or clang to compare with STREAM")
        return 3
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "stream")
        options = ["-O3", "-march=native", "-fopenmp"]
        subprocess.run([compiler, *options, str(SOURCE), "-o", program], check=True)
        ours: dict[str, float] = {}
        theirs: dict[str, float] = {}
        for _ in range(TURNS):
            here = ceilings("cpu", again=True)
            elements = here.probes["copy"].amount // 8
            for name, rate in stream(program, elements).items():
                theirs[name] = max(rate, theirs.get(name, 0))
                ours[name] = max(float(here.probes[name].best), ours.get(name, 0))
    print(f"{here.name}; arrays of {Quantity(4 * elements, 'B')}, best of {TURNS} turns")
    for name in PATTERNS:
        mine, other = Quantity(ours[name], "B/s"), Quantity(theirs[name], "B/s")
        print(f"{name:<7} torch {mine}, C {other}, ratio {float(mine / other):.2f}")
    print(f"best    ratio {max(ours.values()) / max(theirs.values()):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
