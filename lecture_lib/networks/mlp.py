"""A chain of linear layers: the network whose three matrix products the course derives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from lecture_lib.accounting.inputs import chain_widths
from lecture_lib.quantity import LectureError


class MLP(nn.Module):
    """Linear layers with an activation between: (batch, widths[0]) → (batch, widths[-1])."""

    def __init__(
        self,
        widths: Sequence[int],
        *,
        bias: bool = False,
        activation: type[nn.Module] = nn.ReLU,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not callable(activation):
            raise LectureError(f"expected a module's class as activation; got {activation!r}; write nn.ReLU")
        self.layers = nn.ModuleList(
            nn.Linear(d_in, d_out, bias=bias, device=device, dtype=dtype)
            for d_in, d_out in pairwise(chain_widths(widths))
        )
        self.activation = activation()

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


def mlp(
    widths: Sequence[int],
    *,
    bias: bool = False,
    activation: type[nn.Module] = nn.ReLU,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> MLP:
    """A chain of linear layers on a device (the meta device holds shapes alone).

    widths: [d_in, …, d_out]; layer i has a weight of widths[i+1] × widths[i] elements, as torch keeps it
    Raises LectureError for fewer than two widths or a width that is not a whole number from 1.
    """
    return MLP(widths, bias=bias, activation=activation, device=device, dtype=dtype)
