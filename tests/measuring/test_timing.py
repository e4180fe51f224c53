import gc
from types import SimpleNamespace

import pytest
import torch

from lecture_lib.measuring import timing
from lecture_lib.measuring.timing import Timing, measure
from lecture_lib.quantity import LectureError, Quantity


def test_repeats_are_kept_and_summed_up() -> None:
    timing = Timing((4.0, 1.0, 2.0, 3.0, 100.0), calls=1, device="cpu")
    assert timing.median == Quantity(3.0, "s")
    assert timing.fastest == Quantity(1.0, "s")
    assert timing.spread == Quantity(2.0, "s")  # of the middle half: the disturbed repeat is not in it
    assert str(timing) == "3 s (median of 5, middle half within 2 s, on cpu)"


def test_a_slow_function_is_called_once_a_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(clock)))
    calls: list[None] = []
    measured = measure(lambda: calls.append(None), repeats=4, warmup=2)
    assert measured.calls == 1 and len(calls) == 2 + 4
    assert measured.seconds == (1.0,) * 4


def test_a_short_function_is_called_often_enough_and_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def short() -> None:
        now[0] += 2**-20

    measured = measure(short, repeats=3, warmup=1)
    assert measured.calls == 210  # the first number of calls that lasts 200 µs
    assert measured.seconds == (2**-20,) * 3


def test_caches_are_flushed_before_each_repeat_and_untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    ran: list[str] = []

    def takes(name: str, seconds: float) -> None:
        ran.append(name)
        now[0] += seconds

    def flusher(device: torch.device, wanted: bool) -> object:
        return (lambda: takes("flush", 7.0)) if wanted else None

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(timing, "_flusher", flusher)
    measured = measure(lambda: takes("call", 2**-20), repeats=2, warmup=1, flush=True)
    assert ran == ["call", "flush", "call", "flush", "call"]  # one call a repeat, however short it is
    assert measured.seconds == (2**-20,) * 2


def test_the_flush_writes_more_than_any_l2_holds() -> None:
    assert timing._flusher(torch.device("cpu"), False) is None
    flush = timing._flusher(torch.device("cpu"), True)
    assert flush is not None and flush().nbytes == 256 * 2**20


def test_collection_is_off_while_timing_and_back_after_an_error() -> None:
    seen: list[bool] = []
    measure(lambda: seen.append(gc.isenabled()), repeats=2)
    assert not any(seen) and gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        measure(lambda: 1 / 0)
    assert gc.isenabled()


class FakeCuda:
    """A GPU that runs what was launched when it is waited for: 2 ms of its own clock a launch."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.pending: list[object] = []
        self.clock = 0.0

    def launch(self) -> None:
        self.log.append("launch")
        self.pending.append("work")

    def synchronize(self) -> None:
        self.log.append("synchronize")
        for item in self.pending:
            if item == "work":
                self.clock += 2.0
            else:
                item.at = self.clock  # type: ignore[attr-defined]
        self.pending.clear()

    def event(self, enable_timing: bool) -> SimpleNamespace:
        assert enable_timing
        event = SimpleNamespace(at=None)
        event.record = lambda: (self.log.append("record"), self.pending.append(event))
        event.elapsed_time = lambda end: end.at - event.at
        return event


class OnDevice:
    entered: list[torch.device] = []

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> None:
        self.entered.append(self.device)

    def __exit__(self, *error: object) -> None:
        pass


def test_a_gpu_is_timed_by_its_own_events_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeCuda()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronize)
    monkeypatch.setattr(torch.cuda, "Event", gpu.event)
    monkeypatch.setattr(torch.cuda, "device", OnDevice)
    monkeypatch.setattr(timing, "_SHORTEST_REPEAT", 0.0)
    measured = measure(gpu.launch, device="cuda:1", repeats=3, warmup=2)
    assert measured.seconds == pytest.approx((2e-3,) * 3)
    assert OnDevice.entered == [torch.device("cuda", 1)]
    warm = ["synchronize", "launch", "synchronize"] * 2
    assert gpu.log == [*warm, "synchronize", *["record", "launch", "record"] * 3, "synchronize"]


def test_bad_input() -> None:
    with pytest.raises(LectureError, match="expected a function to call"):
        measure(3)  # type: ignore[arg-type]
    with pytest.raises(LectureError, match="expected repeats of at least 2; got 1"):
        measure(lambda: None, repeats=1)
    with pytest.raises(LectureError, match="expected a whole number for warmup; got 1.5"):
        measure(lambda: None, warmup=1.5)  # type: ignore[arg-type]
