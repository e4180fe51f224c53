"""Parameter counts held against real modules and against the totals that the weights' publishers print."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from lecture_lib.accounting import models
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.networks import transformer
from lecture_lib.quantity import LectureError

# Number of parameters that Hugging Face prints for each repository (from the safetensors files' own headers;
# the DeepSeek figure is without the module that predicts the token after next).
PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama-1-7b": 6_738_415_616,
    "llama-1-13b": 13_015_864_320,
    "llama-1-33b": 32_528_943_616,
    "llama-1-65b": 65_285_660_672,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b-v0.1": 7_241_732_096,
    "mistral-7b-v0.3": 7_248_023_552,
    "mistral-small-24b": 23_572_403_200,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_419_200,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-1b": 999_885_952,
}
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


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_totals(name: str) -> None:
    config = models.load(name)
    assert models.parameters(config).total.value == PUBLISHED[name]
    assert config.source and config.name == name


def test_every_model_of_the_table_is_checked() -> None:
    assert set(models.names()) - set(PUBLISHED) == {"gpt3-175b"}  # its weights were never published
    # Brown et al. 2020, Table D.1 prints 174,600 million.
    assert round(int(models.parameters(models.load("gpt3-175b")).total) / 1e6, -2) == 174_600


@pytest.mark.parametrize(
    ("name", "active"),
    [
        ("mixtral-8x7b", 12_879_925_248),
        ("qwen3-30b-a3b", 3_353_032_704),
        ("deepseek-v3", 37_552_297_472),
        ("llama-3-8b", 8_030_261_248),
    ],
)
def test_active_parameters(name: str, active: int) -> None:
    assert models.active_parameters(models.load(name)).total.value == active


VARIANTS = {
    "grouped": SMALL,
    "tied": replace(SMALL, tie_word_embeddings=True),
    "one key head": replace(SMALL, num_key_value_heads=1),
    "plain MLP": replace(SMALL, gated_mlp=False),
    "all biases": replace(SMALL, attention_bias=True, mlp_bias=True, norm_bias=True),
    "plain MLP, all biases": replace(
        SMALL, gated_mlp=False, attention_bias=True, mlp_bias=True, norm_bias=True, positions="learned"
    ),
    "query, key and value biases": replace(SMALL, qkv_bias=True),
    "norms on queries and keys": replace(SMALL, qk_norm=True),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_counts_are_those_of_real_modules(name: str) -> None:
    network = transformer(VARIANTS[name], device="meta")
    assert models.parameters(VARIANTS[name]).total.value == sum(p.numel() for p in network.parameters())


def test_torchs_own_layer() -> None:
    """A layer with all biases is nn.TransformerEncoderLayer, which the library did not write."""
    layer = nn.TransformerEncoderLayer(24, 6, 40, device="meta")
    config = replace(
        SMALL,
        num_hidden_layers=1,
        num_key_value_heads=6,
        head_dim=4,
        gated_mlp=False,
        attention_bias=True,
        mlp_bias=True,
        norm_bias=True,
    )
    ledger = models.parameters(config)
    outside = 2 * 37 * 24 + 2 * 24  # embeddings, head and last norm
    assert ledger.total.value - outside == sum(p.numel() for p in layer.parameters())


class LatentAttention(nn.Module):
    """DeepSeek-V3's attention, as its report writes it."""

    def __init__(
        self, d: int, H: int, q_rank: int | None, kv_rank: int, nope: int, rope: int, v: int
    ) -> None:
        super().__init__()
        if q_rank is None:
            self.q = nn.Linear(d, H * (nope + rope), bias=False)
        else:
            self.q = nn.Sequential(
                nn.Linear(d, q_rank, bias=False),
                nn.RMSNorm(q_rank),
                nn.Linear(q_rank, H * (nope + rope), bias=False),
            )
        self.kv_down = nn.Linear(d, kv_rank + rope, bias=False)
        self.kv_norm = nn.RMSNorm(kv_rank)
        self.kv_up = nn.Linear(kv_rank, H * (nope + v), bias=False)
        self.out = nn.Linear(H * v, d, bias=False)


class Gated(nn.Module):
    def __init__(self, d: int, f: int) -> None:
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(*io, bias=False) for io in ((d, f), (d, f), (f, d)))


@pytest.mark.parametrize("q_rank", [None, 7])
@pytest.mark.parametrize(("dense_first", "step"), [(0, 1), (1, 1), (0, 2), (2, 3)])
def test_experts_and_latent_attention(q_rank: int | None, dense_first: int, step: int) -> None:
    config = replace(
        SMALL,
        num_hidden_layers=5,
        num_key_value_heads=6,
        head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=9,
        n_shared_experts=2,
        first_k_dense_replace=dense_first,
        decoder_sparse_step=step,
        router_bias=True,
        q_lora_rank=q_rank,
        kv_lora_rank=11,
        qk_nope_head_dim=5,
        qk_rope_head_dim=3,
        v_head_dim=6,
    )
    d = config.hidden_size
    with torch.device("meta"):
        parts: list[nn.Module] = [nn.Embedding(37, d), nn.Linear(d, 37, bias=False), nn.RMSNorm(d)]
        experts: list[nn.Module] = []
        for layer in range(5):
            parts += [LatentAttention(d, 6, q_rank, 11, 5, 3, 6), nn.RMSNorm(d), nn.RMSNorm(d)]
            if layer >= dense_first and layer % step == step - 1:
                experts += [Gated(d, 9) for _ in range(4)]
                parts += [nn.Linear(d, 4, bias=False), nn.Embedding(4, 1), Gated(d, 9), Gated(d, 9)]
            else:
                parts.append(Gated(d, 40))
    count = sum(p.numel() for part in parts for p in part.parameters())
    routed = sum(p.numel() for part in experts for p in part.parameters())
    assert models.parameters(config).total.value == count + routed
    assert models.active_parameters(config).total.value == count + routed // 2


def test_products_are_the_two_dimensional_parameters() -> None:
    """Every matrix but the embedding tables; with tied weights the table is the head and multiplies."""
    for config in VARIANTS.values():
        network = transformer(config, device="meta")
        tables = {network.embedding.weight} if not config.tie_word_embeddings else set()
        if network.positions is not None:
            tables.add(network.positions.weight)
        matrices = {p for p in network.parameters() if p.ndim == 2} - tables
        assert models.matmul_parameters(config).total.value == sum(p.numel() for p in matrices)


def test_rows() -> None:
    ledger = models.parameters(models.load("gpt2"))
    assert {row: int(q) for row, q in ledger.items()} == {
        "token embeddings": 50257 * 768,
        "position embeddings": 1024 * 768,
        "attention": 12 * 4 * 768 * 768,
        "MLP": 12 * 8 * 768 * 768,
        "biases": 12 * 9 * 768,
        "norms": 12 * 4 * 768 + 2 * 768,
    }
    assert ledger["MLP"].numbers == "12·2·768·3,072"
    assert "config.json" in ledger["MLP"].source


# -- a config.json


LLAMA_JSON = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "bos_token_id": 128000,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
GPT2_JSON = {
    "activation_function": "gelu_new",
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}
DEEPSEEK_JSON = {
    "model_type": "deepseek_v3",
    "attention_bias": False,
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "tie_word_embeddings": False,
    "vocab_size": 129280,
}
MIXTRAL_JSON = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "vocab_size": 32000,
}


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (LLAMA_JSON, "llama-3-8b"),
        (GPT2_JSON, "gpt2"),
        (DEEPSEEK_JSON, "deepseek-v3"),
        (MIXTRAL_JSON, "mixtral-8x7b"),
    ],
)
def test_config_json_is_the_tables_model(content: dict[str, object], name: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    read = models.from_config_json(path)
    assert replace(read, name="", source="") == replace(models.load(name), name="", source="")
    assert read.source.startswith("config.json")


def test_what_a_file_leaves_out_is_said() -> None:
    assert (
        "head_dim left out: hidden_size / num_attention_heads" in models.from_config_json(LLAMA_JSON).source
    )
    assert "n_inner left out: 4·n_embd" in models.from_config_json(GPT2_JSON).source
    stated = models.from_config_json({**LLAMA_JSON, "head_dim": 64})
    assert stated.head_dim == 64 and "left out" not in stated.source


def without(key: str, **more: object) -> dict[str, object]:
    return {**{k: v for k, v in LLAMA_JSON.items() if k != key}, **more}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: models.load("lama-3-8b"), "did you mean 'llama-3-8b'"),
        (lambda: models.load("zzz"), "known are gpt2"),
        (lambda: models.from_config_json(without("model_type")), "model_type"),
        (lambda: models.from_config_json({**LLAMA_JSON, "model_type": "lama"}), "did you mean 'llama'"),
        (
            lambda: models.from_config_json(without("hidden_size", hiden_size=4096)),
            "got 'hiden_size'; did you mean 'hidden_size'",
        ),
        (
            lambda: models.from_config_json(without("vocab_size")),
            "expected vocab_size in the mapping; got none",
        ),
        (
            lambda: models.from_config_json({**LLAMA_JSON, "hidden_size": 4097}),
            "multiple of num_attention_heads",
        ),
        (
            lambda: models.from_config_json({**LLAMA_JSON, "hidden_size": -1}),
            "hidden_size of at least 0; got -1",
        ),
        (
            lambda: models.from_config_json({**LLAMA_JSON, "hidden_size": "4096"}),
            "whole number for hidden_size",
        ),
        (
            lambda: models.from_config_json({**GPT2_JSON, "n_embd": 40.5}),
            "whole number for hidden_size; got 40.5",
        ),
        (lambda: models.from_config_json({**LLAMA_JSON, "tie_word_embeddings": "no"}), "True or False"),
        (lambda: models.from_config_json({**LLAMA_JSON, "mlp_only_layers": [1]}), "mlp_only_layers"),
        (lambda: models.from_config_json("nowhere/config.json"), "got no file"),
        (lambda: models.from_config_json({**LLAMA_JSON, "model_type": ["llama"]}), "model_type"),
        (
            # Without it the file would be of a model with as many key heads as query heads.
            lambda: models.from_config_json(without("num_key_value_heads", num_key_value_head=8)),
            "got 'num_key_value_head'; did you mean 'num_key_value_heads'",
        ),
        (
            lambda: models.from_config_json(without("num_key_value_heads", model_type="mistral")),
            "expected num_key_value_heads",
        ),
        (lambda: models.from_config_json({**LLAMA_JSON, "model_type": "qwen3"}), "expected head_dim"),
        (
            lambda: models.from_config_json({k: v for k, v in DEEPSEEK_JSON.items() if k != "kv_lora_rank"}),
            "expected kv_lora_rank in the mapping of a deepseek_v3; got none",
        ),
        (lambda: models.from_config_json({**DEEPSEEK_JSON, "moe_layer_freq": 2}), "moe_layer_freq = 1"),
        (
            lambda: models.from_fields({"hidden_sise": 3}, "mine"),
            "in mine; got 'hidden_sise'; did you mean 'hidden_size'",
        ),
        (lambda: models.from_fields({"hidden_size": 3}, "mine"), "vocab_size.* in mine; got none"),
        (lambda: replace(SMALL, num_key_value_heads=4), "multiple of num_key_value_heads"),
        (lambda: replace(SMALL, num_hidden_layers=0), "num_hidden_layers of at least 1"),
        (lambda: replace(SMALL, positions="rope"), "positions 'learned', 'rotary' or 'none'"),
        (lambda: replace(SMALL, gated_mlp=1), "True or False for gated_mlp; got 1"),
        (lambda: replace(SMALL, num_experts=4), "num_experts_per_tok"),
        (lambda: replace(SMALL, num_experts=4, num_experts_per_tok=5, moe_intermediate_size=3), "got 5"),
        (lambda: replace(SMALL, n_shared_experts=1), "num_experts"),
        (lambda: replace(SMALL, kv_lora_rank=4), "qk_nope_head_dim"),
        (
            lambda: replace(SMALL, kv_lora_rank=4, qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=4),
            "head_dim = .* = 8 with kv_lora_rank; got 10",
        ),
    ],
)
def test_bad_input(call, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LectureError, match=said):
        call()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[models", "a TOML file"),
        (b"[models.a]\nx = '\xff'", "a TOML file"),
        (b"", r"tables \[families.NAME\]"),
        (b"families = 3\n[models.a]", r"tables \[families.NAME\]"),
        (b"[families]\n[models]\na = 3", r"tables \[models.NAME\]"),
        (b"[families]\n[models.a]\n[model.b]", "got 'model'; did you mean 'models'"),
        (b"[families.gpt]\n[models.a]\nfamily = 'gtp'", "did you mean 'gpt'"),
        (b"[families]\n[models.a]\nhiden_size = 3", "got 'hiden_size'; did you mean 'hidden_size'"),
        (b"[families]\n[models.a]\nhidden_size = 3", "expected vocab_size, .*; got none"),
    ],
)
def test_slips_in_the_table_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: bytes, said: str
) -> None:
    (tmp_path / "models.toml").write_bytes(text)
    monkeypatch.setattr("lecture_lib.paths.DATA", tmp_path)
    models._table.cache_clear()
    try:
        with pytest.raises(LectureError, match=said):
            models.load("a")
    finally:
        models._table.cache_clear()


@pytest.mark.parametrize("text", ["{", "[1]", "\ufeff{}", '{"a": NaN'])
def test_files_that_are_no_configuration(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LectureError, match="expected .*; got "):
        models.from_config_json(path)
    with pytest.raises(LectureError, match="expected "):
        models.from_config_json(tmp_path)
