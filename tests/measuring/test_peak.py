"""The peak of a step as measured, and the walk that predicts it, held against each other.

The whole grid is a command of its own: `python tests/benchmarks/peak_grid.py`.
"""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lecture_lib.accounting.peak import PeakMemory, mlp_peak, transformer_peak
from lecture_lib.measuring.comparison import compare
from lecture_lib.measuring.peak import peak_memory
from lecture_lib.measuring.storage import storage_bytes
from lecture_lib.networks import mlp, transformer
from lecture_lib.networks.steps import training_step
from lecture_lib.quantity import LectureError, Quantity

_SPEC = spec_from_file_location("peak_grid", Path(__file__).parents[1] / "benchmarks" / "peak_grid.py")
assert _SPEC is not None and _SPEC.loader is not None
peak_grid: Any = module_from_spec(_SPEC)
sys.modules["peak_grid"] = peak_grid  # its dataclass looks itself up there
_SPEC.loader.exec_module(peak_grid)


# -- predicted and measured


@pytest.mark.parametrize("case", peak_grid.MLP_GRID[::2], ids=str)
def test_a_chains_peak_is_predicted_within_64_bytes(case: Any) -> None:
    predicted, measured = peak_grid.predicted(case), peak_grid.measured(case)
    assert abs(int(predicted.total) - int(measured.total)) <= 64, compare(
        predicted.by_category, measured.by_category
    )
    for row in ("parameters", "gradients", "optimizer", "inputs"):
        assert predicted.by_category[row] == measured.by_category[row]


def test_a_transformers_peak_is_predicted_within_one_percent(
    record_property: Callable[[str, object], None],
) -> None:
    """Every value of each of the grid's axes appears; the worst step is printed with -s."""
    cases = peak_grid.TRANSFORMER_SAMPLE
    assert len(cases) >= 40
    errors = {}
    for case in cases:
        predicted, measured = peak_grid.predicted(case), peak_grid.measured(case)
        errors[str(case)] = abs(float(compare(predicted.total, measured.total).error or 0.0))
        for row in ("parameters", "optimizer", "inputs"):
            assert predicted.by_category[row] == measured.by_category[row], case
        assert predicted.moment.split(" ")[0].rstrip(":") == measured.moment.split(" ")[0].rstrip(":"), case
    worst = max(errors, key=errors.__getitem__)
    record_property("worst", f"{errors[worst]:.4%}: {worst}")
    print(f"worst of {len(cases)} steps: {errors[worst]:.4%}, {worst}")
    assert errors[worst] <= 0.01
    axes = [{getattr(case, axis) for case in cases} for axis in ("model", "seq", "recipe", "optimizer")]
    axes += [{getattr(case, axis) for case in cases} for axis in ("foreach", "segment", "microbatches")]
    assert [len(values) for values in axes] == [4, 3, 3, 5, 2, 4, 3]


def test_two_threads_and_their_scratch() -> None:
    """In a process of its own, since the number of threads is set once."""
    script = (
        "import sys, torch; sys.path.insert(0, sys.argv[1]); torch.set_num_threads(2)\n"
        "import peak_grid as g\n"
        "for model in ('llama 64×4', 'gpt 64×4'):\n"
        "    case = g.Case(model, 2, 40, 'fp32', 'sgd', False, None, 1)\n"
        "    print(int(g.predicted(case).total) - int(g.measured(case).total))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parents[1] / "benchmarks")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert [abs(int(line)) <= 64 for line in done.stdout.split()] == [True, True], done.stdout


@pytest.mark.parametrize("seq", [1, 40, 200, 800])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_scratch_of_fused_attention(seq: int, dtype: str) -> None:
    """Its blocks grow with the sequence up to 256 × 512; here they are what makes the peak."""
    config = peak_grid.llama(
        8, 1, 2, head_dim=32, vocab_size=9, intermediate_size=8, max_position_embeddings=800
    )
    model = transformer(config, dtype={"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype])
    data = [(torch.zeros(1, seq, dtype=torch.int64), torch.zeros(1, seq, dtype=torch.int64))]
    update = torch.optim.SGD(model.parameters(), foreach=False)
    with torch.backends.mkldnn.flags(enabled=False):
        measured = peak_memory(
            lambda: training_step(model, data, update), parameters=model, optimizer=update, inputs=data
        )
    predicted = transformer_peak(
        config, 1, seq, dtype=dtype, optimizer="sgd", threads=torch.get_num_threads()
    )
    assert abs(int(predicted.total) - int(measured.total)) <= 64
    assert ("scratch" in predicted.moment) == (seq >= 40)


# -- the measurement against another one


class StorageTracker(TorchDispatchMode):
    """Bytes of the storages that operations make, each until it is freed."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor):
                self._known.add(leaf.untyped_storage()._cdata)
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata not in self._known:
                storage = leaf.untyped_storage()
                self._known.add(storage._cdata)
                self.live += storage.nbytes()
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes())
        return result

    def _freed(self, key: int, nbytes: int) -> None:
        self._known.discard(key)
        self.live -= nbytes


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_storage_tracker_sees_the_same_peak(optimizer: str) -> None:
    """On a chain, where no two gradients meet: where they do, a dispatch mode changes what autograd does."""
    model = mlp([300, 200, 200, 10])
    data = [(torch.rand(100, 300), torch.zeros(100, dtype=torch.int64))]
    update = peak_grid.optimizer_of(optimizer, model.parameters(), False)
    training_step(model, data, update)
    before = int(storage_bytes(model, update, data))
    with StorageTracker() as tracker:
        training_step(model, data, update)
    measured = peak_memory(
        lambda: training_step(model, data, update), parameters=model, optimizer=update, inputs=data
    )
    assert abs(before + tracker.peak - int(measured.total)) <= 64


# -- what is measured


def linear_step() -> tuple[nn.Linear, torch.Tensor, Callable[[], None]]:
    model, x = nn.Linear(300, 200, bias=False), torch.rand(50, 300)

    def step() -> None:
        model(x).sum().backward()

    return model, x, step


def rows(peak: PeakMemory) -> dict[str, int]:
    return {row: int(size) for row, size in peak.by_category.items()}


def test_gradients_are_those_of_parameters_and_old_ones_count() -> None:
    model, x, step = linear_step()
    first = peak_memory(step, parameters=model, inputs=x)
    W, Y = 4 * 300 * 200, 4 * 50 * 200
    assert rows(first)["gradients"] == W
    assert rows(first)["parameters"] == W and rows(first)["inputs"] == 4 * 50 * 300
    assert first.moment.startswith("backward")
    second = peak_memory(step, parameters=model, inputs=x)  # a gradient is there; the new one is added to it
    assert (rows(second)["gradients"], rows(second)["temporaries"] >= W) == (W, True)
    assert int(second.total) - int(first.total) == W
    assert Y  # the sum's gradient is an expanded scalar: no memory of Y's size


def test_the_first_step_makes_the_optimizers_state() -> None:
    model, x, _ = linear_step()
    update = torch.optim.AdamW(model.parameters(), foreach=False)
    data = [(x, torch.zeros(50, dtype=torch.int64))]

    def step() -> None:
        F.cross_entropy(model(data[0][0]), data[0][1]).backward()
        update.step()
        update.zero_grad()

    W = 4 * 300 * 200
    for _ in range(2):  # made in the first, there in the second
        peak = peak_memory(step, parameters=model, optimizer=update, inputs=data)
        assert rows(peak)["optimizer"] == 2 * W + 4
        assert (rows(peak)["gradients"], rows(peak)["parameters"]) == (W, W)
        assert peak.moment.startswith("optimizer step")
        assert rows(peak)["temporaries"] >= 2 * W


def test_modules_are_named_in_forward_backward_and_recompute() -> None:
    model = nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 4000), nn.ReLU(), nn.Linear(4000, 1))
    x = torch.rand(100, 40)
    forward = peak_memory(lambda: model(x), parameters=model, inputs=x)
    assert forward.moment.startswith("forward: 3")
    both = peak_memory(lambda: model(x).sum().backward(), parameters=model, inputs=x)
    assert both.moment.startswith("backward: ") and both.moment.split()[1] in ("2", "3", "4")
    parts = nn.Sequential(
        *[nn.Sequential(nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 200)) for _ in range(3)]
    )
    y = torch.rand(5000, 200, requires_grad=True)

    def checkpointed() -> None:
        out = y
        for part in parts:
            out = torch.utils.checkpoint.checkpoint(part, out, use_reentrant=False)
        out.sum().backward()

    peak = peak_memory(checkpointed, parameters=parts, inputs=y)
    # The recomputed ReLU's result, saved for the second product, is an activation again.
    assert rows(peak)["activations"] >= 3 * 4 * 5000 * 200


def test_a_step_may_be_anything_that_allocates() -> None:
    model, x, _ = linear_step()

    def nothing_of_autograd() -> None:
        with torch.no_grad():
            model(x)

    peak = peak_memory(nothing_of_autograd, parameters=list(model.parameters()))
    assert rows(peak) == {
        "parameters": 4 * 300 * 200,
        "gradients": 0,
        "optimizer": 0,
        "activations": 0,
        "temporaries": 4 * 50 * 200,
    }


def test_scratch_of_matrix_products_is_a_row_of_its_own() -> None:
    """oneDNN's for BF16, where this processor's kernel wants any; without oneDNN there is none."""
    model, x = nn.Linear(300, 200, bias=False, dtype=torch.bfloat16), torch.rand(50, 300).bfloat16()
    with torch.no_grad():
        on = peak_memory(lambda: model(x), parameters=model)
        with torch.backends.mkldnn.flags(enabled=False):
            off = peak_memory(lambda: model(x), parameters=model)
    assert "workspaces" not in off.by_category
    assert int(off.total) == 2 * 300 * 200 + 2 * 50 * 200
    assert on.total - off.total == on.by_category.get("workspaces", Quantity(0, "B"))


def test_nothing_is_left_behind() -> None:
    model, x, step = linear_step()
    peak_memory(step, parameters=model, inputs=x)
    from torch.nn.modules import module

    assert not module._global_forward_hooks and not module._global_forward_pre_hooks
    assert not model.weight._post_accumulate_grad_hooks
    with pytest.raises(ZeroDivisionError):
        peak_memory(lambda: 1 / 0, parameters=model)
    assert not module._global_forward_hooks


def test_predicted_and_measured_compare_row_by_row() -> None:
    model = mlp([64, 64, 10])
    data = [(torch.rand(32, 64), torch.zeros(32, dtype=torch.int64))]
    update = torch.optim.SGD(model.parameters(), foreach=False)
    measured = peak_memory(
        lambda: training_step(model, data, update), parameters=model, optimizer=update, inputs=data
    )
    shown = compare(mlp_peak(32, (64, 64, 10)).by_category, measured.by_category)
    assert shown.remainder == Quantity(0, "B")
    assert [row.error for row in shown.rows if row.predicted and row.predicted.value] == [0.0] * 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: peak_memory(m(torch.rand(1, 3)), parameters=m), "expected a function to call"),
        (lambda m: peak_memory(lambda: None, parameters=[]), "a model or its parameters; got none"),
        (lambda m: peak_memory(lambda: None, parameters=m), "a step that allocates memory"),
        (lambda m: peak_memory(lambda: None, parameters=m, optimizer=m), "expected a torch optimizer"),
        (
            lambda m: peak_memory(lambda: None, parameters=nn.Linear(2, 2, device="meta")),
            "on a CPU or a CUDA",
        ),
    ],
)
def test_bad_input(call: Callable[[nn.Module], Any], message: str) -> None:
    with pytest.raises(LectureError, match=message):
        call(nn.Linear(3, 2))
