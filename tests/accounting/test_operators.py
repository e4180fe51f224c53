from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest

from lecture_lib.accounting.contraction import contraction
from lecture_lib.accounting.flops import optimizer_update
from lecture_lib.accounting.hardware import device
from lecture_lib.accounting.models import load
from lecture_lib.accounting.operators import (
    Cost,
    attention,
    batched_gemm,
    decode_attention,
    decode_step,
    dot,
    elementwise,
    embedding,
    fused,
    gelu,
    gemm,
    in_sequence,
    layer_norm,
    optimizer_step,
    reduction,
    relu,
    rms_norm,
    softmax,
    tiled_gemm,
    vector_matrix,
)
from lecture_lib.quantity import LectureError, Quantity

SIMPLE = [
    gemm(3, 5, 7),
    gemm(3, 5, 7, "fp32", exact=True),
    batched_gemm(2, 3, 5, 7),
    tiled_gemm(30, 50, 70, 1000),
    elementwise(11, 3, "fp32", inputs=2),
    reduction(3, 7),
    softmax(3, 7),
    layer_norm(3, 7),
    rms_norm(3, 7, "fp32"),
    attention(2, 6, 5, 7, 4),
    attention(2, 6, 50, 7, 4, kv_heads=3, on_chip=500),
    decode_attention(load("deepseek-v3"), 3, 7),
    decode_step(load("llama-3.1-8b"), 3, 7),
    embedding(5, 7),
    optimizer_step(11, "adamw", master="fp32"),
    optimizer_step(11, "sgd", gradient="fp32"),
    dot(9),
    vector_matrix(9),
]


@pytest.mark.parametrize("cost", SIMPLE, ids=lambda cost: cost.name)
def test_every_formula_with_its_numbers_gives_the_value(cost: Cost) -> None:
    for q in (cost.flops, cost.reads, cost.writes, cost.bytes, cost.intensity):
        text = q.numbers.replace(",", "").replace("·", "*")
        text = re.sub(r"⌈([^⌉]*)⌉", r"math.ceil(\1)", text)
        assert eval(text, {"math": math}) == pytest.approx(float(q.value), rel=1e-12), (q.name, text)


@pytest.mark.parametrize("cost", SIMPLE, ids=lambda cost: cost.name)
def test_every_cost_states_its_assumptions(cost: Cost) -> None:
    assert cost.bytes == cost.reads + cost.writes
    assert cost.bytes.conventions and cost.intensity.name and cost.intensity.conventions
    assert isinstance(cost.flops.value, int)


# -- the lecture


def test_gemm_as_the_lecture_has_it() -> None:
    shown = [f"{gemm(M, 4096, 4096, dtype='bf16').intensity:.1f}" for M in (1, 128, 1024)]
    assert shown == ["1.0 FLOP/B", "120.5 FLOP/B", "682.7 FLOP/B"]
    assert gemm(1, 4096, 4096).bytes == Quantity(2 * (4096 + 4096 * 4096 + 4096), "B")
    assert abs(float(gemm(1, 4096, 4096).intensity) - 1) < 1e-3
    assert gemm(900, 900, 900).intensity.value == 300


def test_the_lecture_s_table() -> None:
    n = 1 << 20
    assert relu(n).intensity.value == Fraction(1, 4) and relu(n).bytes.value == 4 * n
    assert gelu(n).intensity.value == 5 and gelu(n).flops.value == 20 * n
    assert dot(n).flops.value == 2 * n - 1 and dot(n).bytes.value == 4 * n + 2
    assert f"{dot(n).intensity:.2f}" == "0.50 FLOP/B"
    n = 1024
    assert vector_matrix(n).flops.value == n * (2 * n - 1)
    assert vector_matrix(n).bytes.value == 2 * n * n + 4 * n
    assert float(vector_matrix(n).intensity) == pytest.approx(0.9975633528265108, rel=1e-12)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp8_e4m3"])
def test_a_gemm_is_the_contraction_it_is(dtype: str) -> None:
    cost = gemm(3, 5, 7, dtype)
    c = contraction("row i, i o -> row o", dtype=dtype, row=3, i=5, o=7)
    assert (cost.flops, cost.bytes, cost.intensity) == (c.flops, c.bytes, c.intensity)
    assert gemm(3, 5, 7, dtype, exact=True).flops == c.flops_exact
    c = contraction("b row i, b i o -> b row o", dtype=dtype, b=4, row=3, i=5, o=7)
    cost = batched_gemm(4, 3, 5, 7, dtype)
    assert (cost.flops, cost.bytes) == (c.flops, c.bytes)
    assert cost.intensity == gemm(3, 5, 7, dtype).intensity


def test_half_bytes_stay_exact() -> None:
    assert gemm(3, 5, 7, "fp4").bytes.value == Fraction(15 + 35 + 21, 2)


# -- tiles


def read_by_tiles(M: int, d_in: int, d_out: int, m: int, n: int, s: int) -> int:
    """Walks the output tile by tile, and d_in within each, and counts the bytes fetched."""
    fetched = 0
    for row in range(0, M, m):
        for column in range(0, d_out, n):
            for _ in range(d_in):
                fetched += s * (min(m, M - row) + min(n, d_out - column))
    return fetched


@pytest.mark.parametrize("on_chip", [8, 10, 100, 999, 5_000, 10**6])
@pytest.mark.parametrize(("M", "d_in", "d_out"), [(30, 11, 70), (1, 13, 90), (64, 5, 64), (100, 7, 3)])
def test_tiles_read_what_a_walk_reads(M: int, d_in: int, d_out: int, on_chip: int) -> None:
    cost = tiled_gemm(M, d_in, d_out, on_chip)
    m, n = cost.reads.inputs["m"], cost.reads.inputs["n"]
    assert isinstance(m, int) and isinstance(n, int)
    assert 4 * m * n + 2 * (m + n) <= on_chip
    assert cost.reads.value == read_by_tiles(M, d_in, d_out, m, n, 2)
    assert cost.writes.value == 2 * M * d_out and cost.flops == gemm(M, d_in, d_out).flops
    assert cost.bytes >= gemm(M, d_in, d_out).bytes


def test_a_tile_cannot_grow_further() -> None:
    for on_chip in range(8, 3000, 7):
        cost = tiled_gemm(40, 3, 25, on_chip)
        m, n = cost.reads.inputs["m"], cost.reads.inputs["n"]
        for taller, wider in ((m + 1, n), (m, n + 1)):  # type: ignore[operator]
            too_big = 4 * taller * wider + 2 * (taller + wider) > on_chip
            assert too_big or taller > 40 or wider > 25


def test_tiles_lie_between_the_ideal_and_the_known_lower_bound() -> None:
    n = 4096
    last = None
    for on_chip in (8, 1024, 228 * 1024, 50 * 2**20, 2**30):
        cost = tiled_gemm(n, n, n, on_chip)
        # Hong and Kung 1981; Smith et al. 2019: at least 2·n³/√S words for S words on chip, less S.
        words = Fraction(on_chip, 2)
        assert float(cost.bytes) >= 2 * (2 * n**3 / math.sqrt(words) - float(words))
        assert last is None or cost.bytes <= last
        last = cost.bytes
    assert last == gemm(n, n, n).bytes


# -- fusion


def test_a_fused_chain_reads_once_and_writes_once() -> None:
    chain = [relu(100), gelu(100), elementwise(100, 2, inputs=1)]
    apart, together = in_sequence(*chain), fused(*chain)
    assert apart.bytes.value == 3 * 400 and together.bytes.value == 400
    assert apart.flops == together.flops == Quantity(23 * 100, "FLOP")
    assert together.intensity.value == 3 * apart.intensity.value


def test_an_epilogue_rides_on_the_product() -> None:
    product, activation = gemm(8, 16, 32), gelu(8 * 32)
    both = fused(product, activation)
    assert both.bytes == product.bytes
    assert both.flops == product.flops + activation.flops
    residual = elementwise(8 * 32, 1, inputs=2)
    assert fused(product, residual).reads == product.reads + Quantity(2 * 8 * 32, "B")


def test_only_what_follows_can_be_fused() -> None:
    with pytest.raises(LectureError, match="expected ReLU to read all that GEMM writes"):
        fused(gemm(8, 16, 32), relu(8))
    for nothing in (fused, in_sequence):
        with pytest.raises(LectureError, match="costs"):
            nothing()


# -- attention


def test_fused_attention_is_the_chain_kept_on_chip() -> None:
    shape = {"batch": 2, "heads": 6, "queries": 50, "keys": 70, "head_dim": 16}
    whole, parts = attention(**shape), attention(**shape, fused=False)  # type: ignore[arg-type]
    assert whole.flops == parts.flops
    assert whole.flops.value == 4 * 2 * 6 * 50 * 70 * 16 + 2 * 6 * 50 * (5 * 70 - 2)
    assert whole.bytes.value == 2 * 2 * 6 * 16 * (50 + 70 + 70 + 50)
    # Scores out, in, probabilities out, in.
    assert (parts.bytes - whole.bytes).value == 4 * 2 * 2 * 6 * 50 * 70
    chain = fused(batched_gemm(12, 50, 16, 70), softmax(12 * 50, 70), batched_gemm(12, 50, 70, 16))
    assert (chain.flops, chain.bytes) == (whole.flops, whole.bytes)


def test_decoding_reads_the_cache_once_for_each_group() -> None:
    many = attention(1, 32, 1, 4096, 128)
    few = attention(1, 32, 1, 4096, 128, kv_heads=8)
    assert many.flops == few.flops
    cache = 2 * 2 * 4096 * 128
    assert many.bytes.value == 32 * cache + 2 * 2 * 32 * 128
    assert few.bytes.value == 8 * cache + 2 * 2 * 32 * 128
    assert device("H100-SXM").peak("bf16").value / 3.35e12 > float(few.intensity) > 4
    assert few.limit(device("H100-SXM").peak("bf16"), device("H100-SXM").bandwidth) == "bandwidth"


@pytest.mark.parametrize("on_chip", [8 * 16, 1000, 5000, 10**6])
@pytest.mark.parametrize("kv_heads", [6, 2])
def test_small_chips_read_keys_again(on_chip: int, kv_heads: int) -> None:
    cost = attention(2, 6, 50, 70, 16, kv_heads=kv_heads, on_chip=on_chip)
    rows = on_chip // (4 * 2 * 16)
    passes = sum(1 for _ in range(0, 6 // kv_heads * 50, rows))
    assert cost.reads.value == 2 * 2 * (6 * 50 * 16 + passes * 2 * kv_heads * 70 * 16)
    assert cost.bytes >= attention(2, 6, 50, 70, 16, kv_heads=kv_heads).bytes


# -- row operators, tables, optimizers


def test_row_operators_count_what_a_loop_counts() -> None:
    rows, n = 3, 7

    def summed(first: int, each: int, last: int) -> int:
        return sum(first + each * n + last for _ in range(rows))

    assert reduction(rows, n).flops.value == rows * (n - 1)
    assert softmax(rows, n).flops.value == rows * ((n - 1) + n + n + (n - 1) + n)
    assert layer_norm(rows, n).flops.value == rows * ((n - 1) + 1 + n + n + (n - 1) + 3 + 3 * n)
    assert rms_norm(rows, n).flops.value == rows * (n + (n - 1) + 3 + 2 * n) == summed(0, 4, 2)
    assert layer_norm(rows, n).reads.value == 2 * (rows * n + 2 * n)
    assert rms_norm(rows, n).reads.value == 2 * (rows * n + n)


def test_a_look_up_moves_bytes_and_computes_nothing() -> None:
    cost = embedding(1000, 64)
    assert cost.flops.value == 0 and cost.intensity.value == 0
    assert cost.bytes.value == 1000 * (8 + 2 * 64 + 2 * 64)


def test_optimizer_steps_move_every_array() -> None:
    # weights, gradients and two FP32 moments: 2 + 2 + 4 + 4 read, 2 + 4 + 4 written.
    assert optimizer_step(100).bytes.value == 100 * (12 + 10)
    # FP32 master: 4 + 2 + 8 read, 2 + 4 + 8 written.
    assert optimizer_step(100, master="fp32").bytes.value == 100 * (14 + 14)
    assert optimizer_step(100, "sgd", "fp32", "fp32").bytes.value == 100 * (8 + 4)
    assert optimizer_step(100, "adamw").flops == optimizer_update(100, "adamw")
    with pytest.raises(LectureError, match="adamw"):
        optimizer_step(100, "adamW")


def test_time_bound_and_limit() -> None:
    h100 = device("H100-SXM")
    peak, bandwidth = h100.peak("bf16"), h100.bandwidth
    small, large = gemm(128, 4096, 4096), gemm(4096, 4096, 4096)
    assert (small.limit(peak, bandwidth), large.limit(peak, bandwidth)) == ("bandwidth", "arithmetic")
    assert small.time_bound(peak, bandwidth) == small.bytes / bandwidth
    assert large.time_bound(peak, bandwidth) == large.flops / peak
    with pytest.raises(LectureError, match="dense peak"):
        large.time_bound(h100.sparse_peak("bf16"), bandwidth)


def test_shown() -> None:
    cost = gemm(128, 4096, 4096)
    assert str(cost) == "GEMM: 4.295 GFLOP, 35.65 MB (34 MiB), 120.5 FLOP/B"
    assert cost._repr_html_().count("<details>") == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda: gemm(0, 5, 7),
        lambda: gemm(-3, 5, 7),
        lambda: gemm(3.5, 5, 7),  # type: ignore[arg-type]
        lambda: gemm(3, 5, True),
        lambda: gemm(3, 5, "7"),  # type: ignore[arg-type]
        lambda: gemm(3, 5, 7, "bf61"),
        lambda: gemm(3, 5, 7, "fp8"),
        lambda: batched_gemm(0, 3, 5, 7),
        lambda: tiled_gemm(3, 5, 7, 7),
        lambda: tiled_gemm(3, 5, 7, 0),
        lambda: tiled_gemm(3, 5, 7, Quantity(1, "FLOP")),
        lambda: elementwise(3, -1),
        lambda: elementwise(3, 1, inputs=0),
        lambda: softmax(3, 0),
        lambda: attention(1, 6, 5, 7, 4, kv_heads=4),
        lambda: attention(1, 6, 5, 7, 4, kv_heads=0),
        lambda: attention(1, 6, 5, 7, 4, on_chip=31),
        lambda: attention(1, 6, 5, 7, 4, fused=False, on_chip=1000),
        lambda: embedding(5, 7, index="int63"),
        lambda: optimizer_step(0),
        lambda: fused(gemm(1, 2, 3), "gelu"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_one_error(call: object) -> None:
    with pytest.raises(LectureError, match="expected"):
        call()  # type: ignore[operator]


def test_a_decoding_step_reads_weights_once_and_every_cache() -> None:
    llama = load("llama-3.1-8b")
    P = 7_504_658_432
    one, many = decode_step(llama, 1, 1000), decode_step(llama, 16, 1000)
    assert one.reads.value == 2 * P + 1000 * 131_072 and one.writes.value == 131_072
    assert many.reads.value == 2 * P + 16 * 1000 * 131_072
    # Every query head meets every cached position: a score and a weighted value, 2·d FLOPs each.
    assert one.flops.value == 2 * P + 4 * 32 * 32 * 128 * 1000
    assert many.flops.value == 16 * one.flops.value
    assert decode_step(llama, 1, 1000, "fp32").bytes.value == 2 * one.bytes.value


def test_a_decoding_step_of_a_model_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(LectureError, match="dense model"):
        decode_step(load("mixtral-8x7b"), 1, 1)


def test_decoding_with_latent_attention_reads_the_latents() -> None:
    deepseek = load("deepseek-v3")
    latent = 61 * (512 + 64) * 2  # bytes of one position
    cost = decode_attention(deepseek, 3, 7)
    assert cost.reads.value == 3 * 7 * latent and cost.writes.value == 3 * latent
    assert cost.flops.value == 2 * 3 * 61 * 128 * 7 * (512 + 64 + 512)
