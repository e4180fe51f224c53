"""Predicted FLOPs equal counted FLOPs, to the integer, module by module and configuration by configuration.

Predicted without torch (`accounting.flops`), counted while the module runs (`measuring.flops`). Forward and
backward apart, boundary gradients on and off, with and without checkpoints.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from lecture_lib.accounting import flops
from lecture_lib.accounting.models import ModelConfig, matmul_parameters
from lecture_lib.measuring.flops import count_flops
from lecture_lib.networks import mlp, transformer
from lecture_lib.networks.steps import forward_in_segments
from lecture_lib.networks.transformer import MixtureOfExperts
from lecture_lib.quantity import Quantity


@dataclass(frozen=True)
class Case:
    """make() gives forward(): output tensor; predicted forward and backward FLOPs."""

    make: Callable[[], Callable[[], Tensor]]
    forward: int
    backward: int


CASES: dict[str, Case] = {}


def total(ledger: Any) -> int:
    return int(ledger.total)


# -- linear layers and chains of them

for (M, d_in, d_out), bias, boundary in itertools.product(
    [(3, 5, 7), (1, 11, 4), (13, 2, 9)], (False, True), (False, True)
):

    def linear(
        M: int = M, d_in: int = d_in, d_out: int = d_out, bias: bool = bias, boundary: bool = boundary
    ):
        layer, x = nn.Linear(d_in, d_out, bias=bias), torch.rand(M, d_in, requires_grad=boundary)
        return lambda: layer(x)

    forward = int(flops.linear_forward(M, d_in, d_out))
    CASES[f"linear {M}x{d_in}x{d_out}, bias {bias}, boundary gradient {boundary}"] = Case(
        linear, forward, total(flops.linear_step(M, d_in, d_out, input_gradient=boundary)) - forward
    )


def chain(
    widths: Sequence[int], M: int, boundary: bool, segment: int | None, stop: bool
) -> Callable[[], Tensor]:
    model, x = mlp(widths), torch.rand(M, widths[0], requires_grad=boundary)

    def run() -> Tensor:
        with set_checkpoint_early_stop(stop):
            return forward_in_segments(model, x, segment)

    return run


for widths, boundary in itertools.product([(5, 7, 3), (4, 4, 4, 4, 4), (3, 8, 2, 6, 5, 7)], (False, True)):
    step = flops.mlp_step(6, widths, boundary)
    forward = sum(int(row) for label, row in step.items() if label.endswith(": forward"))
    CASES[f"MLP {widths}, boundary gradient {boundary}"] = Case(
        partial(chain, widths, 6, boundary, None, True), forward, total(step) - forward
    )
    for segment, stop in itertools.product((1, 2, len(widths) - 1), (True, False)):
        again = total(flops.mlp_recomputation(6, widths, segment)) if stop else forward
        CASES[f"MLP {widths}, boundary gradient {boundary}, segments of {segment}, early stop {stop}"] = Case(
            partial(chain, widths, 6, boundary, segment, stop), forward, total(step) - forward + again
        )


# -- attention alone


def attention(
    fused: bool, causal: bool, batch: int, heads: int, seq: int, k: int, v: int, again: bool, stop: bool
) -> Callable[[], Tensor]:
    q, key = (torch.rand(batch, heads, seq, k, requires_grad=True) for _ in range(2))
    value = torch.rand(batch, heads, seq, v, requires_grad=True)

    def attend(q: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if fused:
            return F.scaled_dot_product_attention(q, key, value, is_causal=causal)
        scores = q @ key.mT
        if causal:
            scores = scores.masked_fill(torch.ones(seq, seq, dtype=torch.bool).triu(1), -torch.inf)
        return scores.softmax(-1) @ value

    def run() -> Tensor:
        with set_checkpoint_early_stop(stop):
            return checkpoint(attend, q, key, value, use_reentrant=False) if again else attend(q, key, value)

    return run


for fused, causal, (batch, heads, seq, k, v) in itertools.product(
    (False, True), (False, True), [(2, 3, 8, 4, 4), (1, 2, 5, 6, 6), (3, 1, 7, 2, 10)]
):
    if fused and k != v:
        continue  # torch takes the products itself
    kernel = "fused" if fused else "eager"
    ahead = flops.attention_forward(batch, heads, seq, k, v)
    forward = total(ahead)
    back = total(flops.attention_backward(batch, heads, seq, k, v, kernel=kernel))
    sizes = (batch, heads, seq, k, v)
    name = f"attention {kernel}, causal {causal}, {sizes}"
    CASES[name] = Case(partial(attention, fused, causal, *sizes, False, True), forward, back)
    for stop in (True, False):
        # Of the eager product with the values nothing is saved: the early stop leaves it out.
        repeated = int(ahead["scores"]) if stop and not fused else forward
        CASES[f"{name}, checkpointed, early stop {stop}"] = Case(
            partial(attention, fused, causal, *sizes, True, stop), forward, back + repeated
        )


# -- Transformers

SMALL = ModelConfig(
    vocab_size=37,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=10,
    intermediate_size=40,
    max_position_embeddings=32,
    tie_word_embeddings=False,
    gated_mlp=True,
)
_EXPERTS: dict[str, Any] = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 14}
VARIANTS: dict[str, dict[str, Any]] = {
    "grouped keys, gated, untied": {},
    "a key head each": {"num_key_value_heads": 6},
    "one key head": {"num_key_value_heads": 1},
    "as GPT-2": {
        "gated_mlp": False,
        "tie_word_embeddings": True,
        "positions": "learned",
        "attention_bias": True,
        "mlp_bias": True,
        "norm_bias": True,
    },
    "tied, norms on queries and keys": {"tie_word_embeddings": True, "qk_norm": True},
    "experts": _EXPERTS,
    "experts after a dense layer, two shared": {
        **_EXPERTS,
        "first_k_dense_replace": 1,
        "n_shared_experts": 2,
    },
    "experts every second layer, of two matrices": {
        **_EXPERTS,
        "decoder_sparse_step": 2,
        "gated_mlp": False,
        "num_experts_per_tok": 1,
    },
}


def decoder(
    config: ModelConfig, fused: bool, batch: int, seq: int, segment: int | None, stop: bool
) -> Callable[[], Tensor]:
    model, tokens = transformer(config, fused=fused), torch.arange(batch * seq).reshape(batch, seq) % 37

    def run() -> Tensor:
        with set_checkpoint_early_stop(stop):
            return forward_in_segments(model, tokens, segment)

    return run


for name, fused, (batch, seq) in itertools.product(VARIANTS, (False, True), [(2, 9), (1, 16)]):
    config, kernel = replace(SMALL, **VARIANTS[name]), "fused" if fused else "eager"
    tokens = batch * seq
    forward = total(flops.transformer_forward(config, tokens, seq))
    back = total(flops.transformer_backward(config, tokens, seq, kernel=kernel))
    title = f"Transformer, {name}, {kernel}, {batch} x {seq}"
    CASES[title] = Case(partial(decoder, config, fused, batch, seq, None, True), forward, back)
    for segment, stop in itertools.product((1, 2, 3), (True, False)):
        again = total(flops.recomputation(config, tokens, seq, segment=segment if stop else None))
        CASES[f"{title}, segments of {segment}, early stop {stop}"] = Case(
            partial(decoder, config, fused, batch, seq, segment, stop), forward, back + again
        )


@pytest.mark.parametrize("name", CASES)
def test_predicted_is_counted(name: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    run = case.make()
    out: list[Tensor] = []
    forward = count_flops(lambda: out.append(run()))
    backward = count_flops(lambda: out.pop().sum().backward())
    assert forward.uncounted == {} and backward.uncounted == {}
    assert forward.total == Quantity(case.forward, "FLOP")
    assert backward.total == Quantity(case.backward, "FLOP")


def test_the_grid_is_as_wide_as_it_says() -> None:
    assert len(CASES) >= 40
    assert len({case.forward for case in CASES.values()}) >= 20  # and not one size again and again
    for word in ("linear", "MLP", "attention eager", "attention fused", "Transformer", "experts", "as GPT-2"):
        assert any(word in name for name in CASES)


# -- boundaries of a Transformer: what is frozen


@pytest.mark.parametrize("experts", [False, True])
def test_the_experts_alone_with_their_boundary_gradient_on_and_off(experts: bool) -> None:
    """A mixture by itself: three times its forward, less its input gradients at a fixed boundary.

    Without a gradient for its input, each first product of an expert, and the router, has none to compute.
    """
    config = replace(SMALL, **_EXPERTS, n_shared_experts=1 if experts else 0)
    torch.manual_seed(0)
    mixture = MixtureOfExperts(config)
    T, d, f = 7, 24, 14
    rows = matmul_parameters(replace(config, num_hidden_layers=1))
    forward = 2 * T * sum(int(rows[row]) for row in rows if "experts" in row or row == "router")
    first = 2 * T * (2 * d * f * (2 + config.n_shared_experts) + d * 5)  # gate and up of each, and the router
    for boundary in (False, True):
        x = torch.rand(1, T, d, requires_grad=boundary)
        counted = count_flops(lambda x=x: mixture(x).sum().backward())
        assert counted.total == Quantity(3 * forward - (0 if boundary else first), "FLOP")
        assert counted.uncounted == {}


def test_frozen_embeddings_make_the_first_layer_the_boundary() -> None:
    """With a frozen table, the first layer's query, key and value projections need no input gradient, but its
    attention does: rotary positions and projections lie between."""
    config = replace(SMALL, num_hidden_layers=2)
    model, tokens = transformer(config, fused=False), torch.zeros(2, 9, dtype=torch.long)
    model.embedding.weight.requires_grad_(False)
    T, d = 18, 24
    for parameter in model.blocks[0].attention_norm.parameters():  # its gain would want the gradient too
        parameter.requires_grad_(False)
    full = total(flops.transformer_forward(config, T, 9)) + total(flops.transformer_backward(config, T, 9))
    projections = 2 * T * d * (6 * 10 + 2 * 2 * 10)
    counted = count_flops(lambda: model(tokens).sum().backward())
    assert counted.total == Quantity(full - projections, "FLOP")
