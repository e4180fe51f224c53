"""`import lecture_lib.accounting` reads no file, and counts without torch, NumPy or a units library."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys
sys.modules["torch"] = sys.modules["pint"] = sys.modules["numpy"] = None  # importing one raises
import lecture_lib.accounting as a
read = [name for name in ("tomllib", "json", "difflib") if name in sys.modules]
assert not read, f"loaded though no file was read: {read}"
a.flops.beyond_6pt(a.models.load("gpt2"), 1024, 1024)
a.contraction.contraction("i k, k j -> i j", dtype="bf16", i=2, j=3, k=4).intensity
a.allocator.CachingAllocator().malloc(a.tensors.tensor_bytes((3, 5), "torch.float32"))
print("done")
"""


def test_without_torch() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
