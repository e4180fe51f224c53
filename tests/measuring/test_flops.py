from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from lecture_lib.accounting.flops import linear_step, mlp_step
from lecture_lib.measuring.flops import count_flops
from lecture_lib.networks import mlp
from lecture_lib.quantity import LectureError, Quantity


def FLOP(value: int) -> Quantity:
    return Quantity(value, "FLOP")


@pytest.mark.parametrize("input_gradient", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_step_equals_the_prediction(input_gradient: bool, bias: bool) -> None:
    layer, x = nn.Linear(5, 7, bias=bias), torch.rand(3, 5, requires_grad=input_gradient)
    counted = count_flops(lambda: layer(x).sum().backward())
    assert counted.total == linear_step(3, 5, 7, input_gradient=input_gradient).total
    assert counted.uncounted == {}


@pytest.mark.parametrize("widths", [[3, 5], [3, 5, 7], [8, 8, 8, 8]])
def test_an_mlp_step_equals_the_prediction(widths: list[int]) -> None:
    model, x = mlp(widths), torch.rand(11, widths[0])
    assert count_flops(lambda: model(x).sum().backward()).total == mlp_step(11, widths).total


def qkv(heads: int = 4, kv_heads: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (
        torch.rand(3, heads, 11, 8, requires_grad=True),
        torch.rand(3, kv_heads, 13, 8, requires_grad=True),
        torch.rand(3, kv_heads, 13, 8, requires_grad=True),
    )


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_on_a_cpu_is_counted_as_two_products_and_five_back(causal: bool) -> None:
    q, k, v = qkv()
    one = 2 * 3 * 4 * 11 * 13 * 8

    def attention() -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    with FlopCounterMode(display=False) as torch_counter:
        attention()
    assert torch_counter.get_total_flops() in (0, 2 * one)  # 0 up to torch 2.13 (pytorch#195460)
    assert count_flops(attention).total == FLOP(2 * one)
    assert count_flops(lambda: attention().sum().backward()).total == FLOP(7 * one)


def test_eager_attention_backward_is_twice_its_forward() -> None:
    q, k, v = qkv(2, 2)
    one = 2 * 3 * 2 * 11 * 13 * 8
    assert count_flops(lambda: ((q @ k.mT).softmax(-1) @ v).sum().backward()).total == FLOP(6 * one)


ONES: dict[str, tuple[Callable[[], Any], int]] = {
    "mv": (lambda: torch.ones(3, 4) @ torch.ones(4), 24),
    "vm": (lambda: torch.ones(3) @ torch.ones(3, 4), 24),
    "dot": (lambda: torch.dot(torch.ones(5), torch.ones(5)), 10),
    "vdot": (lambda: torch.vdot(torch.ones(5), torch.ones(5)), 10),
    "inner": (lambda: torch.inner(torch.ones(5), torch.ones(5)), 10),
    "addmv": (lambda: torch.addmv(torch.ones(3), torch.ones(3, 4), torch.ones(4)), 24),
    "addr": (lambda: torch.addr(torch.ones(3, 4), torch.ones(3), torch.ones(4)), 24),
    "addbmm": (lambda: torch.addbmm(torch.ones(3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5)), 240),
    "addmm_": (lambda: torch.ones(3, 5).addmm_(torch.ones(3, 4), torch.ones(4, 5)), 120),
    "baddbmm_": (lambda: torch.ones(2, 3, 5).baddbmm_(torch.ones(2, 3, 4), torch.ones(2, 4, 5)), 240),
    "baddbmm": (lambda: torch.baddbmm(torch.ones(2, 3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5)), 240),
    "addmv_": (lambda: torch.ones(3).addmv_(torch.ones(3, 4), torch.ones(4)), 24),
    "einsum": (lambda: torch.einsum("bij,bjk->bik", torch.ones(2, 3, 4), torch.ones(2, 4, 5)), 240),
    "conv": (lambda: F.conv1d(torch.ones(2, 3, 10), torch.ones(4, 3, 3)), 2 * 2 * 4 * 8 * 9),
}


@pytest.mark.parametrize("name", ONES)
def test_products_of_every_shape(name: str) -> None:
    fn, flops = ONES[name]
    counted = count_flops(fn)
    assert counted.total == FLOP(flops) and counted.uncounted == {}
    with torch.inference_mode():
        assert count_flops(fn).total == FLOP(flops)


UNCOUNTED: dict[str, tuple[Callable[[], Any], str]] = {
    "lstm": (lambda: nn.LSTM(4, 5)(torch.ones(3, 2, 4)), "rnn"),
    "fft": (lambda: torch.fft.fft(torch.ones(8)), "fft"),
    "inverse": (lambda: torch.linalg.inv(torch.eye(3)), "inv"),
    "bilinear": (lambda: nn.Bilinear(3, 4, 5)(torch.ones(2, 3), torch.ones(2, 4)), "trilinear"),
    "sparse": (lambda: torch.sparse.mm(torch.eye(3).to_sparse(), torch.eye(3)), "sparse"),
    "distance": (lambda: torch.cdist(torch.ones(4, 3), torch.ones(4, 3)), "cdist"),
}


@pytest.mark.parametrize("name", UNCOUNTED)
def test_what_cannot_be_counted_is_named_and_not_0(name: str) -> None:
    fn, word = UNCOUNTED[name]
    counted = count_flops(fn)
    assert any(word in op for op in counted.uncounted)
    assert "left out" in counted.total.name and word in counted.total.explain()
    assert "uncounted" in str(counted) and "uncounted" in counted._repr_html_()


def test_multihead_attention_is_counted_or_its_fast_path_named() -> None:
    module, x = nn.MultiheadAttention(16, 2, batch_first=True).eval(), torch.ones(2, 8, 16)

    def run() -> object:
        return module(x, x, x, need_weights=False)

    projections, scores = 2 * 16 * 16 * 4 * 16, 2 * 2 * 2 * 2 * 8 * 8 * 8
    assert count_flops(run).total == FLOP(projections + scores)
    with torch.no_grad():
        fast = count_flops(run)
    assert fast.uncounted == {"_native_multi_head_attention": 1} and fast.total == FLOP(0)


def test_an_operation_from_elsewhere_is_uncounted() -> None:
    library = torch.library.Library("three_budgets_test", "DEF")
    library.define("mystery(Tensor x) -> Tensor")
    library.impl("mystery", lambda x: x.clone(), "CPU")
    counted = count_flops(lambda: torch.ops.three_budgets_test.mystery(torch.ones(3)))
    assert counted.uncounted == {"three_budgets_test.mystery": 1}
    del library


def test_a_whole_training_step_has_nothing_uncounted() -> None:
    model = nn.Sequential(
        nn.Embedding(20, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Dropout(), nn.Linear(8, 20)
    )
    tokens = torch.arange(12).reshape(3, 4)
    for optimizer in (
        torch.optim.AdamW(model.parameters()),
        torch.optim.SGD(model.parameters(), foreach=True),
    ):

        def step(optimizer: torch.optim.Optimizer = optimizer) -> None:
            optimizer.zero_grad()
            F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        counted = count_flops(step)
        assert counted.uncounted == {}
        assert counted.total == FLOP(6 * 12 * (8 * 8 + 8 * 20))


def test_recomputation_is_counted() -> None:
    segment = nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(8, 8, bias=False), nn.ReLU())])
    x = torch.rand(5, 8, requires_grad=True)
    forward = 3 * 2 * 5 * 8 * 8
    assert count_flops(lambda: segment(x).sum().backward()).total == FLOP(3 * forward)
    again = count_flops(lambda: checkpoint(segment, x, use_reentrant=False).sum().backward())
    assert again.total == FLOP(4 * forward)


def test_meta_tensors_are_counted_without_work() -> None:
    layer, x = nn.Linear(4096, 4096, bias=False, device="meta"), torch.empty(2**20, 4096, device="meta")
    assert count_flops(lambda: layer(x)).total == FLOP(2 * 2**20 * 4096**2)


def test_nothing_is_0_flop() -> None:
    assert count_flops(lambda: None).total == FLOP(0)
    with pytest.raises(LectureError, match="expected a function to call"):
        count_flops(torch.ones(3))  # type: ignore[arg-type]


def test_the_conventions_stand_with_the_number() -> None:
    total = count_flops(lambda: torch.ones(2, 3) @ torch.ones(3, 4)).total
    assert (
        "FMA = 2 FLOPs" in total.conventions
        and "attention counted in full, causal or not" in total.conventions
    )
