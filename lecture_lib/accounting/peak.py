"""Peak memory of a training step, by a walk over its allocations and frees. No constant is fitted.

The step is `networks.steps.training_step`: forward and backward of each microbatch, one optimizer step,
gradients set to None; any but the first, so that the optimizer's state exists.
`steps` has the networks and the step, `eager` what each operation allocates and frees;
`measuring.peak.peak_memory` measures the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lecture_lib.accounting import steps
from lecture_lib.accounting.eager import Machine, Record, Tensor
from lecture_lib.accounting.inputs import chain_widths, one_of, segment_length, whole
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.quantity import LectureError, Ledger, Quantity

CATEGORIES = ("parameters", "gradients", "optimizer", "inputs", "activations", "temporaries", "workspaces")
SOURCE = "torch 2.13: derivatives.yaml, autograd engine, aten kernels"


@dataclass(frozen=True)
class PeakMemory:
    """The largest number of bytes live at once.

    by_category: parameters, gradients, optimizer state, inputs, activations (saved for a backward that is
                 still to come), temporaries, workspaces of libraries; adds up to the total
    moment:      what allocated the byte that reached it: "backward: blocks.0.mlp.down_proj (input gradient)"
    tensors:     the storages live then, largest first; those of one name are one row
    """

    total: Quantity
    by_category: Ledger
    moment: str
    tensors: Ledger

    def __str__(self) -> str:
        return f"{self.by_category}\nat {self.moment}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        import html  # only where it is shown

        return f"{self.by_category._repr_html_()}<p>at {html.escape(self.moment)}</p>"


def peak_of(first: Record, alive: Sequence[Record], name: str, workspaces: int = 0) -> PeakMemory:
    """From the allocation that reached the peak and all storages live then."""
    sums = dict.fromkeys(CATEGORIES, 0)
    by_label: dict[str, int] = {}
    for record in alive:
        sums[record.category] += record.nbytes
        label = _label(record)
        by_label[label] = by_label.get(label, 0) + record.nbytes
    sums["workspaces"] += workspaces
    rows = {
        category: Quantity(size, "B", name=category, source=SOURCE)
        for category, size in sums.items()
        if size or category not in ("inputs", "workspaces")
    }
    largest = sorted(by_label.items(), key=lambda row: -row[1])
    where = f": {first.module}" if first.module else ""
    ledger = Ledger(rows, name=name)
    return PeakMemory(
        ledger.total.with_(name=name),
        ledger,
        f"{first.phase}{where} ({first.label})",
        Ledger({label: Quantity(size, "B", name=label) for label, size in largest}, name="live then"),
    )


def _label(record: Record) -> str:
    where = f"{record.module}: " if record.module and not record.label.startswith(record.module) else ""
    return f"{where}{record.label} [{record.category}]"


def mlp_peak(
    batch: int,
    widths: Sequence[int],
    *,
    bias: bool = False,
    activation: str = "relu",
    dtype: object = "fp32",
    autocast: object | None = None,
    optimizer: str = "sgd",
    foreach: bool = False,
    microbatches: int = 1,
    segment: int | None = None,
    device: str = "cpu",
    threads: int = 1,
) -> PeakMemory:
    """Peak of a training step of `networks.mlp(widths)` with a cross entropy loss.

    batch: rows of all microbatches together; widths: (d_in, …, d_out); segment: linear layers under one
    checkpoint, None for none. The rest as for `transformer_peak`.
    """
    chain = chain_widths(widths)
    one_of("activation", activation, steps.ACTIVATIONS)
    rows = _split(whole("batch", batch), microbatches)
    if segment is not None:
        segment_length(segment, len(chain) - 1)

    def build(machine: Machine, name: str) -> steps.Network:
        return steps.MLP(machine, chain, bias, activation, name)

    def data(machine: Machine, name: str) -> tuple[Tensor, Tensor]:
        inputs = machine.empty((rows, chain[0]), name, "inputs", "inputs")
        return inputs, machine.empty((rows,), "int64", "targets", "inputs")

    name = "MLP " + " → ".join(map(str, chain)) + f", {rows * microbatches} rows: peak"
    walk = _Step(dtype, autocast, optimizer, foreach, microbatches, segment, device, threads)
    return walk.peak(build, data, name)


def transformer_peak(
    config: ModelConfig,
    batch: int,
    seq: int,
    *,
    fused: bool = True,
    dtype: object = "fp32",
    autocast: object | None = None,
    optimizer: str = "adamw",
    foreach: bool = False,
    microbatches: int = 1,
    segment: int | None = None,
    device: str = "cpu",
    threads: int = 1,
    workspaces: int | Quantity = 0,
) -> PeakMemory:
    """Peak of a training step of `networks.transformer(config, fused=fused)` with a cross entropy loss.

    batch:        sequences of `seq` tokens, of all microbatches together
    dtype:        of parameters, gradients, optimizer state and (without autocast) activations
    autocast:     dtype of matrix products in forward and loss, with FP32 parameters; None for no autocast
    optimizer:    "sgd", "momentum", "adagrad", "adam" or "adamw" of torch.optim; foreach as there
    segment:      blocks under one checkpoint; None for no checkpoint
    threads:      of the CPU (torch.get_num_threads()): each has its own scratch in some kernels
    device:       "cpu" counts bytes as asked for, "cuda" blocks as the caching allocator hands them out, with
                  the flash kernel for fused attention (torch may choose cuDNN's; sdpa_kernel pins one)
    workspaces:   bytes that libraries keep beside tensors, as `cublas_workspaces` gives them
    LectureError for what does not divide or does not exist. Matrix products in BF16 on the CPU are without
    oneDNN, whose scratch differs between processors.
    """
    steps.check_config(config)
    rows, length = _split(whole("batch", batch), microbatches), whole("seq", seq)
    if length > config.max_position_embeddings:
        raise LectureError(
            f"expected seq up to max_position_embeddings = {config.max_position_embeddings}; got {length}"
        )
    if segment is not None:
        segment_length(segment, config.num_hidden_layers)
    steps.check_attention(device, fused, *steps.precision(dtype, autocast))

    def build(machine: Machine, name: str) -> steps.Network:
        return steps.Transformer(machine, config, fused, name)

    def data(machine: Machine, name: str) -> tuple[Tensor, Tensor]:
        tokens = machine.empty((rows, length), "int64", "tokens", "inputs")
        return tokens, machine.empty((rows * length,), "int64", "targets", "inputs")

    name = f"{config.name or 'Transformer'}, {rows * microbatches} × {length} tokens: peak"
    walk = _Step(dtype, autocast, optimizer, foreach, microbatches, segment, device, threads)
    return walk.peak(build, data, name, whole("workspaces", workspaces, 0, "B"))


def cublas_workspaces(compute_capability: int, handles: int = 2) -> Quantity:
    """Bytes of cuBLAS's workspaces in torch: one for each handle and stream, from the caching allocator.

    compute_capability: its major number (9 for Hopper, 10 and 12 for Blackwell). A training step uses two
    handles: the forward's thread has one, autograd's thread another.
    """
    major, count = whole("compute_capability", compute_capability), whole("handles", handles)
    each = 4096 * 8 * 1024 if major in (9, 10, 12) else 4096 * 2 * 1024 + 16 * 8 * 1024
    return Quantity(
        each * count,
        "B",
        name="cuBLAS workspaces",
        formula="n_handles·workspace",
        inputs={"n_handles": count, "workspace": each},
        conventions=("CUBLAS_WORKSPACE_CONFIG not set",),
        source="torch 2.13: aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize",
    )


def _split(batch: int, microbatches: int) -> int:
    count = whole("microbatches", microbatches)
    if batch % count:
        raise LectureError(f"expected a batch that {count} microbatches divide; got {batch}")
    return batch // count


@dataclass(frozen=True)
class _Step:
    """How a step is run, apart from what is trained."""

    dtype: object
    autocast: object | None
    optimizer: str
    foreach: bool
    microbatches: int
    segment: int | None
    device: str
    threads: int

    def __post_init__(self) -> None:
        one_of("optimizer", self.optimizer, steps.WALKED)
        one_of("device", self.device, ["cpu", "cuda"])
        whole("threads", self.threads)

    def peak(
        self,
        build: Callable[[Machine, str], steps.Network],
        data: Callable[[Machine, str], tuple[Tensor, Tensor]],
        name: str,
        workspaces: int = 0,
    ) -> PeakMemory:
        dtype, autocast = steps.precision(self.dtype, self.autocast)
        machine = Machine(self.device, self.threads)
        network = build(machine, dtype)
        batches = [data(machine, dtype) for _ in range(self.microbatches)]
        state = steps.allocate_optimizer_state(machine, list(network.parameters.values()), self.optimizer)
        steps.training_step(machine, network, batches, self.optimizer, self.foreach, autocast, self.segment)
        first, alive = machine.at_peak()
        del state
        return peak_of(first, alive, name, workspaces)
