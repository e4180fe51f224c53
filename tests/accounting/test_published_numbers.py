"""Published numbers that are in no other table: models, formats, memory, runs; each from its own inputs.

`test_reference_numbers` has the course's reference rows, `test_models` the models of data/models.toml. These
are others, so that a function that fits the rows alone is found out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lecture_lib.accounting import (
    activations,
    allocator,
    dtypes,
    flops,
    formats,
    kv_cache,
    memory,
    models,
    utilization,
)
from lecture_lib.accounting.hardware import device, stated_peak
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.quantity import Quantity

# -- parameters


def gpt(layers: int, width: int, vocab: int, positions: int = 2048, **changes: Any) -> ModelConfig:
    """GPT-2's architecture in another size."""
    return replace(
        models.load("gpt2"),
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        intermediate_size=4 * width,
        vocab_size=vocab,
        max_position_embeddings=positions,
        **changes,
    )


def neox(layers: int, width: int, vocab: int) -> ModelConfig:
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "vocab_size": vocab}
    sizes |= {"intermediate_size": 4 * width, "num_attention_heads": 8, "max_position_embeddings": 2048}
    return models.from_config_json({"model_type": "gpt_neox", "tie_word_embeddings": False, **sizes})


LLAMA = models.load("llama-1-7b")
V2 = replace(
    models.load("deepseek-v3"),
    vocab_size=102_400,
    hidden_size=5120,
    num_hidden_layers=60,
    intermediate_size=12_288,
    moe_intermediate_size=1536,
    num_experts=160,
    num_experts_per_tok=6,
    n_shared_experts=2,
    first_k_dense_replace=1,
    router_bias=False,
)
V2_LITE = replace(
    V2,
    hidden_size=2048,
    num_hidden_layers=27,
    num_attention_heads=16,
    num_key_value_heads=16,
    intermediate_size=10_944,
    moe_intermediate_size=1408,
    num_experts=64,
    q_lora_rank=None,
)


@pytest.mark.parametrize(
    ("config", "total"),
    [
        # EleutherAI/pythia README, total parameters
        (neox(6, 512, 50304), 70_426_624),
        (neox(12, 768, 50304), 162_322_944),
        (neox(24, 1024, 50304), 405_334_016),
        (neox(16, 2048, 50304), 1_011_781_632),
        (neox(24, 2048, 50304), 1_414_647_808),
        (neox(32, 2560, 50304), 2_775_208_960),
        (neox(36, 5120, 50688), 11_846_072_320),
        # facebook/opt-*: 2,048 positions and two rows of padding
        (gpt(12, 768, 50272, 2050), 125_239_296),
        (gpt(24, 2048, 50272, 2050), 1_315_758_080),
        (gpt(32, 4096, 50272, 2050), 6_658_473_984),
        # bert-large-uncased, with token types and pooler
        (gpt(24, 1024, 30522, 512, type_vocab_size=2, pooler=True), 335_141_888),
        # deepseek-ai/DeepSeek-V2 and -V2-Lite (236B and 15.7B)
        (V2, 235_741_434_880),
        (V2_LITE, 15_706_484_224),
    ],
)
def test_parameters(config: ModelConfig, total: int) -> None:
    assert int(models.parameters(config).total) == total


def test_active_parameters() -> None:
    """DeepSeek-V2 prints 21B active of 236B; of V2-Lite's 2.7B it prints 2.4B, one embedding left out."""
    assert float(models.active_parameters(V2).total) / 1e9 == pytest.approx(21, abs=0.5)
    lite = models.active_parameters(V2_LITE)
    assert float(lite.total - lite["token embeddings"]) / 1e9 == pytest.approx(2.4, abs=0.06)


@pytest.mark.parametrize(
    ("layers", "width", "heads", "billions"),
    [(32, 4096, 16, 8.63), (64, 8192, 32, 62.50), (118, 18432, 48, 540.35)],
)
def test_palm(layers: int, width: int, heads: int, billions: float) -> None:
    """Chowdhery et al. 2022, Table 1: one key head, SwiGLU of 4·d, a parallel block with one norm."""
    config = replace(
        LLAMA,
        vocab_size=256_000,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=1,
        head_dim=256,
        intermediate_size=4 * width,
        tie_word_embeddings=True,
        norms_per_layer=1,
    )
    assert float(models.parameters(config).total) / 1e9 == pytest.approx(billions, rel=1e-3)


@pytest.mark.parametrize(
    ("layers", "hidden", "billions"),
    [(40, 6144, 18.4), (96, 16384, 310.1), (128, 25600, 1008)],
)
def test_narayanan_parameters(layers: int, hidden: int, billions: float) -> None:
    """Narayanan et al. 2021, Table 1."""
    count = float(flops.narayanan_parameters(layers, hidden, 2048, 51200)) / 1e9
    assert count == pytest.approx(billions, abs=0.06)


# -- formats: largest, smallest normal, smallest subnormal, distance from 1 to the next (None: there is none)

FORMATS = {
    "fp64": (1.7976931348623157e308, 2.2250738585072014e-308, 5e-324, 2.0**-52, 2 * (2**52 - 1)),
    "fp32": (3.4028234663852886e38, 1.1754943508222875e-38, 1.401298464324817e-45, 2.0**-23, 2 * (2**23 - 1)),
    "tf32": ((2 - 2.0**-10) * 2.0**127, 2.0**-126, 2.0**-136, 2.0**-10, 2046),
    "fp16": (65504.0, 6.103515625e-05, 5.960464477539063e-08, 2.0**-10, 2046),
    "bf16": (3.3895313892515355e38, 1.1754943508222875e-38, 9.183549615799121e-41, 2.0**-7, 254),
    "fp8_e4m3": (448.0, 2.0**-6, 2.0**-9, 0.125, 2),
    "fp8_e5m2": (57344.0, 2.0**-14, 2.0**-16, 0.25, 6),
    "fp8_e4m3fnuz": (240.0, 2.0**-7, 2.0**-10, 0.125, 1),
    "fp8_e5m2fnuz": (57344.0, 2.0**-15, 2.0**-17, 0.25, 1),
    "fp6_e2m3": (7.5, 1.0, 0.125, 0.125, 0),
    "fp6_e3m2": (28.0, 0.25, 0.0625, 0.25, 0),
    "fp4_e2m1": (6.0, 1.0, 0.5, 0.5, 0),
    "e8m0": (2.0**127, 2.0**-127, None, 1.0, 1),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str) -> None:
    """IEEE 754; OCP 8-bit Floating Point (OFP8), Table 1; OCP Microscaling Formats, Tables 1 to 7."""
    top, normal, subnormal, epsilon, nan = FORMATS[name]
    assert float(formats.largest(name)) == top
    assert float(formats.smallest_normal(name)) == normal
    assert float(formats.spacing(1.0, name)) == epsilon
    assert int(formats.nan_codes(name)) == nan
    if subnormal is not None:
        assert float(formats.smallest_subnormal(name)) == subnormal


@pytest.mark.parametrize(
    ("name", "bits"),
    [("mxfp8", 8.25), ("mxfp6", 6.25), ("mxfp4", 4.25), ("nvfp4", 4.5)],
)
def test_bits_per_value(name: str, bits: float) -> None:
    assert float(dtypes.bits(name)) == bits


# -- memory


@pytest.mark.parametrize(
    ("billions", "devices", "gigabytes"),
    [
        (7.5, 4, (52.5, 41.3, 30)),
        (7.5, 16, (35.6, 21.6, 7.5)),
        (7.5, 64, (31.4, 16.6, 1.88)),
        (7.5, 1024, (30.1, 15.1, 0.12)),
        (128, 4, (896, 704, 512)),
        (128, 64, (536, 284, 32)),
        (128, 1024, (513, 257, 2)),
        (1000, 4, (7000, 5500, 4000)),
        (1000, 64, (4187, 2218, 250)),
        (1000, 1024, (4011, 2013, 15.6)),
    ],
)
def test_zero(billions: float, devices: int, gigabytes: tuple[float, float, float]) -> None:
    """Rajbhandari et al. 2020 (ZeRO), Table 1; its figures are rounded or cut to three digits."""
    for stage, printed in enumerate(gigabytes, 1):
        states = memory.model_states(billions * 1e9, "bf16-master", devices, stage)
        assert float(states.total.to("GB").value) == pytest.approx(
            printed, rel=0.03 if printed < 1 else 0.006
        )


def test_zero_s_figure_1() -> None:
    """7.5B on 64 devices: 120, 31.4, 16.6 and 1.9 GB."""
    shown = [f"{memory.model_states(7.5e9, 'bf16-master', 64, stage).total:.1f GB}" for stage in range(4)]
    assert shown == ["120.0 GB", "31.4 GB", "16.6 GB", "1.9 GB"]


@pytest.mark.parametrize(
    ("name", "dtype", "kept"),
    [
        ("gpt2", "fp16", 2 * 12 * 768 * 2),
        ("llama-2-13b", "fp16", 819_200),
        ("llama-2-70b", "bf16", 327_680),
        ("llama-3-8b", "bf16", 131_072),
        ("llama-3-8b", "fp8_e4m3", 65_536),
        ("llama-3.1-405b", "bf16", 516_096),
        ("mistral-7b-v0.1", "bf16", 131_072),
        ("qwen2.5-7b", "bf16", 57_344),
        ("gemma-7b", "bf16", 458_752),
        ("deepseek-v3", "bf16", 70_272),
    ],
)
def test_kv_cache(name: str, dtype: str, kept: int) -> None:
    assert int(kv_cache.bytes_per_token(models.load(name), dtype).total) == kept


@pytest.mark.parametrize(
    ("request_", "block", "segment"),
    [
        (511, 512, 2 << 20),
        (512, 512, 2 << 20),
        (513, 1024, 2 << 20),
        ((1 << 20) + 1, (1 << 20) + 512, 20 << 20),
        ((10 << 20) - 512, (10 << 20) - 512, 20 << 20),
        (10 << 20, 10 << 20, 10 << 20),
        ((10 << 20) - 1, 10 << 20, 10 << 20),
        (100 << 20, 100 << 20, 100 << 20),
        (10**9 + 1, 10**9 + 512, 477 * (2 << 20)),
    ],
)
def test_allocator(request_: int, block: int, segment: int) -> None:
    """torch's c10/cuda/CUDACachingAllocator: 512 B blocks; 2 MiB, 20 MiB and multiples of 2 MiB."""
    assert int(allocator.block_bytes(request_)) == block
    assert int(allocator.segment_bytes(request_)) == segment


@pytest.mark.parametrize(
    ("heads", "hidden", "ratio"), [(64, 6144, 106.7), (96, 12288, 80), (128, 20480, 64), (160, 25600, 64)]
)
def test_korthikanti_s_four_models(heads: int, hidden: int, ratio: float) -> None:
    """Korthikanti et al. 2022, Table 3's models at s = 2048: 5·a·s/h, and what a selective layer keeps."""
    assert float(activations.scores_ratio(2048, hidden, heads)) == pytest.approx(ratio, abs=0.05)
    kept = activations.layer_activations(
        2048, 4, hidden, heads, recompute="selective", tensor_parallel=8, sequence_parallel=True
    )
    assert int(kept) * 8 == 34 * 2048 * 4 * hidden


# -- runs


def test_mt_nlg() -> None:
    """Chowdhery et al. 2022, Table 3 and appendix B: 30.2% on 2,240 A100, 29.7% without attention."""
    peak = device("A100-SXM-80GB").peak("bf16")
    P, rate = 529.6e9, 1920 * 2048 / 60.1
    with_attention = flops.palm_flops_per_token(P, 105, 128, 160, 2048)
    for per_token, printed in ((with_attention, 30.2), (6 * P, 29.7)):
        share = utilization.mfu_from_throughput(per_token, rate, 2240, peak, dtype="bf16")
        assert 100 * float(share) == pytest.approx(printed, abs=0.06)


@pytest.mark.parametrize(
    ("billions", "tokens", "days", "gpus", "tflops"),
    [(175, 300e9, 34, 1024, 140), (1008, 450e9, 84, 3072, 163)],
)
def test_narayanan_training_days(
    billions: float, tokens: float, days: float, gpus: int, tflops: float
) -> None:
    """Narayanan et al. 2021, section 5.1, equation 4: 8·T·P/(n·X)."""
    time = utilization.run_time_at_rate(
        flops.training_run(billions * 1e9, tokens) * 4 / 3, gpus, Quantity(tflops, "TFLOP/s")
    )
    assert float(time.to("day").value) == pytest.approx(days, rel=0.02)


@pytest.mark.parametrize(
    ("P", "T", "printed"),
    [
        (1e9, 20.2e9, 1.21e20),
        (67e9, 1.5e12, 5.76e23 * 1.047),
        (174.6e9, 300e9, 3.14e23),
        (13e9, 300e9, 2.31e22 * 1.013),
        (70e9, 1.4e12, 5.88e23),
        (405e9, 15.6e12, 3.8e25),
    ],
)
def test_six_p_t(P: float, T: float, printed: float) -> None:
    """Chinchilla's Table 3, GPT-3's Table D.1 (13B is 12.85B there), Chinchilla 70B, Llama 3's 3.8e25."""
    assert float(flops.training_run(P, T)) == pytest.approx(printed, rel=0.01)


def test_gopher_is_stated_against_a_tpu_v3() -> None:
    peak = stated_peak(Quantity(123, "TFLOP/s"), "bf16", "TPU v3: 123 TFLOP/s, Google Cloud documentation")
    per_token = flops.palm_flops_per_token(280e9, 80, 128, 128, 2048)
    share = utilization.mfu_from_throughput(per_token, 0.0152 * 3072 * 2048, 4096, peak, dtype="bf16")
    assert 100 * float(share) == pytest.approx(32.5, abs=0.4)
