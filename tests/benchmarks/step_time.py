"""A step's time, predicted from this machine's ceilings: `python tests/benchmarks/step_time.py [cpu|cuda]`.

The bound is the sum over the step's parts of max(F/C, Q/β), C and β being ceilings. The calibrated prediction
takes for C the rate that one linear layer reaches, forward and backward, in the same turn. On configurations
whose time is nearly all matrix products it should be within 15%: each error is shown, and the worst named.
Give it a machine with nothing else to do.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from lecture_lib.accounting import flops, operators
from lecture_lib.accounting.budget import Machine
from lecture_lib.accounting.budget import training_step as predicted_step
from lecture_lib.accounting.memory import Recipe
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.measuring.ceilings import Ceilings, ceilings
from lecture_lib.measuring.device import choose
from lecture_lib.measuring.timing import measure
from lecture_lib.networks import mlp, transformer
from lecture_lib.networks.steps import training_step
from lecture_lib.quantity import Quantity

WANTED, TURNS = 0.15, 3
RECIPE = Recipe(parameters="fp32", gradients="fp32", optimizer="sgd", name="FP32, SGD")


@dataclass(frozen=True)
class Case:
    name: str
    predict: Callable[[Machine], Quantity]
    make: Callable[[torch.device], Callable[[], Any]]


@dataclass(frozen=True)
class Calibrated:
    """This machine with a rate for products that a layer reaches, in place of the highest."""

    name: str
    memory: Quantity
    bandwidth: Quantity
    rate: Quantity

    def peak(self, dtype: object) -> Quantity:
        return self.rate


def calibrated(here: Ceilings, device: torch.device, width: int) -> Calibrated:
    layer = torch.nn.Linear(width, width, bias=False, device=device)
    x = torch.rand(width // 2, width, device=device, requires_grad=True)
    grad = torch.rand(width // 2, width, device=device)
    inputs = (x, layer.weight)
    timing = measure(lambda: torch.autograd.grad(layer(x), inputs, grad), device=device, repeats=12)
    rate = flops.linear_step(width // 2, width, width).total / timing.fastest
    return Calibrated(here.name, here.memory, here.bandwidth, rate)


def chain(rows: int, widths: tuple[int, ...]) -> Case:
    def predict(here: Machine) -> Quantity:
        """Every product by itself, an activation's pass forward and two backward, and the update."""
        bounds = []
        for number, (d_in, d_out) in enumerate(zip(widths, widths[1:], strict=False)):
            costs = [operators.gemm(rows, d_in, d_out, "fp32"), operators.gemm(d_in, rows, d_out, "fp32")]
            costs += [operators.gemm(rows, d_out, d_in, "fp32")] if number else []
            costs += [operators.elementwise(rows * d_out, 1, "fp32", inputs) for inputs in (1, 2)]
            costs.append(operators.optimizer_step(d_in * d_out, "sgd", "fp32", "fp32"))
            bounds += [c.time_bound(here.peak("fp32"), here.bandwidth) for c in costs]
        return sum(bounds[1:], bounds[0])

    def make(device: torch.device) -> Callable[[], Any]:
        model = mlp(widths, device=device)
        x = torch.rand(rows, widths[0], device=device)
        targets = torch.zeros(rows, dtype=torch.long, device=device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        return lambda: training_step(model, [(x, targets)], optimizer)

    return Case(f"MLP {' → '.join(map(str, widths))}, {rows} rows", predict, make)


def decoder(batch: int, seq: int, width: int, layers: int) -> Case:
    config = ModelConfig(
        vocab_size=1024,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        head_dim=64,
        intermediate_size=4 * width,
        max_position_embeddings=seq,
        tie_word_embeddings=False,
        gated_mlp=False,
        positions="learned",
    )

    def make(device: torch.device) -> Callable[[], Any]:
        model = transformer(config, device=device)
        tokens = torch.zeros(batch, seq, dtype=torch.long, device=device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        return lambda: training_step(model, [(tokens, tokens)], optimizer)

    return Case(
        f"Transformer, {layers} × {width} wide, {batch} × {seq} tokens",
        lambda here: predicted_step(config, (batch, seq), RECIPE, here).time.total,
        make,
    )


def cases(large: bool) -> list[Case]:
    """Steps of nearly nothing but products; on a GPU wider, so that launches do not show."""
    scale = 4 if large else 1
    return [
        chain(512 * scale, (768 * scale,) * 3),
        chain(512 * scale, (1024 * scale,) * 3),
        chain(1024 * scale, (1024 * scale, 512 * scale, 1024 * scale)),
        decoder(1 * scale, 256, 768 * scale, 1),
        decoder(1 * scale, 256, 1024 * scale, 1),
    ]


def main(device: torch.device) -> int:
    large = device.type == "cuda"
    every = cases(large)
    bounds: dict[str, list[Quantity]] = {case.name: [] for case in every}
    predicted: dict[str, list[Quantity]] = {case.name: [] for case in every}
    seconds: dict[str, list[float]] = {case.name: [] for case in every}
    for turn in range(TURNS):
        here = ceilings(device, again=True)
        rate = calibrated(here, device, 4096 if large else 1024)
        if not turn:
            print(f"{here.name}; the best of {TURNS} turns on both sides")
        for case in every:
            bounds[case.name].append(case.predict(here))
            predicted[case.name].append(case.predict(rate))
            seconds[case.name] += measure(case.make(device), device=device, repeats=6).seconds
    errors = {}
    for name in predicted:
        bound, guess, fastest = min(bounds[name]), min(predicted[name]), Quantity(min(seconds[name]), "s")
        errors[name] = float(guess / fastest) - 1
        print(
            f"{name:<46} bound {bound}, predicted {guess}, fastest {fastest} "
            f"(median {Quantity(statistics.median(seconds[name]), 's')}), error {errors[name]:+.0%}"
        )
    worst = max(errors, key=lambda name: abs(errors[name]))
    within = sum(abs(error) <= WANTED for error in errors.values())
    print(f"within {WANTED:.0%}: {within} of {len(errors)}; the worst is {worst}, {errors[worst]:+.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main(choose(sys.argv[1] if len(sys.argv) > 1 else "auto")))
