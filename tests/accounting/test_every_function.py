"""What holds for every public function of the accounting library, each called once from one table.

- the numbers that a quantity shows, put into its formula, give its value;
- an argument that makes no sense is a LectureError, whatever function it is given to;
- no function is left out of the table.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import lecture_lib.accounting as accounting
from lecture_lib.accounting import models
from lecture_lib.accounting.hardware import device
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.quantity import UNITS, LectureError, Ledger, Quantity

SMALL = ModelConfig(
    name="small",
    vocab_size=101,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    intermediate_size=40,
    max_position_embeddings=64,
    tie_word_embeddings=False,
    gated_mlp=True,
    qkv_bias=True,
)
LATENT = models.load("deepseek-v3")
MATRICES = {"w": (3, 5)}
GPT_JSON = {"model_type": "gpt2", "vocab_size": 11, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16}
PEAK = device("H100-SXM").peak("bf16")
SPARSE = device("H100-SXM").sparse_peak("bf16")
BETA = device("H100-SXM").bandwidth
FLOP, BYTES = Quantity(7 * 10**12, "FLOP"), Quantity(3 * 10**9, "B")
HOURS = Quantity(5, "h")
COST = accounting.operators.gemm(3, 5, 7)

Call = tuple[str, dict[str, Any]]
# Each public function with arguments that are unequal and coprime where they can be, and those that it has
# left out as well where they change the formula.
CALLS: list[Call] = [
    ("accumulation.mean_over_tokens", {"sums": [10.0, 7.5], "tokens": [10, 3]}),
    ("accumulation.mean_of_means", {"sums": [10.0, 7.5], "tokens": [10, 3]}),
    ("activations.mlp_saved", {"batch": 3, "widths": (5, 7, 11), "segment": 1, "activation": "gelu"}),
    ("activations.transformer_saved", {"config": SMALL, "batch": 2, "seq": 5, "segment": 1}),
    ("activations.transformer_saved", {"config": SMALL, "batch": 2, "seq": 5, "fused": False}),
    ("activations.layer_activations", {"seq": 7, "batch": 3, "hidden": 20, "heads": 5}),
    (
        "activations.layer_activations",
        {"seq": 7, "batch": 3, "hidden": 20, "heads": 5, "tensor_parallel": 4, "sequence_parallel": True},
    ),
    (
        "activations.layer_activations",
        {"seq": 7, "batch": 3, "hidden": 20, "heads": 5, "tensor_parallel": 4, "recompute": "selective"},
    ),
    ("activations.layer_activations", {"seq": 7, "batch": 3, "hidden": 20, "heads": 5, "recompute": "full"}),
    (
        "activations.pipeline_activations",
        {"layer": Quantity(1000, "B"), "layers": 12, "pipeline_parallel": 4, "interleave": 3},
    ),
    ("activations.scores_ratio", {"seq": 7, "hidden": 20, "heads": 5}),
    ("activations.selective_saving", {"seq": 7, "hidden": 20, "heads": 5}),
    ("activations.selective_overhead_as_published", {"seq": 7, "hidden": 20, "layers": 3, "vocab": 101}),
    ("allocator.block_bytes", {"request": 1025}),
    ("allocator.segment_bytes", {"request": 11 * 2**20}),
    (
        "budget.training_step",
        {"model": SMALL, "batch": (4, 8), "recipe": "bf16-master", "device": "H100-SXM", "segment": 1}
        | {"microbatches": 2, "dtype": "bf16"},
    ),
    (
        "budget.training_step",
        {"model": SMALL, "batch": (4, 8), "recipe": "fp32", "device": "H100-SXM", "fused": False},
    ),
    (
        "budget.decode_step",
        {"model": SMALL, "batch": 3, "context": 31, "dtype": "bf16", "device": "H100-SXM"},
    ),
    (
        "budget.decode_step",
        {"model": "deepseek-v3", "batch": 3, "context": 31, "dtype": "bf16", "device": "MI300X"},
    ),
    ("checkpointing.segment_units", {"layers": 13, "segment": 4}),
    ("checkpointing.square_root_segment", {"layers": 13}),
    ("checkpointing.best_segment", {"layers": 13}),
    ("checkpointing.mlp_checkpoint_flops", {"batch": 3, "widths": (5, 7, 11), "segment": 1}),
    ("checkpointing.forwards_of_a_chain", {"segment": 3, "ends_in": "linear"}),
    ("checkpointing.forwards_of_a_chain", {"segment": 3}),
    ("contraction.contraction", {"pattern": "i k, k j -> i j", "dtype": "bf16", "i": 2, "k": 3, "j": 5}),
    ("dtypes.resolve", {"dtype": "bf16"}),
    ("dtypes.bits", {"dtype": "bf16"}),
    ("dtypes.bytes_per_element", {"dtype": "bf16"}),
    ("flops.linear_forward", {"M": 3, "d_in": 5, "d_out": 7}),
    ("flops.linear_forward", {"M": 3, "d_in": 5, "d_out": 7, "exact": True}),
    ("flops.linear_input_gradient", {"M": 3, "d_in": 5, "d_out": 7, "exact": True}),
    ("flops.linear_weight_gradient", {"M": 3, "d_in": 5, "d_out": 7, "exact": True}),
    ("flops.linear_step", {"M": 3, "d_in": 5, "d_out": 7}),
    ("flops.mlp_step", {"M": 3, "widths": (5, 7, 11)}),
    ("flops.training_run", {"parameters": 7, "tokens": 11}),
    (
        "flops.attention_forward",
        {"batch": 2, "heads": 3, "seq": 5, "head_dim": 7, "v_head_dim": 11, "attention": "causal"},
    ),
    (
        "flops.attention_backward",
        {"batch": 2, "heads": 3, "seq": 5, "head_dim": 7, "v_head_dim": 11, "attention": "full"}
        | {"kernel": "fused"},
    ),
    ("flops.transformer_forward", {"config": SMALL, "tokens": 30, "seq": 5, "attention": "causal"}),
    ("flops.transformer_forward", {"config": LATENT, "tokens": 30, "seq": 5}),
    (
        "flops.transformer_backward",
        {"config": SMALL, "tokens": 30, "seq": 5, "attention": "full", "kernel": "fused"},
    ),
    (
        "flops.recomputation",
        {"config": SMALL, "tokens": 30, "seq": 5, "recompute": "full", "attention": "full", "segment": 2},
    ),
    ("flops.mlp_recomputation", {"M": 3, "widths": (5, 7, 11, 13), "segment": 2}),
    ("flops.optimizer_update", {"parameters": 7, "optimizer": "adamw", "steps": 3}),
    (
        "flops.beyond_6pt",
        {"config": SMALL, "tokens": 30, "seq": 5, "attention": "causal", "kernel": "fused"}
        | {"recompute": "full", "optimizer": "adamw", "tokens_per_step": 10},
    ),
    (
        "flops.palm_flops_per_token",
        {"parameters": 101, "layers": 3, "heads": 5, "head_dim": 7, "seq": 11},
    ),
    ("flops.narayanan_flops", {"batch": 2, "layers": 3, "hidden": 20, "seq": 7, "vocab": 101}),
    ("flops.narayanan_parameters", {"layers": 3, "hidden": 20, "seq": 7, "vocab": 101}),
    (
        "flops.chinchilla_forward",
        {"layers": 3, "d_model": 20, "ffw_size": 33, "heads": 5, "key_size": 7, "seq": 11, "vocab": 101},
    ),
    ("formats.fields", {"code": 3, "dtype": "fp8_e4m3"}),
    ("formats.decode", {"code": 3, "dtype": "fp8_e4m3"}),
    ("formats.is_nan", {"code": 3, "dtype": "fp8_e4m3"}),
    ("formats.codes", {"dtype": "fp8_e4m3"}),
    *[("formats.nan_codes", {"dtype": f}) for f in ("fp16", "fp8_e4m3", "e8m0", "e4m3fnuz", "e2m1")],
    ("formats.encode", {"value": 0.3, "dtype": "fp8_e4m3"}),
    ("formats.rounded", {"value": 0.3, "dtype": "fp8_e4m3"}),
    *[("formats.largest", {"dtype": f}) for f in ("fp64", "fp32", "bf16", "fp8_e5m2", "e2m1", "e8m0")],
    ("formats.overflow", {"dtype": "fp8_e4m3"}),
    *[("formats.smallest_normal", {"dtype": f}) for f in ("fp64", "fp16", "e2m3", "e8m0")],
    *[("formats.smallest_subnormal", {"dtype": f}) for f in ("fp64", "fp16", "e3m2")],
    ("formats.spacing", {"value": 3.0, "dtype": "bf16"}),
    ("formats.spacing", {"value": 1e-3, "dtype": "bf16"}),
    ("formats.bits_per_value", {"dtype": "nvfp4"}),
    ("formats.quantize", {"values": [0.5, -3.0, 2.0], "dtype": "mxfp4"}),
    ("formats.quantize", {"values": [0.5, -3.0, 2.0], "dtype": "nvfp4"}),
    ("formats.nvfp4_encode_scale", {"amax": 3.5}),
    ("hardware.rate_format", {"dtype": "bf16"}),
    ("hardware.operands", {"dtype": "bf16"}),
    ("hardware.device", {"name": "H100-SXM"}),
    ("hardware.devices", {}),
    ("hardware.dense_rate", {"peak": PEAK}),
    ("hardware.stated_peak", {"rate": Quantity(123, "TFLOP/s"), "dtype": "bf16", "source": "a test"}),
    ("hardware.read", {"path": Path(__file__).parents[2] / "data" / "hardware.toml"}),
    ("kv_cache.bytes_per_token", {"config": SMALL, "dtype": "fp4"}),
    ("kv_cache.bytes_per_token", {"config": LATENT}),
    ("kv_cache.kv_cache", {"config": SMALL, "batch": 3, "seq": 5, "dtype": "bf16"}),
    *[
        ("memory.optimizer_state", {"shapes": [(5, 7), (5000,), (7,)], "optimizer": o, "dtype": "bf16"})
        for o in ("adamw", "nadam", "adafactor", "adamw-8bit", "lion")
    ],
    ("memory.optimizer_state", {"shapes": [(5, 7)], "optimizer": "muon", "scalars": "fp64"}),
    ("memory.lbfgs_state", {"shapes": [(5, 7), (7,)], "pairs": 3, "dtype": "fp32", "history_size": 11}),
    ("memory.split_for_muon", {"shapes": {"w": (3, 5), "b": (5,)}}),
    ("memory.named_recipe", {"name": "lecture"}),
    ("memory.bytes_per_parameter", {"recipe": "bf16-master", "devices": 3, "stage": 2}),
    ("memory.bytes_per_parameter", {"recipe": "bf16-8bit-moments"}),
    (
        "memory.model_states",
        {"parameters": 1001, "recipe": "bf16-master", "devices": 3, "stage": 3, "model_parallel": 2},
    ),
    ("memory.model_states", {"parameters": 1001, "recipe": "lecture", "model_parallel": 2}),
    ("memory.largest_model", {"memory": 10**9 + 7, "recipe": "bf16-master"}),
    (
        "memory.largest_model",
        {"memory": Quantity(80, "GB"), "recipe": "lecture", "devices": 4, "stage": 1, "model_parallel": 2},
    ),
    ("models.a_config", {"config": SMALL}),
    ("models.attention_matrices", {"config": SMALL}),
    ("models.mlp_matrices", {"config": SMALL, "width": 5}),
    ("models.weights", {"matrices": MATRICES}),
    ("models.parameters", {"config": SMALL}),
    ("models.parameters", {"config": LATENT}),
    ("models.parameters", {"config": models.load("gpt2")}),
    ("models.active_parameters", {"config": LATENT}),
    ("models.matmul_parameters", {"config": LATENT}),
    ("models.parameter_shapes", {"config": SMALL}),
    ("models.names", {}),
    ("models.load", {"name": "gpt2"}),
    ("models.from_fields", {"values": {f.name: getattr(SMALL, f.name) for f in fields(SMALL)}}),
    (
        "models.from_config_json",
        {"source": GPT_JSON},
    ),
    ("operators.gemm", {"M": 3, "d_in": 5, "d_out": 7, "dtype": "fp4", "exact": True}),
    ("operators.batched_gemm", {"batch": 2, "M": 3, "d_in": 5, "d_out": 7, "dtype": "mxfp4"}),
    ("operators.tiled_gemm", {"M": 300, "d_in": 50, "d_out": 70, "on_chip": 1000, "dtype": "bf16"}),
    ("operators.dot", {"n": 5, "dtype": "bf16"}),
    ("operators.vector_matrix", {"n": 5, "dtype": "bf16"}),
    ("operators.elementwise", {"n": 5, "operations": 3, "dtype": "bf16", "inputs": 2}),
    ("operators.relu", {"n": 5, "dtype": "bf16"}),
    ("operators.gelu", {"n": 5, "dtype": "bf16"}),
    ("operators.reduction", {"rows": 3, "columns": 5, "dtype": "bf16"}),
    ("operators.softmax", {"rows": 3, "columns": 5, "dtype": "bf16"}),
    ("operators.layer_norm", {"rows": 3, "width": 5, "dtype": "bf16"}),
    ("operators.rms_norm", {"rows": 3, "width": 5, "dtype": "bf16"}),
    (
        "operators.attention",
        {"batch": 2, "heads": 6, "queries": 11, "keys": 13, "head_dim": 7, "dtype": "bf16"}
        | {"kv_heads": 2, "on_chip": 300},
    ),
    (
        "operators.attention",
        {"batch": 2, "heads": 6, "queries": 11, "keys": 13, "head_dim": 7, "kv_heads": 2, "fused": False},
    ),
    ("operators.decode_attention", {"config": SMALL, "batch": 3, "context": 5, "dtype": "bf16"}),
    ("operators.decode_attention", {"config": LATENT, "batch": 3, "context": 5}),
    ("operators.decode_step", {"config": SMALL, "batch": 3, "context": 5, "dtype": "bf16"}),
    ("operators.embedding", {"tokens": 3, "width": 5, "dtype": "bf16", "index": "int32"}),
    (
        "operators.optimizer_step",
        {"parameters": 101, "optimizer": "adamw", "parameter": "bf16", "gradient": "bf16"}
        | {"state": "fp32", "master": "fp32"},
    ),
    ("operators.in_sequence", {"costs": (COST, COST)}),
    ("operators.fused", {"costs": (COST, accounting.operators.relu(21))}),
    ("peak.mlp_peak", {"batch": 4, "widths": (5, 7, 11), "microbatches": 2, "segment": 1, "threads": 1}),
    (
        "peak.transformer_peak",
        {"config": SMALL, "batch": 4, "seq": 5, "optimizer": "adamw", "microbatches": 2, "segment": 1}
        | {"device": "cpu", "threads": 1, "dtype": "fp32", "autocast": "bf16"},
    ),
    ("peak.cublas_workspaces", {"compute_capability": 9, "handles": 2}),
    ("roofline.time_bound", {"flops": FLOP, "traffic": BYTES, "peak": PEAK, "bandwidth": BETA}),
    ("roofline.limit", {"flops": FLOP, "traffic": BYTES, "peak": PEAK, "bandwidth": BETA}),
    ("roofline.intensity", {"flops": FLOP, "traffic": BYTES}),
    ("roofline.ridge", {"peak": PEAK, "bandwidth": BETA}),
    ("roofline.attainable", {"intensity": Quantity(100, "FLOP/B"), "peak": PEAK, "bandwidth": BETA}),
    (
        "roofline.rows_to_ridge",
        {"d_in": 4096, "d_out": 16384, "peak": PEAK, "bandwidth": BETA, "dtype": "bf16"},
    ),
    ("roofline.square_at_ridge", {"peak": PEAK, "bandwidth": BETA, "dtype": "mxfp8"}),
    ("tensors.elements", {"shape": (3, 5)}),
    ("tensors.tensor_bytes", {"shape": (3, 50), "dtype": "mxfp4"}),
    ("tensors.tensor_bytes", {"shape": (3, 50), "dtype": "bf16"}),
    ("tensors.storage_span", {"shape": (3, 5), "strides": (7, 1), "dtype": "fp32", "offset": 2}),
    ("utilization.achieved", {"flops": FLOP, "seconds": 3.5, "devices": 5}),
    ("utilization.fraction_of_peak", {"rate": Quantity(400, "TFLOP/s"), "peak": PEAK, "dtype": "bf16"}),
    ("utilization.mfu", {"model_flops": 10**16, "seconds": 3, "devices": 5, "peak": PEAK, "dtype": "bf16"}),
    (
        "utilization.mfu_from_throughput",
        {"flops_per_token": 42 * 10**9, "tokens_per_second": 9000, "devices": 1, "peak": PEAK}
        | {"dtype": "bf16"},
    ),
    (
        "utilization.hfu",
        {"model_flops": 10**16, "recomputed_flops": 10**15, "seconds": 3, "devices": 5, "peak": PEAK}
        | {"dtype": "bf16"},
    ),
    ("utilization.against_wrong_peak", {"figure": Fraction(2, 5), "right": PEAK, "wrong": SPARSE}),
    (
        "utilization.run_time",
        {"flops": 10**24, "devices": 1000, "peak": PEAK, "mfu": 0.4, "dtype": "bf16"},
    ),
    ("utilization.run_flops", {"time": HOURS, "devices": 8, "peak": PEAK, "mfu": 0.4, "dtype": "bf16"}),
    ("utilization.run_time_at_rate", {"flops": 10**24, "devices": 1000, "rate": 4 * 10**14}),
    ("utilization.run_time_at_throughput", {"tokens": 10**12, "devices": 1000, "tokens_per_second": 400}),
    (
        "utilization.run_ledger",
        {"training": Quantity(3, "day"), "interruptions": 2, "lost_each": Quantity(90, "min")},
    ),
    ("utilization.device_hours", {"time": HOURS, "devices": 8}),
    ("utilization.days_of_device_hours", {"device_hours": 1000, "devices": 8}),
    ("utilization.tokens_per_day", {"tokens_per_step": 4096, "seconds": 2.5}),
]
# Not called by anyone but the library itself: its arguments are the walk's own records.
INTERNAL = {"peak.peak_of"}


def call(name: str, arguments: dict[str, Any]) -> Any:
    module, _, function = name.partition(".")
    keywords = dict(arguments)
    positional = [keywords.pop("pattern")] if "pattern" in keywords else list(keywords.pop("costs", ()))
    return getattr(getattr(accounting, module), function)(*positional, **keywords)


def public_functions() -> Iterator[str]:
    for module in accounting.__all__:
        names = vars(getattr(accounting, module)) if inspect.ismodule(getattr(accounting, module)) else {}
        for name, thing in names.items():
            here = getattr(thing, "__module__", None) == f"lecture_lib.accounting.{module}"
            if here and inspect.isfunction(thing) and not name.startswith("_"):
                yield f"{module}.{name}"


def test_the_table_has_every_public_function() -> None:
    assert set(public_functions()) == {name for name, _ in CALLS} | INTERNAL


# -- the numbers in the formula


def quantities(thing: object) -> Iterator[Quantity]:
    """Every quantity that a result holds or computes, however deep."""
    if isinstance(thing, Quantity):
        yield thing
    elif isinstance(thing, Ledger):
        yield from thing.values()
    elif is_dataclass(thing) and not isinstance(thing, ModelConfig | type):
        public = {name for name in dir(type(thing)) if not name.startswith("_")}
        for name in public | {f.name for f in fields(thing)}:
            part = getattr(thing, name)
            if isinstance(part, Quantity | Ledger):
                yield from quantities(part)
    elif isinstance(thing, tuple) and hasattr(thing, "activations"):
        yield from quantities(thing.activations)


UNIT = "|".join(re.escape(name) for names in UNITS.values() for name in sorted(names, key=len, reverse=True))
UNIT = rf"(?:{UNIT}|days)(?:[/·](?:{UNIT}))*"
# Formulas that are a choice in words, or say nothing but their value.
IN_WORDS = re.compile(r" as |^$")


def evaluated(text: str) -> float | int | Fraction:
    """The value of a formula with numbers in it, in base units."""

    def base(match: re.Match[str]) -> str:
        return f"({match[1]}*{Fraction(Quantity(1, match[2].replace('days', 'day')).base_value)})"

    text = re.sub(r" \([\d.,]+ [KMGT]iB\)", "", text)  # "84 GB (78.23 GiB)": the same amount once more
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"× 10\^(-?\d+)", r"*10**\1", text)
    text = re.sub(rf"(\d(?:[\d.*]*\d)?) ({UNIT})(?![\w])", base, text)
    text = text.replace("·", "*").replace("^", "**").replace("−", "-")
    text = text.replace("⌈", "ceil(").replace("⌉", ")").replace("⌊", "floor(").replace("⌋", ")")
    known = {"ceil": math.ceil, "floor": math.floor, "sqrt": math.sqrt, "max": max, "min": min, "sum": sum}
    return eval(text, {"__builtins__": {}}, known)


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
def test_the_numbers_shown_give_the_value(name: str, arguments: dict[str, Any]) -> None:
    for q in quantities(call(name, arguments)):
        if IN_WORDS.search(q.formula):
            continue
        text = q.numbers or q.formula
        try:
            got = evaluated(text)
        except (NameError, SyntaxError, TypeError) as problem:
            raise AssertionError(f"{q.explain()}\n{problem}") from None
        shown_rounded = any(isinstance(v, Quantity | float | list) for v in q.inputs.values())
        tolerance = 2e-3 if shown_rounded else 1e-12
        wanted = q.value if q.unit.startswith("bit") else q.base_value  # sizes in bits are plain numbers
        assert float(got) == pytest.approx(float(wanted), rel=tolerance), f"{text} = {got}\n{q.explain()}"


# -- arguments that make no sense

NAN, INF = math.nan, math.inf
WRONG_DIMENSION = Quantity(3, "device·token/parameter")
HUGE = 10**400
# What may be 0 (or a fraction, or any number), by the argument's name.
ZERO_MEANS_SOMETHING = {"request", "code", "stage", "width", "operations", "offset", "interruptions"}
ZERO_MEANS_SOMETHING |= {"flops", "traffic", "intensity", "recomputed_flops"}
AMOUNTS = {"memory", "seconds", "rate", "on_chip", "amax", "mfu", "device_hours", "model_flops"}
AMOUNTS |= {"flops_per_token", "tokens_per_second", "tokens_per_step", "recomputed_flops", "request"}
FREE = {"path", "costs"}  # nobody types them


def nonsense(name: str, argument: str, value: object) -> Iterator[object]:
    """Values of a wrong kind, size or dimension for this argument."""
    if argument in FREE or isinstance(value, bool):
        return
    yield object()
    function = getattr(getattr(accounting, name.partition(".")[0]), name.partition(".")[2])
    parameter = inspect.signature(function).parameters.get(argument)
    if parameter is None or (parameter.default is not None and "None" not in str(parameter.annotation)):
        yield None
    if argument == "value":  # a number to store or to look at: any but text
        yield from ("7", True, [], WRONG_DIMENSION)
    elif isinstance(value, Quantity | int | float | Fraction):
        yield from (-1, NAN, -INF, INF, "7", "", True, [], {}, WRONG_DIMENSION, HUGE, -HUGE)
        if argument not in ZERO_MEANS_SOMETHING:
            yield 0
        if isinstance(value, int) and argument not in AMOUNTS | {"flops", "tokens"}:
            yield from (1.5, Fraction(3, 2), Quantity(3, "s"))
        if isinstance(value, Quantity):
            yield Quantity(NAN, value.unit)
            yield Quantity(-1, value.unit)
    elif isinstance(value, str):
        yield from ("", 3, True, [], {})
        if argument != "source":
            yield "no"
    elif isinstance(value, ModelConfig):
        yield from (3, [], {}, ModelConfig, *([] if argument == "model" else ["gpt2"]))
    elif isinstance(value, dict):
        yield from (3, "ab", [], *([] if argument == "matrices" else [{"x": "y"}]))
    else:
        yield from (5, "ab", {3: 5}, {3, 5}, (None,), ("x",), (NAN,))
        if argument != "values" and argument != "sums":
            yield from ((-1,), (1.5,), (True,), (HUGE,))


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
def test_nonsense_is_refused_in_words(name: str, arguments: dict[str, Any]) -> None:
    for argument, value in arguments.items():
        for wrong in nonsense(name, argument, value):
            what = f"{name}({argument}={str(wrong)[:40]!r})"
            try:
                result = call(name, {**arguments, argument: wrong})
            except LectureError as refusal:
                assert re.search(r"expected .*; got ", str(refusal), re.DOTALL), f"{what}: {refusal}"
                assert len(str(refusal)) < 800, f"{what}: {refusal}"
            except Exception as other:
                raise AssertionError(f"{what} raised {type(other).__name__}: {other}") from other
            else:
                raise AssertionError(f"{what} gave {result!r}"[:400])
