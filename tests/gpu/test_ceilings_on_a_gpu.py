"""Ceilings that only a GPU has: TF32, FP8 where its units have it, copies from the host. No rate asserted."""

from pathlib import Path

import pytest
import torch

from lecture_lib.measuring import ceilings as module
from lecture_lib.measuring.ceilings import ceilings
from lecture_lib.quantity import Quantity

pytestmark = pytest.mark.gpu


def test_a_gpu_has_every_ceiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_folder", lambda: tmp_path)
    here = ceilings("cuda", again=True)
    formats = module._formats(torch.device("cuda:0"))
    assert set(here.probes) == module._expected("cuda:0") | {f"{dtype} product" for dtype in formats}
    for dtype in formats:
        assert here.peak(dtype).unit == "FLOP/s"
    for pinned in (True, False):
        assert here.host_to_device(pinned) > Quantity(0, "B/s")
    assert torch.get_float32_matmul_precision() == "highest"
    assert here.memory == Quantity(torch.cuda.get_device_properties(0).total_memory, "B")
    assert here.probes["copy"].amount >= 4 * int(here.cache)
    assert ceilings("cuda") == here
