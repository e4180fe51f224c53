"""The course's networks and their training step, on tensors of `eager`: what `peak` and `activations` run.

Each is written as the code that it stands for, line by line, so that what a line keeps alive there it keeps
alive here: `MLP` and `Transformer` as those of `lecture_lib.networks`, `training_step` as
`lecture_lib.networks.steps.training_step`, `optimizer_step` as torch.optim's of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lecture_lib.accounting import eager
from lecture_lib.accounting.dtypes import resolve
from lecture_lib.accounting.eager import HALF, Machine, Tensor
from lecture_lib.accounting.memory import OPTIMIZERS
from lecture_lib.accounting.models import ModelConfig, a_config
from lecture_lib.quantity import LectureError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": eager.relu,
    "gelu": eager.gelu,
    "silu": eager.silu,
}


class Network:
    """Parameters by name, in the order of `model.parameters()`, and a forward in segments of k layers."""

    layers: int

    def __init__(self, machine: Machine, dtype: str) -> None:
        self.machine, self.dtype = machine, dtype
        self.parameters: dict[str, Tensor] = {}

    def parameter(self, name: str, *shape: int) -> None:
        self.parameters[name] = self.machine.leaf(shape, self.dtype, name)

    def linear(self, name: str, x: Tensor) -> Tensor:
        with self.machine.inside(name):
            return eager.linear(x, self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias"))

    def loss(self, batch: tuple[Tensor, Tensor], segment: int | None) -> Tensor:
        raise NotImplementedError

    def in_segments(
        self, x: Tensor, segment: int | None, run: Callable[[Tensor, int, int], Tensor]
    ) -> Tensor:
        """All layers, `segment` at a time under one checkpoint; without a segment under none."""
        if segment is None:
            return run(x, 0, self.layers)
        for first in range(0, self.layers, segment):
            last = min(first + segment, self.layers)
            x = self.machine.checkpoint(lambda x, first=first, last=last: run(x, first, last), x)  # type: ignore[misc]
        return x


class MLP(Network):
    """`networks.mlp(widths)`: linear layers with an activation between them; layer i is "layers.i"."""

    def __init__(
        self, machine: Machine, widths: Sequence[int], bias: bool, activation: str, dtype: str
    ) -> None:
        super().__init__(machine, dtype)
        self.layers, self.activation = len(widths) - 1, activation
        for i, (d_in, d_out) in enumerate(zip(widths, widths[1:], strict=False)):
            self.parameter(f"layers.{i}.weight", d_out, d_in)
            if bias:
                self.parameter(f"layers.{i}.bias", d_out)

    def run(self, x: Tensor, first: int, last: int) -> Tensor:
        for i in range(first, last):
            x = self.linear(f"layers.{i}", x)
            if i < self.layers - 1:
                with self.machine.inside(f"activation {i}"):
                    x = ACTIVATIONS[self.activation](x)
        return x

    def loss(self, batch: tuple[Tensor, Tensor], segment: int | None) -> Tensor:
        logits = [self.in_segments(batch[0], segment, self.run)]
        with self.machine.inside("loss"):
            return eager.cross_entropy(logits.pop(), batch[1])


class Transformer(Network):
    """`networks.transformer(config, fused=fused)`."""

    def __init__(self, machine: Machine, config: ModelConfig, fused: bool, dtype: str) -> None:
        super().__init__(machine, dtype)
        self.config, self.fused, self.layers = config, fused, config.num_hidden_layers
        d, f, dim = config.hidden_size, config.intermediate_size, config.head_dim
        H, K = config.num_attention_heads, config.num_key_value_heads
        self.parameter("embedding.weight", config.vocab_size, d)
        if config.positions == "learned":
            self.parameter("positions.weight", config.max_position_embeddings, d)
        for i in range(self.layers):
            block, bias = f"blocks.{i}", config.attention_bias or config.qkv_bias
            self._norm(f"{block}.attention_norm", d, config.norm_bias)
            for name, width in (("q", H * dim), ("k", K * dim), ("v", K * dim)):
                self._linear(f"{block}.attention.{name}_proj", d, width, bias)
            self._linear(f"{block}.attention.o_proj", H * dim, d, config.attention_bias)
            if config.qk_norm:
                self._norm(f"{block}.attention.q_norm", dim, False)
                self._norm(f"{block}.attention.k_norm", dim, False)
            self._norm(f"{block}.mlp_norm", d, config.norm_bias)
            self._linear(f"{block}.mlp.up_proj", d, f, config.mlp_bias)
            self._linear(f"{block}.mlp.down_proj", f, d, config.mlp_bias)
            if config.gated_mlp:
                self._linear(f"{block}.mlp.gate_proj", d, f, config.mlp_bias)
        self._norm("norm", d, config.norm_bias)
        if config.tie_word_embeddings:
            self.head = self.parameters["embedding.weight"]
        else:
            self.parameter("head.weight", config.vocab_size, d)
            self.head = self.parameters["head.weight"]

    def _linear(self, name: str, d_in: int, d_out: int, bias: bool) -> None:
        self.parameter(f"{name}.weight", d_out, d_in)
        if bias:
            self.parameter(f"{name}.bias", d_out)

    def _norm(self, name: str, width: int, bias: bool) -> None:
        self.parameter(f"{name}.weight", width)
        if bias:
            self.parameter(f"{name}.bias", width)

    def norm(self, name: str, x: Tensor) -> Tensor:
        with self.machine.inside(name):
            weight, bias = self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias")
            return eager.rms_norm(x, weight) if bias is None else eager.layer_norm(x, weight, bias)

    def loss(self, batch: tuple[Tensor, Tensor], segment: int | None) -> Tensor:
        logits = [self.forward(batch[0], segment)]
        with self.machine.inside("loss"):
            wide = logits.pop()
            rows = eager.reshape(wide, (wide.elements // wide.shape[-1], wide.shape[-1]))
            return eager.cross_entropy(rows, batch[1])

    def forward(self, tokens: Tensor, segment: int | None) -> Tensor:
        machine = self.machine
        position = machine.empty((tokens.shape[1],), "int64", "positions")
        with machine.inside("embedding"):
            x = eager.embedding(self.parameters["embedding.weight"], tokens)
        if self.config.positions == "learned":
            with machine.inside("positions"):
                x = eager.add(x, eager.embedding(self.parameters["positions.weight"], position))
        turn = self._rotation(position, x.dtype) if self.config.positions == "rotary" else None

        def run(x: Tensor, first: int, last: int) -> Tensor:
            for i in range(first, last):
                x = self._block(f"blocks.{i}", x, turn)
            return x

        x = self.in_segments(x, segment, run)
        with machine.inside("head"):
            return eager.linear(self.norm("norm", x), self.head)

    def _rotation(self, position: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
        machine, half = self.machine, self.config.head_dim // 2
        with machine.inside("rotation"):
            frequency = machine.empty((half,), "fp32", "frequencies")
            angle = machine.empty((position.shape[0], *frequency.shape), "fp32", "angles")
            cos = eager.cast(eager.like(angle, "cosines"), dtype)
            return cos, eager.cast(eager.like(angle, "sines"), dtype)

    def _block(self, block: str, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        attended = [self._attention(f"{block}.attention", self.norm(f"{block}.attention_norm", x), turn)]
        with self.machine.inside(block):
            x = eager.add(x, attended.pop())
        widened = [self._mlp(f"{block}.mlp", self.norm(f"{block}.mlp_norm", x))]
        with self.machine.inside(block):
            return eager.add(x, widened.pop())

    def _mlp(self, mlp: str, x: Tensor) -> Tensor:
        if not self.config.gated_mlp:
            with self.machine.inside(mlp):
                return self.linear(f"{mlp}.down_proj", eager.gelu(self.linear(f"{mlp}.up_proj", x)))
        with self.machine.inside(mlp):
            return self.linear(
                f"{mlp}.down_proj",
                eager.multiply(
                    eager.silu(self.linear(f"{mlp}.gate_proj", x)), self.linear(f"{mlp}.up_proj", x)
                ),
            )

    def _attention(self, attention: str, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        q = self._split(self.linear(f"{attention}.q_proj", x))
        if self.config.qk_norm:
            q = self.norm(f"{attention}.q_norm", q)
        k = self._split(self.linear(f"{attention}.k_proj", x))
        if self.config.qk_norm:
            k = self.norm(f"{attention}.k_norm", k)
        v = self._split(self.linear(f"{attention}.v_proj", x))
        with self.machine.inside(attention):
            if turn is not None:
                q, k = _turned(q, *turn), _turned(k, *turn)
            out = eager.fused_attention(q, k, v) if self.fused else self._eager(q, k, v)
            return self.linear(f"{attention}.o_proj", _joined(out))

    def _split(self, x: Tensor) -> Tensor:
        B, S, width = x.shape
        dim = self.config.head_dim
        return eager.permute(eager.reshape(x, (B, S, width // dim, dim)), (0, 2, 1, 3))

    def _eager(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        (B, H, S, dim), K = q.shape, self.config.num_key_value_heads
        q = eager.reshape(q, (B, K, H // K, S, dim))
        scores = eager.einsum(q, k, "bkgqd", "bkld", "bkgql")
        ones = self.machine.empty((S, S), "bool", "mask")
        later = eager.like(ones, "mask")
        del ones
        weights = eager.softmax(eager.masked_fill(eager.scale(scores), later))
        out = eager.einsum(weights, v, "bkgql", "bkld", "bkgqd")
        return eager.reshape(out, (B, H, S, dim))


def _joined(x: Tensor) -> Tensor:
    B, H, S, dim = x.shape
    return eager.reshape(eager.permute(x, (0, 2, 1, 3)), (B, S, H * dim))


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    halves = eager.reshape(x, (*x.shape[:-1], 2, x.shape[-1] // 2))
    a, b = eager.unbind(eager.permute(halves, (3, 0, 1, 2, 4)))
    return eager.cat(
        [
            eager.subtract(eager.multiply(a, cos), eager.multiply(b, sin)),
            eager.add(eager.multiply(b, cos), eager.multiply(a, sin)),
        ]
    )


# -- optimizers

WALKED = ("sgd", "momentum", "adagrad", "adam", "adamw")


def allocate_optimizer_state(machine: Machine, parameters: Sequence[Tensor], optimizer: str) -> list[Tensor]:
    """What `memory.OPTIMIZERS` says that torch.optim keeps between steps; scalars are FP32 and on the CPU."""
    kept, state = [], OPTIMIZERS[optimizer]
    for tensor in parameters:
        for array in state.arrays:
            name = f"{tensor.record.label} {array}"
            kept.append(machine.empty(tensor.shape, tensor.dtype, name, "optimizer"))
        if not machine.cuda:
            kept += [machine.empty((), "fp32", scalar, "optimizer") for scalar in state.scalars]
    return kept


def optimizer_step(machine: Machine, parameters: Sequence[Tensor], optimizer: str, foreach: bool) -> None:
    """The temporaries of `optimizer.step()` from the second step on.

    SGD and momentum update in place. What the others divide by, a root of a sum or moment, is new memory: of
    every parameter at once with foreach; else of one, while the loop's variable still holds the one before.
    """
    with machine.during("optimizer step", grad=False):
        if optimizer in ("sgd", "momentum"):
            for tensor in parameters:
                with machine.inside(tensor.record.label):
                    machine.scalar(tensor.dtype)
        elif foreach:
            roots = [eager.like(tensor, "root") for tensor in parameters]
            steps = [eager.scale(t) for t in parameters] if optimizer == "adagrad" else []
            machine.scalar(parameters[-1].dtype)
            del roots, steps
        else:
            divisor = None
            for tensor in parameters:
                with machine.inside(tensor.record.label):
                    root = eager.like(tensor, "root")
                    new = root if optimizer == "adagrad" else eager.scale(root, "div")  # √v, or √v/c
                    del root
                    machine.scalar(tensor.dtype)  # + ε
                    divisor = new
                    del new
            del divisor


# -- a step


def training_step(
    machine: Machine,
    network: Network,
    batches: Sequence[tuple[Tensor, Tensor]],
    optimizer: str,
    foreach: bool,
    autocast: str | None,
    segment: int | None,
) -> None:
    """Forward and backward of each microbatch, then the optimizer's step: `networks.training_step`."""
    loss = None  # the one before lives through the next forward
    for number, batch in enumerate(batches, 1):
        of = f" of microbatch {number}" if len(batches) > 1 else ""
        with machine.during(f"forward{of}"), machine.autocasting(autocast):
            new = network.loss(batch, segment)
            if len(batches) > 1:
                new = eager.scale(new, "div")
        loss = new
        del new
        eager.backward(loss)
    optimizer_step(machine, list(network.parameters.values()), optimizer, foreach)


def check_config(config: ModelConfig) -> None:
    """LectureError for what the walk has no part for: what `networks.transformer` lacks, and experts."""
    check_parts(
        config,
        {"num_experts": 0},
        "the course's Transformer, whose activations are walked",
        "; memory.model_states and flops.transformer_forward count such a model",
    )


def check_parts(config: ModelConfig, also: Mapping[str, object], whose: str, instead: str = "") -> None:
    """LectureError for what the course's Transformer has no part for, and for fields other than in `also`."""
    built = {**also, "kv_lora_rank": None, "norms_per_layer": 2, "type_vocab_size": 0, "pooler": False}
    for field, supported in built.items():
        if (got := getattr(a_config(config), field)) != supported:
            raise LectureError(f"expected {field} = {supported} for {whose}; got {got}{instead}")
    if config.value_dim != config.head_dim:
        raise LectureError(f"expected v_head_dim = head_dim = {config.head_dim}; got {config.value_dim}")
    if config.positions == "rotary" and config.head_dim % 2:
        raise LectureError(f"expected an even head_dim for rotary positions; got {config.head_dim}")


def precision(dtype: object, autocast: object | None) -> tuple[str, str | None]:
    """The two formats' names; LectureError for other than FP32, BF16, FP16, or autocast over FP32."""
    name, cast = resolve(dtype).name, None if autocast is None else resolve(autocast).name
    if name not in ("fp32", *HALF) or cast not in (None, *HALF) or (cast and name != "fp32"):
        raise LectureError(
            f"expected fp32, bf16 or fp16, or autocast to bf16 or fp16 over fp32; got dtype {name} and "
            f"autocast {cast}; change one"
        )
    return name, cast


def check_attention(device: str, fused: bool, dtype: str, autocast: str | None) -> None:
    """LectureError for fused attention where CUDA has no kernel for it."""
    if device == "cuda" and fused and (autocast or dtype) not in HALF:
        raise LectureError("expected BF16 or FP16 for fused attention on CUDA; got FP32; say fused=False")
