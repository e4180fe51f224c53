"""What only a GPU can show of measuring: its allocator against the rules, its events, its fused attention."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lecture_lib.accounting.allocator import CachingAllocator
from lecture_lib.accounting.models import load
from lecture_lib.measuring.autograd import saved_tensors
from lecture_lib.measuring.device import choose, describe
from lecture_lib.measuring.flops import count_flops
from lecture_lib.measuring.storage import allocated_and_reserved, storage_bytes
from lecture_lib.measuring.timing import measure
from lecture_lib.networks import mlp, transformer
from lecture_lib.quantity import Quantity

pytestmark = pytest.mark.gpu


def test_the_device_is_found_and_named() -> None:
    assert choose("auto").type == "cuda"
    assert torch.cuda.get_device_name(0) in describe("cuda:0")


@pytest.mark.parametrize("request_", [1, 512, 513, 2**20, 2**20 + 1, 11 * 2**20])
def test_the_allocator_follows_its_rules(request_: int) -> None:
    torch.cuda.empty_cache()
    before = allocated_and_reserved("cuda:0")
    model = CachingAllocator()
    model.malloc(request_)
    tensor = torch.empty(request_, dtype=torch.uint8, device="cuda:0")
    after = allocated_and_reserved("cuda:0")
    assert after.allocated - before.allocated == model.allocated
    assert (
        after.reserved - before.reserved <= model.reserved
    )  # less where a segment with room was there already
    assert storage_bytes(tensor) == Quantity(request_, "B")


def test_what_is_saved_and_counted_on_a_gpu_equals_the_cpu() -> None:
    results = []
    for device in ("cpu", "cuda"):
        model, x = mlp([64, 128, 10], device=device), torch.rand(32, 64, device=device)

        def step(model: nn.Module = model, x: torch.Tensor = x) -> torch.Tensor:
            return model(x).sum()

        results.append((saved_tensors(step), count_flops(lambda step=step: step().backward())))
    (cpu_saved, cpu_flops), (gpu_saved, gpu_flops) = results
    assert list(cpu_saved) == list(gpu_saved)
    assert cpu_flops.total == gpu_flops.total and gpu_flops.uncounted == {}


def test_fused_attention_is_counted_the_same() -> None:
    q = torch.rand(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    one = 2 * 2 * 4 * 128 * 128 * 64
    counted = count_flops(lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward())
    assert counted.total == Quantity(7 * one, "FLOP") and counted.uncounted == {}


def test_a_transformer_runs() -> None:
    config = load("gpt2")
    network = transformer(config, device="cuda", dtype=torch.bfloat16)
    assert network(torch.zeros(1, 16, dtype=torch.long, device="cuda")).device.type == "cuda"


def test_events_see_the_work_and_not_the_launch() -> None:
    x = torch.rand(4096, 4096, device="cuda")
    timing = measure(lambda: x @ x, device="cuda", repeats=5)
    assert timing.device == "cuda" and len(timing.seconds) == 5
    assert all(seconds > 0 for seconds in timing.seconds)


def test_a_flushed_cache_has_to_be_filled_again() -> None:
    x = torch.ones(4 * 2**20, device="cuda")  # 16 MiB: in the L2 of an A100 and later after the first call
    out = torch.empty_like(x)

    def copy() -> None:
        out.copy_(x)

    warm, cold = measure(copy, device="cuda"), measure(copy, device="cuda", flush=True)
    assert cold.calls == 1 and cold.median > warm.median
