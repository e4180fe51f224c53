"""What autograd keeps: the walk against torch, tensor by tensor; the published forms against their terms."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from lecture_lib.accounting import activations, dtypes
from lecture_lib.accounting.activations import Saved, mlp_saved, transformer_saved
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.measuring.autograd import SavedTensors, saved_tensors
from lecture_lib.networks import mlp, transformer
from lecture_lib.networks.steps import forward_in_segments
from lecture_lib.quantity import LectureError, Quantity

RECIPES = {"fp32": ("fp32", None), "autocast": ("fp32", "bf16"), "bf16": ("bf16", None)}


def config(**changes: object) -> ModelConfig:
    fields: dict[str, object] = {
        "vocab_size": 97,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 6,
        "intermediate_size": 56,
        "max_position_embeddings": 40,
        "tie_word_embeddings": False,
        "gated_mlp": False,
    }
    return ModelConfig(**{**fields, **changes})  # type: ignore[arg-type]


BIASES = dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias"), True)
CONFIGS = {
    "gpt": config(positions="learned", tie_word_embeddings=True, **BIASES),
    "llama": config(gated_mlp=True, num_key_value_heads=2),
    "one key head": config(gated_mlp=True, num_key_value_heads=1, positions="none"),
    "norms of queries and keys": config(gated_mlp=True, num_key_value_heads=2, qk_norm=True),
    "wide heads, biases in q, k, v": config(head_dim=10, qkv_bias=True, positions="learned"),
}


def torch_saves(model: nn.Module, inputs: torch.Tensor, recipe: str, segment: int | None) -> SavedTensors:
    autocast = torch.autocast("cpu", torch.bfloat16) if recipe == "autocast" else contextlib.nullcontext()
    targets = torch.zeros(inputs.shape[: 2 if inputs.dtype == torch.int64 else 1], dtype=torch.int64)

    def loss() -> torch.Tensor:
        with autocast:
            logits = forward_in_segments(model, inputs, segment)  # type: ignore[arg-type]
            return F.cross_entropy(logits.flatten(0, -2), targets.flatten())

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mismatch dtype between input and weight")
        return saved_tensors(loss)


def assert_equal(walked: Saved, measured: SavedTensors) -> None:
    """The same shapes, dtypes and kinds as often, and the same bytes of each kind."""
    ours = Counter((row.shape, row.dtype, row.kind) for row in walked)
    theirs = Counter((row.shape, dtypes.resolve(row.dtype).name, row.kind) for row in measured)
    assert ours == theirs
    assert dict(walked.by_kind) == dict(measured.by_kind)
    assert walked.activations.total == measured.activations


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "eager"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_transformer_keeps_what_torch_keeps(name: str, fused: bool, recipe: str) -> None:
    dtype, autocast = RECIPES[recipe]
    model = transformer(CONFIGS[name], fused=fused, dtype=torch.bfloat16 if dtype == "bf16" else None)
    for batch, seq, segment in ((2, 17, None), (1, 8, None), (3, 5, 1), (2, 17, 2), (1, 3, 3)):
        walked = transformer_saved(
            CONFIGS[name], batch, seq, fused=fused, dtype=dtype, autocast=autocast, segment=segment
        )
        tokens = torch.zeros(batch, seq, dtype=torch.int64)
        assert_equal(walked, torch_saves(model, tokens, recipe, segment))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("bias", "activation"), [*product([False, True], ["relu", "gelu", "silu"])])
def test_a_chain_keeps_what_torch_keeps(bias: bool, activation: str, recipe: str) -> None:
    dtype, autocast = RECIPES[recipe]
    kind = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}[activation]
    torch_dtype = torch.bfloat16 if dtype == "bf16" else torch.float32
    for widths, batch, segment in product([(5, 7), (6, 6, 6, 6, 6), (9, 4, 3)], [1, 8], [None, 1, 2]):
        if segment is not None and segment > len(widths) - 1:
            continue
        model = mlp(widths, bias=bias, activation=kind, dtype=torch_dtype)
        walked = mlp_saved(
            batch,
            widths,
            bias=bias,
            activation=activation,
            dtype=dtype,
            autocast=autocast,
            segment=segment,
        )
        inputs = torch.zeros(batch, widths[0], dtype=torch_dtype)
        assert_equal(walked, torch_saves(model, inputs, recipe, segment))


def test_rows_are_the_tensors_with_their_names_shapes_and_dtypes() -> None:
    kept = mlp_saved(3, (5, 7, 2)).activations
    # ReLU's result serves ReLU and the second product; log-probabilities and their number serve the loss.
    assert {label: int(row) for label, row in kept.items()} == {
        "activation 0: ReluBackward0 result": 3 * 7 * 4,
        "loss: LogSoftmaxBackward0 result": 3 * 2 * 4,
        "loss: NllLossBackward0 total_weight": 4,
    }
    row = kept["activation 0: ReluBackward0 result"]
    assert (row.formula, row.numbers, row.conventions) == ("n_0·n_1·bytes", "3·7·4", ("fp32",))


def test_rows_of_one_name_are_told_apart() -> None:
    kept = transformer_saved(CONFIGS["llama"], 2, 8, segment=1).activations
    assert [label for label in kept if label.startswith("Checkpoint")] == [
        "Checkpoint input",
        "Checkpoint input (2)",
        "Checkpoint input (3)",
    ]


def test_eager_attention_keeps_scores_and_fused_attention_does_not() -> None:
    def square(fused: bool) -> list[tuple[int, ...]]:
        rows = transformer_saved(CONFIGS["gpt"], 2, 17, fused=fused)
        return [row.shape for row in rows if row.shape[-2:] == (17, 17) and row.dtype == "fp32"]

    assert square(True) == []
    # Softmax's result serves softmax and, seen as a batch of matrices, the product with the values.
    assert sorted(square(False)) == sorted(3 * [(2, 4, 1, 17, 17), (8, 17, 17)])


class Operations(TorchDispatchMode):
    """The dtype that each operation's first argument has."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: dict[str, str] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if args and isinstance(args[0], torch.Tensor):
            self.dtypes[func._overloadpacket.__name__] = dtypes.resolve(args[0].dtype).name
        return func(*args, **(kwargs or {}))


def test_the_walk_knows_cudas_autocast_lists() -> None:
    """Fake tensors are on a GPU that need not be there: torch's own dispatcher decides what is cast."""
    before = torch.get_autocast_dtype("cuda")
    with FakeTensorMode():
        x = torch.empty(6, 8, device="cuda", dtype=torch.bfloat16)
        weight, target = torch.empty(8, device="cuda"), torch.empty(6, device="cuda", dtype=torch.int64)
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", torch.bfloat16)
        try:
            with Operations() as ran:
                x.softmax(dim=-1)
                F.layer_norm(x, (8,), weight, weight)
                F.rms_norm(x, (8,), weight)
                F.cross_entropy(x, target)
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.set_autocast_dtype("cuda", before)
    names = {"softmax": "_softmax", "layer_norm": "native_layer_norm", "rms_norm": "pow"}
    names |= {"log_softmax": "_log_softmax", "nll_loss": "nll_loss_forward"}
    assert {name: ran.dtypes[operation] for name, operation in names.items()} == {
        "softmax": "fp32",
        "layer_norm": "fp32",
        "rms_norm": "fp32",
        "log_softmax": "bf16",
        "nll_loss": "fp32",
    }
    walked = transformer_saved(CONFIGS["gpt"], 2, 17, fused=False, autocast="bf16", device="cuda")
    kept = {row.keeper.split(": ")[-1]: row.dtype for row in walked}
    assert kept["SoftmaxBackward0 result"] == kept["NativeLayerNormBackward0 input"] == "fp32"
    assert (kept["LogSoftmaxBackward0 result"], kept["NllLossBackward0 self"]) == ("bf16", "fp32")
    queries = transformer_saved(CONFIGS["norms of queries and keys"], 2, 17, autocast="bf16", device="cuda")
    assert {row.dtype for row in queries if row.keeper.endswith("q_norm: FusedRmsNormBackward0 input")} == {
        "fp32"
    }


def test_on_cuda_a_norm_is_one_kernel_and_autocast_keeps_softmax_in_fp32() -> None:
    def scores(device: str) -> set[str]:
        rows = transformer_saved(CONFIGS["gpt"], 2, 17, fused=False, autocast="bf16", device=device)
        return {row.dtype for row in rows if "Softmax" in row.keeper and row.shape[-1] == 17}

    assert (scores("cpu"), scores("cuda")) == ({"bf16"}, {"fp32"})
    llama = transformer_saved(CONFIGS["llama"], 2, 17, dtype="bf16", device="cuda")
    assert not [row for row in llama if "Pow" in row.keeper]
    assert [row for row in llama if "FusedRmsNorm" in row.keeper]


def test_korthikanti_of_one_layer_is_the_sum_of_the_papers_terms() -> None:
    s, b, h, a = 64, 3, 128, 8
    sbh, scores = s * b * h, a * s * s * b
    attention = 2 * sbh + 4 * sbh + 2 * sbh + 2 * sbh + sbh + (2 + 1 + 2) * scores  # section 4.1
    feed_forward = 2 * sbh + 8 * sbh + 8 * sbh + sbh
    norms = 2 * sbh + 2 * sbh
    assert int(activations.layer_activations(s, b, h, a)) == attention + feed_forward + norms
    none, selective, full = (
        int(activations.layer_activations(s, b, h, a, recompute=kind)) for kind in activations.RECOMPUTE
    )
    assert (none - selective, full) == (5 * scores, 2 * sbh)
    assert none - selective == float(activations.selective_saving(s, h, a)) * none


def test_parallelism_divides_what_it_should() -> None:
    plain = activations.layer_activations(64, 3, 128, 8)
    assert (
        activations.layer_activations(64, 3, 128, 8, tensor_parallel=4, sequence_parallel=True) * 4 == plain
    )
    tensor = activations.layer_activations(64, 3, 128, 8, tensor_parallel=4)
    assert 4 * int(tensor) - int(plain) == 3 * 10 * 64 * 3 * 128  # norms and dropouts are on every rank
    assert activations.pipeline_activations(plain, 12, 4) == 12 * plain
    assert activations.pipeline_activations(plain, 12, 4, 3) == 15 * plain


def test_the_overhead_as_published_is_three_times_one_repeated_forward() -> None:
    s, h, L, V = 2048, 12288, 96, 51200
    published = activations.selective_overhead_as_published(s, h, L, V)
    assert float(published) == pytest.approx(s / (6 * h) / (1 + s / (6 * h) + V / (12 * h * L)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mlp_saved(0, (3, 4)), "batch"),
        (lambda: mlp_saved(2, (3,)), "at least two widths"),
        (lambda: mlp_saved(2, (3, 4), activation="rely"), "did you mean 'relu'"),
        (lambda: mlp_saved(2, (3, 4), segment=2), "segment of 1 to 1"),
        (lambda: mlp_saved(2, (3, 4), dtype="fp8_e4m3"), "expected fp32, bf16 or fp16"),
        (lambda: mlp_saved(2, (3, 4), dtype="bf16", autocast="bf16"), "over fp32"),
        (lambda: transformer_saved(CONFIGS["gpt"], 2, 2.5), "whole number for seq"),  # type: ignore[arg-type]
        (lambda: transformer_saved(CONFIGS["gpt"], 2, 3, device="cuda"), "fused attention on CUDA"),
        (lambda: transformer_saved(CONFIGS["gpt"], 2, 3, device="tpu"), "device of 'cpu', 'cuda'"),
        (lambda: activations.layer_activations(8, 1, 8, 1, recompute="some"), "recompute of 'none'"),
        (lambda: activations.pipeline_activations(Quantity(1, "s"), 2), "expected layer in B"),
    ],
)
def test_bad_input(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LectureError, match=message):
        call()
