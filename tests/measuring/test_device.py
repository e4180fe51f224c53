import re

import pytest
import torch

from lecture_lib.measuring.busy import busy_share
from lecture_lib.measuring.device import choose, describe
from lecture_lib.measuring.profiling import time_by_operation
from lecture_lib.measuring.storage import allocated_and_reserved
from lecture_lib.measuring.timing import measure
from lecture_lib.quantity import LectureError


def with_gpus(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: number > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: number)


def test_auto_takes_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, 1)
    assert choose("auto") == torch.device("cuda", 0)
    with_gpus(monkeypatch, 0)
    assert choose("auto") == torch.device("cpu")
    assert choose("cpu") == torch.device("cpu")


def test_a_certain_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, 2)
    assert choose("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(LectureError, match='"cuda:0" to "cuda:1"; got "cuda:2"'):
        choose("cuda:2")


def test_a_gpu_that_is_not_there_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, 0)
    with pytest.raises(LectureError, match='set DEVICE = "auto" to use the CPU'):
        choose("cuda")


@pytest.mark.parametrize("name", ["gpu", "mps", "CUDA", "", "cuda:x", "cuda:-1"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(LectureError, match=re.escape('"auto", "cpu" or "cuda"')):
        choose(name)


def test_a_description_says_what_it_is() -> None:
    assert re.fullmatch(r"CPU: .+, \d+ logical cores?, \d+ torch threads?, torch \d.+", describe("cpu"))


def test_a_gpu_is_described_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Card:
        name, total_memory, multi_processor_count = "NVIDIA H100 80GB HBM3", 85_520_809_984, 132

    with_gpus(monkeypatch, 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Card)
    assert describe("cuda").startswith("NVIDIA H100 80GB HBM3, 79.65 GiB, 132 SMs, torch ")


@pytest.mark.parametrize("name", ["gpu", "mps", "meta", "", None, 3, "cuda", "cuda:9", "cuda:x"])
def test_whatever_measures_says_which_device_is_not_here(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with_gpus(monkeypatch, 0)
    for call in (
        lambda: describe(name),
        lambda: measure(torch.ones, device=name),
        lambda: busy_share(torch.ones, device=name),
        lambda: time_by_operation(torch.ones, device=name),
        lambda: allocated_and_reserved(name),
    ):
        with pytest.raises(LectureError, match=r"expected (a CPU or )?a CUDA|expected DEVICE"):
            call()
