"""Gradient accumulation: how microbatches' losses and gradients combine.

Its memory is `peak.mlp_peak(…, microbatches=K)` and `peak.transformer_peak(…, microbatches=K)`: activations
of one microbatch at a time, but gradients that live through every forward after the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from lecture_lib.accounting.inputs import amount, several, sizes
from lecture_lib.quantity import LectureError, Quantity


def mean_over_tokens(sums: Sequence[float], tokens: Sequence[int]) -> Quantity:
    """sum(S_i)/sum(n_i): the loss, or gradient, of all microbatches as one batch.

    sums: S_i, summed over the valid tokens of microbatch i; tokens: n_i, how many those are
    """
    S, n = _checked(sums, tokens)
    return Quantity(
        sum(S, Fraction(0)) / sum(n),
        "1",
        name="mean over tokens",
        formula="sum(S_i)/sum(n_i)",
        inputs={"S_i": _shown(S), "n_i": list(n)},
        conventions=("every valid token weighs the same",),
    )


def mean_of_means(sums: Sequence[float], tokens: Sequence[int]) -> Quantity:
    """sum(S_i/n_i)/K: what dividing each microbatch's mean by K gives; wrong unless all n_i are equal."""
    S, n = _checked(sums, tokens)
    means = [s / count for s, count in zip(S, n, strict=True)]
    return Quantity(
        sum(means, Fraction(0)) / len(n),
        "1",
        name="mean of means",
        formula="sum(S_i/n_i)/K",
        inputs={"S_i/n_i": _shown(means), "K": len(n)},
        conventions=("every microbatch weighs the same, whatever its number of tokens",),
        source="the fault of huggingface/transformers#34191",
    )


def _shown(values: Sequence[Fraction]) -> list[float]:
    return [float(f"{float(value):.6g}") for value in values]


def _checked(sums: Sequence[float], tokens: Sequence[int]) -> tuple[list[Fraction], tuple[int, ...]]:
    n = sizes("tokens", tokens)
    given = several("sums", sums, "numbers", "[31.5, 28.0]")
    S = [Fraction(amount(f"sums[{i}]", s, "1", zero=True)) for i, s in enumerate(given)]
    if not n or len(S) != len(n):
        raise LectureError(f"expected a sum and a count for each microbatch; got {len(S)} and {len(n)}")
    return S, n
