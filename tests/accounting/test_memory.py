"""Model states: the lecture's ledgers, division over devices against a loop, the largest model by search."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from lecture_lib.accounting import memory, models
from lecture_lib.accounting.memory import Recipe
from lecture_lib.quantity import LectureError, Quantity


def test_the_lectures_ledger() -> None:
    ledger = memory.model_states(7 * 10**9, "lecture")
    assert {row: int(q) // 10**9 for row, q in ledger.items()} == {
        "parameters": 14,
        "gradients": 14,
        "first moment": 28,
        "second moment": 28,
    }
    assert int(ledger.total) == 84 * 10**9
    assert round(float(ledger.total.to("GiB")), 1) == 78.2
    master = memory.model_states(7 * 10**9, "bf16-master")
    assert (master.total - ledger.total).to("GB").value == 28


@pytest.mark.parametrize(
    ("recipe", "parts"),
    [
        ("lecture", [2, 2, 4, 4]),
        ("bf16-master", [2, 2, 4, 4, 4]),
        ("bf16-pure", [2, 2, 2, 2]),
        ("autocast", [4, 4, 4, 4]),
        ("fp32", [4, 4, 4, 4]),
        ("bf16-master-fp32-gradients", [2, 4, 4, 4, 4]),
        ("bf16-master-both-gradients", [2, 2, 4, 4, 4, 4]),
        ("bf16-8bit-moments", [2, 2, 1 + Fraction(4, 256), 1 + Fraction(4, 256)]),
    ],
)
def test_bytes_per_parameter(recipe: str, parts: list[int]) -> None:
    ledger = memory.bytes_per_parameter(recipe)
    assert [q.value for q in ledger.values()] == parts and ledger.unit == "B/parameter"
    assert ledger.total.value == sum(parts)
    assert {row: q.value * 2560 for row, q in ledger.items()} == {
        row: q.value for row, q in memory.model_states(2560, recipe).items()
    }


def test_every_recipe_is_checked() -> None:
    marks = test_bytes_per_parameter.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for case in marks[0].args[1]} == set(memory.RECIPES)


@pytest.mark.parametrize(
    ("optimizer", "arrays"),
    [("sgd", 0), ("momentum", 1), ("adagrad", 1), ("adam", 2), ("adamw", 2), ("amsgrad", 3), ("lion", 1)],
)
def test_arrays_per_parameter(optimizer: str, arrays: int) -> None:
    """7.1: 0, 1, 2 and 2 for SGD, AdaGrad, Adam and AdamW."""
    recipe = Recipe(parameters="fp32", gradients="fp32", optimizer=optimizer)
    assert memory.bytes_per_parameter(recipe).total.value == 8 + 4 * arrays


def shards(count: int, devices: int) -> int:
    """The longest share when `count` numbers are dealt to `devices`, one at a time."""
    piles = [0] * devices
    for number in range(count):
        piles[number % devices] += 1
    return max(piles)


@pytest.mark.parametrize("recipe", ["lecture", "bf16-master-both-gradients"])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize(("devices", "model_parallel"), [(1, 1), (4, 1), (7, 1), (1, 3), (5, 2)])
def test_division_over_devices(recipe: str, stage: int, devices: int, model_parallel: int) -> None:
    P = 1_003
    from_stage = {"parameters": 3, "gradients": 2}  # Rajbhandari et al. 2020, Figure 1
    ledger = memory.model_states(P, recipe, devices, stage, model_parallel)
    local = shards(P, model_parallel)
    for row, quantity in ledger.items():
        size = 2 if row in ("parameters", "gradients") else 4
        divided = stage >= from_stage.get(row, 1)
        assert int(quantity) == size * (shards(local, devices) if divided else local), row
    assert ("on each device" in ledger.name) == (devices * model_parallel > 1)


def test_stages_of_the_paper() -> None:
    """4P + 12P/N, 2P + 14P/N, 16P/N."""
    N = 64
    totals = [memory.bytes_per_parameter("bf16-master", N, stage).total.value for stage in range(4)]
    assert totals == [16, 4 + Fraction(12, N), 2 + Fraction(14, N), Fraction(16, N)]


def test_largest_model_of_the_lecture() -> None:
    whole = memory.largest_model(Quantity(640, "GB"), "lecture")
    assert (whole.value, whole.unit) == (640 * 10**9 // 12, "parameter")
    # Eight devices of 80 GB hold as many, down to a multiple of eight; without sharding an eighth.
    sharded = memory.largest_model(Quantity(80, "GB"), "lecture", devices=8, stage=3)
    assert sharded.value == 8 * (80 * 10**9 // 12)
    assert memory.largest_model(Quantity(80, "GB"), "lecture", devices=8).value == 80 * 10**9 // 12


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("recipe", ["lecture", "bf16-8bit-moments"])
def test_largest_model_is_the_last_that_fits(recipe: str, stage: int) -> None:
    """Against trying them one by one."""
    memory_ = 5_003
    found = memory.largest_model(memory_, recipe, devices=3, stage=stage, model_parallel=2)
    fits = [P for P in range(1, 10_000) if int(memory.model_states(P, recipe, 3, stage, 2).total) <= memory_]
    assert int(found) == max(fits)
    assert fits == list(range(1, max(fits) + 1))


def test_nothing_fits_into_nothing() -> None:
    assert memory.largest_model(11, "lecture").value == 0


def test_a_block_that_is_not_full_has_a_scale() -> None:
    ledger = memory.model_states(257, "bf16-8bit-moments")
    assert int(ledger["first moment"]) == 257 + 2 * 4


# -- optimizer state of real shapes


def test_adafactor_by_hand() -> None:
    """A 3 x 5 matrix, two stacked 4 x 6 ones, a vector of 7: rows, columns, and the vector whole."""
    ledger = memory.optimizer_state([(3, 5), (2, 4, 6), (7,)], "adafactor")
    assert {row: int(q) for row, q in ledger.items()} == {
        "row_var": 4 * (3 + 2 * 4),
        "col_var": 4 * (5 + 2 * 6),
        "variance": 4 * 7,
        "step": 4 * 3,
    }


def test_eight_bit_adam_by_hand() -> None:
    """5,000 elements in 20 blocks of 256; 100 stay in FP32; two tables for all."""
    ledger = memory.optimizer_state([(50, 100), (100,)], "adamw-8bit")
    assert int(ledger.total) == 2 * (5_000 + 20 * 4 + 100 * 4) + 2 * 256 * 4
    assert int(memory.optimizer_state([(100,)], "adamw-8bit").total) == 2 * 400


@pytest.mark.parametrize("name", models.names())
def test_parameter_shapes_add_up(name: str) -> None:
    config = models.load(name)
    corrections = config.moe_layers * config.num_experts * config.router_bias
    shapes = models.parameter_shapes(config)
    assert sum(map(math.prod, shapes.values())) == int(models.parameters(config).total) - corrections


def test_shapes_of_every_kind_of_component_add_up() -> None:
    base = replace(models.load("gpt2"), num_hidden_layers=3, type_vocab_size=2, pooler=True)
    experts = replace(
        models.load("deepseek-v3"), num_hidden_layers=5, num_experts=9, q_lora_rank=None, mlp_bias=True
    )
    for config in (base, experts, replace(experts, attention_bias=True), replace(base, qk_norm=True)):
        shapes = models.parameter_shapes(config)
        corrections = config.moe_layers * config.num_experts * config.router_bias
        assert sum(map(math.prod, shapes.values())) == int(models.parameters(config).total) - corrections


def test_muon_takes_the_matrices_of_the_layers() -> None:
    config = models.load("llama-3.1-8b")
    hidden, rest = memory.split_for_muon(models.parameter_shapes(config))
    inside = int(models.matmul_parameters(config).total) - config.vocab_size * config.hidden_size
    assert sum(map(math.prod, hidden.values())) == inside
    assert {name.partition(".")[0] for name in rest if len(rest[name]) == 2} == {"embed_tokens", "head"}
    muon = memory.optimizer_state(hidden.values(), "muon", "bf16").total
    assert int(muon) == 2 * inside
    assert set(hidden).isdisjoint(rest) and len(hidden) + len(rest) == len(models.parameter_shapes(config))


def test_state_beside_the_recipe() -> None:
    """A recipe's moments are the arrays of the state; only the scalars are not in it."""
    shapes = models.parameter_shapes(models.load("gpt2")).values()
    state = memory.optimizer_state(shapes, "adamw")
    recipe = memory.model_states(models.parameters(models.load("gpt2")).total, "fp32")
    assert state["exp_avg"] == recipe["first moment"]
    assert int(state.total - recipe["first moment"] - recipe["second moment"]) == 4 * len(shapes)


def test_quantities_explain_themselves() -> None:
    row = memory.model_states(1_001, "bf16-master", 4, 1, 2)["master copy"]
    assert (row.formula, row.numbers) == ("s·⌈P/(t·N)⌉", "4·⌈1,001/(2·4)⌉")
    assert {"fp32", memory.STATES_ONLY, "equal shares, padded"} <= set(row.conventions) and row.source
    per = memory.bytes_per_parameter("bf16-master", 64, 1)["master copy"]
    assert per.numbers == "4/64"
    assert memory.optimizer_state([(3, 4)], "adamw")["exp_avg"].numbers == "4·12"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: memory.model_states(7e9, "lectur"), "did you mean 'lecture'"),
        (lambda: memory.model_states(-1, "lecture"), "parameters of at least 1"),
        (lambda: memory.model_states(1.5, "lecture"), "whole number"),
        (lambda: memory.model_states(Quantity(7, "token"), "lecture"), "count in 'parameter'"),
        (lambda: memory.model_states(7, "lecture", devices=0), "devices of at least 1"),
        (lambda: memory.model_states(7, "lecture", stage=4), "ZeRO stage; got 4"),
        (lambda: memory.model_states(7, "lecture", stage=True), "whole number for stage"),
        (lambda: memory.largest_model(Quantity(640, "GFLOP"), "lecture"), "another dimension"),
        (lambda: memory.largest_model(-5, "lecture"), "above 0"),
        (lambda: Recipe(moments="fp31"), "number format; got 'fp31'"),
        (lambda: Recipe(optimizer="adamv"), "an optimizer; got 'adamv'"),
        (lambda: Recipe(optimizer="muon"), "hangs on the shapes"),
        (lambda: memory.optimizer_state([(3,)], "muon"), "split_for_muon"),
        (lambda: memory.optimizer_state([(3, -1)], "adam"), "shapes[0][1]"),
        (lambda: memory.optimizer_state([3], "adam"), "sequence of whole numbers"),
        (lambda: memory.optimizer_state([(3,)], "lbfgs"), "an optimizer; got 'lbfgs'"),
        (lambda: memory.lbfgs_state([(3,)], 0), "pairs of at least 1"),
    ],
)
def test_bad_input(call: Callable[[], object], expected: str) -> None:
    with pytest.raises(LectureError) as caught:
        call()
    assert expected in str(caught.value)
