"""KV caches: published bytes per token, and the tensors that a decoding loop really keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from lecture_lib.accounting import kv_cache, models
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.quantity import LectureError

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
LATENT = replace(
    SMALL,
    num_key_value_heads=6,
    head_dim=8 + 4,
    kv_lora_rank=14,
    q_lora_rank=None,
    qk_nope_head_dim=8,
    qk_rope_head_dim=4,
    v_head_dim=9,
)


@pytest.mark.parametrize(
    ("name", "kilobytes"),
    [
        # DeepSeek-AI, "Insights into DeepSeek-V3", ISCA 2025, Table 1 (BF16)
        ("deepseek-v3", 70.272),
        ("qwen2.5-72b", 327.680),
        ("llama-3.1-405b", 516.096),
        ("llama-2-7b", 524.288),
        ("mistral-small-24b", 163.840),  # head_dim 128, where hidden_size / heads is 160
    ],
)
def test_published(name: str, kilobytes: float) -> None:
    total = kv_cache.bytes_per_token(models.load(name)).total
    assert (float(total) / 1e3, total.unit) == (kilobytes, "B/token")


def test_sharing_heads_divides_the_cache() -> None:
    whole = kv_cache.bytes_per_token(replace(SMALL, num_key_value_heads=6)).total
    assert (whole / kv_cache.bytes_per_token(SMALL).total).value == 3
    one = kv_cache.bytes_per_token(replace(SMALL, num_key_value_heads=1)).total
    assert (whole / one).value == 6
    assert kv_cache.bytes_per_token(SMALL, "fp8_e4m3").total * 2 == kv_cache.bytes_per_token(SMALL).total


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("config", [SMALL, replace(SMALL, v_head_dim=7), LATENT], ids=["heads", "v", "MLA"])
def test_a_decoding_loops_cache(config: ModelConfig, dtype: torch.dtype) -> None:
    """What each layer appends for one token after another, as attention writes it."""
    batch, seq = 5, 7
    if config.kv_lora_rank is None:
        shapes = [
            (batch, config.num_key_value_heads, 1, config.head_dim),
            (batch, config.num_key_value_heads, 1, config.value_dim),
        ]
    else:
        shapes = [(batch, 1, config.kv_lora_rank), (batch, 1, config.qk_rope_head_dim)]
    cache: dict[tuple[int, int], torch.Tensor] = {}
    for _ in range(seq):
        for layer in range(config.num_hidden_layers):
            for part, shape in enumerate(shapes):
                new = torch.zeros(shape, dtype=dtype)
                before = cache.get((layer, part), new[..., :0, :])
                cache[layer, part] = torch.cat([before, new], dim=-2)
    held = sum(tensor.numel() * tensor.element_size() for tensor in cache.values())
    ledger = kv_cache.kv_cache(config, batch, seq, dtype)
    assert int(ledger.total) == held and ledger.unit == "B"
    assert ledger.total.value == batch * seq * kv_cache.bytes_per_token(config, dtype).total.value


def test_two_gib_at_4096_tokens() -> None:
    ledger = kv_cache.kv_cache(models.load("llama-2-7b"), 1, 4096)
    assert ledger.total.to("GiB").value == 2
    assert ledger["keys"].numbers == "1·4,096·32·32·128·2"
    assert kv_cache.ALL_POSITIONS in ledger["keys"].conventions


def test_block_formats_count_their_scales() -> None:
    """10 values of a head are one block of 32 at most: 10 bytes and a scale."""
    total = kv_cache.bytes_per_token(SMALL, "mxfp8").total
    assert int(total) == 2 * 3 * 2 * (10 + 1)


@pytest.mark.parametrize(
    ("batch", "seq", "expected"), [(0, 5, "batch of at least 1"), (1, 2.5, "whole number for seq")]
)
def test_bad_input(batch: int, seq: int, expected: str) -> None:
    with pytest.raises(LectureError, match=expected):
        kv_cache.kv_cache(SMALL, batch, seq)
