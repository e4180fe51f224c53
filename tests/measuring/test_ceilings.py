"""Ceilings: what they are made of, what is kept and when it is rebuilt. No test asserts a rate."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lecture_lib.accounting import operators, roofline
from lecture_lib.accounting.budget import training_step
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.accounting.utilization import mfu
from lecture_lib.measuring import ceilings as module
from lecture_lib.measuring.ceilings import PATTERNS, Ceilings, Probe, ceilings
from lecture_lib.quantity import LectureError, Quantity

MIB = 2**20


def probe(amount: int = 100, unit: str = "B", seconds: tuple[float, ...] = (2.0, 1.0, 4.0)) -> Probe:
    return Probe("some work", amount, unit, seconds)


def some(where: str = "cpu", **probes: Probe) -> Ceilings:
    """Ceilings made up: 100 B/s from memory, 400 B/s from the cache, 800 FLOP/s."""
    every = {name: probe() for name in PATTERNS}
    every |= {f"{name} in cache": probe(400) for name in PATTERNS}
    every |= {"fp32 product": probe(800, "FLOP"), "launch": probe(0, "")}
    if where != "cpu":
        every |= {"host to device, pinned": probe(30), "host to device, pageable": probe(20)}
    cache = Quantity(MIB, "B", name="last-level cache", conventions=("as the system says",))
    return Ceilings("a made-up device", where, Quantity(8, "GiB"), cache, {**every, **probes}, "2026-11-29")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every measurement that is asked for; none is made."""
    asked: list[str] = []

    def measured(device: torch.device) -> Ceilings:
        asked.append(str(device))
        return replace(
            some(), name=module.describe(device), cache=module._cache_size(MIB, "as the system says")
        )

    monkeypatch.setattr(module, "_measured", measured)
    monkeypatch.setattr(module, "_last_level_cache", lambda device: (MIB, "as the system says"))
    return asked


# -- one probe


def test_a_probe_keeps_its_best_and_its_spread() -> None:
    assert probe(100, "B", (2.0, 1.0, 4.0)).best == Quantity(100.0, "B/s")
    assert probe(100, "FLOP", (2.0, 1.0, 4.0)).best == Quantity(100.0, "FLOP/s")
    assert probe(0, "", (2.0, 1.0, 4.0)).best == Quantity(1.0, "s")
    # Rates 25, 50, 100: the middle half reaches from 37.5 to 75.
    assert probe(100, "B", (2.0, 1.0, 4.0)).spread.value == pytest.approx(0.375)
    assert probe(0, "", (2.0, 1.0, 4.0)).spread.value == pytest.approx(1.5)
    assert probe(100, "B", (1.0, 1.0)).spread == Quantity(0)
    assert "measured, not a specification" in probe().best.conventions
    assert probe().best.numbers == "100 B/1 s"


# -- ceilings in the place of a printed device


def test_a_measured_device_stands_where_a_printed_one_does() -> None:
    here = some()
    assert here.bandwidth == Quantity(100, "B/s") and here.peak("fp32") == Quantity(800, "FLOP/s")
    assert roofline.ridge(here.peak(torch.float32), here.bandwidth) == Quantity(8, "FLOP/B")
    assert operators.gemm(4, 4, 4, "fp32").time_bound(here.peak("fp32"), here.bandwidth) == Quantity(
        1.92, "s"
    )
    assert mfu(400, 1, 1, here.peak("float32"), dtype="fp32").value == 0.5
    assert "measured on a made-up device, 2026-11-29" in here.peak("fp32").source
    with pytest.raises(LectureError, match="BF16 operands"):
        mfu(400, 1, 1, here.peak("fp32"), dtype="bf16")


def test_a_budget_takes_measured_ceilings() -> None:
    tiny = ModelConfig(
        vocab_size=11,
        hidden_size=6,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=4,
        intermediate_size=10,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        gated_mlp=True,
    )
    step = training_step(tiny, (2, 5), "fp32", some())
    assert "a made-up device" in step.name and step.memory == Quantity(8, "GiB")
    part = "forward: MLP"
    bound = roofline.time_bound(step.arithmetic[part], step.traffic[part], 800, 100)
    assert step.time[part].value == pytest.approx(float(bound.value))


def test_the_bandwidth_is_the_best_pattern() -> None:
    here = some(update=probe(300))
    assert here.bandwidth == Quantity(300, "B/s")
    assert here.cache_bandwidth == Quantity(400, "B/s")


def test_the_working_set_chooses_the_bandwidth() -> None:
    here = some()
    assert here.bandwidth_at(Quantity(4, "MiB")) == here.bandwidth
    assert here.bandwidth_at(4 * MIB - 1) == here.cache_bandwidth
    slow_cache = some(**{f"{name} in cache": probe(50) for name in PATTERNS})
    assert slow_cache.bandwidth_at(1) == slow_cache.bandwidth  # where small operations are all overhead
    with pytest.raises(LectureError, match="working_set"):
        here.bandwidth_at(Quantity(4, "FLOP"))


def test_the_rest_is_there_or_refused() -> None:
    here, card = some(), some("cuda:0")
    assert here.launch == Quantity(1.0, "s")
    assert here.vector_peak() == here.peak("fp32") and "vector" in here.vector_peak().conventions[0]
    assert card.host_to_device() == Quantity(30, "B/s")
    assert card.host_to_device(pinned=False) == Quantity(20, "B/s")
    assert here.spread("copy") == probe().spread
    for call, said in REFUSED:
        with pytest.raises(LectureError, match=said):
            call(here)


REFUSED: list[tuple[Callable[[Ceilings], Any], str]] = [
    (lambda c: c.peak("fp8"), "measured on a made-up device: fp32; got 'fp8'"),
    (lambda c: c.peak("fp33"), "fp33"),
    (lambda c: c.vector_peak("bf16"), "expected 'fp32'"),
    (lambda c: c.host_to_device(), "expected a GPU"),
    (lambda c: c.spread("copie"), "one of the probes copy, triad"),
]


def test_a_table_in_text_and_html() -> None:
    here = some()
    for text in (str(here), here._repr_html_()):
        assert "a made-up device" in text and "100 B/s" in text and "in cache" in text and "38%" in text
    assert '<th scope="row"' in here._repr_html_() and "<caption>" in here._repr_html_()


# -- what is kept


def test_kept_once_measured(runs: list[str], folder: Path) -> None:
    first = ceilings("cpu")
    assert runs == ["cpu"] and len(list(folder.iterdir())) == 1
    assert ceilings("cpu") == first and runs == ["cpu"]
    assert ceilings(torch.device("cpu"), again=True) == first and runs == ["cpu", "cpu"]
    assert len(list(folder.iterdir())) == 1


def test_another_number_of_threads_is_measured_for_itself(
    runs: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ceilings("cpu")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 17)
    assert "17 torch threads" in ceilings("cpu").name
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    assert "9.9.9" in ceilings("cpu").name
    assert len(runs) == 3 and len(list(folder.iterdir())) == 3


def _damage(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_text(""),
    "cut short": lambda path: path.write_text(path.read_text()[:-40]),
    "not text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "a list": lambda path: path.write_text("[]"),
    "another key": lambda path: _damage(path, lambda c: c["key"].update(torch="1.0")),
    "a probe gone": lambda path: _damage(path, lambda c: c["probes"].pop("copy")),
    "no repeats": lambda path: _damage(path, lambda c: c["probes"]["copy"].update(seconds=[])),
    "0 seconds": lambda path: _damage(path, lambda c: c["probes"]["copy"].update(seconds=[0.0, 1.0])),
    "not a number": lambda path: _damage(path, lambda c: c["probes"]["copy"].update(seconds=[math.nan, 1.0])),
    "text for seconds": lambda path: _damage(path, lambda c: c["probes"]["copy"].update(seconds="12")),
    "a negative amount": lambda path: _damage(path, lambda c: c["probes"]["copy"].update(amount=-1)),
    "a strange unit": lambda path: _damage(path, lambda c: c["probes"]["copy"].update(unit="parsec")),
    "a strange field": lambda path: _damage(path, lambda c: c["probes"]["copy"].update(colour="red")),
    "no date": lambda path: _damage(path, lambda c: c.update(date="yesterday")),
    "a folder in its place": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_rebuilt(name: str, runs: list[str], folder: Path) -> None:
    first = ceilings("cpu")
    (kept,) = folder.iterdir()
    DAMAGE[name](kept)
    assert ceilings("cpu") == first and len(runs) == 2
    if kept.is_file():
        assert ceilings("cpu") == first and len(runs) == 2


def test_a_folder_that_cannot_be_written_costs_time_alone(runs: list[str], folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    ceilings("cpu")
    ceilings("cpu")
    assert len(runs) == 2


def test_a_device_that_is_not_there(runs: list[str]) -> None:
    with pytest.raises(LectureError, match='"auto", "cpu" or "cuda"'):
        ceilings("tpu")
    assert runs == []


# -- what is measured


def test_measuring_gives_every_ceiling_its_unit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_last_level_cache", lambda device: (2**19, "as the system says"))
    monkeypatch.setattr(module, "_LONGEST_PRODUCT", {"cpu": 0.0})  # the smallest product alone
    monkeypatch.setattr(module, "_ROUNDS", 1)
    torch.set_float32_matmul_precision("medium")
    try:
        here = ceilings("cpu", again=True)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert set(here.probes) == module._expected("cpu") | {"bf16 product", "fp16 product"}
    for name, found in here.probes.items():
        assert found.unit == ("FLOP" if "product" in name else "" if name == "launch" else "B")
        assert len(found.seconds) == module._REPEATS and all(second > 0 for second in found.seconds)
        assert found.spread >= Quantity(0)
    array = 2**20  # two hold four caches
    assert [here.probes[name].amount // array for name in PATTERNS] == [2, 3, 2, 3]
    assert "at least 4 × the last-level cache of 0.5 MiB (as the system says)" in here.probes["copy"].what
    assert here.probes["bf16 product"].amount == 2 * 256**3
    assert here.memory > Quantity(0, "B") and here.name == module.describe("cpu")
    assert ceilings("cpu") == here


def test_patterns_do_what_their_bytes_say() -> None:
    tasks = module._patterns(torch.device("cpu"), 1000, "small")
    assert float(tasks["read"].run()) == 1000.0
    assert torch.equal(tasks["triad"].run(), torch.full((1000,), 4.0))
    assert torch.equal(tasks["update"].run(), torch.full((1000,), 4.0))  # values do not grow
    assert torch.equal(tasks["copy"].run(), torch.ones(1000))
    assert {name: task.amount for name, task in tasks.items()} == {
        "copy": 8_000,
        "triad": 12_000,
        "read": 8_000,
        "update": 12_000,
    }


@pytest.mark.parametrize(
    ("dtype", "out"), [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp8", torch.bfloat16)]
)
def test_products_are_in_the_format_that_they_say(dtype: str, out: torch.dtype) -> None:
    product = module._multiply(torch.device("cpu"), dtype, 32)()
    assert product.shape == (32, 32) and product.dtype == out and bool(product.isfinite().all())


# -- the last-level cache


def _cpu(root: Path, processor: int, *levels: tuple[int, str, str]) -> None:
    for index, (level, size, shared) in enumerate(levels):
        folder = root / f"cpu{processor}" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
        (folder / "shared_cpu_list").write_text(f"{shared}\n")


def test_caches_of_this_process_are_summed_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for processor, shared in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
        _cpu(
            tmp_path, processor, (1, "32K", str(processor)), (2, "1024K", str(processor)), (3, "16M", shared)
        )
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert module._linux_cache(tmp_path) == 16 * MIB
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: {1, 2, 3}, raising=False)
    assert module._linux_cache(tmp_path) == 32 * MIB


def test_a_machine_that_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert module._linux_cache(tmp_path) == 0
    _cpu(tmp_path, 0, (3, "plenty", "0"))
    assert module._linux_cache(tmp_path) == 0
    monkeypatch.setattr(module.platform, "system", lambda: "Plan 9")
    size, how = module._last_level_cache(torch.device("cpu"))
    assert size == module.ASSUMED_CACHE and how.startswith("assumed")
