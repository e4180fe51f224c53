"""The training step that the course measures and `lecture_lib.accounting` predicts, line by line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.checkpoint import checkpoint

from lecture_lib.networks.mlp import MLP
from lecture_lib.networks.transformer import Transformer, _rotation
from lecture_lib.quantity import LectureError


def forward_in_segments(model: MLP | Transformer, inputs: Tensor, segment: int | None = None) -> Tensor:
    """`model(inputs)`, every `segment` layers (linear layers or blocks) under one non-reentrant checkpoint.

    Embeddings, last norm and head are in no segment. Gradients are those of `model(inputs)`.
    """
    if not isinstance(model, MLP | Transformer):
        raise LectureError(f"expected networks.mlp or networks.transformer; got {type(model).__qualname__}")
    if segment is None:
        return model(inputs)
    layers = len(model.layers if isinstance(model, MLP) else model.blocks)
    if isinstance(segment, bool) or not isinstance(segment, int) or not 1 <= segment <= layers:
        raise LectureError(f"expected a segment of 1 to {layers} layers, or None; got {segment!r}")
    if isinstance(model, MLP):
        return _checkpointed(partial(_layers, model), inputs, layers, segment)
    position = torch.arange(inputs.shape[1], device=inputs.device)
    x = model.embedding(inputs)
    if model.positions is not None:
        x = x + model.positions(position)
    turn = _rotation(position, model.config.head_dim, x.dtype) if model.config.positions == "rotary" else None
    x = _checkpointed(partial(_blocks, model, turn), x, layers, segment)
    return model.head(model.norm(x))


def _checkpointed(run: Callable[[int, int, Tensor], Tensor], x: Tensor, layers: int, segment: int) -> Tensor:
    for first in range(0, layers, segment):
        x = checkpoint(partial(run, first, min(first + segment, layers)), x, use_reentrant=False)
    return x


def _layers(model: MLP, first: int, last: int, x: Tensor) -> Tensor:
    for i in range(first, last):
        x = model.layers[i](x)
        if i < len(model.layers) - 1:
            x = model.activation(x)
    return x


def _blocks(
    model: Transformer, turn: tuple[Tensor, Tensor] | None, first: int, last: int, x: Tensor
) -> Tensor:
    for i in range(first, last):
        x = model.blocks[i](x, turn)
    return x


def training_step(
    model: MLP | Transformer,
    batches: Sequence[tuple[Tensor, Tensor]],
    optimizer: Optimizer,
    *,
    autocast: torch.dtype | None = None,
    segment: int | None = None,
) -> None:
    """Forward and backward of each microbatch (inputs, targets), one optimizer step, gradients set to None.

    inputs and targets: (rows, d_in) and (rows,) for an MLP, both (batch, position) for a Transformer. The
    loss is the mean cross entropy, divided by the number of microbatches; nothing but it keeps the logits.
    autocast: the dtype of matrix products in forward and loss; segment: layers under one checkpoint
    """
    for inputs, targets in batches:
        context = (
            contextlib.nullcontext() if autocast is None else torch.autocast(inputs.device.type, autocast)
        )
        with context:
            loss = F.cross_entropy(
                forward_in_segments(model, inputs, segment).flatten(0, -2), targets.flatten()
            )
            if len(batches) > 1:
                loss = loss / len(batches)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
