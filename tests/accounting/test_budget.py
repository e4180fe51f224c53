"""A step's three ledgers: a tiny model by hand, each part against its own module, and known machines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest

from lecture_lib.accounting import flops, kv_cache, models, operators, peak
from lecture_lib.accounting.budget import Budget, decode_step, training_step
from lecture_lib.accounting.hardware import device
from lecture_lib.accounting.memory import model_states, named_recipe
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.quantity import LectureError, Ledger, Quantity

H100 = "NVIDIA H100 80GB HBM3"


@dataclass(frozen=True)
class MadeUp:
    """1,000 FLOP/s and 100 B/s: a ridge of 10 FLOP/B."""

    name: str = "a made-up device"
    memory: Quantity = Quantity(10**9, "B")
    bandwidth: Quantity = Quantity(100, "B/s")

    def peak(self, dtype: object) -> Quantity:
        if str(dtype) not in ("fp32", "bf16"):
            raise LectureError("none")
        return Quantity(1000 if str(dtype) == "fp32" else 3000, "FLOP/s")


TINY = ModelConfig(
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
    name="tiny",
)
PARTS = ["attention projections", "attention", "MLP", "norms, activations, sums", "head", "loss", "embedding"]


def ints(ledger: Ledger) -> dict[str, int]:
    return {row: int(q) for row, q in ledger.items()}


def test_a_training_step_by_hand() -> None:
    """Two sequences of five tokens in FP32, fused attention, SGD: every part written out."""
    recipe = replace(named_recipe("fp32"), optimizer="sgd")
    step = training_step(TINY, (2, 5), recipe, MadeUp())
    T, s = 10, 4
    # q 6 → 12, k and v 6 → 4, o 12 → 6; gate and up 6 → 10, down 10 → 6; head 6 → 11.
    projections, mlp, head = [(6, 12), (6, 4), (6, 4), (12, 6)], [(6, 10), (6, 10), (10, 6)], [(6, 11)]

    def products(matrices: list[tuple[int, int]]) -> int:
        return sum(2 * T * a * b for a, b in matrices)

    def moved(matrices: list[tuple[int, int]]) -> int:  # inputs, weights, outputs
        return sum(s * (T * a + a * b + T * b) for a, b in matrices)

    square = 2 * 3 * 5 * 5 * 4  # sequences, heads, queries, keys, width: half of 2 FLOPs for each, as causal
    P = 2 * (6 * 12 + 2 * 6 * 4 + 12 * 6 + 3 * 60 + 2 * 6) + 6 + 2 * 11 * 6
    assert ints(step.arithmetic) == {
        "forward: attention projections": 2 * products(projections),
        "forward: attention": 2 * 2 * square,
        "forward: MLP": 2 * products(mlp),
        "forward: norms, activations, sums": 0,
        "forward: head": products(head),
        "forward: loss": 0,
        "forward: embedding": 0,
        "backward: attention projections": 2 * 2 * products(projections),
        "backward: attention": 2 * 5 * square,
        "backward: MLP": 2 * 2 * products(mlp),
        "backward: norms, activations, sums": 0,
        "backward: head": 2 * products(head),
        "backward: loss": 0,
        "backward: embedding": 0,
        "optimizer update": 2 * P,
    }
    # Values a token and layer: two norms, two sums, turned queries and keys, gate and up to their product.
    forward = 2 * 2 * 6 + 2 * 3 * 6 + 2 * 16 + 3 * 10
    backward = 2 * 3 * 6 + 2 * 3 * 6 + 2 * 16 + 5 * 10
    assert ints(step.traffic) == {
        "forward: attention projections": 2 * moved(projections),
        "forward: attention": 2 * s * T * (12 + 4 + 4 + 12),  # queries, keys, values, output
        "forward: MLP": 2 * moved(mlp),
        "forward: norms, activations, sums": 2 * s * T * forward,
        "forward: head": moved(head),
        "forward: loss": s * T * 2 * 11,
        "forward: embedding": T * (8 + s * 6 + s * 6),
        "backward: attention projections": 2 * 2 * moved(projections),
        # Those four and the output's gradient read; the gradients of the first three written.
        "backward: attention": 2 * s * T * (12 + 4 + 4 + 12 + 12 + 12 + 4 + 4),
        "backward: MLP": 2 * 2 * moved(mlp),
        "backward: norms, activations, sums": 2 * s * T * backward,
        "backward: head": 2 * moved(head),
        "backward: loss": s * T * 2 * 11,
        "backward: embedding": s * (T * 6 + 11 * 6),
        "optimizer update": 3 * 4 * P,
    }
    for part, bound in step.time.items():
        work, traffic = int(step.arithmetic[part]), int(step.traffic[part])
        assert bound.value == max(Fraction(work, 1000), Fraction(traffic, 100))
        assert step.limits[part] == ("arithmetic" if work >= 10 * traffic else "bandwidth")
    assert step.tokens == 10 and step.fits
    assert float(step.time_per_token.to("s/token").value) == pytest.approx(float(step.time.total.value) / 10)


CONFIGS: dict[str, tuple[ModelConfig, dict[str, Any]]] = {
    "fused": (TINY, {}),
    "eager": (TINY, {"fused": False}),
    "checkpointed": (TINY, {"segment": 1}),
    "eager, checkpointed, two microbatches": (TINY, {"fused": False, "segment": 2, "microbatches": 2}),
    "plain, tied, learned": (
        replace(
            TINY,
            gated_mlp=False,
            tie_word_embeddings=True,
            positions="learned",
            norm_bias=True,
            mlp_bias=True,
        ),
        {"segment": 2},
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_arithmetic_is_the_flops_modules(name: str) -> None:
    config, options = CONFIGS[name]
    step = training_step(config, (4, 5), "lecture", H100, **options)
    fused, segment = options.get("fused", True), options.get("segment")
    pairs, kernel = ("causal", "fused") if fused else ("full", "eager")
    ledgers = [
        flops.transformer_forward(config, 20, 5, pairs),
        flops.transformer_backward(config, 20, 5, pairs, kernel=kernel),
    ]
    if segment:
        ledgers.append(flops.recomputation(config, 20, 5, "full", pairs, segment))
    update = flops.optimizer_update(models.parameters(config).total)
    assert step.arithmetic.total == sum((ledger.total for ledger in ledgers), update)
    assert list(step.arithmetic) == list(step.traffic) == list(step.time) == list(step.limits)


@pytest.mark.parametrize("fused", [True, False])
def test_attention_traffic_is_the_operators(fused: bool) -> None:
    step = training_step(TINY, (4, 5), "lecture", H100, fused=fused)
    one = operators.attention(4, 3, 5, 5, 4, "bf16", kv_heads=1, fused=fused)
    assert step.traffic["forward: attention"].value == 2 * one.bytes.value


def test_recomputation_moves_what_the_forward_moves_but_for_what_is_stopped() -> None:
    step = training_step(TINY, (4, 5), "lecture", H100, segment=1)
    layers = [step.traffic[f"forward: {part}"].value for part in PARTS[:4]]
    stopped = operators.gemm(20, 10, 6).bytes.value
    assert step.traffic["recomputation"].value == sum(layers) - 2 * stopped


def test_microbatches_read_weights_again_and_add_gradients_up() -> None:
    one, two = (training_step(TINY, (4, 5), "lecture", H100, microbatches=m) for m in (1, 2))
    P = int(models.parameters(TINY).total)
    assert two.arithmetic.total == one.arithmetic.total
    assert two.traffic["gradient sums"].value == 3 * 2 * P and "gradient sums" not in one.traffic
    weights = 2 * 2 * sum(d_in * d_out for d_in, d_out in models.mlp_matrices(TINY, 10).values())
    assert two.traffic["forward: MLP"].value - one.traffic["forward: MLP"].value == weights
    assert two.storage["activations"] < one.storage["activations"]
    main = training_step(TINY, (4, 5), "bf16-master-both-gradients", H100)
    assert main.traffic["gradient sums"].value == 3 * 4 * P


def test_storage_is_the_recipe_and_the_walk() -> None:
    step = training_step(TINY, (4, 5), "lecture", H100, segment=1)
    states = model_states(models.parameters(TINY).total, "lecture")
    walk = peak.transformer_peak(TINY, 4, 5, dtype="bf16", optimizer="sgd", segment=1)
    beside = {row: walk.by_category[row] for row in ("activations", "temporaries")}
    assert ints(step.storage) == {**ints(states), **{row: int(q) for row, q in beside.items()}}
    assert walk.moment in step.storage["activations"].conventions[0]
    cast = training_step(TINY, (4, 5), "autocast", H100)
    wider = peak.transformer_peak(TINY, 4, 5, dtype="fp32", autocast="bf16", optimizer="sgd")
    assert cast.storage["activations"] == wider.by_category["activations"]
    assert cast.time.total < training_step(TINY, (4, 5), "fp32", H100).time.total


# -- decoding


def test_a_decoding_step_by_hand() -> None:
    step = decode_step(TINY, 2, 7, "fp32", MadeUp())
    s, B, C = 4, 2, 7
    assert ints(step.arithmetic) == {
        "attention projections": 2 * 2 * B * (6 * 12 + 2 * 6 * 4 + 12 * 6),
        "attention": 2 * 2 * B * 3 * C * 8,
        "MLP": 2 * 2 * B * 3 * 60,
        "norms, activations, sums": 0,
        "head": 2 * B * 6 * 11,
        "embedding": 0,
    }
    cache = 2 * 2 * 4 * s  # two layers, a key and a value of width 4: bytes of one token
    assert ints(step.traffic) == {
        "attention projections": 2 * s * (72 + 24 + 24 + 72 + B * (6 + 12 + 2 * (6 + 4) + 12 + 6)),
        "attention": B * (C + 1) * cache + 2 * s * B * 3 * 8,
        "MLP": 2 * s * (180 + B * 3 * 16),
        "norms, activations, sums": 2 * s * B * (2 * 2 * 6 + 36 + 32 + 30),
        "head": s * (66 + B * 17),
        "embedding": B * (8 + 2 * s * 6),
    }
    P = int(models.parameters(TINY).total)
    assert ints(step.storage) == {"weights": 4 * P, "KV cache": B * C * cache, "logits": 4 * B * 11}
    assert step.tokens == 2


def test_llama_decodes_one_sequence_at_the_speed_of_its_weights() -> None:
    step = decode_step("llama-3-8b", 1, 1024, "bf16", H100)
    read = 2 * int(models.matmul_parameters(models.load("llama-3-8b")).total)
    cache = int(kv_cache.kv_cache(models.load("llama-3-8b"), 1, 1024).total)
    assert step.limiting == "bandwidth" and set(step.limits.values()) == {"bandwidth"} and step.fits
    assert float(step.time.total.value) == pytest.approx((read + cache) / 3.35e12, rel=1e-3)
    assert f"{step.time.total:.2f ms}" == "4.52 ms"
    assert step.change is not None and float(step.change.after / step.change.before) == pytest.approx(
        0.5, rel=0.01
    )


def test_many_sequences_share_the_weights_until_arithmetic_is_the_limit() -> None:
    one, many = (decode_step("llama-3-8b", B, 128, "bf16", H100) for B in (1, 512))
    assert many.time_per_token < one.time_per_token / 50
    assert many.limits["MLP"] == "arithmetic" and many.limits["attention"] == "bandwidth"


def test_the_cache_outgrows_the_device() -> None:
    step = decode_step("llama-3-8b", 64, 8192, "bf16", H100)
    assert not step.fits and step.limiting == "storage"
    assert step.storage["KV cache"] == Quantity(64, "GiB")
    assert step.change is not None and step.change.after < device(H100).memory
    assert "does not fit" in str(step) and "FP8" in step.change.what


def test_experts_that_are_hit() -> None:
    """One token reads its own experts; many read all of them."""
    config = replace(
        TINY,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=5,
        n_shared_experts=1,
        first_k_dense_replace=1,
    )
    expert, row = 3 * 6 * 5, 3 * (6 + 5)
    one = decode_step(config, 1, 7, "fp32", MadeUp())
    assert one.traffic["experts"].value == 4 * (3 * expert + 3 * row + 6 * 8 + 6 + 8)
    assert one.arithmetic["experts"].value == 2 * (3 * expert + 6 * 8)
    two = decode_step(config, 2, 7, "fp32", MadeUp())
    hit = 8 * (1 - Fraction(6, 8) ** 2)
    assert two.traffic["experts"].value == 4 * ((hit + 1) * expert + 2 * 3 * row + 6 * 8 + 2 * (6 + 8))
    many = decode_step(config, 200, 7, "fp32", MadeUp()).traffic["experts"].value
    assert float(many - 4 * (200 * (3 * row + 14) + 48)) == pytest.approx(4 * 9 * expert, rel=1e-12)
    assert one.traffic["norms, activations, sums"].value == 4 * (2 * (24 + 36 + 32) + 3 * (10 + 3 * 5))
    assert "MLP" in one.traffic


def test_latents_are_what_latent_attention_reads() -> None:
    config = models.load("deepseek-v3")
    step = decode_step(config, 1, 4096, "fp8_e4m3", "B200")
    cache = kv_cache.kv_cache(config, 1, 4096, "fp8_e4m3").total
    assert step.storage["KV cache"] == cache
    assert step.arithmetic["attention"].value == 2 * 61 * 128 * 4096 * (576 + 512)
    assert step.traffic["attention"].value == cache.value * 4097 // 4096 + 61 * 128 * (576 + 512)


# -- limits and changes


def test_llama_in_training() -> None:
    step = training_step("llama-3-8b", (1, 8192), "lecture", H100)
    assert not step.fits and step.limiting == "storage"
    P = int(models.parameters(models.load("llama-3-8b")).total)
    states = sum(
        int(step.storage[row]) for row in ("parameters", "gradients", "first moment", "second moment")
    )
    assert states == 12 * P  # 96.4 GB: too much before the first activation
    assert step.change is not None and "8 devices" in step.change.what
    seven_eighths = Quantity(Fraction(7, 8) * 12 * P, "B")
    assert step.change.before - step.change.after == seven_eighths
    room = training_step(
        "llama-3-8b", (1, 8192), "lecture", replace(MadeUp(), memory=Quantity(288, "GB")), dtype="bf16"
    )
    assert room.fits
    wide = training_step("llama-3-8b", (1, 8192), "lecture", "MI355X")
    assert wide.fits and wide.limiting == "arithmetic"
    assert wide.change is not None and wide.change.what == "matrix products in FP8"


def test_changes_that_move_the_limit() -> None:
    big = replace(TINY, num_hidden_layers=8, max_position_embeddings=4096)
    small_states = training_step(
        big, (8, 1024), "lecture", replace(MadeUp(), memory=Quantity(1, "MB")), dtype="bf16"
    )
    assert small_states.limiting == "storage"
    assert small_states.change is not None
    assert small_states.change.what == "one sequence in each microbatch"
    one = training_step(big, (1, 4096), "lecture", replace(MadeUp(), memory=Quantity(1, "MB")), dtype="bf16")
    assert one.change is not None and one.change.what == "checkpoint every layer"
    again = training_step(
        big, (1, 4096), "lecture", replace(MadeUp(), memory=Quantity(1, "MB")), dtype="bf16", fused=False
    )
    assert again.change is not None and again.change.what == "fused attention"
    slow = training_step(TINY, (2, 5), "fp32", MadeUp())
    assert slow.limiting == "bandwidth"
    assert slow.change is not None and slow.change.what in ("matrix products in BF16", "twice the sequences")


def test_a_change_is_what_the_step_is_with_it() -> None:
    before = training_step("gpt2", (8, 1024), "autocast", H100, fused=False)
    after = training_step("gpt2", (8, 1024), "autocast", H100)
    assert before.limiting == "bandwidth" and before.change is not None
    assert before.change.what == "fused attention"
    assert before.change.before == before.time_per_token and before.change.after == after.time_per_token
    repeated = training_step("gpt2", (8, 1024), "autocast", "A100-SXM-80GB", segment=1)
    assert repeated.limiting == "arithmetic" and repeated.change is not None
    assert repeated.change.what == "keep all activations, no recomputation"


def test_no_change_is_said_so() -> None:
    step = decode_step(
        TINY, 1, 1, "bf16", replace(MadeUp(), memory=Quantity(10**9, "B"), bandwidth=Quantity(10**9, "B/s"))
    )
    assert step.limiting == "arithmetic" and step.change is None
    assert "none of the changes tried moves it" in str(step)


# -- how it shows itself


@pytest.mark.parametrize(
    "step", [decode_step(TINY, 1, 7, "bf16", H100), training_step(TINY, (2, 5), "lecture", H100)]
)
def test_text_and_html(step: Budget) -> None:
    for shown in (str(step), step._repr_html_()):
        assert "tiny" in shown and "H100" in shown and "It fits" in shown and "First change: " in shown
        assert all(part in shown for part in step.time) and all(row in shown for row in step.storage)
        assert "The limit is bandwidth" in shown
    assert step._repr_html_().count("<table>") == step._repr_html_().count("</table>") == 2
    assert repr(step) == str(step)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: training_step("lama", (1, 8), "lecture", H100), "'lama'"),
        (lambda: training_step(TINY, 8, "lecture", H100), "batch as a sequence"),
        (lambda: training_step(TINY, (8,), "lecture", H100), "sequences, tokens of each"),
        (lambda: training_step(TINY, (0, 8), "lecture", H100), "of at least 1; got 0"),
        (lambda: training_step(TINY, (1, 65), "lecture", H100), "max_position_embeddings = 64"),
        (lambda: training_step(TINY, (1, 8), "lectur", H100), "did you mean 'lecture'"),
        (lambda: training_step(TINY, (1, 8), "lecture", "H100"), "whole name of a device"),
        (lambda: training_step(TINY, (1, 8), "lecture", 7), "ceilings"),
        (lambda: training_step(TINY, (1, 8), "lecture", H100, segment=3), "segment of 1 to 2 layers"),
        (
            lambda: training_step(TINY, (3, 8), "lecture", H100, microbatches=2),
            "2 microbatches divide; got 3",
        ),
        (lambda: training_step("mixtral-8x7b", (1, 8), "lecture", H100), "num_experts = 0"),
        (lambda: decode_step(TINY, 0, 8, "bf16", H100), "batch of at least 1"),
        (lambda: decode_step(TINY, 1, 65, "bf16", H100), "max_position_embeddings = 64; got 65"),
        (lambda: decode_step(TINY, 1, 8, "bf17", H100), "bf17"),
        (lambda: decode_step(TINY, 1, 8, "fp8_e4m3", "A100-SXM-80GB"), "recorded peak on"),
    ],
)
def test_bad_input(call: Callable[[], object], said: str) -> None:
    with pytest.raises(LectureError, match=said):
        call()


def test_no_torch_is_needed() -> None:
    code = f"""
import sys
sys.modules["torch"] = sys.modules["numpy"] = None  # importing one raises
from lecture_lib.accounting import budget
budget.training_step("gpt2", (1, 8), "lecture", {H100!r})
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("done\n", "")
