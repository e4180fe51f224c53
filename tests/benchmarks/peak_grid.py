"""Predicted peak memory against the measured one, over a grid of training steps on the CPU.

    python tests/benchmarks/peak_grid.py            the whole grid: every row, then the worst
    python tests/benchmarks/peak_grid.py mlp        of one network alone ("mlp" or "transformer")

`tests/measuring/test_peak.py` runs a part of the same grid. oneDNN is off, since its scratch for BF16
products differs between processors.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from itertools import product

import torch

from lecture_lib.accounting.models import ModelConfig
from lecture_lib.accounting.peak import PeakMemory, mlp_peak, transformer_peak
from lecture_lib.measuring.peak import peak_memory
from lecture_lib.networks import mlp, transformer
from lecture_lib.networks.steps import training_step

RECIPES = ("fp32", "autocast", "bf16")
OPTIMIZERS = (
    ("sgd", False),
    ("momentum", True),
    ("adagrad", False),
    ("adagrad", True),
    ("adam", False),
    ("adamw", True),
    ("adamw", False),
)


@dataclass(frozen=True)
class Case:
    """One training step. batch: rows or sequences of all microbatches together; seq: 0 for an MLP."""

    model: str
    batch: int
    seq: int
    recipe: str
    optimizer: str
    foreach: bool
    segment: int | None
    microbatches: int

    def __str__(self) -> str:
        foreach = " foreach" if self.foreach else ""
        segment = f"segments of {self.segment}" if self.segment else "no checkpoint"
        length = f" × {self.seq}" if self.seq else ""
        return (
            f"{self.model}, {self.batch}{length}, {self.recipe}, {self.optimizer}{foreach}, {segment}, "
            f"{self.microbatches} microbatches"
        )


def gpt(hidden: int, layers: int, heads: int, **changes: object) -> ModelConfig:
    fields: dict[str, object] = {
        "vocab_size": 512,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": hidden // heads,
        "intermediate_size": 4 * hidden,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
        "gated_mlp": False,
        "positions": "learned",
        "attention_bias": True,
        "mlp_bias": True,
        "norm_bias": True,
    }
    return ModelConfig(**{**fields, **changes})  # type: ignore[arg-type]


def llama(hidden: int, layers: int, heads: int, **changes: object) -> ModelConfig:
    plain = dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "tie_word_embeddings"), False)
    own = {"positions": "rotary", "gated_mlp": True, "num_key_value_heads": heads // 2}
    return gpt(hidden, layers, heads, **{**plain, **own, "intermediate_size": 3 * hidden, **changes})


# Name -> configuration, fused attention.
TRANSFORMERS = {
    "gpt 64×4": (gpt(64, 4, 4), True),
    "gpt 96×3 eager": (gpt(96, 3, 6), False),
    "llama 64×4": (llama(64, 4, 4), True),
    "llama 96×3 eager, norms of queries and keys": (llama(96, 3, 6, qk_norm=True), False),
}
CHAINS = {
    "chain of 6": ((200, 300, 300, 300, 300, 300, 10), False, "relu"),
    "cone, biases": ((512, 256, 128, 64, 32), True, "gelu"),
    "wide output": ((64, 96, 96, 1000), True, "relu"),
}
TRANSFORMER_GRID = [
    Case(model, 4, seq, recipe, *optimizer, segment, microbatches)
    for model, seq, recipe, optimizer, segment, microbatches in product(
        TRANSFORMERS, (16, 70, 200), RECIPES, OPTIMIZERS, (None, 1, 2, 3), (1, 2, 4)
    )
][::17]
# What a test runs: the quicker steps, and a few of the others.
_QUICK = [case for case in TRANSFORMER_GRID if case.seq < 100 and case.microbatches < 4]
TRANSFORMER_SAMPLE = [*_QUICK[::2], *[case for case in TRANSFORMER_GRID if case not in _QUICK][::20]]
MLP_GRID = [
    Case(model, rows, 0, recipe, *optimizer, segment, microbatches)
    for model, rows, recipe, optimizer, segment, microbatches in product(
        CHAINS, (8, 500), RECIPES, OPTIMIZERS, (None, 1, 2, 3), (1, 4)
    )
][::7]


def predicted(case: Case) -> PeakMemory:
    common: dict[str, object] = {
        "dtype": "bf16" if case.recipe == "bf16" else "fp32",
        "autocast": "bf16" if case.recipe == "autocast" else None,
        "optimizer": case.optimizer,
        "foreach": case.foreach,
        "segment": case.segment,
        "microbatches": case.microbatches,
        "threads": torch.get_num_threads(),
    }
    if case.seq:
        config, fused = TRANSFORMERS[case.model]
        return transformer_peak(config, case.batch, case.seq, fused=fused, **common)  # type: ignore[arg-type]
    widths, bias, activation = CHAINS[case.model]
    return mlp_peak(case.batch, widths, bias=bias, activation=activation, **common)  # type: ignore[arg-type]


def measured(case: Case) -> PeakMemory:
    dtype = torch.bfloat16 if case.recipe == "bf16" else torch.float32
    rows = case.batch // case.microbatches
    if case.seq:
        config, fused = TRANSFORMERS[case.model]
        model = transformer(config, fused=fused, dtype=dtype)
        tokens = [torch.randint(config.vocab_size, (2, rows, case.seq)) for _ in range(case.microbatches)]
        data = [(a.clone(), b.clone()) for a, b in tokens]
    else:
        widths, bias, activation = CHAINS[case.model]
        kind = {"relu": torch.nn.ReLU, "gelu": torch.nn.GELU}[activation]
        model = mlp(widths, bias=bias, activation=kind, dtype=dtype)
        data = [
            (torch.rand(rows, widths[0], dtype=dtype), torch.randint(widths[-1], (rows,)))
            for _ in range(case.microbatches)
        ]
    optimizer = optimizer_of(case.optimizer, model.parameters(), case.foreach)
    autocast = torch.bfloat16 if case.recipe == "autocast" else None

    def step() -> None:
        training_step(model, data, optimizer, autocast=autocast, segment=case.segment)

    with torch.backends.mkldnn.flags(enabled=False), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mismatch dtype between input and weight")
        step()  # so that the optimizer's state exists
        return peak_memory(step, parameters=model, optimizer=optimizer, inputs=data)


def optimizer_of(name: str, parameters: object, foreach: bool) -> torch.optim.Optimizer:
    return {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1, foreach=foreach),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=foreach),
        "adagrad": lambda p: torch.optim.Adagrad(p, foreach=foreach),
        "adam": lambda p: torch.optim.Adam(p, foreach=foreach),
        "adamw": lambda p: torch.optim.AdamW(p, foreach=foreach),
    }[name](parameters)


def main(which: str = "") -> None:
    grids = {"mlp": MLP_GRID, "transformer": TRANSFORMER_GRID}
    for name, grid in grids.items():
        if which not in ("", name):
            continue
        worst = (-1.0, "")
        for case in grid:
            guess, truth = int(predicted(case).total), int(measured(case).total)
            error = abs(guess / truth - 1)
            worst = max(worst, (error, f"{case}: {guess - truth:+,} B of {truth:,} B"))
            print(f"{guess:>12,} {truth:>12,} B {guess - truth:>+8,} {error:.4%}  {case}", flush=True)
        print(f"worst of {len(grid)} {name} steps: {worst[0]:.4%}, {worst[1]}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:2])
