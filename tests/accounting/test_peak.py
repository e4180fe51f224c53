"""The walk's own rules: small steps worked out by hand, laws that any step obeys, and what is refused.

`tests/measuring/test_peak.py` holds it against torch.
"""

from __future__ import annotations

import random

import pytest
import torch

from lecture_lib.accounting import eager
from lecture_lib.accounting.eager import Machine, view_strides
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.accounting.peak import cublas_workspaces, mlp_peak, transformer_peak
from lecture_lib.quantity import LectureError, Quantity

CONFIG = ModelConfig(
    vocab_size=40,
    hidden_size=24,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    intermediate_size=40,
    max_position_embeddings=32,
    tie_word_embeddings=False,
    gated_mlp=True,
)


def test_one_layer_by_hand() -> None:
    """x (M, d_in) → logits (M, C): the peak is at the backward of log-softmax."""
    M, d_in, C = 50, 3, 20
    peak = mlp_peak(M, (d_in, C))
    inputs, weight, logits = 4 * M * d_in + 8 * M, 4 * d_in * C, 4 * M * C
    # Log-probabilities, their gradient and the logits' gradient; the loss and the gradient it starts from.
    assert int(peak.total) == inputs + weight + 3 * logits + 4 + 4
    assert {row: int(q) for row, q in peak.by_category.items()} == {
        "parameters": weight,
        "gradients": 0,
        "optimizer": 0,
        "inputs": inputs,
        "activations": logits,
        "temporaries": 2 * logits + 8,
    }
    assert peak.moment == "backward: loss (log_softmax backward)"
    assert {label: int(size) for label, size in list(peak.tensors.items())[:3]} == {
        "loss: log_softmax [activations]": logits,
        "loss: nll_loss backward [temporaries]": logits,
        "loss: log_softmax backward [temporaries]": logits,
    }


@pytest.mark.parametrize(
    ("optimizer", "foreach", "temporaries"),
    [
        ("sgd", False, 12),  # a Python number, and its copy in FP32
        ("momentum", True, 12),
        ("adagrad", False, 4 * 700 * 30 + 4 * 30 * 20 + 12),  # the root of this sum, and of the one before
        ("adagrad", True, 2 * 4 * (700 * 30 + 30 * 20) + 12),  # roots, and gradients times the rate
        ("adam", True, 4 * (700 * 30 + 30 * 20) + 12),  # √v of every parameter
        ("adamw", False, 2 * 4 * 700 * 30 + 12),  # √v and √v/c + ε of the larger one
    ],
)
def test_the_optimizers_step_by_hand(optimizer: str, foreach: bool, temporaries: int) -> None:
    peak = mlp_peak(1, (700, 30, 20), optimizer=optimizer, foreach=foreach)
    P = 4 * (700 * 30 + 30 * 20)
    if optimizer in ("adagrad", "adam", "adamw"):
        assert peak.moment.startswith("optimizer step")
        assert int(peak.by_category["temporaries"]) == temporaries + 4  # the loss is a variable still
        assert int(peak.by_category["optimizer"]) == (1 if optimizer == "adagrad" else 2) * P + 2 * 4
    else:
        assert not peak.moment.startswith("optimizer step")
        assert int(peak.by_category["optimizer"]) == (P if optimizer == "momentum" else 0)


def test_from_the_second_microbatch_on_gradients_live_through_the_forward() -> None:
    many, one = (
        {K: mlp_peak(64 * K, (30, 400, 400, 10), microbatches=K) for K in (2, 3)},
        mlp_peak(64, (30, 400, 400, 10)),
    )
    P = 4 * (30 * 400 + 400 * 400 + 400 * 10)
    assert "microbatch" not in one.moment
    assert int(many[2].by_category["gradients"]) == P
    # A third one adds only its data.
    assert int(many[3].total) - int(many[2].total) == 64 * (4 * 30 + 8)


def test_a_small_models_total_can_rise_with_accumulation() -> None:
    """Activations fall by K; where gradients outweigh them, the total rises."""
    wide = {K: mlp_peak(32, (512, 512, 512, 10), microbatches=K) for K in (1, 4)}
    tall = {K: mlp_peak(4096, (32, 32, 32, 10), microbatches=K) for K in (1, 4)}
    assert wide[4].total > wide[1].total and tall[4].total < tall[1].total
    assert tall[4].by_category["activations"] < tall[1].by_category["activations"]
    assert wide[4].by_category["gradients"] == wide[1].by_category["parameters"]


@pytest.mark.parametrize("recipe", [{}, {"autocast": "bf16"}, {"dtype": "bf16"}], ids=["fp32", "amp", "bf16"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_rows_add_up_and_the_live_tensors_are_the_total(device: str, recipe: dict[str, str]) -> None:
    for segment in (None, 1, 2, 4):
        peak = transformer_peak(
            CONFIG, 4, 20, fused=False, segment=segment, microbatches=2, device=device, **recipe
        )  # type: ignore[arg-type]
        assert peak.by_category.total == peak.total == peak.tensors.total
        assert list(peak.tensors.values()) == sorted(peak.tensors.values(), reverse=True)
        assert all(int(row) >= 0 for row in peak.by_category.values())


def test_nothing_of_a_walk_is_left_but_what_a_step_leaves() -> None:
    """Every storage that the step made is freed by its end, the gradients excepted."""
    from lecture_lib.accounting import steps

    for segment in (None, 1, 3):
        machine = Machine()
        network = steps.Transformer(machine, CONFIG, True, "fp32")
        data = machine.empty((2, 16), "int64", "tokens", "inputs"), machine.empty((32,), "int64", "targets")
        before = machine.live
        steps.training_step(machine, network, [data], "sgd", False, "bf16", segment)
        gradients = sum(p.grad.elements * 4 for p in network.parameters.values() if p.grad is not None)
        assert machine.live == before + gradients
        assert gradients == sum(p.elements * 4 for p in network.parameters.values())


def test_segments_of_all_layers_keep_one_boundary_and_compute_all_again() -> None:
    peaks = {k: transformer_peak(CONFIG, 8, 32, optimizer="sgd", segment=k) for k in (None, 1, 2, 4)}
    assert peaks[1].total < peaks[2].total < peaks[4].total
    assert peaks[1].total < peaks[None].total
    assert peaks[1].by_category["parameters"] == peaks[None].by_category["parameters"]


def test_on_cuda_blocks_are_rounded_and_workspaces_are_a_row() -> None:
    plain = {device: mlp_peak(7, (5, 6, 3), device=device) for device in ("cpu", "cuda")}
    assert all(int(row) % 512 == 0 for row in plain["cuda"].tensors.values())
    assert plain["cuda"].total > plain["cpu"].total
    hopper = cublas_workspaces(9)
    assert hopper == 2 * Quantity(32, "MiB")
    assert cublas_workspaces(8, handles=1) == Quantity(8, "MiB") + Quantity(128, "KiB")
    with_row = transformer_peak(CONFIG, 2, 8, dtype="bf16", device="cuda", workspaces=hopper)
    without = transformer_peak(CONFIG, 2, 8, dtype="bf16", device="cuda")
    assert with_row.total - without.total == hopper == with_row.by_category["workspaces"]
    assert "workspaces" not in without.by_category


def test_threads_add_their_scratch_alone() -> None:
    one, two = (transformer_peak(CONFIG, 2, 32, optimizer="sgd", threads=n).total for n in (1, 2))
    assert Quantity(0, "B") <= two - one < Quantity(100, "KiB")


def test_it_shows_itself() -> None:
    peak = transformer_peak(CONFIG, 2, 8)
    assert "activations" in str(peak) and str(peak) == repr(peak) and "\nat " in str(peak)
    assert peak._repr_html_().startswith("<table>") and peak.moment.split(":")[0] in peak._repr_html_()


def test_a_reference_shared_or_alone_is_told_apart() -> None:
    """What decides whether gradients are added in place; the count that Python gives differs by version."""
    alone, shared = [object()], [object()]
    other = shared[0]
    assert eager._alone(alone, 0) and not eager._alone(shared, 0)
    del other
    assert eager._alone(shared, 0)


# -- layouts, against torch's


def test_views_are_views_where_torchs_are() -> None:
    """reshape of a permuted tensor is a view, or a copy, and has strides, as torch's is and has."""
    rng = random.Random(0)
    seen = set()
    for _ in range(2000):
        shape = [rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(1, 4))]
        order = rng.sample(range(len(shape)), len(shape))
        tensor = torch.empty(shape).permute(order)
        wanted = list(tensor.shape)
        for _ in range(rng.randint(0, 2)):  # merge two neighbours, or split one
            i = rng.randrange(len(wanted))
            if rng.random() < 0.5 and i + 1 < len(wanted):
                wanted[i : i + 2] = [wanted[i] * wanted[i + 1]]
            elif wanted[i] % 2 == 0:
                wanted[i : i + 1] = [2, wanted[i] // 2]
        try:
            theirs = tensor.view(wanted)
        except RuntimeError:
            theirs = None
        ours = view_strides(tensor.shape, tensor.stride(), wanted)
        assert (ours is None) == (theirs is None), (shape, order, wanted)
        seen.add(theirs is None)
        if theirs is not None and ours is not None:
            kept = [i for i, n in enumerate(wanted) if n != 1]
            assert [ours[i] for i in kept] == [theirs.stride()[i] for i in kept]
    assert seen == {True, False}


def test_dense_copies_keep_the_order_of_axes() -> None:
    machine = Machine()
    x = eager.permute(machine.empty((2, 3, 4, 5), "fp32", "x"), (2, 0, 3, 1))
    theirs = torch.empty_like(torch.empty(2, 3, 4, 5).permute(2, 0, 3, 1))
    assert eager.like(x, "copy").strides == theirs.stride()


def test_gradients_of_the_walk_have_the_parameters_shapes() -> None:
    machine = Machine()
    x = machine.empty((4, 6), "fp32", "x")
    w, b = machine.leaf((5, 6), "fp32", "w"), machine.leaf((5,), "fp32", "b")
    eager.backward(eager.cross_entropy(eager.linear(x, w, b), machine.empty((4,), "int64", "y")))
    assert w.grad is not None and b.grad is not None
    assert (w.grad.shape, b.grad.shape) == ((5, 6), (5,))
    assert {r.label for r in machine.records if r.category == "gradients"} == {"w.grad", "b.grad"}


# -- refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mlp_peak(10, (3, 4), microbatches=3), "a batch that 3 microbatches divide; got 10"),
        (
            lambda: mlp_peak(10, (3, 4), optimizer="lion"),
            "optimizer of 'sgd', 'momentum', 'adagrad', 'adam', 'adamw'",
        ),
        (lambda: mlp_peak(10, (3, 4), device="mps"), "device of 'cpu', 'cuda'"),
        (lambda: mlp_peak(10, (3, 4), threads=0), "threads"),
        (lambda: mlp_peak(10, (3, -4)), "widths"),
        (lambda: mlp_peak(10, (3, 4), dtype="int8"), "expected fp32, bf16 or fp16"),
        (lambda: mlp_peak(10, (3, 4), segment=0), "segment"),
        (lambda: transformer_peak(CONFIG, 2, 33), "max_position_embeddings = 32"),
        (lambda: transformer_peak(CONFIG, 2, 8, device="cuda"), "fused attention on CUDA"),
        (lambda: transformer_peak(CONFIG, 2, 8, workspaces=Quantity(1, "s")), "workspaces"),
        (lambda: transformer_peak(CONFIG, 2, 8, segment=5), "segment of 1 to 4"),
        (lambda: cublas_workspaces(0), "compute_capability"),
    ],
)
def test_bad_input(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LectureError, match=message):
        call()


def test_a_model_without_a_network_is_refused() -> None:
    from lecture_lib.accounting.models import load

    with pytest.raises(LectureError, match="num_experts = 0 for the course's Transformer"):
        transformer_peak(load("mixtral-8x7b"), 1, 8)
