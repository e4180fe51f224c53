from __future__ import annotations

from fractions import Fraction

import pytest

from lecture_lib.accounting import flops, models
from lecture_lib.accounting.flops import training_run
from lecture_lib.accounting.hardware import device, stated_peak
from lecture_lib.accounting.utilization import (
    achieved,
    against_wrong_peak,
    days_of_device_hours,
    device_hours,
    fraction_of_peak,
    hfu,
    mfu,
    mfu_from_throughput,
    run_flops,
    run_ledger,
    run_time,
    run_time_at_rate,
    run_time_at_throughput,
    tokens_per_day,
)
from lecture_lib.quantity import LectureError, Quantity

H100 = device("NVIDIA H100 80GB HBM3")
BF16 = H100.peak("bf16")
RUN = training_run(70 * 10**9, 15 * 10**12)


def test_the_lecture_s_run() -> None:
    days = run_time(RUN, 1024, BF16, Fraction(1, 2), dtype="bf16")
    assert RUN.value == 63 * 10**23
    # 6.3e24 / (1024 · 0.5 · 989.5e12) seconds, exactly.
    assert days.value == Fraction(63 * 10**23, 512 * 9895 * 10**11) / 86_400
    assert days.unit == "day" and f"{float(days.value):.1f}" == "143.9"
    assert float(run_time(RUN, 1024, BF16, 0.5, dtype="bf16").value) == pytest.approx(143.92659381842682)
    assert "interruptions not in it" in " ".join(days.conventions)


def test_mfu_undoes_run_time_and_run_flops() -> None:
    days = run_time(RUN, 1024, BF16, Fraction(2, 5), dtype="bf16")
    assert mfu(RUN, days, 1024, BF16, dtype="bf16").value == Fraction(2, 5)
    assert run_flops(days, 1024, BF16, Fraction(2, 5), dtype="bf16").value == RUN.value
    assert run_time_at_rate(RUN, 1024, achieved(RUN, days, 1024)) == days


def test_mfu_says_how_it_is_made() -> None:
    figure = mfu(Quantity(10, "PFLOP"), Quantity(2, "s"), 8, BF16, dtype=" torch.bfloat16")
    assert figure.value == Fraction(10**16, 2 * 8 * 9895 * 10**11) and figure.unit == "1"
    assert figure.numbers == "10 PFLOP/(2 s·8·989.5 TFLOP/s)"
    assert {"dense peak", "BF16 operands"} <= set(figure.conventions)


def test_throughput_and_step_agree() -> None:
    per_token, tokens = Quantity(42 * 10**9, "FLOP/token"), 4_194_304
    step = mfu(per_token.value * tokens, 10, 8, BF16, dtype="bf16")
    assert mfu_from_throughput(per_token, Fraction(tokens, 10), 8, BF16, dtype="bf16").value == step.value


def test_recomputation_is_hfu_s_alone() -> None:
    config = models.load("gpt2")
    forward = flops.transformer_forward(config, 1024, 1024, head=False).total
    again = flops.recomputation(config, 1024, 1024).total
    model = 3 * forward
    low = mfu(model, 1, 1, BF16, dtype="bf16")
    high = hfu(model, again, 1, 1, BF16, dtype="bf16")
    assert again == forward and high.value / low.value == Fraction(4, 3)
    assert hfu(model, 0, 1, 1, BF16, dtype="bf16").value == low.value
    with pytest.raises(LectureError, match="use hfu"):
        mfu(model + again, 1, 1, BF16, dtype="bf16")
    # A ledger without recomputation is no reason to refuse.
    plain = model.with_(conventions=(flops.RECOMPUTE["none"],))
    assert mfu(plain, 1, 1, BF16, dtype="bf16").value == low.value


@pytest.mark.parametrize(
    ("peak", "dtype", "words"),
    [
        (H100.sparse_peak("bf16"), "bf16", "expected a dense peak; got H100-SXM BF16 sparse peak"),
        (H100.peak("fp8"), "bf16", "a peak for BF16 operands.*for FP8 operands"),
        (BF16, "fp16", "a peak for FP16 operands.*for BF16 operands"),
        (H100.peak("tf32"), "fp32", "a peak for FP32 operands.*for TF32 operands"),
        (989.5e12, "bf16", "a peak that says what it is"),
        (Quantity(989.5, "TFLOP/s"), "bf16", "conventions say 'dense peak' and 'BF16 operands'"),
        (H100.vector_peak(), "fp32", "conventions say"),
        (H100.bandwidth, "bf16", "another dimension"),
        (BF16, "bf61", "number format"),
    ],
)
def test_peaks_that_do_not_belong_to_the_run_are_refused(peak: Quantity, dtype: str, words: str) -> None:
    for call in (
        lambda: mfu(10**15, 1, 1, peak, dtype=dtype),
        lambda: mfu_from_throughput(10**9, 10**5, 1, peak, dtype=dtype),
        lambda: hfu(10**15, 0, 1, 1, peak, dtype=dtype),
        lambda: run_time(10**18, 1, peak, 0.5, dtype=dtype),
        lambda: run_flops(Quantity(1, "day"), 1, peak, 0.5, dtype=dtype),
        lambda: fraction_of_peak(10**14, peak, dtype),
    ):
        with pytest.raises(LectureError, match=f"(?s){words}"):
            call()


def test_a_stated_peak_is_taken() -> None:
    v3 = stated_peak(Quantity(123, "TFLOP/s"), "bf16", "PaLM Table 3")
    assert fraction_of_peak(Quantity(41, "TFLOP/s"), v3, "bf16").value == Fraction(1, 3)


def test_what_a_wrong_peak_does() -> None:
    figure = mfu(Quantity(494.75, "TFLOP"), 1, 1, BF16, dtype="bf16")
    assert figure.value == Fraction(1, 2)
    sparse = against_wrong_peak(figure, BF16, H100.sparse_peak("bf16"))
    assert sparse.value == Fraction(1, 4) and "2:4" in " ".join(sparse.conventions)
    assert against_wrong_peak(figure, BF16, H100.peak("fp8")).value == Fraction(1, 4)
    # Against FP32 the same run would read more than 1, which gives that slip away.
    assert against_wrong_peak(figure, BF16, H100.peak("fp32")).value > 7
    # A device without sparsity tells the two halvings apart.
    with pytest.raises(LectureError, match="recorded sparse peak on V100-SXM2-16GB"):
        device("V100-SXM2-16GB").sparse_peak("fp16")
    with pytest.raises(LectureError, match="differs"):
        against_wrong_peak(figure, BF16, device("A100-SXM-80GB").peak("bf16"))
    with pytest.raises(LectureError, match="dense peak"):
        against_wrong_peak(figure, H100.sparse_peak("bf16"), BF16)


def test_interruptions_stand_apart() -> None:
    days = run_time(RUN, 1024, BF16, Fraction(1, 2), dtype="bf16")
    ledger = run_ledger(days, 100, Quantity(3, "h"))
    assert list(ledger) == ["training", "interruptions"]
    assert ledger["training"] == days and ledger["interruptions"] == Quantity(Fraction(25, 2), "day")
    assert ledger.total.value == days.value + Fraction(25, 2)
    assert run_ledger(days, 0, Quantity(3, "h")).total == days


def test_hours_days_and_tokens() -> None:
    assert device_hours(Quantity(2, "day"), 8) == Quantity(384, "device·h")
    assert device_hours(Quantity(2, "day"), 8).value == 384
    assert days_of_device_hours(384, 8).value == 2
    assert days_of_device_hours(Quantity(384, "device·h"), 8).value == 2
    assert run_time_at_throughput(86_400 * 100, 4, 25).value == 1
    assert tokens_per_day(4096 * 15360, Quantity(2, "s")).value == 4096 * 15360 * 43_200
    assert tokens_per_day(1, 1).unit == "token/day"


@pytest.mark.parametrize(
    "call",
    [
        lambda: mfu(0, 1, 1, BF16, dtype="bf16"),
        lambda: mfu(10**15, 0, 1, BF16, dtype="bf16"),
        lambda: mfu(10**15, -1, 1, BF16, dtype="bf16"),
        lambda: mfu(10**15, 1, 0, BF16, dtype="bf16"),
        lambda: mfu(10**15, 1, 1.5, BF16, dtype="bf16"),  # type: ignore[arg-type]
        lambda: mfu(Quantity(1, "TFLOP/s"), 1, 1, BF16, dtype="bf16"),
        lambda: mfu(10**15, Quantity(1, "B"), 1, BF16, dtype="bf16"),
        lambda: mfu_from_throughput(Quantity(1, "FLOP"), 1, 1, BF16, dtype="bf16"),
        lambda: mfu_from_throughput(1, Quantity(1, "FLOP/s"), 1, BF16, dtype="bf16"),
        lambda: hfu(10**15, -1, 1, 1, BF16, dtype="bf16"),
        lambda: run_time(RUN, 1024, BF16, 50, dtype="bf16"),
        lambda: run_time(RUN, 1024, BF16, 0, dtype="bf16"),
        lambda: run_time_at_rate(RUN, 1024, Quantity(1, "B/s")),
        lambda: run_time_at_throughput(Quantity(1, "parameter"), 1, 1),
        lambda: run_ledger(Quantity(1, "day"), -1, Quantity(1, "h")),
        lambda: run_ledger(Quantity(1, "day"), 1.5, Quantity(1, "h")),  # type: ignore[arg-type]
        lambda: run_ledger(Quantity(1, "day"), 1, 3),  # type: ignore[arg-type]
        lambda: run_ledger(3, 1, Quantity(1, "h")),  # type: ignore[arg-type]
        lambda: device_hours(Quantity(1, "B"), 1),
        lambda: device_hours(24, 1),  # type: ignore[arg-type]
        lambda: days_of_device_hours(Quantity(1, "h"), 1),
        lambda: run_time_at_rate(RUN, 1024, H100.sparse_peak("bf16")),
        lambda: run_time_at_rate(RUN, 1024, H100.sparse_peak("bf16") * 0.5),
        lambda: fraction_of_peak(H100.sparse_peak("bf16"), BF16, "bf16"),
        lambda: tokens_per_day(1, 0),
        lambda: achieved(float("nan"), 1, 1),
    ],
)
def test_bad_input_is_one_error(call: object) -> None:
    with pytest.raises(LectureError, match="expected"):
        call()  # type: ignore[operator]
