"""Every drawing: its facts in its text, type that a room can read, no word cut off or on top of another."""

import math
from collections.abc import Callable

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from lecture_lib.accounting import models
from lecture_lib.accounting.flops import beyond_6pt
from lecture_lib.accounting.hardware import device
from lecture_lib.accounting.memory import RECIPES, bytes_per_parameter, model_states
from lecture_lib.accounting.operators import dot, gelu, gemm, relu, vector_matrix
from lecture_lib.figures import Drawing, show
from lecture_lib.figures.dtypes import (
    bit_layout,
    error_by_scales,
    flipped_bit,
    gradients_in_range,
    range_and_spacing,
    running_sums,
    shared_scale,
    survivors,
)
from lecture_lib.figures.einops import score_maps
from lecture_lib.figures.flops import full_over_6pt, three_products
from lecture_lib.figures.ledgers import ledger_bars
from lecture_lib.figures.memory import SHARDINGS, epsilon_placement, states, what_fits
from lecture_lib.figures.roofline import Point, decode_batches, gemm_on_roofline, under_the_roof
from lecture_lib.figures.storage import allocator_steps, storage_map
from lecture_lib.figures.utilization import clock_stops, days_of_a_run, misreadings, step_utilization
from lecture_lib.quantity import LectureError, Ledger, Quantity


def ledgers_over_6pt() -> dict[str, Ledger]:
    gpt2, llama, qwen = (models.load(name) for name in ("gpt2", "llama-3.1-8b", "qwen3-30b-a3b"))
    return {
        "GPT-2, 1,024 tokens": beyond_6pt(gpt2, tokens=2**19, seq=1_024, attention="causal"),
        "Llama 3.1 8B, 131,072": beyond_6pt(llama, tokens=2**22, seq=131_072, attention="causal"),
        "Qwen3-30B-A3B, 8,192": beyond_6pt(qwen, tokens=2**22, seq=8_192, attention="causal"),
    }


def training_state() -> dict[str, Ledger]:
    sizes = {"weights": 14, "gradients": 14, "first moment": 28, "second moment": 28}
    rows = {name: Quantity(size, "GB") for name, size in sizes.items()}
    return {"to store": Ledger({"weights": rows["weights"]}), "to train": Ledger(rows)}


def lecture_points() -> Drawing:
    h100 = device("H100-SXM")
    points = [Point(f"M = {M}", gemm(M, 4096, 4096)) for M in (1, 128, 1024)]
    return under_the_roof("How many rows?", h100.peak("bf16"), h100.bandwidth, points)


def own_points(bandwidth: str, peak: str, times: dict[int, float]) -> Drawing:
    points = [
        Point(f"M = {M}", gemm(M, 4096, 8192, "fp32"), Quantity(seconds, "s")) for M, seconds in times.items()
    ]
    rates = (Quantity(float(text.split()[0]), text.split()[1]) for text in (peak, bandwidth))
    return under_the_roof("How near?", *(rate.to(rate.unit[1:]) for rate in rates), points)


CPU_TIMES = {1: 6.4e-3, 4: 18e-3, 16: 17e-3, 64: 35e-3, 256: 108e-3, 1024: 420e-3}


def four_operators() -> Drawing:
    h100 = device("H100-SXM")
    costs = {"ReLU": relu(2**20), "dot product": dot(2**20), "vector × matrix": vector_matrix(4096)}
    points = [Point(name, cost) for name, cost in {**costs, "GELU": gelu(2**20)}.items()]
    others = {"FP32 vector lanes:": h100.vector_peak()}
    return under_the_roof("Which?", h100.peak("bf16"), h100.bandwidth, points, others)


def steps() -> dict[str, tuple[Quantity, Quantity]]:
    pairs = {"1 sequence": (0.88, 0.22), "8 sequences": (0.96, 0.47), "BF16 products": (0.97, 1.02)}
    return {name: (Quantity(bound), Quantity(got)) for name, (bound, got) in pairs.items()}


DRAWINGS: dict[str, tuple[Callable[[], Drawing], list[str]]] = {
    "three products": (
        lambda: three_products(3, 5, 7),
        [
            "M = 3, d_in = 5, d_out = 7",
            "each entry sums 5 products, over d_in",
            "sums 7 products",
            "sums 3 products",
        ],
    ),
    "three products, long": (lambda: three_products(2, 10, 3), ["d_in = 10"]),
    "three products, least": (lambda: three_products(1, 1, 1), ["M = 1"]),
    "three products, most": (lambda: three_products(10, 10, 10), ["M = 10"]),
    "full over 6PT": (
        lambda: full_over_6pt(ledgers_over_6pt()),
        ["Llama 3.1 8B, 131,072: 3.07 times, attention +214%", "Qwen3-30B-A3B, 8,192: 0.152 times"],
    ),
    "score maps": (
        lambda: score_maps(
            {
                "as meant": [[1, 2, -3], [2, 0, 1], [0, 1, 4]],
                "dimm in K": [[1, 2, 3], [2, 4, 6], [-3, -6, -9]],
            }
        ),
        ["3 queries and 3 keys", "as meant: from −3.0 to 4.0, rank 3", "dimm in K: from −9.0 to 6.0, rank 1"],
    ),
    "ledger bars": (
        lambda: ledger_bars(training_state(), "GB", "How much is the model?"),
        ["84 GB", "14 GB"],
    ),
    "storage map": (
        lambda: storage_map(
            12, {"x": range(12), "x.T": [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11], "x[1]": [4, 5, 6, 7]}
        ),
        ["x.T touches 12 of 12", "x[1] touches 4 of 12"],
    ),
    "roofline": (
        lecture_points,
        [
            "ridge at 295.4 FLOP/B",
            "M = 1: 0.9995 FLOP/B, at most 3.348 TFLOP/s, limited by bandwidth",
            "M = 1024: 682.7 FLOP/B, at most 989.5 TFLOP/s, limited by arithmetic",
        ],
    ),
    "roofline, measured": (
        lambda: own_points("16.9 GB/s", "204 GFLOP/s", CPU_TIMES),
        ["M = 4: 1.997 FLOP/B, at most 33.75 GFLOP/s, limited by bandwidth, measured 14.91 GFLOP/s, 44% of"],
    ),
    "roofline, measured far below": (
        lambda: own_points("900 GB/s", "9000 GFLOP/s", {1: 0.5, 1024: 9.0}),
        ["measured 134.2 MFLOP/s"],
    ),
    "roofline, other ceilings": (four_operators, ["FP32 vector lanes: 67 TFLOP/s", "GELU: 5 FLOP/B"]),
    "roofline, one product": (
        lambda: gemm_on_roofline(128, 4096, 4096, "H100-SXM", "bf16"),
        ["M = 128, at least 10.64 µs", "W is 4,096 × 4,096"],
    ),
    "roofline, least product": (
        lambda: gemm_on_roofline(1, 64, 64, "TPU-v7x", "bf16"),
        ["bandwidth is the limit"],
    ),
    "roofline, most product": (
        lambda: gemm_on_roofline(16_384, 16_384, 16_384, "T4", "fp16"),
        ["arithmetic is the limit"],
    ),
    "decode batches": (
        lambda: decode_batches("llama-3.1-8b", 8_192, 8, "H100-SXM"),
        ["One: 208 at most; 8: 1,136;", "59 fit into 80 GB"],
    ),
    "decode batches, short": (
        lambda: decode_batches("llama-3.1-8b", 256, 1024, "H200-SXM"),
        ["arithmetic is the limit"],
    ),
    "misreadings": (
        lambda: misreadings(0.45, {"sparse peak": 1 / 2, "2·P·T for 6·P·T": 1 / 3, "recomputation": 4 / 3}),
        ["sparse peak: 0.23", "2·P·T for 6·P·T: 0.15", "recomputation: 0.60"],
    ),
    "clock stops": (lambda: clock_stops(1, [6, 6, 6]), ["return at 3 ms", "after it 19 ms"]),
    "clock stops, two kernels": (lambda: clock_stops(0.5, [9, 4]), ["reads 1 ms, after it 13.5 ms"]),
    "step utilization": (lambda: step_utilization(steps()), ["8 sequences: 0.47 measured, 0.96 at most"]),
    "days of a run": (
        lambda: days_of_a_run(70, 15, 1024, "H100-SXM", 0.5, 3.8, 3),
        ["153.7 days, 9.8 days of them lost to 78 stops", "Training takes 143.9 days"],
    ),
    "days, none lost": (
        lambda: days_of_a_run(1, 0.1, 64, "A100-SXM-80GB", 0.4, 0, 1),
        ["0 days of them lost to 0 stops"],
    ),
    "days, many lost": (lambda: days_of_a_run(400, 30, 64, "L4", 0.1, 14, 8), ["Training takes"]),
    "bits": (
        lambda: bit_layout(math.pi, ["fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "fp4"]),
        ["BF16: 0 10000000 1001001 is 3.140625", "E2M1: 0 10 1 is 3"],
    ),
    "bit flipped": (
        lambda: flipped_bit("bf16", 1.0, 14),
        ["bit 14 flipped: 0 11111111 0000000 is inf"],
    ),
    "bit flipped, widest": (lambda: flipped_bit("fp32", 0.1, 0), ["bit 0 flipped: 0 01111011"]),
    "range and spacing": (
        lambda: range_and_spacing(["fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"], 1e-8),
        ["FP16: from 6e-08 to 65504", "E4M3: from 0.002 to 448", "BF16: from 9.2e-41"],
    ),
    "survivors": (
        lambda: survivors(1.0, 0.002),
        ["BF16: 1, then 1, update is lost", "FP16: 1, then 1.001953, update survives"],
    ),
    "survivors, none": (
        lambda: survivors(1e6, 1e-9),
        ["E4M3: nan, then nan, value too large", "FP16: inf, then inf, value too large"],
    ),
    "running sums": (
        lambda: running_sums(["fp32", "fp16", "bf16", "fp8_e4m3"], 4_096),
        ["FP16 stalls at 2,048", "BF16 stalls at 256", "E4M3 stalls at 16", "FP32 goes on"],
    ),
    "gradients in range": (
        lambda: gradients_in_range({-33: 2, -30: 3, -26: 5, -24: 20, -20: 30, -9: 4}, "fp16", 4_096),
        ["as they are, 15.6% become 0; loss × 4,096, 0.0% become 0"],
    ),
    "shared scale": (
        lambda: shared_scale(
            {"alone": ([0.9, -0.6, 0.1], [0.75, -0.5, 0.125]), "one outlier": ([0.1, 5.5], [0, 6])},
            {"alone": [0, 0.0625, 0.125, 0.5, 0.75], "one outlier": [0, 0.5, 1, 6]},
        ),
        ["alone: 0 of 3 values become 0", "one outlier: 1 of 2 values become 0, and levels near 0 are 0.5"],
    ),
    "error by scales": (
        lambda: error_by_scales(
            {"one scale": (4.002, 0.71), "per 32": (4.25, 0.139), "per 16": (4.5, 0.121)}
        ),
        ["per 32: 4.25 bits, 13.9%"],
    ),
    "states of recipes": (
        lambda: states(
            {name: bytes_per_parameter(name) for name in (*list(RECIPES)[:5], "bf16-8bit-moments")},
            "B/parameter",
            "How many bytes does each parameter keep?",
        ),
        ["bf16-8bit-moments, 6.031 B/parameter", "bf16-master, 16 B/parameter: parameters 2, gradients 2"],
    ),
    "states on devices": (
        lambda: states(
            {name: model_states(7 * 10**9, "lecture", 8, stage) for name, stage in SHARDINGS.items()},
            "GB",
            "Do seven billion parameters fit on each of eight?",
            Quantity(80, "GB"),
        ),
        ["replicated, 84 GB, too much", "(ZeRO-1), 35 GB, fits", "A line at a capacity of 80 GB"],
    ),
    "what fits, nearly full": (
        lambda: what_fits("llama-3.1-8b", "bf16-pure", "H100-SXM", 1, "replicated"),
        ["the device, 64.24 GB, fits"],
    ),
    "what fits, far too much": (
        lambda: what_fits(
            "llama-3.1-405b", "bf16-master-both-gradients", "RTX-4090", 8, "and gradients (ZeRO-2)"
        ),
        ["each of 8", "too much", "capacity of 24 GB"],
    ),
    "what fits, hardly anything": (
        lambda: what_fits("llama-3.2-1b", "lecture", "B200", 1024, "and parameters (ZeRO-3)"),
        ["each of 1,024", "fits"],
    ),
    "place of epsilon": (
        lambda: epsilon_placement([1e-7, 1e-6, 1e-5, 1e-3, 1.0], 1e-10),
        ["at |g| = 1e-06 0.1 inside and 1 outside", "at |g| = 1e-05 0.71 inside"],
    ),
    "place of a large epsilon": (lambda: epsilon_placement([1e-4, 10.0], 1e-2), ["ε = 1e-02"]),
    "allocator steps": (allocator_steps, ["513 B asked, 1,024 B allocated, 2 MiB reserved"]),
}


@pytest.fixture(params=DRAWINGS)
def drawing(request: pytest.FixtureRequest) -> tuple[Drawing, list[str]]:
    draw, facts = DRAWINGS[request.param]
    return draw(), facts


def test_the_text_has_the_facts(drawing: tuple[Drawing, list[str]]) -> None:
    drawn, facts = drawing
    for fact in facts:
        assert fact in drawn.alt
    assert repr(show(drawn)).startswith("Figure: ") and len(repr(show(drawn))) < 160


def words(drawn: Drawing) -> list[Text]:
    """Every text that is drawn; Matplotlib also keeps labels for ticks beyond an axis and on hidden axes."""
    FigureCanvasAgg(drawn.figure).draw()
    hidden: set[Text] = set()
    for axes in drawn.figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not (axes.axison and low <= tick.get_loc() <= high):
                    hidden |= {tick.label1, tick.label2}
    found = drawn.figure.findobj(Text)
    return [text for text in found if text not in hidden and text.get_visible() and text.get_text().strip()]


def test_type_can_be_read_from_the_back(drawing: tuple[Drawing, list[str]]) -> None:
    small = {text.get_text(): text.get_fontsize() for text in words(drawing[0]) if text.get_fontsize() < 14}
    assert small == {}
    width, height = drawing[0].figure.get_size_inches()
    assert width * 96 <= 1280 and height * 96 <= 720


def test_no_word_is_cut_off_or_under_another(drawing: tuple[Drawing, list[str]]) -> None:
    shown = words(drawing[0])
    paper = drawing[0].figure.bbox
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown]
    for text, box in boxes:
        assert box.x0 >= paper.x0 - 1 and box.x1 <= paper.x1 + 1, text
        assert box.y0 >= paper.y0 - 1 and box.y1 <= paper.y1 + 1, text
    for i, (text, box) in enumerate(boxes):
        for other, its in boxes[i + 1 :]:
            across = min(box.x1, its.x1) - max(box.x0, its.x0)
            down = min(box.y1, its.y1) - max(box.y0, its.y0)
            assert across <= 2 or down <= 2, f"{text!r} and {other!r} overlap"


def test_score_maps_need_one_shape() -> None:
    for maps in ({}, {"a": [[1]], "b": [[1, 2]]}, {"a": [1, 2]}, {name: [[1]] for name in "abcd"}):
        with pytest.raises(LectureError, match="matrices of one shape"):
            score_maps(maps)  # type: ignore[arg-type]


def test_bad_input_is_refused() -> None:
    for sizes in ((0, 5, 7), (3, 11, 7), (3, 5, 7.0)):
        with pytest.raises(LectureError, match="of 1 to 10"):
            three_products(*sizes)  # type: ignore[arg-type]
    with pytest.raises(LectureError, match='row "6PT"'):
        full_over_6pt({})
    with pytest.raises(LectureError, match='row "6PT"'):
        full_over_6pt({"x": Ledger({"a": Quantity(1, "FLOP")})})
    h100 = device("H100-SXM")
    with pytest.raises(LectureError, match="at least one point"):
        under_the_roof("?", h100.peak("bf16"), h100.bandwidth, [])
    with pytest.raises(LectureError, match="dense peak"):
        under_the_roof("?", h100.sparse_peak("bf16"), h100.bandwidth, [Point("a", gemm(1, 2, 3))])
    with pytest.raises(LectureError, match="take 59 sequences at most"):
        decode_batches("llama-3.1-8b", 8_192, 60, "H100-SXM")
    with pytest.raises(LectureError, match="more memory or a shorter context"):
        decode_batches("llama-3.1-70b", 8_192, 1, "H100-SXM")


def test_figures_need_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, lecture_lib.figures.flops; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
