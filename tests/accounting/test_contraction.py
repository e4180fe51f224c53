"""Contractions: counted by loops that follow the definition, and refused with the right words."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest
import torch
from einops import einsum

from lecture_lib.accounting.contraction import contraction
from lecture_lib.quantity import LectureError, Quantity


def counted(operands: list[str], output: str, sizes: dict[str, int]) -> int:
    """Multiplies and adds of the plain loop over outputs and terms."""
    axes = dict.fromkeys("".join(operands))
    summed = [a for a in axes if a not in output]
    flops = 0
    for _ in itertools.product(*(range(sizes[a]) for a in output)):
        for term, _ in enumerate(itertools.product(*(range(sizes[a]) for a in summed))):
            flops += len(operands) - 1  # multiply the operands' entries
            flops += term > 0  # and add to the sum, from the second term on
    return flops


def test_exact_count_is_the_loops() -> None:
    rng = random.Random(3)
    for _ in range(150):
        operands = ["".join(rng.sample("abcde", rng.randint(0, 3))) for _ in range(rng.randint(1, 2))]
        axes = sorted(set("".join(operands)))
        output = "".join(rng.sample(axes, rng.randint(0, len(axes))))
        sizes = {a: rng.randint(1, 4) for a in axes}
        pattern = ", ".join(" ".join(o) for o in operands) + " -> " + " ".join(output)
        c = contraction(pattern, **sizes)
        assert c.flops_exact.value == counted(operands, output, sizes), pattern
        assert c.flops.value >= c.flops_exact.value
        assert c.output_shape == tuple(sizes[a] for a in output)


def test_shape_and_result_are_einops() -> None:
    pattern = "batch query dim, batch key dim -> batch query key"
    q, k = torch.ones(2, 3, 7), torch.ones(2, 5, 7)
    c = contraction(pattern, batch=2, query=3, key=5, dim=7)
    assert c.input_shapes == (tuple(q.shape), tuple(k.shape))
    assert c.output_shape == tuple(einsum(q, k, pattern).shape)
    assert c.summed == ("dim",)
    assert c.flops.value == 2 * 2 * 3 * 5 * 7
    assert c.flops_exact.value == 2 * 3 * 5 * (2 * 7 - 1)


@pytest.mark.parametrize(("rows", "intensity"), [(1, 1.0), (128, 120.5), (1024, 682.7)])
def test_the_lectures_intensities(rows: int, intensity: float) -> None:
    c = contraction("row d_in, d_in d_out -> row d_out", dtype="bf16", row=rows, d_in=4096, d_out=4096)
    assert c.bytes.value == 2 * (rows * 4096 + 4096 * 4096 + rows * 4096)
    assert round(float(c.intensity), 1) == intensity
    assert c.intensity.unit == "FLOP/B"


def test_square_product_is_a_third_of_n() -> None:
    c = contraction("i k, k j -> i j", dtype="bf16", i=300, j=300, k=300)
    assert c.intensity == Quantity(100, "FLOP/B")


@pytest.mark.parametrize(
    ("pattern", "sizes", "leading", "exact"),
    [
        ("i, j -> i j", {"i": 3, "j": 5}, 15, 15),  # nothing summed: a multiply for each output
        ("i j -> j i", {"i": 3, "j": 5}, 0, 0),
        ("i j -> i", {"i": 3, "j": 5}, 15, 12),  # adds alone
        ("i, i -> ", {"i": 8}, 16, 15),
    ],
)
def test_other_patterns(pattern: str, sizes: dict[str, int], leading: int, exact: int) -> None:
    c = contraction(pattern, **sizes)
    assert (c.flops.value, c.flops_exact.value) == (leading, exact)


def test_formula_has_the_axes_and_their_numbers() -> None:
    c = contraction("row d_in, d_in d_out -> row d_out", dtype="fp4", row=3, d_in=5, d_out=7)
    assert c.flops.formula == "2·row·d_out·d_in"
    assert c.flops.numbers == "2·3·7·5"
    assert c.flops_exact.numbers == "3·7·(2·5 - 1)"
    assert c.bytes.numbers == "1/2·(3·5 + 5·7 + 3·7)"
    assert c.bytes.inputs["s"] == Fraction(1, 2)


def test_shows_itself() -> None:
    c = contraction("i k, k j -> i j", i=2, j=3, k=4)
    assert "summed" in str(c) and "48 FLOP" in str(c)
    assert "<caption>" in c._repr_html_() and "i k, k j -&gt; i j" in c._repr_html_()


GOOD = {"b": 1, "q": 2, "k": 3, "d": 4}


@pytest.mark.parametrize(
    ("pattern", "sizes", "said"),
    [
        ("b q d, b k d -> b q k", {**GOOD, "e": 2}, "got e=2"),
        ("b q d, b k dim -> b q k", GOOD, "none for 'dim'; did you mean 'd'"),
        ("batch i, batch j -> btach i j", {"batch": 2, "i": 3, "j": 4}, "'btach'.*did you mean 'batch'"),
        ("bqd, bkd -> bqk", GOOD, "separated by spaces.*'b q d'"),
        ("b q d, b k d", GOOD, "one '->'"),
        ("b -> q -> k", GOOD, "one '->'"),
        (3, GOOD, "one '->'"),
        ("b q, q k, k d -> b d", GOOD, "one or two operands; got 3"),
        ("b (q d) -> b q d", GOOD, "got '\\(q'"),
        ("b ... -> b", GOOD, "'\\.\\.\\.'"),
        ("b b -> b", GOOD, "each axis once"),
        ("b q -> b q", {"b": 0, "q": 2}, "'b' of at least 1"),
        ("b q -> b q", {"b": 2.5, "q": 2}, "whole number for axis 'b'"),
        ("b q -> b q", {"b": -2, "q": 2}, "'b' of at least 1"),
    ],
)
def test_bad_patterns(pattern: str, sizes: dict[str, int], said: str) -> None:
    with pytest.raises(LectureError, match=said):
        contraction(pattern, **sizes)
