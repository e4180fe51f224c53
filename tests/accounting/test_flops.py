"""FLOPs held against loops, against torch's counter on real modules, and against figures worked by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lecture_lib.accounting import flops, models
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.networks import mlp, transformer
from lecture_lib.quantity import LectureError, Quantity

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
EXPERTS = replace(
    SMALL,
    num_experts=8,
    num_experts_per_tok=2,
    moe_intermediate_size=14,
    n_shared_experts=1,
    first_k_dense_replace=1,
)


def product_by_loops(rows: int, columns: int, terms: int) -> int:
    flops_ = 0
    for _ in itertools.product(range(rows), range(columns)):
        for term in range(terms):
            flops_ += 1 + (term > 0)
    return flops_


# -- linear layers


@pytest.mark.parametrize(("M", "d_in", "d_out"), [(3, 5, 7), (1, 1, 1), (4, 1, 9), (2, 11, 3)])
def test_exact_counts_are_the_loops(M: int, d_in: int, d_out: int) -> None:
    assert flops.linear_forward(M, d_in, d_out, exact=True).value == product_by_loops(M, d_out, d_in)
    assert flops.linear_input_gradient(M, d_in, d_out, exact=True).value == product_by_loops(M, d_in, d_out)
    assert flops.linear_weight_gradient(M, d_in, d_out, exact=True).value == product_by_loops(d_in, d_out, M)


def test_linear_step() -> None:
    assert flops.linear_step(3, 5, 7).total.value == 6 * 3 * 5 * 7
    assert flops.linear_step(3, 5, 7, input_gradient=False).total.value == 4 * 3 * 5 * 7
    assert flops.linear_step(3, 5, 7, exact=True).total.value == 559
    assert list(flops.linear_step(3, 5, 7, input_gradient=False)) == ["forward", "weight gradient"]


def test_formula_with_numbers() -> None:
    assert flops.linear_forward(3, 5, 7).numbers == "2·3·5·7"
    assert flops.linear_forward(3, 5, 7, exact=True).numbers == "3·7·(2·5 - 1)"
    assert flops.linear_input_gradient(3, 5, 7, exact=True).numbers == "3·5·(2·7 - 1)"
    assert flops.linear_weight_gradient(3, 5, 7, exact=True).numbers == "5·7·(2·3 - 1)"


def counted_step(module: nn.Module, x: torch.Tensor) -> tuple[int, int]:
    """Forward and backward FLOPs by torch's counter."""
    with FlopCounterMode(display=False) as forward:
        out = module(x)
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


@pytest.mark.parametrize("widths", [(3, 5), (7, 11, 2), (5, 8, 13, 3), (4, 4, 4, 4, 4)])
@pytest.mark.parametrize("input_gradient", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_mlp_step_is_the_counters(widths: tuple[int, ...], input_gradient: bool, bias: bool) -> None:
    x = torch.rand(6, widths[0], requires_grad=input_gradient)
    forward, backward = counted_step(mlp(widths, bias=bias), x)
    ledger = flops.mlp_step(6, widths, input_gradient)
    assert sum(int(row) for label, row in ledger.items() if label.endswith(": forward")) == forward
    assert ledger.total.value == forward + backward


def test_mlp_step_of_one_layer_is_linear_step() -> None:
    for exact in (False, True):
        step = flops.linear_step(3, 5, 7, input_gradient=False, exact=exact)
        assert flops.mlp_step(3, (5, 7), exact=exact).total.value == step.total.value


def test_training_run() -> None:
    run = flops.training_run(70e9, 15e12)
    assert run.value == 6_300_000_000_000_000_000_000_000
    assert isinstance(run.value, int)
    assert flops.training_run(Quantity(7, "parameter"), Quantity(11, "token")).value == 462


# -- attention


@pytest.mark.parametrize(
    ("batch", "heads", "seq", "k", "v"), [(1, 2, 3, 5, 7), (2, 3, 8, 4, 4), (3, 1, 1, 2, 6)]
)
def test_attention_by_loops(batch: int, heads: int, seq: int, k: int, v: int) -> None:
    full = causal = 0
    for _, _, query, key in itertools.product(range(batch), range(heads), range(seq), range(seq)):
        full += 2 * k + 2 * v
        causal += (2 * k + 2 * v) * (key <= query)
    forward = flops.attention_forward(batch, heads, seq, k, v)
    assert forward.total.value == full
    assert flops.attention_backward(batch, heads, seq, k, v).total.value == 2 * full
    fused = flops.attention_backward(batch, heads, seq, k, v, kernel="fused")
    assert fused.total.value == 2 * full + forward["scores"].value
    half = flops.attention_forward(batch, heads, seq, k, v, attention="causal").total.value
    assert 2 * half == full
    assert causal - half == batch * heads * seq * (k + v)  # the diagonal's other half


# -- Transformers


VARIANTS = {
    "grouped, gated, untied, rotary": SMALL,
    "one key head": replace(SMALL, num_key_value_heads=1),
    "plain MLP, tied, learned, biases": replace(
        SMALL,
        num_key_value_heads=6,
        gated_mlp=False,
        tie_word_embeddings=True,
        positions="learned",
        attention_bias=True,
        mlp_bias=True,
        norm_bias=True,
    ),
    "query, key and value biases": replace(SMALL, qkv_bias=True),
    "norms on queries and keys": replace(SMALL, qk_norm=True, positions="none"),
    "one layer": replace(SMALL, num_hidden_layers=1, head_dim=4),
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(("batch", "seq"), [(2, 9), (1, 32)])
def test_transformer_is_the_counters(name: str, batch: int, seq: int) -> None:
    config = VARIANTS[name]
    tokens = torch.zeros(batch, seq, dtype=torch.long)
    forward, backward = counted_step(transformer(config, fused=False), tokens)
    assert flops.transformer_forward(config, batch * seq, seq).total.value == forward
    assert flops.transformer_backward(config, batch * seq, seq).total.value == backward


def test_transformer_by_hand() -> None:
    ledger = flops.transformer_forward(SMALL, 18, 9)
    assert {row: int(q) for row, q in ledger.items()} == {
        "attention projections": 2 * 18 * 3 * (2 * 24 * 60 + 2 * 24 * 20),
        "MLP": 2 * 18 * 3 * 3 * 24 * 40,
        "head": 2 * 18 * 37 * 24,
        "attention scores": 3 * 2 * flops_of_scores(),
        "attention values": 3 * 2 * flops_of_scores(),
    }
    assert "head" not in flops.transformer_forward(SMALL, 18, 9, head=False)
    causal = flops.transformer_forward(SMALL, 18, 9, attention="causal")
    assert 2 * causal["attention scores"] == ledger["attention scores"]


def flops_of_scores() -> int:
    return 2 * 6 * 9 * 9 * 10  # one sequence: heads · S · S · head_dim multiply-adds


def test_only_active_experts_count() -> None:
    ledger = flops.transformer_forward(EXPERTS, 5, 5)
    expert = 2 * 5 * 3 * 24 * 14
    assert ledger["routed experts"].value == 2 * 2 * expert  # two layers, two experts each
    assert ledger["shared experts"].value == 2 * expert
    assert ledger["router"].value == 2 * 2 * 5 * 24 * 8
    assert ledger["MLP"].value == 2 * 5 * 3 * 24 * 40  # the first layer is dense


def test_recomputation() -> None:
    forward = flops.transformer_forward(SMALL, 18, 9, head=False)
    assert flops.recomputation(SMALL, 18, 9).total == forward.total
    attention = forward["attention scores"] + forward["attention values"]
    assert flops.recomputation(SMALL, 18, 9, "selective").total == attention
    assert flops.recomputation(SMALL, 18, 9, "none").total.value == 0


def test_early_stop_by_hand() -> None:
    """Three layers in segments of two: the down projections of the second and the third are left out."""
    stopped = flops.recomputation(SMALL, 18, 9, segment=2)
    assert stopped["stopped early"].value == -2 * 2 * 18 * 24 * 40
    assert stopped.total - stopped["stopped early"] == flops.recomputation(SMALL, 18, 9).total
    # The first layer is dense, the others have a shared expert each.
    assert flops.recomputation(EXPERTS, 18, 9, segment=1)["stopped early"].value == -2 * 18 * 24 * (40 + 28)
    unshared = replace(EXPERTS, n_shared_experts=0)
    assert flops.recomputation(unshared, 18, 9, segment=3)["stopped early"].value == 0
    chain = flops.mlp_recomputation(6, (3, 8, 5), 1)
    assert {row: int(q) for row, q in chain.items()} == {
        "layer 1: again": 2 * 6 * 3 * 8,
        "layer 2: again": 2 * 6 * 8 * 5,
        "stopped early": -2 * 6 * 8 * 5,
    }


@pytest.mark.parametrize(
    ("optimizer", "each"), [("sgd", 2), ("momentum", 4), ("adagrad", 7), ("adam", 13), ("adamw", 14)]
)
def test_optimizer_updates_by_counting_operations(optimizer: str, each: int) -> None:
    assert UPDATES[optimizer](Counted(), Counted(), Counted(), Counted()) == each
    assert flops.optimizer_update(1000, optimizer, steps=3).value == 3000 * each


class Counted:
    """A number that counts what is done with it; work on scalars alone is not per parameter."""

    operations = 0

    def _did(self, other: object = None) -> Counted:
        out = Counted()
        out.operations = self.operations + 1 + (other.operations if isinstance(other, Counted) else 0)
        return out

    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = _did
    sqrt = _did


def sgd(w: Counted, g: Counted, m: Counted, v: Counted) -> int:
    return (w - 0.1 * g).operations


def momentum(w: Counted, g: Counted, m: Counted, v: Counted) -> int:
    return (w - 0.1 * (0.9 * m + g)).operations


def adagrad(w: Counted, g: Counted, m: Counted, v: Counted) -> int:
    kept = v + g * g
    return (w - 0.1 * (g / (kept + 1e-8).sqrt())).operations


def adam(w: Counted, g: Counted, m: Counted, v: Counted) -> int:
    first, second = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * (g * g)
    return (w - 0.1 * (first / (second.sqrt() / 0.03 + 1e-8))).operations


def adamw(w: Counted, g: Counted, m: Counted, v: Counted) -> int:
    return adam(w * 0.99, g, m, v)


UPDATES = {"sgd": sgd, "momentum": momentum, "adagrad": adagrad, "adam": adam, "adamw": adamw}


# -- beyond 6PT


@pytest.mark.parametrize("config", [*VARIANTS.values(), EXPERTS], ids=[*VARIANTS, "experts"])
@pytest.mark.parametrize("attention", ["full", "causal"])
@pytest.mark.parametrize("kernel", ["eager", "fused"])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_beyond_6pt_adds_up_to_the_full_count(
    config: ModelConfig, attention: str, kernel: str, recompute: str
) -> None:
    T, S = 72, 9
    ledger = flops.beyond_6pt(config, T, S, attention, kernel, recompute, "sgd", tokens_per_step=20)
    parameters = models.parameters(config).total
    full = [
        flops.transformer_forward(config, T, S, attention).total,
        flops.transformer_backward(config, T, S, attention, kernel=kernel).total,
        flops.recomputation(config, T, S, recompute, attention).total,
        flops.optimizer_update(parameters, "sgd", steps=4),  # 72 tokens in steps of 20
    ]
    assert ledger["6PT"] == flops.training_run(parameters, T)
    assert ledger.total == sum(full[1:], full[0])


def test_beyond_6pt_charges_look_ups_only_where_they_are_counted_twice() -> None:
    untied = flops.beyond_6pt(SMALL, 72, 9)
    assert untied["embedding look-ups"].value == -6 * 37 * 24 * 72
    assert "embedding look-ups" not in flops.beyond_6pt(replace(SMALL, tie_word_embeddings=True), 72, 9)


def test_long_context_outgrows_6pt() -> None:
    """Llama 3 8B: attention passes half of 6PT between 16k and 32k positions, and 6PT itself before 64k."""
    config = models.load("llama-3-8b")
    share = {}
    for seq in (16_384, 32_768, 65_536):
        ledger = flops.beyond_6pt(config, seq, seq)
        share[seq] = float(ledger["attention"] / ledger["6PT"])
    assert share[16_384] == pytest.approx(12 * 32 * 4096 * 16_384 / (6 * 8_030_261_248))
    assert share[16_384] < 0.6 < share[32_768] < 1.2 < share[65_536]


# -- published formulas


def test_narayanan_is_our_count_with_recomputation() -> None:
    """Equation 3 counts four forwards of the layers and three of the head, as we do term by term."""
    config = replace(SMALL, num_key_value_heads=6, head_dim=4, gated_mlp=False, intermediate_size=96)
    ours = [
        flops.transformer_forward(config, 18, 9).total,
        flops.transformer_backward(config, 18, 9).total,
        flops.recomputation(config, 18, 9).total,
    ]
    assert flops.narayanan_flops(2, 3, 24, 9, 37) == sum(ours[1:], ours[0])


def test_narayanan_parameters_leave_out_the_last_norm() -> None:
    config = replace(
        VARIANTS["plain MLP, tied, learned, biases"],
        head_dim=4,
        intermediate_size=96,
        max_position_embeddings=9,
    )
    ours = models.parameters(config).total
    assert flops.narayanan_parameters(3, 24, 9, 37).value == ours.value - 2 * 24


def test_palm_formula() -> None:
    per_token = flops.palm_flops_per_token(1_000, 3, 6, 4, 9)
    assert per_token.value == 6_000 + 12 * 3 * 6 * 4 * 9
    assert per_token.unit == "FLOP/token"
    config = replace(SMALL, num_key_value_heads=6, head_dim=4)
    products = models.matmul_parameters(config).total
    ours = flops.transformer_forward(config, 18, 9).total + flops.transformer_backward(config, 18, 9).total
    assert flops.palm_flops_per_token(products, 3, 6, 4, 9).value * 18 == ours.value


def test_chinchilla_is_our_count_but_for_embeddings_and_softmax() -> None:
    config = replace(SMALL, num_key_value_heads=6, head_dim=4, gated_mlp=False)
    ledger = flops.chinchilla_forward(3, 24, 40, 6, 4, 9, 37)
    extra = ledger["embeddings"] + ledger["softmax"]
    assert ledger.total - extra == flops.transformer_forward(config, 9, 9).total
    assert ledger["softmax"].value == 3 * 3 * 6 * 9 * 9


# -- refused


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: flops.linear_forward(0, 5, 7), "M of at least 1; got 0"),
        (lambda: flops.linear_forward(3, -5, 7), "d_in of at least 1; got -5"),
        (lambda: flops.linear_forward(3, 5, 7.5), "whole number for d_out; got 7.5"),
        (lambda: flops.linear_forward("3", 5, 7), "whole number for M; got '3'"),
        (lambda: flops.linear_forward(True, 5, 7), "whole number for M; got True"),
        (lambda: flops.linear_forward(float("inf"), 5, 7), "whole number for M; got inf"),
        (lambda: flops.mlp_step(3, (5,)), "two widths.*got \\(5,\\)"),
        (lambda: flops.mlp_step(3, 5), "widths as a sequence"),
        (lambda: flops.training_run(Quantity(5, "token"), 7), "parameters.*got 5 token"),
        (lambda: flops.training_run(5, Quantity(7, "B")), "tokens.*got 7 B"),
        (lambda: flops.attention_forward(1, 1, 2, 3, attention="casual"), "did you mean 'causal'"),
        (lambda: flops.attention_backward(1, 1, 2, 3, kernel="flash"), "'eager', 'fused'; got 'flash'"),
        (lambda: flops.transformer_forward(SMALL, 18, 9, "half"), "'full', 'causal'; got 'half'"),
        (lambda: flops.transformer_backward(SMALL, 18, 9, kernel="fuse"), "did you mean 'fused'"),
        (lambda: flops.recomputation(SMALL, 18, 9, "all"), "'none', 'selective', 'full'; got 'all'"),
        (lambda: flops.recomputation(SMALL, 18, 9, segment=4), "segment of 1 to 3 layers; got 4"),
        (lambda: flops.recomputation(SMALL, 18, 9, segment=0), "segment of at least 1; got 0"),
        (lambda: flops.recomputation(SMALL, 18, 9, "none", segment=1), "recompute='full' alone; got 'none'"),
        (lambda: flops.mlp_recomputation(3, (5, 7), 2), "segment of 1 to 1 layers; got 2"),
        (lambda: flops.optimizer_update(10, "adamv"), "did you mean 'adam' or 'adamw'"),
        (lambda: flops.beyond_6pt(SMALL, 18, 9, tokens_per_step=0), "tokens_per_step of at least 1"),
    ],
)
def test_bad_input(call, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LectureError, match=said):
        call()
