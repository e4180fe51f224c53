"""Model states: parameters, gradients, master copies and what an optimizer remembers, to the byte.

`bytes_per_parameter` and `model_states` count a recipe, whole or divided over devices; `optimizer_state`
counts what an optimizer holds for tensors of given shapes, scalars included, as its `state_dict` has it.
Activations, workspaces and communication buffers are not here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction

from lecture_lib.accounting.dtypes import FP32, INTEGERS, BlockFormat, Format, resolve
from lecture_lib.accounting.inputs import amount, several, sizes, unknown, whole
from lecture_lib.accounting.tensors import tensor_bytes
from lecture_lib.quantity import LectureError, Ledger, Quantity

STATES_ONLY = "model states only: no activations, workspaces or buffers"
_BITSANDBYTES = "Dettmers et al. 2022 (2110.02861); bitsandbytes 0.50, blocks of 256 (2,048 before 0.44)"
# An 8-bit moment: a byte a value and an FP32 scale for each block, without the table of the 256 values.
_UINT8 = next(fmt for fmt in INTEGERS if fmt.name == "uint8")
BLOCKWISE_8BIT = BlockFormat("8-bit in blocks of 256", _UINT8, 256, FP32, source=_BITSANDBYTES)


# -- what each optimizer remembers


@dataclass(frozen=True)
class OptimizerState:
    """What an optimizer keeps for each parameter tensor, by its names in the `state_dict`.

    arrays:  buffers of the parameter's shape, in its dtype (torch) or the recipe's
    scalars: tensors of one number
    """

    arrays: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    source: str = "torch 2.13, torch.optim"


_STEP = ("step",)
OPTIMIZERS: dict[str, OptimizerState] = {
    "sgd": OptimizerState(),
    "momentum": OptimizerState(("momentum_buffer",)),
    "adagrad": OptimizerState(("sum",), _STEP),
    "adam": OptimizerState(("exp_avg", "exp_avg_sq"), _STEP),
    "adamw": OptimizerState(("exp_avg", "exp_avg_sq"), _STEP),
    "amsgrad": OptimizerState(("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), _STEP),
    "adamax": OptimizerState(("exp_avg", "exp_inf"), _STEP),
    "nadam": OptimizerState(("exp_avg", "exp_avg_sq"), ("step", "mu_product")),
    "radam": OptimizerState(("exp_avg", "exp_avg_sq"), _STEP),
    "adadelta": OptimizerState(("square_avg", "acc_delta"), _STEP),
    "asgd": OptimizerState(("ax",), ("step", "eta", "mu")),
    "rmsprop": OptimizerState(("square_avg",), _STEP),
    "rmsprop-momentum": OptimizerState(("square_avg", "momentum_buffer"), _STEP),
    "rmsprop-centered": OptimizerState(("square_avg", "grad_avg"), _STEP),
    "rmsprop-centered-momentum": OptimizerState(("square_avg", "momentum_buffer", "grad_avg"), _STEP),
    "rprop": OptimizerState(("prev", "step_size"), _STEP),
    "sparseadam": OptimizerState(("exp_avg", "exp_avg_sq")),  # its step is a Python int
    "lion": OptimizerState(("exp_avg",), source="Chen et al. 2023 (2302.06675), Algorithm 2"),
}
# State that hangs on the shape of each tensor, and so has no bytes per parameter.
_BY_SHAPE = ("adafactor", "muon", "adamw-8bit")
_WORDS = {
    "momentum_buffer": "momentum",
    "sum": "sum of squared gradients",
    "exp_avg": "first moment",
    "exp_avg_sq": "second moment",
    "max_exp_avg_sq": "largest second moment",
    "exp_inf": "largest gradient",
    "square_avg": "average of squared gradients",
    "acc_delta": "average of squared updates",
    "ax": "average of parameters",
    "grad_avg": "average of gradients",
    "prev": "last gradient",
    "step_size": "step sizes",
}


def optimizer_state(
    shapes: Iterable[Sequence[int]], optimizer: str, dtype: object = "fp32", scalars: object = "fp32"
) -> Ledger:
    """Bytes of an optimizer's state after its first step, for parameters of these shapes, by buffer.

    shapes: of the tensors that have had a gradient; frozen ones have no state, but for Adagrad, which makes
        its state before the first step, for every tensor that it was given
    dtype:  of the buffers; torch takes the parameter's (in Adafactor the gradient's)
    scalars: dtype of `step` and its like: FP32, but FP64 if that is torch's default dtype and the optimizer
        is not fused. They are on the CPU, unless the optimizer is fused or capturable; ASGD's never are.
        foreach, fused and capturable change no byte of it.

    "adafactor": a row and a column of sums for each matrix (the last two axes), a full buffer for vectors.
    "muon": momentum for matrices; LectureError for other shapes, which AdamW is for (`split_for_muon`).
    "adamw-8bit": bytes with a scale for each block, FP32 below 4,096 elements; `step` is a Python int.
    For LBFGS see `lbfgs_state`.
    """
    every = _shapes(shapes)
    fmt, scalar = resolve(dtype), resolve(scalars)
    if optimizer == "adafactor":
        rows = _adafactor(every, fmt, scalar)
    elif optimizer == "muon":
        rows = _muon(every, fmt)
    elif optimizer == "adamw-8bit":
        rows = _adamw_8bit(every)
    else:
        kind = _optimizer(optimizer)
        rows = {name: _buffers(name, every, fmt, kind.source) for name in kind.arrays}
        rows |= {name: _scalars(name, len(every), scalar, kind.source) for name in kind.scalars}
    return Ledger(rows, name=f"{optimizer}: state of {len(every):,} tensors", unit="B")


def _shapes(shapes: object) -> list[tuple[int, ...]]:
    """Checked shapes of parameter tensors; () is a scalar's."""
    given = several("shapes", shapes, "shapes", "[(128, 64), (128,)]")
    return [sizes(f"shapes[{i}]", shape, least=0) for i, shape in enumerate(given)]


def _buffers(
    name: str, shapes: Sequence[tuple[int, ...]], fmt: Format | BlockFormat, source: str, count: str = "n"
) -> Quantity:
    """One buffer for each shape: its bytes added up."""
    total = sum(int(tensor_bytes(shape, fmt)) for shape in shapes)
    n = sum(map(math.prod, shapes))
    per_value = Fraction(fmt.bits) / 8
    return Quantity(
        total,
        "B",
        name=name,
        formula=f"s·{count}",
        inputs={"s": float(per_value) if per_value.denominator > 1 else int(per_value), count: n},
        conventions=(f"{fmt.name} for each of {count} values",),
        source=source,
    )


def _scalars(name: str, tensors: int, fmt: Format | BlockFormat, source: str) -> Quantity:
    each = int(tensor_bytes((), fmt))
    return Quantity(
        each * tensors,
        "B",
        name=name,
        formula="s·n_tensors",
        inputs={"s": each, "n_tensors": tensors},
        conventions=(f"one {fmt.name} number for each parameter tensor",),
        source=source,
    )


def _adafactor(
    shapes: Sequence[tuple[int, ...]], fmt: Format | BlockFormat, scalar: Format | BlockFormat
) -> dict[str, Quantity]:
    source = "Shazeer and Stern 2018 (1804.04235); torch 2.13, torch.optim.Adafactor"
    factored = [shape for shape in shapes if len(shape) > 1]
    return {
        "row_var": _buffers("row_var", [(*s[:-1], 1) for s in factored], fmt, source, "n_rows"),
        "col_var": _buffers("col_var", [(*s[:-2], 1, s[-1]) for s in factored], fmt, source, "n_columns"),
        "variance": _buffers("variance", [s for s in shapes if len(s) < 2], fmt, source),
        "step": _scalars("step", len(shapes), scalar, source),
    }


def _muon(shapes: Sequence[tuple[int, ...]], fmt: Format | BlockFormat) -> dict[str, Quantity]:
    for shape in shapes:
        if len(shape) != 2:
            raise LectureError(
                f"expected matrices for Muon; got the shape {shape}; give vectors, embeddings and the head "
                "to AdamW (split_for_muon does)"
            )
    source = "Jordan et al. 2024; torch 2.13, torch.optim.Muon"
    return {"momentum_buffer": _buffers("momentum_buffer", shapes, fmt, source)}


def _adamw_8bit(shapes: Sequence[tuple[int, ...]]) -> dict[str, Quantity]:
    rows: dict[str, Quantity] = {}
    counts = [(math.prod(shape),) for shape in shapes]
    small, large = [c for c in counts if c[0] < 4096], [c for c in counts if c[0] >= 4096]
    for number in (1, 2):
        rows[f"state{number}"] = _buffers(f"state{number}", large, _UINT8, _BITSANDBYTES)
        scales = [(-(-n // BLOCKWISE_8BIT.block),) for (n,) in large]
        rows[f"absmax{number}"] = _buffers(f"absmax{number}", scales, FP32, _BITSANDBYTES, "n_blocks")
        rows[f"state{number}, small tensors"] = _buffers(f"state{number}", small, FP32, _BITSANDBYTES)
    maps = 2 if large else 0  # of signed and of unsigned values, one for all tensors
    rows["qmap1, qmap2"] = Quantity(
        maps * 256 * 4,
        "B",
        name="qmap1, qmap2",
        formula="n_maps·256·4",
        inputs={"n_maps": maps},
        conventions=("two tables of 256 FP32 values, shared by all tensors",),
        source=_BITSANDBYTES,
    )
    return rows


def lbfgs_state(
    shapes: Iterable[Sequence[int]], pairs: int, dtype: object = "fp32", history_size: int = 100
) -> Ledger:
    """Bytes that torch.optim.LBFGS holds after `pairs` accepted updates of its history (at least 1).

    The direction, the last gradient and two vectors for each pair kept, all of n = every parameter; a scalar
    for each pair in `ro` and `al`, and one in `H_diag`. The first iteration of a run adds no pair.
    """
    n = sum(map(math.prod, _shapes(shapes)))
    kept = min(whole("pairs", pairs), whole("history_size", history_size))
    fmt = resolve(dtype)
    source = "torch 2.13, torch.optim.LBFGS"
    pair = {"m": kept}

    def row(name: str, count: int, formula: str, inputs: Mapping[str, object]) -> Quantity:
        s = int(tensor_bytes((), fmt))
        return Quantity(
            s * count,
            "B",
            name=name,
            formula=f"s·{formula}",
            inputs={"s": s, **inputs},
            conventions=(f"{fmt.name}", f"at most {history_size} pairs"),
            source=source,
        )

    return Ledger(
        {
            "d": row("d", n, "n", {"n": n}),
            "prev_flat_grad": row("prev_flat_grad", n, "n", {"n": n}),
            "old_dirs": row("old_dirs", kept * n, "m·n", {**pair, "n": n}),
            "old_stps": row("old_stps", kept * n, "m·n", {**pair, "n": n}),
            "ro": row("ro", kept, "m", pair),
            "al": row("al", kept, "m", pair),
            "H_diag": row("H_diag", 1, "1", {}),
        },
        name=f"lbfgs: state of {n:,} parameters",
    )


def split_for_muon(
    shapes: Mapping[str, Sequence[int]],
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Shapes, named as in `models.parameter_shapes`, into Muon's and the rest, which AdamW steps.

    Muon takes the matrices of the layers; embeddings and the head are matrices too, but not hidden ones.
    """
    if not isinstance(shapes, Mapping):
        raise LectureError(
            f"expected shapes by name; got {shapes!r}; give models.parameter_shapes(config), or a dict"
        )
    muon: dict[str, tuple[int, ...]] = {}
    rest: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        hidden = len(tuple(shape)) == 2 and not any(word in name for word in ("embed", "head"))
        (muon if hidden else rest)[name] = sizes(name, shape, least=0)
    return muon, rest


# -- recipes


def _optimizer(name: object) -> OptimizerState:
    if name in _BY_SHAPE:
        raise LectureError(
            f"expected an optimizer with whole buffers for each parameter; got {name!r}, whose state hangs "
            "on the shapes; use optimizer_state(shapes, …)"
        )
    if not isinstance(name, str) or name not in OPTIMIZERS:
        raise unknown("an optimizer", name, [*OPTIMIZERS, *_BY_SHAPE])
    return OPTIMIZERS[name]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The dtype of everything that is kept for each parameter; None for what is not kept.

    parameters:     what the forward reads
    gradients:      what the backward writes
    main_gradients: a second copy, in which gradients are added up
    master:         a copy of the parameters that the optimizer steps
    moments:        of the optimizer's buffers
    optimizer:      a name in `OPTIMIZERS`
    """

    parameters: object = "bf16"
    gradients: object = "bf16"
    main_gradients: object | None = None
    master: object | None = None
    moments: object = "fp32"
    optimizer: str = "adamw"
    name: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("parameters", "gradients", "main_gradients", "master", "moments"):
                object.__setattr__(self, field.name, None if value is None else resolve(value))
        _optimizer(self.optimizer)

    @property
    def formats(self) -> dict[str, Format | BlockFormat]:
        """Row of the ledger -> its format, in the ledger's order."""
        kept: dict[str, object] = {
            "parameters": self.parameters,
            "gradients": self.gradients,
            "main gradients": self.main_gradients,
            "master copy": self.master,
        }
        kept |= {_WORDS[array]: self.moments for array in OPTIMIZERS[self.optimizer].arrays}
        return {label: resolve(fmt) for label, fmt in kept.items() if fmt is not None}


_MEGATRON = "NVIDIA/Megatron-LM, docs/user-guide/features/dist_optimizer.md"
RECIPES = {
    known.name: known
    for known in (
        Recipe(name="lecture", source="the lecture's ledger: 2 + 2 + 4 + 4 bytes"),
        Recipe(name="bf16-master", master="fp32", source="Rajbhandari et al. 2020 (ZeRO), section 3.1"),
        Recipe(name="bf16-pure", moments="bf16", source="torch.optim.AdamW on BF16 parameters"),
        Recipe(
            name="autocast",
            parameters="fp32",
            gradients="fp32",
            source="torch.autocast over FP32 parameters; the casts are transient",
        ),
        Recipe(name="fp32", parameters="fp32", gradients="fp32", source=_MEGATRON),
        Recipe(name="bf16-master-fp32-gradients", gradients="fp32", master="fp32", source=_MEGATRON),
        Recipe(
            name="bf16-master-both-gradients", main_gradients="fp32", master="fp32", source=_MEGATRON
        ),  # 20 B in the Ultra-Scale Playbook too
        Recipe(name="bf16-8bit-moments", moments=BLOCKWISE_8BIT, source=_BITSANDBYTES),
    )
}


def named_recipe(name: str | Recipe) -> Recipe:
    """A recipe by its name in `RECIPES`, or one's own as it is."""
    if isinstance(name, Recipe):
        return name
    if not isinstance(name, str) or name not in RECIPES:
        raise unknown("a recipe", name, RECIPES, "(or write Recipe(parameters=…, optimizer=…))")
    return RECIPES[name]


# -- a recipe's ledgers, whole and divided over devices

# ZeRO stage -> rows that are divided over the data-parallel devices; the others are on every one of them.
_STAGES = {
    0: "replicated: every device holds all of it",
    1: "ZeRO-1: what the optimizer holds is divided over the devices",
    2: "ZeRO-2: that and the gradients are divided over the devices",
    3: "ZeRO-3: everything is divided over the devices",
}


def _divided(row: str, stage: int) -> bool:
    return stage >= {"parameters": 3, "gradients": 2}.get(row, 1)


def bytes_per_parameter(recipe: str | Recipe, devices: int = 1, stage: int = 0) -> Ledger:
    """Bytes that one device holds for each parameter, by row, in "B/parameter"; exact fractions.

    devices: N that the data are divided over; stage: 0 (replicated) or ZeRO's 1, 2, 3.
    """
    kept, N, stage = named_recipe(recipe), whole("devices", devices), _stage(stage)
    rows = {}
    for label, fmt in kept.formats.items():
        s = Fraction(fmt.bits) / 8
        share = N if _divided(label, stage) else 1
        rows[label] = Quantity(
            s / share,
            "B/parameter",
            name=label,
            formula="s/N" if share > 1 else "s",
            inputs={"s": s, "N": N} if share > 1 else {"s": s},
            conventions=(fmt.name, STATES_ONLY, *((_STAGES[stage],) if N > 1 else ())),
            source=kept.source,
        )
    return Ledger(rows, name=f"{kept.name or kept.optimizer}: bytes per parameter")


def model_states(
    parameters: int | Quantity,
    recipe: str | Recipe,
    devices: int = 1,
    stage: int = 0,
    model_parallel: int = 1,
) -> Ledger:
    """Bytes of model states that each device holds, by row.

    parameters: P of the whole model
    model_parallel: tensor · pipeline parallel devices, over which the parameters are divided first
    devices, stage: N data-parallel devices and the ZeRO stage (0: all replicated)

    Shares are equal: where a count does not divide, it is padded up to the next multiple.
    """
    kept, stage = named_recipe(recipe), _stage(stage)
    P = whole("parameters", parameters, unit="parameter")
    N, t = whole("devices", devices), whole("model_parallel", model_parallel)
    local = -(-P // t)
    rows = {}
    for label, fmt in kept.formats.items():
        divided = N > 1 and _divided(label, stage)
        count = -(-local // N) if divided else local
        share = "·".join([*(["t"] if t > 1 else []), *(["N"] if divided else [])])
        s = Fraction(fmt.bits) / 8
        inputs: dict[str, object] = {"s": float(s) if s.denominator > 1 else int(s), "P": P}
        inputs |= ({"t": t} if t > 1 else {}) | ({"N": N} if divided else {})
        rows[label] = Quantity(
            int(tensor_bytes((count,), fmt)),
            "B",
            name=label,
            formula=f"s·⌈P/({share})⌉" if "·" in share else f"s·⌈P/{share}⌉" if share else "s·P",
            inputs=inputs,
            conventions=(
                fmt.name,
                STATES_ONLY,
                *(("a last block that is not full has a scale too",) if isinstance(fmt, BlockFormat) else ()),
                *((_STAGES[stage],) if N > 1 else ()),
                *(("equal shares, padded",) if share else ()),
            ),
            source=kept.source,
        )
    where = " on each device" if N * t > 1 else ""
    return Ledger(rows, name=f"{kept.name or kept.optimizer}: model states of {P:,} parameters{where}")


def _stage(stage: object) -> int:
    number = whole("stage", stage, least=0)
    if number not in _STAGES:
        raise unknown("a ZeRO stage", stage, map(str, _STAGES), "(0 replicates everything)")
    return number


def largest_model(
    memory: int | Quantity, recipe: str | Recipe, devices: int = 1, stage: int = 0, model_parallel: int = 1
) -> Quantity:
    """The most parameters whose model states fit into `memory` on each device: ⌊M/b⌋ on one.

    memory: M, in bytes, of each device; the rest as in `model_states`. Nothing is left for activations.
    """
    kept = named_recipe(recipe)
    M = Fraction(amount("memory", memory, "B"))
    N, t = whole("devices", devices), whole("model_parallel", model_parallel)
    b = Fraction(bytes_per_parameter(kept, N, stage).total.value)

    def fits(P: int) -> bool:
        return not P or int(model_states(P, kept, N, stage, t).total) <= M

    low, high = 0, int(M * t / b) + 1  # padding only takes away, so more than M·t/b never fit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Quantity(
        low,
        "parameter",
        name="largest model",
        formula="⌊M·t/b⌋" if t > 1 else "⌊M/b⌋",
        inputs={"M": Quantity(M, "B"), "b": float(b), **({"t": t} if t > 1 else {})},
        conventions=(
            STATES_ONLY,
            *((_STAGES[_stage(stage)],) if N > 1 else ()),
            *(("equal shares, padded",) if N * t > 1 else ()),
        ),
        source=kept.source,
    )
