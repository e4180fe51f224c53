"""Predicted optimizer state against the `state_dict` of every optimizer that torch has, buffer by buffer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from lecture_lib.accounting import memory
from lecture_lib.measuring.storage import storage_bytes

SHAPES = [(7, 5), (5,), (), (2, 3, 4), (6, 1), (11,)]
FROZEN = (3, 2)
MATRICES = [shape for shape in SHAPES if len(shape) == 2]
# Name in the library -> torch's class with the options that make it.
OPTIMIZERS: dict[str, tuple[type[Optimizer], dict[str, object]]] = {
    "sgd": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "adagrad": (torch.optim.Adagrad, {}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "amsgrad": (torch.optim.AdamW, {"amsgrad": True}),
    "adamax": (torch.optim.Adamax, {}),
    "nadam": (torch.optim.NAdam, {}),
    "radam": (torch.optim.RAdam, {}),
    "adadelta": (torch.optim.Adadelta, {}),
    "asgd": (torch.optim.ASGD, {}),
    "rmsprop": (torch.optim.RMSprop, {}),
    "rmsprop-momentum": (torch.optim.RMSprop, {"momentum": 0.9}),
    "rmsprop-centered": (torch.optim.RMSprop, {"centered": True}),
    "rmsprop-centered-momentum": (torch.optim.RMSprop, {"momentum": 0.9, "centered": True}),
    "rprop": (torch.optim.Rprop, {}),
    "sparseadam": (torch.optim.SparseAdam, {}),
    "adafactor": (torch.optim.Adafactor, {}),
    "muon": (torch.optim.Muon, {}),
}
NOT_TORCHS = {"lion", "adamw-8bit"}
WITH_FOREACH = [
    name for name, (kind, _) in OPTIMIZERS.items() if "foreach" in inspect.signature(kind).parameters
]
WITH_FUSED = [name for name, (kind, _) in OPTIMIZERS.items() if "fused" in inspect.signature(kind).parameters]


def test_every_optimizer_of_torch_is_here() -> None:
    there = {
        kind for kind in vars(torch.optim).values() if inspect.isclass(kind) and issubclass(kind, Optimizer)
    }
    assert {kind for kind, _ in OPTIMIZERS.values()} | {torch.optim.LBFGS} == there - {Optimizer}
    assert {*memory.OPTIMIZERS, *memory._BY_SHAPE} == {*OPTIMIZERS, *NOT_TORCHS}


def after_two_steps(
    name: str, dtype: torch.dtype = torch.float32, device: str = "cpu", **options: object
) -> Optimizer:
    """The optimizer after two steps; its last parameter has never had a gradient."""
    kind, fixed = OPTIMIZERS[name]
    shapes = MATRICES if name in ("muon", "sparseadam") else SHAPES
    parameters = [nn.Parameter(torch.ones(shape, dtype=dtype, device=device)) for shape in shapes]
    frozen = nn.Parameter(torch.ones(FROZEN, dtype=dtype, device=device))
    optimizer = kind([*parameters, frozen], **{**fixed, **options})
    for _ in range(2):
        for parameter in parameters:
            gradient = torch.full_like(parameter, 0.5)
            parameter.grad = gradient.to_sparse() if name == "sparseadam" else gradient
        optimizer.step()
    return optimizer


def by_buffer(optimizer: Optimizer) -> dict[str, int]:
    """Bytes of the tensors of the `state_dict`, by the name of the buffer."""
    found: dict[str, int] = {}
    for state in optimizer.state_dict()["state"].values():
        for key, value in state.items():
            for tensor in value if isinstance(value, list) else [value]:
                if isinstance(tensor, torch.Tensor):
                    found[key] = found.get(key, 0) + tensor.numel() * tensor.element_size()
    return found


def predicted(name: str, dtype: object, scalars: object = "fp32") -> dict[str, int]:
    ledger = memory.optimizer_state(with_state(name), name, dtype, scalars)
    return {row: int(quantity) for row, quantity in ledger.items()}


def with_state(name: str) -> list[tuple[int, ...]]:
    """The tensors that have had a gradient; Adagrad alone makes its state when it is made, for all."""
    shapes = MATRICES if name in ("muon", "sparseadam") else SHAPES
    return [*shapes, FROZEN] if name == "adagrad" else shapes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_is_that_of_the_state_dict(name: str, dtype: torch.dtype) -> None:
    optimizer = after_two_steps(name, dtype)
    assert predicted(name, dtype) == by_buffer(optimizer)
    assert storage_bytes(optimizer) == memory.optimizer_state(with_state(name), name, dtype).total


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", WITH_FOREACH)
def test_foreach_changes_no_byte(name: str, foreach: bool) -> None:
    assert by_buffer(after_two_steps(name, foreach=foreach)) == predicted(name, "fp32")


@pytest.fixture
def double_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("double_by_default")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_scalars_follow_torchs_default_dtype(name: str) -> None:
    assert by_buffer(after_two_steps(name)) == predicted(name, "fp32", "fp64")


@pytest.mark.usefixtures("double_by_default")
@pytest.mark.parametrize("name", WITH_FUSED)
def test_fused_scalars_are_fp32_all_the_same(name: str) -> None:
    assert by_buffer(after_two_steps(name, fused=True)) == predicted(name, "fp32", "fp32")


@pytest.mark.gpu
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_on_a_gpu_only_the_place_of_scalars_differs(name: str) -> None:
    kind, _ = OPTIMIZERS[name]
    assert by_buffer(after_two_steps(name, device="cuda")) == predicted(name, "fp32")
    for option in ("capturable", "fused"):
        if option in inspect.signature(kind).parameters:
            optimizer = after_two_steps(name, device="cuda", **{option: True})
            assert by_buffer(optimizer) == predicted(name, "fp32")
            for state in optimizer.state.values():
                assert all(value.is_cuda for value in state.values() if isinstance(value, torch.Tensor))


def test_linear_10_to_10() -> None:
    """888 bytes: 2 · 110 · 4, and two scalar `step` tensors."""
    layer = nn.Linear(10, 10)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(3, 10)).sum().backward()
    optimizer.step()
    ledger = memory.optimizer_state([p.shape for p in layer.parameters()], "adamw")
    assert int(ledger.total) == int(storage_bytes(optimizer)) == 888
    assert all(state["step"].device.type == "cpu" for state in optimizer.state.values())


@pytest.mark.parametrize(("steps", "history"), [(2, 100), (4, 100), (7, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_lbfgs(steps: int, history: int, dtype: torch.dtype) -> None:
    parameters = [nn.Parameter(torch.ones(shape, dtype=dtype)) for shape in SHAPES]
    optimizer = torch.optim.LBFGS(parameters, lr=0.1, max_iter=1, history_size=history)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum(((1 + k) * (p - 3).pow(4)).sum() for k, p in enumerate(parameters))
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    ledger = memory.lbfgs_state(SHAPES, steps - 1, dtype, history)
    assert {row: int(quantity) for row, quantity in ledger.items()} == by_buffer(optimizer)


def test_bytes_per_parameter_of_pure_bf16_and_of_autocast() -> None:
    """What a real step leaves behind, parameters, gradients and moments, without the scalar steps."""
    for name, dtype in (("bf16-pure", torch.bfloat16), ("autocast", torch.float32), ("fp32", torch.float32)):
        layer = nn.Linear(12, 8, dtype=dtype)
        optimizer = torch.optim.AdamW(layer.parameters())
        with torch.autocast("cpu", torch.bfloat16, enabled=name == "autocast"):
            loss = layer(torch.ones(3, 12, dtype=dtype)).float().sum()
        loss.backward()
        optimizer.step()
        count = sum(p.numel() for p in layer.parameters())
        held = storage_bytes(layer, [p.grad for p in layer.parameters()], optimizer)
        assert int(held) - 2 * 4 == int(memory.model_states(count, name).total)
        assert memory.bytes_per_parameter(name).total.value * count == int(held) - 8


def lion(parameter: torch.Tensor, gradient: torch.Tensor, state: dict[str, torch.Tensor]) -> None:
    """Algorithm 2 of Chen et al.: one array is all that it remembers."""
    average = state.setdefault("exp_avg", torch.zeros_like(parameter))
    update = (0.9 * average + 0.1 * gradient).sign()
    average.mul_(0.99).add_(gradient, alpha=0.01)
    parameter.sub_(1e-3 * update)


def test_lion_remembers_one_array() -> None:
    states: list[dict[str, torch.Tensor]] = [{} for _ in SHAPES]
    for shape, state in zip(SHAPES, states, strict=True):
        for _ in range(2):
            lion(torch.ones(shape), torch.ones(shape), state)
    ledger = memory.optimizer_state(SHAPES, "lion")
    assert ledger.total == storage_bytes(states)
    assert int(ledger["exp_avg"]) == 4 * sum(map(math.prod, SHAPES))
