"""Drivers: how an answer that is more than a function of numbers is exercised.

A driver takes the student's answer and one case's inputs, already fresh and with every array made a torch
tensor, and returns plain data or tensors. It holds no expected value. A function that only takes and returns
numbers or tensors needs none: kind "function" calls it by keyword (`linear_backward(X, W, G)` returning a
tuple of tensors, for one).

To add one, write a function here under `@driver("name")` and name it in the exercise (`kind="driver",
driver="name"`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lecture_lib.quantity import LectureError

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Driver:
    """`run(answer, inputs)`; `takes` says what a student hands in: "function" or "text"."""

    run: Callable[[Any, Inputs], Any]
    takes: str = "function"


DRIVERS: dict[str, Driver] = {}


def driver(
    name: str, takes: str = "function"
) -> Callable[[Callable[[Any, Inputs], Any]], Callable[[Any, Inputs], Any]]:
    """Registers the decorated function under `name`."""

    def register(function: Callable[[Any, Inputs], Any]) -> Callable[[Any, Inputs], Any]:
        DRIVERS[name] = Driver(function, takes)
        return function

    return register


def get(name: str) -> Driver:
    """The driver of that name; LectureError if there is none."""
    if name not in DRIVERS:
        raise LectureError(
            f"expected one of the drivers {', '.join(DRIVERS)}; got {name!r}; add it to drivers.py"
        )
    return DRIVERS[name]


@driver("call")
def call(function: Any, inputs: Inputs) -> Any:
    """Calls the function with the inputs by name: what kind "function" does."""
    return function(**inputs)


@driver("einops", takes="text")
def einops_pattern(pattern: Any, inputs: Inputs) -> Any:
    """Applies a pattern to the case's tensors, in their order: `einsum` unless the inputs hold another
    `operation` ("rearrange", "repeat", or a reduction: "sum", "mean", "max"); whole numbers among the inputs
    are sizes of axes.
    """
    import torch

    if not isinstance(pattern, str):
        raise TypeError(f"expected a pattern in quotes, like 'm k, k n -> m n'; got {type(pattern).__name__}")
    einops: Any = importlib.import_module("einops")  # its own types know no list of tensors
    tensors = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
    sizes = {name: value for name, value in inputs.items() if isinstance(value, int)}
    operation = inputs.get("operation", "einsum")
    if operation == "einsum":
        return einops.einsum(*tensors, pattern)
    if operation in ("rearrange", "repeat"):
        return getattr(einops, operation)(*tensors, pattern, **sizes)
    return einops.reduce(*tensors, pattern, operation, **sizes)


def small_mlp(widths: Sequence[int], seed: int) -> Any:
    """FP32 linear layers with ReLU between, weights from NumPy's generator: the same on every machine."""
    import numpy
    import torch

    rng = numpy.random.default_rng(seed)
    layers: list[torch.nn.Module] = []
    for d_in, d_out in zip(widths[:-1], widths[1:], strict=True):
        linear = torch.nn.Linear(d_in, d_out, device="cpu", dtype=torch.float32)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(rng.uniform(-1, 1, (d_out, d_in)).astype("float32")))
            linear.bias.copy_(torch.from_numpy(rng.uniform(-1, 1, d_out).astype("float32")))
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


@driver("training_step")
def training_step(step: Any, inputs: Inputs) -> Any:
    """Calls `step(model, optimizer, X, Y)` once for each of `steps` and returns the parameters after each.

    inputs: widths (list), seed, learning_rate, X, Y (tensors), steps (default 2, so that a forgotten
    `zero_grad` shows)
    """
    import torch

    model = small_mlp(inputs["widths"], inputs["seed"])
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["learning_rate"])
    seen = []
    for _ in range(inputs.get("steps", 2)):
        step(model, optimizer, inputs["X"].clone(), inputs["Y"].clone())
        seen.append(torch.cat([p.detach().flatten().clone() for p in model.parameters()]))
    return seen


@driver("listed_tensors")
def listed_tensors(function: Any, inputs: Inputs) -> Any:
    """Calls `function(tensors)` with a list of tensors, some of which share a storage.

    inputs: tensors "w float32 5×7; b int64 2×3"; listed "w, w transposed, b last row". A name listed twice
    is the same tensor twice.
    """
    import torch

    made = {}
    for text in inputs["tensors"].split("; "):
        name, dtype, sizes = text.split(" ")
        made[name] = torch.zeros([int(size) for size in sizes.split("×")], dtype=getattr(torch, dtype))
    views: dict[str, Callable[[Any], Any]] = {
        "": lambda tensor: tensor,
        "transposed": lambda tensor: tensor.t(),
        "first row": lambda tensor: tensor[0],
        "last row": lambda tensor: tensor[-1],
        "every other column": lambda tensor: tensor[:, ::2],
        "expanded": lambda tensor: tensor.expand(3, *tensor.shape),
        "cloned": lambda tensor: tensor.clone(),
    }
    listed = [text.partition(" ") for text in inputs["listed"].split(", ")]
    return function([views[view](made[name]) for name, _, view in listed])


@driver("kept_by_result")
def kept_by_result(function: Any, inputs: Inputs) -> Any:
    """Calls `function(hidden)` with counted-up values of shape (batch, position, feature), FP32.

    Returns its values, and the bytes of the storage that stays alive with them.
    """
    import torch

    shape = (inputs["batch"], inputs["position"], inputs["feature"])
    result = function(torch.arange(1.0, 1 + shape[0] * shape[1] * shape[2]).reshape(shape))
    if result is None:
        return None  # "returns nothing" says it best
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"expected a tensor from your function; got {type(result).__name__}")
    return {"values": result.clone(), "bytes kept alive": result.untyped_storage().nbytes()}


class _SimulatedDevice:
    """A device that works through a queue while the host goes on; both clocks count microseconds."""

    def __init__(self, launch: int, pending: int, durations: Sequence[int]) -> None:
        self._launch, self._durations = launch, list(durations)
        self._host, self._free, self._calls = 0, pending, 0

    def launch(self) -> None:
        self._host += self._launch
        duration = self._durations[min(self._calls, len(self._durations) - 1)]
        self._free = max(self._free, self._host) + duration
        self._calls += 1

    def synchronize(self) -> None:
        self._host = max(self._host, self._free)

    def now(self) -> int:
        return self._host


@driver("asynchronous_device")
def asynchronous_device(function: Any, inputs: Inputs) -> Any:
    """Calls `function(work, device, warmup, repeats)` with a simulated device, and returns what it returns.

    `work()` takes the host `launch` µs and queues the next kernel of `durations` (the last one again when
    they are used up) behind `pending` µs that are queued before; `device.now()` is the host's clock in µs,
    `device.synchronize()` waits for the queue to empty. No real time passes.
    """
    device = _SimulatedDevice(inputs["launch"], inputs["pending"], inputs["durations"])
    return function(device.launch, device, inputs["warmup"], inputs["repeats"])


@driver("block_quantizer")
def block_quantizer(quantize: Any, inputs: Inputs) -> Any:
    """Calls `quantize(values, block, element)` with each row of a matrix, as a list of floats.

    inputs: values (tensor, rows × columns), block, element (a format's name). The function returns elements
    and scales; the rows come back with both, and with the values that they stand for where each has its
    scale.
    """
    block, rows = inputs["block"], []
    for values in inputs["values"].double().tolist():
        made = quantize(values, block, inputs["element"])
        if not (isinstance(made, tuple | list) and len(made) == 2 and all(map(_is_listed, made))):
            return made
        elements, scales = (list(part) for part in made)
        row = {"elements": elements, "scales": scales}
        if len(elements) == len(values) and len(scales) == -(-len(values) // block):
            row["values"] = [element * scales[i // block] for i, element in enumerate(elements)]
        rows.append(row)
    return rows


def _is_listed(value: Any) -> bool:
    import torch

    return isinstance(value, list | tuple) or (isinstance(value, torch.Tensor) and value.ndim == 1)


@driver("optimizer_steps")
def optimizer_steps(step: Any, inputs: Inputs) -> Any:
    """Calls `step(w, g, …)` for each row of gradients, handing on the arrays that it returns.

    inputs: w (n,) and gradients (steps, n), float64; keeps, the names of what is handed on beside w
    ("s", or "m v t", where t counts the steps from 1), all 0 at first; the rest are settings. The function
    returns the new w, then each array kept, in this order. Back come the weights after each step, and what
    is kept at last.
    """
    import torch

    settings = {name: value for name, value in inputs.items() if name not in ("w", "gradients", "keeps")}
    kept_names = inputs["keeps"].split()
    names = [name for name in kept_names if name != "t"]
    w, kept = inputs["w"].clone(), {name: torch.zeros_like(inputs["w"]) for name in names}
    seen = []
    for t, g in enumerate(inputs["gradients"], start=1):
        count = {"t": t} if "t" in kept_names else {}
        result = step(w=w, g=g.clone(), **kept, **count, **settings)
        if result is ...:
            return ...
        if not isinstance(result, tuple | list) or len(result) != 1 + len(names):
            raise TypeError(f"expected {', '.join(['w', *names])} to be returned, in this order")
        w, kept = result[0], dict(zip(names, result[1:], strict=True))
        seen.append(w.clone())
    return {"w": torch.stack(seen), **kept}


@driver("after_one_step")
def after_one_step(function: Any, inputs: Inputs) -> Any:
    """Calls `function(model, optimizer)` after one step of training.

    inputs: widths, dtype, optimizer (a class of torch.optim), frozen (how many first layers do not train)
    """
    import torch

    dtype = getattr(torch, inputs["dtype"])
    model = small_mlp(inputs["widths"], 0).to(dtype)
    layers = [layer for layer in model if isinstance(layer, torch.nn.Linear)]
    for layer in layers[: inputs["frozen"]]:
        layer.requires_grad_(False)
    optimizer = getattr(torch.optim, inputs["optimizer"])(model.parameters(), lr=0.01)
    model(torch.ones(2, inputs["widths"][0], dtype=dtype)).sum().backward()
    optimizer.step()
    return function(model, optimizer)


@driver("accumulated_gradients")
def accumulated_gradients(accumulate: Any, inputs: Inputs) -> Any:
    """Calls `accumulate(model, batches)` on a network without gradients, and returns the ones it then has.

    inputs: widths, seed; X (rows, d_in) and Y (rows,) with −100 for padding, cut into microbatches of `rows`
    """
    import torch

    model = small_mlp(inputs["widths"], inputs["seed"]).double()
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    alive, most_alive, most_rows = 0, 0, 0

    def ends(_: Any) -> None:
        nonlocal alive
        alive -= 1

    def seen(_: Any, taken: Any, made: Any) -> None:
        nonlocal alive, most_alive, most_rows
        if isinstance(made, torch.Tensor) and made.requires_grad:
            alive += 1
            made.register_hook(ends)
            most_alive, most_rows = max(most_alive, alive), max(most_rows, len(made))

    model.register_forward_hook(seen)
    X, Y = (inputs[name].clone().split(inputs["rows"]) for name in ("X", "Y"))
    if accumulate(model, list(zip(X, Y, strict=True))) is ...:
        return ...
    if most_alive > 1 or most_rows > max(inputs["rows"]):
        raise ValueError(
            "expected one microbatch's graph at a time; got several: call backward() on each in turn"
        )
    if not all(map(torch.equal, weights, model.parameters())):
        raise ValueError("expected gradients and no update; got other weights: leave them as they are")
    if any(parameter.grad is None for parameter in model.parameters()):
        raise ValueError("expected gradients in `.grad` of the model's parameters; got none; call backward()")
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@driver("segment_checkpoints")
def segment_checkpoints(run: Any, inputs: Inputs) -> Any:
    """Calls `run(layers, x, k, checkpoint)` on whole numbers, then each segment once more, last one first.

    inputs: layers [[a, b], …], each a function x → a·x + b; x, k. `checkpoint(segment, x)` is segment(x), and
    keeps x. Back come the output, what was kept, and what the segments gave when computed again.
    """
    kept: list[tuple[Any, Any]] = []

    def checkpoint(segment: Any, x: Any) -> Any:
        kept.append((segment, x))
        return segment(x)

    layers = [lambda x, a=a, b=b: a * x + b for a, b in inputs["layers"]]
    output = run(layers, inputs["x"], inputs["k"], checkpoint)
    if output is ...:
        return ...
    return {
        "output": output,
        "kept": [x for _, x in kept],
        "computed again": [segment(x) for segment, x in reversed(kept)],
    }
