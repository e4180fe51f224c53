"""The training step: checkpoints change no gradient, microbatches change none that they should not."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from lecture_lib.accounting.models import ModelConfig
from lecture_lib.networks import mlp, transformer
from lecture_lib.networks.steps import forward_in_segments, training_step
from lecture_lib.quantity import LectureError

FIELDS = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
    "tie_word_embeddings": True,
    "gated_mlp": False,
}
ROTARY = ModelConfig(**FIELDS)  # type: ignore[arg-type]
LEARNED = ModelConfig(**FIELDS, positions="learned", norm_bias=True)  # type: ignore[arg-type]


class Kept(torch.optim.SGD):
    """Keeps the gradients that a step saw."""

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        self.seen = [p.grad.clone() for group in self.param_groups for p in group["params"]]


def gradients(model: nn.Module, batches: list[tuple[Tensor, Tensor]], **how: object) -> list[Tensor]:
    optimizer = Kept(model.parameters(), lr=0.1)
    training_step(model, batches, optimizer, **how)  # type: ignore[arg-type]
    assert all(p.grad is None for p in model.parameters())
    return optimizer.seen


@pytest.mark.parametrize("config", [ROTARY, LEARNED], ids=["rotary", "learned"])
def test_segments_change_neither_output_nor_gradient(config: ModelConfig) -> None:
    model = transformer(config)
    tokens, targets = torch.randint(30, (2, 9)), torch.randint(30, (2, 9))
    plain = gradients(model, [(tokens, targets)])
    for segment in (1, 2, 3):
        assert torch.equal(forward_in_segments(model, tokens, segment), model(tokens))
        for a, b in zip(gradients(model, [(tokens, targets)], segment=segment), plain, strict=True):
            assert torch.equal(a, b)


def test_equal_microbatches_sum_to_the_whole_batchs_gradient() -> None:
    model = mlp([5, 8, 8, 3]).double()
    x, y = torch.rand(12, 5, dtype=torch.float64), torch.randint(3, (12,))
    whole = gradients(model, [(x, y)])
    parts = gradients(model, list(zip(x.split(3), y.split(3), strict=True)), segment=2)
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b)


def test_a_step_updates_once_and_autocast_keeps_fp32_weights() -> None:
    model = mlp([5, 8, 3])
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training_step(
        model, [(torch.rand(4, 5), torch.zeros(4, dtype=torch.int64))], optimizer, autocast=torch.bfloat16
    )
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert not torch.equal(before["layers.1.weight"], model.state_dict()["layers.1.weight"])


def test_bad_input() -> None:
    model = mlp([5, 8, 3])
    for segment in (0, 3, 1.0, True):
        with pytest.raises(LectureError, match="a segment of 1 to 2 layers, or None"):
            forward_in_segments(model, torch.rand(2, 5), segment)  # type: ignore[arg-type]
    with pytest.raises(LectureError, match=r"expected networks.mlp or networks.transformer; got Linear"):
        forward_in_segments(nn.Linear(2, 2), torch.rand(2, 2))  # type: ignore[arg-type]
