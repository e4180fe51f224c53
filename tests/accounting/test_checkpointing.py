"""Checkpointing: units, the segment that keeps least, what is computed again (against torch's counter)."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from lecture_lib.accounting import accumulation, checkpointing
from lecture_lib.accounting.flops import mlp_step
from lecture_lib.accounting.peak import mlp_peak
from lecture_lib.measuring.flops import count_flops
from lecture_lib.networks import mlp
from lecture_lib.networks.steps import forward_in_segments
from lecture_lib.quantity import LectureError


def test_units_and_the_best_segment() -> None:
    assert [int(checkpointing.segment_units(64, k)) for k in (1, 8, 64)] == [65, 16, 65]
    assert checkpointing.segment_units(65, 8).numbers == "ceil(65/8) + 8"
    for layers in range(1, 200):
        units = {k: -(-layers // k) + k for k in range(1, layers + 1)}
        best = checkpointing.best_segment(layers)
        assert units[best] == min(units.values()) and all(units[k] > units[best] for k in range(1, best))
        # √L is near: rounded to a whole number it keeps at most one unit more.
        rounded = max(1, round(float(checkpointing.square_root_segment(layers))))
        assert units[rounded] <= units[best] + 1


def test_grouping_layers_beats_wrapping_each_alone() -> None:
    """L/k + k in bytes: a chain of equal layers, whose boundaries are as large as what a segment keeps."""
    layers, width, rows = 64, 32, 500
    chain = [width] * (layers + 1)
    peaks = {k: mlp_peak(rows, chain, segment=k).total for k in [None, *range(1, layers + 1)]}
    best = checkpointing.best_segment(layers, lambda k: peaks[k])
    assert peaks[best] == min(peaks.values())
    assert abs(best - math.isqrt(layers)) <= 2
    # Of each layer autograd keeps ReLU's result alone, the next boundary: a checkpoint around every layer
    # keeps as many, and a random state for each.
    assert peaks[1] > peaks[None] > peaks[8]
    one = rows * width * 4
    assert abs(int(peaks[None] - peaks[8]) / one - (64 - 16)) < 3


@pytest.mark.parametrize("segment", [None, 1, 2, 3, 5])
def test_a_chain_computes_again_what_the_counter_sees(segment: int | None) -> None:
    widths = [6, 10, 7, 9, 5, 4]
    model, x, y = mlp(widths), torch.rand(8, 6), torch.randint(4, (8,))
    predicted = checkpointing.mlp_checkpoint_flops(8, widths, segment)
    counted = count_flops(lambda: F.cross_entropy(forward_in_segments(model, x, segment), y).backward())
    assert predicted.total == counted.total
    step = mlp_step(8, widths)
    assert predicted["forward"] + predicted["backward"] == step.total
    last = step["layer 5: forward"]  # ends in a bare product, whose result nothing saves
    again = 0 * last if segment is None else predicted["forward"] - last
    assert predicted["computed again"] == again


@pytest.mark.parametrize("k", [1, 2, 4])
def test_forwards_of_a_chain_are_what_torch_repeats(k: int) -> None:
    """Equal layers whose segments end in a bare product or in an activation; the input wants a gradient."""
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    bare = nn.Sequential(*[m for _ in range(k) for m in (nn.ReLU(), nn.Linear(8, 8, bias=False))])
    ended = nn.Sequential(*[m for _ in range(k) for m in (nn.Linear(8, 8, bias=False), nn.ReLU())])
    for segment, ends_in in ((bare, "linear"), (ended, "activation")):
        x = torch.rand(4, 8, requires_grad=True)
        counted = count_flops(
            lambda s=segment, x=x: checkpoint(s, x, use_reentrant=False).sum().backward()  # type: ignore[misc]
        )
        forwards = int(counted.total) / (k * 2 * 4 * 8 * 8)
        assert forwards == float(checkpointing.forwards_of_a_chain(k, ends_in))


def test_accumulation_weighs_every_token_alike() -> None:
    assert float(accumulation.mean_over_tokens([5, 10], [4, 12])) == 15 / 16
    assert float(accumulation.mean_of_means([5, 10], [4, 12])) == (5 / 4 + 10 / 12) / 2
    assert accumulation.mean_of_means([5, 10], [6, 6]) == accumulation.mean_over_tokens([5, 10], [6, 6])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: checkpointing.segment_units(4, 5), "segment of 1 to 4"),
        (lambda: checkpointing.segment_units(0, 1), "layers"),
        (lambda: checkpointing.best_segment(-1), "layers"),
        (lambda: checkpointing.mlp_checkpoint_flops(2, (3, 4), 2), "segment of 1 to 1"),
        (lambda: checkpointing.forwards_of_a_chain(2, "softmax"), "ends_in"),
        (lambda: accumulation.mean_over_tokens([1.0], [1, 2]), "a sum and a count"),
        (lambda: accumulation.mean_over_tokens([1.0], [0]), "tokens"),
    ],
)
def test_bad_input(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LectureError, match=message):
        call()
