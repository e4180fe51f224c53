"""Parameter counts and KV caches of the model classes of Hugging Face transformers, made without weights.

A model on the meta device has shapes and no memory, so the 671 billion of DeepSeek-V3 take milliseconds.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything here is made from a configuration

import transformers
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from lecture_lib.accounting import kv_cache, models
from lecture_lib.accounting.models import ModelConfig


def shared(c: ModelConfig) -> dict[str, Any]:
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    more = ("head_dim", "intermediate_size", "max_position_embeddings", "tie_word_embeddings")
    return {name: getattr(c, name) for name in (*names, *more)}


def gpt2(c: ModelConfig) -> PretrainedConfig:
    return transformers.GPT2Config(
        vocab_size=c.vocab_size,
        n_embd=c.hidden_size,
        n_layer=c.num_hidden_layers,
        n_head=c.num_attention_heads,
        n_positions=c.max_position_embeddings,
        n_inner=c.intermediate_size,
    )


def mixtral(c: ModelConfig) -> PretrainedConfig:
    return transformers.MixtralConfig(
        **shared(c), num_local_experts=c.num_experts, num_experts_per_tok=c.num_experts_per_tok
    )


def qwen3(c: ModelConfig) -> PretrainedConfig:
    if not c.num_experts:
        return transformers.Qwen3Config(**shared(c))
    return transformers.Qwen3MoeConfig(
        **shared(c),
        num_experts=c.num_experts,
        num_experts_per_tok=c.num_experts_per_tok,
        moe_intermediate_size=c.moe_intermediate_size,
        decoder_sparse_step=c.decoder_sparse_step,
    )


def deepseek(c: ModelConfig) -> PretrainedConfig:
    fields = shared(c)
    del fields["head_dim"]  # there: of the rotary part alone
    names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    more = ("num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "first_k_dense_replace")
    return transformers.DeepseekV3Config(
        **fields,
        n_group=1,
        topk_group=1,
        n_routed_experts=c.num_experts,
        **{name: getattr(c, name) for name in (*names, *more)},
    )


# How a model of data/models.toml is written for transformers, by the start of its name, longest first.
WRITTEN: dict[str, Callable[[ModelConfig], PretrainedConfig]] = {
    "gemma-2-": lambda c: transformers.Gemma2Config(**shared(c)),
    "gemma-3-": lambda c: transformers.Gemma3TextConfig(**shared(c)),
    "gemma-": lambda c: transformers.GemmaConfig(**shared(c)),
    "gpt": gpt2,
    "llama-": lambda c: transformers.LlamaConfig(**shared(c)),
    "mistral-": lambda c: transformers.MistralConfig(**shared(c)),
    "mixtral-": mixtral,
    "qwen2.5-": lambda c: transformers.Qwen2Config(**shared(c)),
    "qwen3-": qwen3,
    "deepseek-v3": deepseek,
}


def written(c: ModelConfig) -> PretrainedConfig:
    return next(write for start, write in WRITTEN.items() if c.name.startswith(start))(c)


def without_weights(config: PretrainedConfig) -> PreTrainedModel:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def count(model: torch.nn.Module) -> int:
    """Parameters, a tied one once; and the corrections of DeepSeek-V3's router, which are a buffer there."""
    corrections = [b for name, b in model.named_buffers() if name.endswith("e_score_correction_bias")]
    return sum(tensor.numel() for tensor in (*model.parameters(), *corrections))


@pytest.mark.parametrize("name", models.names())
def test_published_models(name: str) -> None:
    config = models.load(name)
    assert int(models.parameters(config).total) == count(without_weights(written(config)))


def shrunk(name: str, **changes: object) -> ModelConfig:
    """A model of the table with all sizes small and unequal."""
    config = models.load(name)
    small: dict[str, object] = {
        "vocab_size": 37,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 6 if config.num_key_value_heads == config.num_attention_heads else 2,
        "head_dim": 10,
        "intermediate_size": 40,
        "max_position_embeddings": 32,
    }
    if config.num_experts:
        small |= {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
    if name.startswith("gpt"):
        small |= {"head_dim": 4}  # hidden_size / heads, in its class
    if name.startswith("mixtral"):
        small |= {"moe_intermediate_size": 40}  # one width for all, in its class
    if config.kv_lora_rank:
        small |= {"head_dim": 8 + 4, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 9}
        small |= {"kv_lora_rank": 14, "q_lora_rank": 18, "first_k_dense_replace": 1}
    return replace(config, **{**small, **changes})  # type: ignore[arg-type]


FAMILIES = [
    "gpt2",
    "llama-1-7b",
    "llama-3-8b",
    "mistral-7b-v0.1",
    "mixtral-8x7b",
    "qwen2.5-7b",
    "qwen3-8b",
    "qwen3-30b-a3b",
    "deepseek-v3",
    "gemma-2b",
    "gemma-2-2b",
    "gemma-3-1b",
]
VARIANTS = {
    **{name: shrunk(name) for name in FAMILIES},
    "llama, tied": shrunk("llama-3-8b", tie_word_embeddings=True),
    "qwen3, tied": shrunk("qwen3-8b", tie_word_embeddings=True),
    "qwen3, experts in every second layer": shrunk(
        "qwen3-30b-a3b", num_hidden_layers=5, decoder_sparse_step=2
    ),
    "deepseek, plain queries": shrunk("deepseek-v3", q_lora_rank=None),
    "deepseek, two shared experts": shrunk("deepseek-v3", n_shared_experts=2, first_k_dense_replace=0),
}


def test_every_family_is_here() -> None:
    assert {models.load(name).source for name in FAMILIES} | {
        models.load("gpt3-175b").source,
        models.load("mixtral-8x22b").source,
        models.load("llama-2-7b").source,
    } == {models.load(name).source for name in models.names()}


@pytest.mark.parametrize("name", VARIANTS)
def test_small_models(name: str) -> None:
    config = VARIANTS[name]
    assert int(models.parameters(config).total) == count(without_weights(written(config)))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_config_json_reads_as_its_class_does(name: str) -> None:
    """What transformers writes into a config.json, read by the course, has as many parameters."""
    config = written(VARIANTS[name])
    read = models.from_config_json(config.to_dict())
    assert int(models.parameters(read).total) == count(without_weights(config))


@pytest.mark.parametrize(
    "config",
    [
        transformers.LlamaConfig(**shared(shrunk("llama-3-8b")), attention_bias=True, mlp_bias=True),
        transformers.Qwen3Config(**shared(shrunk("qwen3-8b")), attention_bias=True),
        transformers.GPTNeoXConfig(
            vocab_size=37, hidden_size=24, num_hidden_layers=3, num_attention_heads=6, intermediate_size=40
        ),
        transformers.GPT2Config(vocab_size=37, n_embd=24, n_layer=3, n_head=6, n_positions=32),
    ],
    ids=lambda config: config.model_type,
)
def test_a_config_json_with_biases_and_defaults(config: PretrainedConfig) -> None:
    read = models.from_config_json(config.to_dict())
    assert int(models.parameters(read).total) == count(without_weights(config))


def test_bert() -> None:
    config = transformers.BertConfig(
        vocab_size=37,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=6,
        intermediate_size=40,
        max_position_embeddings=32,
        type_vocab_size=2,
    )
    with torch.device("meta"):
        model = transformers.BertModel(config)
    ours = shrunk("gpt2", type_vocab_size=2, pooler=True)
    assert int(models.parameters(ours).total) == count(model)


# Fused (GPT-2's queries, keys and values; experts) and renamed matrices have other shapes.
SAME_SHAPES = [name for name in VARIANTS if name != "gpt2" and not VARIANTS[name].num_experts]


@pytest.mark.parametrize("name", SAME_SHAPES)
def test_every_tensor_has_its_shape(name: str) -> None:
    config = VARIANTS[name]
    theirs = Counter(tuple(p.shape) for p in without_weights(written(config)).parameters())
    assert Counter(models.parameter_shapes(config).values()) == theirs


# -- KV caches


def cached(config: ModelConfig, batch: int, seq: int) -> int:
    """Bytes in the cache of a small model after a real forward."""
    model = AutoModelForCausalLM.from_config(written(config)).eval()
    with torch.no_grad():
        cache = model(torch.ones((batch, seq), dtype=torch.long), use_cache=True).past_key_values
    return sum(t.numel() * t.element_size() for layer in cache.layers for t in (layer.keys, layer.values))


@pytest.mark.parametrize(
    "name", ["gpt2", "llama-1-7b", "llama-3-8b", "qwen3-8b", "qwen3-30b-a3b", "deepseek-v3"]
)
def test_a_cache_after_a_forward(name: str) -> None:
    """Keys and values of the key heads, or DeepSeek-V3's latents."""
    config = VARIANTS[name]
    assert int(kv_cache.kv_cache(config, 3, 7, "fp32").total) == cached(config, 3, 7)
