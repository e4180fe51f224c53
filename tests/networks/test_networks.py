from dataclasses import replace

import pytest
import torch
from torch._subclasses import FakeTensorMode

from lecture_lib.accounting import models
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.measuring.storage import storage_bytes
from lecture_lib.networks import mlp, transformer
from lecture_lib.quantity import LectureError, Quantity

SMALL = ModelConfig(
    vocab_size=50,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=4,
    intermediate_size=20,
    max_position_embeddings=16,
    tie_word_embeddings=True,
    gated_mlp=True,
)
VARIANTS = {
    "grouped, gated, tied, rotary": {},
    "every head its own keys": {"num_key_value_heads": 6},
    "one key head": {"num_key_value_heads": 1},
    "untied": {"tie_word_embeddings": False},
    "two matrices": {"gated_mlp": False},
    "learned positions": {"positions": "learned"},
    "no positions": {"positions": "none"},
    "biases as in GPT-2": {"attention_bias": True, "mlp_bias": True, "norm_bias": True},
    "biases as in Qwen 2.5": {"qkv_bias": True},
    "norms on queries and keys": {"qk_norm": True, "norm_bias": True},
    "heads wider than the hidden size": {"head_dim": 8},
}
_ROUTED = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 14}
EXPERTS = {
    "experts in every layer": _ROUTED,
    "a dense layer first, shared experts": {**_ROUTED, "first_k_dense_replace": 1, "n_shared_experts": 2},
    "experts of two matrices with biases": {**_ROUTED, "gated_mlp": False, "mlp_bias": True},
}


def config(name: str) -> ModelConfig:
    return replace(SMALL, **{**VARIANTS, **EXPERTS}[name])


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", [*VARIANTS, *EXPERTS])
def test_parameters_equal_the_accounting(name: str) -> None:
    assert count(transformer(config(name), device="meta")) == models.parameters(config(name)).total.value


@pytest.mark.parametrize(
    "name", ["gpt2-xl", "llama-3-8b", "llama-3.1-405b", "qwen2.5-7b", "qwen3-8b", "gemma-7b"]
)
def test_published_models_on_the_meta_device(name: str) -> None:
    network = transformer(models.load(name), device="meta")
    assert count(network) == models.parameters(models.load(name)).total.value
    tokens = torch.zeros(1, 7, dtype=torch.long, device="meta")
    assert network(tokens).shape == (1, 7, models.load(name).vocab_size)


@pytest.mark.parametrize("name", [*VARIANTS, *EXPERTS])
def test_fused_and_eager_attention_agree_and_are_causal(name: str) -> None:
    torch.manual_seed(0)
    fused, eager = transformer(config(name)), transformer(config(name), fused=False)
    eager.load_state_dict(fused.state_dict())
    tokens = torch.arange(18).reshape(2, 9)
    out = fused(tokens)
    assert out.shape == (2, 9, 50)
    torch.testing.assert_close(out, eager(tokens), atol=1e-4, rtol=1e-4)
    changed = tokens.clone()
    changed[:, 5:] = 0
    for network in (fused, eager):
        before, after = network(tokens), network(changed)
        torch.testing.assert_close(before[:, :5], after[:, :5])
        assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_a_published_mixture_on_the_meta_device() -> None:
    mixtral = models.load("mixtral-8x7b")
    assert count(transformer(mixtral, device="meta")) == models.parameters(mixtral).total.value


def test_experts_are_their_definition_token_by_token() -> None:
    torch.manual_seed(0)
    mixture = transformer(config("a dense layer first, shared experts")).blocks[1].mlp
    x = torch.rand(2, 9, 24)
    for token, got in zip(x.flatten(0, 1), mixture(x).flatten(0, 1), strict=True):
        weights = mixture.router(token).softmax(dim=-1)
        best = sorted(range(5), key=lambda expert: -weights[expert].item())[:2]
        wanted = sum(weights[expert] * mixture.experts[expert](token) for expert in best)
        torch.testing.assert_close(got, wanted + sum(shared(token) for shared in mixture.shared))
    assert mixture(x).shape == x.shape


def test_rotary_and_learned_positions_tell_orders_apart_and_none_does_not() -> None:
    torch.manual_seed(0)
    one, other = torch.tensor([[1, 2, 3]]), torch.tensor([[2, 1, 3]])
    for positions, told_apart in (("rotary", True), ("learned", True), ("none", False)):
        # One layer: a second would tell orders apart by the prefixes that the first saw.
        network = transformer(replace(SMALL, positions=positions, num_hidden_layers=1))
        assert torch.allclose(network(one)[0, -1], network(other)[0, -1], atol=1e-5) is not told_apart


def test_rotation_depends_on_distance_alone() -> None:
    from lecture_lib.networks.transformer import _rotation, _turned

    q, k = torch.rand(1, 1, 1, 8), torch.rand(1, 1, 1, 8)

    def score(at: int, other: int) -> torch.Tensor:
        turned = [
            _turned(x, *_rotation(torch.tensor([place]), 8, x.dtype)) for x, place in ((q, at), (k, other))
        ]
        return (turned[0] * turned[1]).sum()

    torch.testing.assert_close(score(7, 3), score(14, 10))
    assert not torch.allclose(score(7, 3), score(7, 4))


def test_tied_weights_are_one_storage() -> None:
    network = transformer(SMALL)
    assert network.head.weight is network.embedding.weight
    assert storage_bytes(network) == Quantity(4 * models.parameters(SMALL).total.value, "B")


def test_everything_stands_on_the_device_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for layer in (torch.nn.Linear, torch.nn.Embedding):  # a torch without CUDA has no random numbers there
        monkeypatch.setattr(layer, "reset_parameters", lambda self: None)
    with FakeTensorMode(), torch.no_grad():
        for name in VARIANTS:
            for fused in (True, False):
                network = transformer(config(name), fused=fused, device="cuda", dtype=torch.bfloat16)
                assert {p.device.type for p in network.parameters()} == {"cuda"}
                out = network(torch.zeros(2, 9, dtype=torch.long, device="cuda"))
                assert (out.device.type, out.dtype) == ("cuda", torch.bfloat16)
        assert mlp([3, 5, 7], device="cuda")(torch.empty(2, 3, device="cuda")).device.type == "cuda"


def test_what_the_transformer_has_no_part_for_is_refused() -> None:
    with pytest.raises(LectureError, match="expected router_bias = False"):
        transformer(models.load("deepseek-v3"), device="meta")
    with pytest.raises(LectureError, match="expected kv_lora_rank = None"):
        transformer(replace(models.load("deepseek-v3"), router_bias=False), device="meta")
    with pytest.raises(LectureError, match="expected norms_per_layer = 2"):
        transformer(models.load("gemma-2-2b"), device="meta")
    with pytest.raises(LectureError, match="even head_dim"):
        transformer(replace(SMALL, head_dim=5))
    with pytest.raises(LectureError, match="at most max_position_embeddings = 16 positions; got 17"):
        transformer(SMALL)(torch.zeros(1, 17, dtype=torch.long))


def test_an_mlp_is_its_widths() -> None:
    network = mlp([3, 5, 7])
    assert [tuple(layer.weight.shape) for layer in network.layers] == [(5, 3), (7, 5)]
    assert count(network) == 3 * 5 + 5 * 7 and count(mlp([3, 5, 7], bias=True)) == 3 * 5 + 5 + 5 * 7 + 7
    x = torch.rand(2, 3)
    first, second = network.layers
    torch.testing.assert_close(network(x), second(first(x).relu()))


@pytest.mark.parametrize("widths", [[], [3], [3, 0], [3, 2.5], [3, True], [3, -1]])
def test_bad_widths_are_refused(widths: list[int]) -> None:
    with pytest.raises(LectureError, match="expected .*widths"):
        mlp(widths)
