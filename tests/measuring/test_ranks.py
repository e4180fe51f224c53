"""Two real processes: what each holds, what is said where one fails, and that none is left behind."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lecture_lib.accounting.memory import model_states
from lecture_lib.measuring import ranks
from lecture_lib.measuring.ranks import WAYS, train_on_ranks
from lecture_lib.quantity import LectureError, Quantity

STAGES = {"replicated": 0, "sharded": 3}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Every process that a test starts."""
    processes: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        processes.append(popen(*arguments, **options))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return processes


def test_each_rank_holds_what_the_ledger_says(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "7")  # of a run that this one is not part of
    before = dict(os.environ)
    held = train_on_ranks([64, 128, 32])
    parameters = 64 * 128 + 128 * 32
    assert list(held) == list(WAYS)
    for way, stage in STAGES.items():
        predicted = model_states(parameters, "fp32", devices=2, stage=stage)
        assert len(held[way]) == 2
        for rank in held[way]:
            assert {row: rank.states[row] for row in predicted} == dict(predicted.items())
            assert rank.states["step counters"] == Quantity(8, "B")
    norms = [rank.weights_norm for way in WAYS for rank in held[way]]
    assert all(math.isclose(norm, norms[0], rel_tol=1e-6) for norm in norms)
    assert norms[0] > 1
    assert len(started) == 2 and all(process.returncode == 0 for process in started)
    assert dict(os.environ) == before


def test_rows_that_do_not_divide_are_padded() -> None:
    """31 rows on two ranks: 16 each, one of them padding, where the ledger says ⌈P/2⌉."""
    held = train_on_ranks([64, 128, 31])["sharded"]
    predicted = model_states(64 * 128 + 128 * 31, "fp32", devices=2, stage=3)
    for rank in held:
        assert int(rank.states["parameters"]) == 4 * (64 * 64 + 16 * 128) == 24_576
    assert int(predicted["parameters"]) == 24_320
    assert int(held[1].states["first moment"]) == 4 * (64 * 64 + 15 * 128)


def test_a_rank_that_fails_is_heard_and_ends_the_others(started: list[subprocess.Popen[bytes]]) -> None:
    with pytest.raises(LectureError, match=r"ended with code \d+; rank [01] said: "):
        train_on_ranks([2**24, 2**24])
    assert len(started) == 2 and all(process.returncode is not None for process in started)


def test_a_time_limit_ends_every_rank(started: list[subprocess.Popen[bytes]]) -> None:
    start = time.monotonic()
    with pytest.raises(LectureError, match=r"2 ranks to end within 0\.2 s"):
        train_on_ranks([4, 4], time_limit=0.2)
    assert time.monotonic() - start < 10
    assert len(started) == 2 and all(process.returncode not in (None, 0) for process in started)


def test_an_interrupt_leaves_nothing_behind(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    def interrupt(_: float) -> None:
        folders.append(Path(started[0].args[-2]))  # type: ignore[index, arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr("lecture_lib.measuring.ranks.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train_on_ranks([4, 4])
    assert len(started) == 2 and all(process.returncode is not None for process in started)
    assert not folders[0].exists()


@pytest.mark.parametrize("widths", [[], [64], [64, 0], [64, 2.5]])
def test_impossible_widths_are_refused(widths: Any) -> None:
    with pytest.raises(LectureError, match="expected .*widths"):
        train_on_ranks(widths)


@pytest.mark.parametrize("count", [0, 9, True, "2"])
def test_an_impossible_number_of_ranks_is_refused(count: Any) -> None:
    with pytest.raises(LectureError, match="expected 1 to 8 ranks"):
        train_on_ranks([4, 4], ranks=count)


def test_a_torch_without_distributed_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch.distributed

    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    with pytest.raises(LectureError, match="torch.distributed and gloo"):
        train_on_ranks([4, 4])


@pytest.mark.skipif(sys.platform == "win32", reason="loopback's name is not needed there")
def test_the_ranks_talk_over_loopback() -> None:
    assert ranks._environment()["GLOO_SOCKET_IFNAME"] == {"linux": "lo", "darwin": "lo0"}[sys.platform]
