"""Time of `import lecture_lib.accounting`: `python tests/benchmarks/import_time.py`. Under 100 ms is wanted.

Each import is in a process of its own and timed inside it, so that Python's own start is not in it. On a busy
machine the processor's time says more than the clock.
"""

import statistics
import subprocess
import sys

IMPORT = """
import time
clock, processor = time.perf_counter(), time.process_time()
import lecture_lib.accounting
print(time.perf_counter() - clock, time.process_time() - processor)
"""
REPEATS = 20


def main() -> int:
    runs = [
        subprocess.run(
            [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(REPEATS)
    ]
    for name, seconds in zip(("clock", "processor"), zip(*runs, strict=True), strict=True):
        times = [float(second) * 1e3 for second in seconds]
        middle = statistics.median(times)
        verdict = "within" if middle < 100 else "over"
        print(f"{name}: median {middle:.0f} ms, best {min(times):.0f} ms of {REPEATS}; {verdict} 100 ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
