from __future__ import annotations

from fractions import Fraction

import pytest

from lecture_lib.accounting.hardware import device
from lecture_lib.accounting.roofline import (
    attainable,
    intensity,
    limit,
    ridge,
    rows_to_ridge,
    square_at_ridge,
    time_bound,
)
from lecture_lib.quantity import LectureError, Quantity

H100 = device("NVIDIA H100 80GB HBM3")
C, BETA = H100.peak("bf16"), H100.bandwidth


def test_the_bound_is_the_slower_of_the_two() -> None:
    assert time_bound(10, 3, 5, 1) == Quantity(3, "s")
    assert time_bound(20, 3, 5, 1) == Quantity(4, "s")
    assert time_bound(1, 7, 3, 11).value == Fraction(7, 11)
    assert isinstance(time_bound(20, 3, 5, 1).value, int)
    assert time_bound(Quantity(1, "TFLOP"), Quantity(1, "MB"), C, BETA).value == Fraction(10**12, C.value)


def test_which_budget_limits_changes_at_the_ridge_itself() -> None:
    assert limit(10, 3, 5, 1) == "bandwidth"
    assert limit(15, 3, 5, 1) == "arithmetic"
    assert limit(16, 3, 5, 1) == "arithmetic"


def test_the_lecture_s_ridge() -> None:
    star = ridge(C, BETA)
    assert star.value == Fraction(9895, 10) / Fraction(335, 100)
    assert f"{star:.0f}" == "295 FLOP/B"
    assert star.numbers == "989.5 TFLOP/s/3.35 TB/s"
    assert "dense peak" in star.conventions


def test_intensity_and_attainable_rate_are_exact() -> None:
    assert intensity(7, 3).value == Fraction(7, 3)
    assert intensity(0, 3).value == 0
    assert attainable(1, C, BETA) == Quantity(3.35, "TFLOP/s")
    assert attainable(ridge(C, BETA), C, BETA).value == C.value
    assert attainable(10**6, C, BETA).value == C.value
    work, traffic = Quantity(3, "GFLOP"), Quantity(50, "MB")
    assert work / time_bound(work, traffic, C, BETA) == attainable(intensity(work, traffic), C, BETA)


def walked_rows(d_in: int, d_out: int, s: Fraction, star: Fraction, most: int) -> int | None:
    """The definition, row by row."""
    for M in range(1, most):
        if Fraction(2 * M * d_in * d_out) / (s * (M * d_in + d_in * d_out + M * d_out)) >= star:
            return M
    return None


@pytest.mark.parametrize(
    ("d_in", "d_out", "dtype", "s"),
    [
        (4096, 4096, "bf16", 2),
        (4096, 16384, "bf16", 2),
        (1024, 3000, "bf16", 2),
        (4096, 4096, "fp32", 4),
        (4096, 4096, "fp8_e4m3", 1),
        (700, 650, "fp4", Fraction(1, 2)),
        (600, 600, "bf16", 2),
    ],
)
def test_rows_to_the_ridge_are_the_first_that_reach_it(
    d_in: int, d_out: int, dtype: str, s: Fraction | int
) -> None:
    got = rows_to_ridge(d_in, d_out, C, BETA, dtype)
    assert got is not None
    assert got.value == walked_rows(
        d_in, d_out, Fraction(s), Fraction(9895, 10) / Fraction(335, 100), 100_000
    )


def test_the_worked_numbers_of_the_course() -> None:
    assert rows_to_ridge(4096, 4096, C, BETA).value == 346  # type: ignore[union-attr]
    assert rows_to_ridge(4096, 16384, C, BETA).value == 325  # type: ignore[union-attr]
    # Floats give the same rows: the ridge is taken exactly.
    assert rows_to_ridge(4096, 4096, 989.5e12, 3.35e12).value == 346  # type: ignore[union-attr]


@pytest.mark.parametrize("d", [1, 64, 512, 590])
def test_too_narrow_layers_never_reach_it(d: int) -> None:
    assert rows_to_ridge(d, d, C, BETA) is None


def test_a_ridge_equal_to_the_limit_is_never_reached() -> None:
    # d/2 = 8 at s = 2: approached from below, so a ridge of 8 is out of reach and one just under it is not.
    assert rows_to_ridge(16, 16, 8, 1) is None
    assert rows_to_ridge(16, 16, Fraction(799, 100), 1).value == 6392  # type: ignore[union-attr]
    assert walked_rows(16, 16, Fraction(2), Fraction(799, 100), 10_000) == 6392


def test_the_square_at_the_ridge_is_the_first() -> None:
    n = int(square_at_ridge(C, BETA))
    star = Fraction(9895, 10) / Fraction(335, 100)
    assert n == 887
    assert Fraction(n, 3) >= star > Fraction(n - 1, 3)
    assert square_at_ridge(12, 1, "fp32").value == 72  # 2n/(3·4) = 12


@pytest.mark.parametrize(
    "call",
    [
        lambda: time_bound(-1, 3, 5, 1),
        lambda: time_bound(1, 3, 0, 1),
        lambda: time_bound(1, 3, 5, float("nan")),
        lambda: time_bound(1, 3, 5, float("inf")),
        lambda: time_bound(Quantity(1, "B"), 3, 5, 1),
        lambda: time_bound(1, Quantity(3, "FLOP"), 5, 1),
        lambda: time_bound(1, 3, H100.bandwidth, 1),
        lambda: time_bound(1, 3, 5, C),
        lambda: time_bound("1", 3, 5, 1),
        lambda: time_bound(True, 3, 5, 1),
        lambda: intensity(1, 0),
        lambda: ridge(C, 0),
        lambda: attainable(-1, C, BETA),
        lambda: attainable(Quantity(1, "B/FLOP"), C, BETA),
        lambda: rows_to_ridge(0, 1, C, BETA),
        lambda: rows_to_ridge(4096.5, 1, C, BETA),  # type: ignore[arg-type]
        lambda: rows_to_ridge(4096, 4096, C, BETA, "bf61"),
        lambda: limit(1, 1, 1, 0),
    ],
)
def test_bad_input_is_one_error(call: object) -> None:
    with pytest.raises(LectureError, match="expected"):
        call()  # type: ignore[operator]


def test_a_sparse_peak_is_refused_everywhere() -> None:
    sparse = H100.sparse_peak("bf16")
    for call in (
        lambda: ridge(sparse, BETA),
        lambda: time_bound(1, 1, sparse, BETA),
        lambda: attainable(1, sparse, BETA),
        lambda: rows_to_ridge(4096, 4096, sparse, BETA),
        lambda: square_at_ridge(sparse, BETA),
        lambda: limit(1, 1, sparse, BETA),
    ):
        with pytest.raises(LectureError, match="dense peak"):
            call()
