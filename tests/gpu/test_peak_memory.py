"""Peak memory on a GPU: the walk's blocks and cuBLAS's workspaces against `max_memory_allocated`.

Fused attention is pinned to the flash kernel, which the walk describes; torch would choose cuDNN's on some.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from lecture_lib.accounting.models import ModelConfig
from lecture_lib.accounting.peak import PeakMemory, cublas_workspaces, mlp_peak, transformer_peak
from lecture_lib.measuring.comparison import compare
from lecture_lib.measuring.peak import peak_memory
from lecture_lib.networks import mlp, transformer
from lecture_lib.networks.steps import training_step
from lecture_lib.quantity import Quantity

pytestmark = pytest.mark.gpu

GPT = ModelConfig(
    vocab_size=32_000,
    hidden_size=1024,
    num_hidden_layers=12,
    num_attention_heads=16,
    num_key_value_heads=16,
    head_dim=64,
    intermediate_size=4096,
    max_position_embeddings=2048,
    tie_word_embeddings=True,
    gated_mlp=False,
    positions="learned",
    attention_bias=True,
    mlp_bias=True,
    norm_bias=True,
)
LLAMA = ModelConfig(
    vocab_size=32_000,
    hidden_size=1024,
    num_hidden_layers=12,
    num_attention_heads=16,
    num_key_value_heads=4,
    head_dim=64,
    intermediate_size=2816,
    max_position_embeddings=2048,
    tie_word_embeddings=False,
    gated_mlp=True,
)


@dataclass(frozen=True)
class Case:
    name: str
    config: ModelConfig
    batch: int
    seq: int
    recipe: str = "autocast"
    fused: bool = True
    optimizer: str = "adamw"
    foreach: bool = True
    microbatches: int = 1
    segment: int | None = None


CASES = [
    Case("gpt", GPT, 8, 1024),
    Case("gpt, checkpoints", GPT, 16, 1024, segment=3),
    Case("gpt, eager, FP32", GPT, 4, 512, recipe="fp32", fused=False),
    Case("gpt, eager, autocast", GPT, 4, 1024, fused=False, foreach=False),
    Case("gpt, two microbatches", GPT, 16, 1024, microbatches=2),
    Case("llama, BF16", LLAMA, 16, 1024, recipe="bf16"),
    Case("llama, autocast, SGD", LLAMA, 8, 1024, optimizer="sgd", foreach=False),
    Case("llama, eager, BF16, checkpoints", LLAMA, 8, 1024, recipe="bf16", fused=False, segment=4),
    Case("llama, one long sequence", LLAMA, 4, 2048, microbatches=4, segment=1),
]


@pytest.fixture(autouse=True)
def empty_device() -> None:
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < 40e9:
        pytest.skip("needs 40 GB of free memory on the GPU")


def torch_optimizer(case: Case, parameters: object) -> torch.optim.Optimizer:
    if case.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=0.1, foreach=case.foreach)  # type: ignore[arg-type]
    return torch.optim.AdamW(parameters, foreach=case.foreach)  # type: ignore[arg-type]


def workspaces() -> Quantity:
    return cublas_workspaces(torch.cuda.get_device_capability()[0])


def measured(case: Case) -> PeakMemory:
    dtype = torch.bfloat16 if case.recipe == "bf16" else torch.float32
    model = transformer(case.config, fused=case.fused, device="cuda", dtype=dtype)
    optimizer = torch_optimizer(case, model.parameters())
    shape = (case.batch // case.microbatches, case.seq)
    data = [
        tuple(torch.randint(case.config.vocab_size, shape, device="cuda") for _ in range(2))
        for _ in range(case.microbatches)
    ]
    autocast = torch.bfloat16 if case.recipe == "autocast" else None

    def step() -> None:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            training_step(model, data, optimizer, autocast=autocast, segment=case.segment)  # type: ignore[arg-type]

    step()
    return peak_memory(step, parameters=model, optimizer=optimizer, inputs=data)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_transformers_peak_is_predicted_within_two_percent(case: Case) -> None:
    predicted = transformer_peak(
        case.config,
        case.batch,
        case.seq,
        fused=case.fused,
        dtype="bf16" if case.recipe == "bf16" else "fp32",
        autocast="bf16" if case.recipe == "autocast" else None,
        optimizer=case.optimizer,
        foreach=case.foreach,
        microbatches=case.microbatches,
        segment=case.segment,
        device="cuda",
        workspaces=workspaces(),
    )
    found = measured(case)
    assert found.total == Quantity(torch.cuda.max_memory_allocated(), "B") == found.by_category.total
    assert found.total >= Quantity(2, "GB"), "the case is too small to say anything"
    shown = compare(predicted.by_category, found.by_category)
    print(f"{case.name}: {shown.error:+.3%}\n{shown}")
    print(f"predicted at {predicted.moment}\nmeasured at {found.moment}")
    assert shown.error is not None and abs(shown.error) <= 0.02, str(shown)
    parameters = float(predicted.by_category["parameters"] / found.by_category["parameters"])
    assert abs(parameters - 1) <= 0.02  # blocks that are not split differ with what was allocated before


def test_a_chains_peak_is_predicted_within_two_percent() -> None:
    widths, rows = [8192] * 9, 16_384
    model = mlp(widths, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    data = [(torch.rand(rows, widths[0], device="cuda"), torch.zeros(rows, dtype=torch.int64, device="cuda"))]
    training_step(model, data, optimizer)
    found = peak_memory(
        lambda: training_step(model, data, optimizer), parameters=model, optimizer=optimizer, inputs=data
    )
    predicted = mlp_peak(rows, widths, device="cuda")
    error = float((predicted.total + workspaces()) / found.total) - 1
    print(f"{error:+.3%}\n{compare(predicted.by_category, found.by_category)}")
    assert abs(error) <= 0.02


def test_workspaces_are_what_is_left_when_all_tensors_are_gone() -> None:
    """One for the forward's handle, one for that of autograd's thread."""
    model, x = mlp([1024, 1024], device="cuda"), torch.rand(1024, 1024, device="cuda", requires_grad=True)
    before = torch.cuda.memory_allocated()
    model(x).sum().backward()
    model.zero_grad()
    x.grad = None
    gc.collect()
    assert Quantity(torch.cuda.memory_allocated() - before, "B") == workspaces()
