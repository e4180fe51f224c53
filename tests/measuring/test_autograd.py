import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from lecture_lib.measuring.autograd import Saved, saved_tensors
from lecture_lib.quantity import LectureError, Quantity


def B(value: int) -> Quantity:
    return Quantity(value, "B")


def test_a_linear_layer_keeps_its_input_for_the_weight_gradient_alone() -> None:
    layer, x = nn.Linear(5, 7, bias=False), torch.rand(3, 5)
    assert list(saved_tensors(lambda: layer(x))) == [Saved("Mm: self", (3, 5), "float32", "input", 60)]
    assert saved_tensors(lambda: layer(x)).activations == B(0)


def test_an_input_gradient_needs_the_weight_too() -> None:
    layer, x = nn.Linear(5, 7, bias=False), torch.rand(3, 5, requires_grad=True)
    kept = saved_tensors(lambda: layer(x))
    assert {(row.kind, row.bytes) for row in kept} == {("input", 60), ("parameter", 140)}
    assert kept.total == B(200)


def test_kinds_add_up_and_each_storage_counts_once() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x, target = torch.rand(3, 8), torch.tensor([0, 1, 2])
    kept = saved_tensors(lambda: F.cross_entropy(model(x), target))
    by_kind = kept.by_kind
    assert by_kind["parameters"] == B(
        4 * 16 * 4
    )  # the second weight; the first has no input gradient to give
    assert by_kind["inputs"] == B(3 * 8 * 4 + 3 * 8)  # x and the targets
    # ReLU's result serves ReLU and the second layer; the log-probabilities and their total weight
    assert by_kind["activations"] == B(3 * 16 * 4 + 3 * 4 * 4 + 4)
    assert by_kind.total == kept.total == B(sum(row.bytes for row in kept))
    assert sum(row.shared for row in kept) == 2


def test_a_view_of_a_parameter_is_the_parameter() -> None:
    weight = nn.Parameter(torch.rand(6, 4))
    x = torch.rand(2, 4, requires_grad=True)
    kept = saved_tensors(lambda: x @ weight.T)
    assert [row.kind for row in kept if row.shape == (4, 6)] == ["parameter"]


def test_a_frozen_parameter_is_one_still() -> None:
    layer, x = nn.Linear(5, 7, bias=False).requires_grad_(False), torch.rand(3, 5, requires_grad=True)
    assert [row.kind for row in saved_tensors(lambda: layer(x))] == ["parameter"]


def test_a_model_made_inside_the_function_has_parameters() -> None:
    kept = saved_tensors(lambda: nn.Linear(5, 7, bias=False)(torch.rand(3, 5, requires_grad=True)))
    assert sorted(row.kind for row in kept) == ["activation", "parameter"]


def test_in_place_changes_of_an_input_leave_it_an_input() -> None:
    x, weight = torch.rand(3, 5), nn.Parameter(torch.rand(5, 2))
    assert [row.kind for row in saved_tensors(lambda: x.mul_(2) @ weight)] == ["input"]


def test_fused_attention_keeps_no_scores_and_eager_attention_does() -> None:
    q, k, v = (torch.rand(1, 2, 64, 4, requires_grad=True) for _ in range(3))
    fused = saved_tensors(lambda: F.scaled_dot_product_attention(q, k, v))
    eager = saved_tensors(lambda: (q @ k.mT / 2).softmax(-1) @ v)
    assert (1, 2, 64, 64) not in [row.shape for row in fused]
    assert (1, 2, 64, 64) in [row.shape for row in eager]
    assert fused.activations < eager.activations


def test_a_checkpoint_keeps_its_input_and_computes_nothing_again_while_being_read() -> None:
    norm = nn.BatchNorm1d(8)
    segment = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), norm, nn.Linear(8, 8), nn.ReLU())
    x = torch.rand(4, 8, requires_grad=True)
    kept = saved_tensors(lambda: checkpoint(segment, x, use_reentrant=False).sum())
    assert list(kept) == [Saved("Checkpoint: input", (4, 8), "float32", "input", 128)]
    assert int(norm.num_batches_tracked) == 1
    two = saved_tensors(lambda: checkpoint_sequential(list(segment), 2, x, use_reentrant=False).sum())
    assert [row.keeper for row in two][0] == "Checkpoint: input"


def test_a_reentrant_checkpoint() -> None:
    x = torch.rand(4, 8, requires_grad=True)
    segment = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    kept = saved_tensors(lambda: checkpoint(segment, x, use_reentrant=True).sum())
    assert [(row.keeper, row.kind) for row in kept] == [("CheckpointFunction", "input")]


def test_dtypes_under_autocast() -> None:
    layer, x = nn.Linear(5, 7, bias=False), torch.rand(3, 5)
    with torch.autocast("cpu", torch.bfloat16):
        kept = saved_tensors(lambda: layer(x))
    assert [(row.dtype, row.kind, row.bytes) for row in kept] == [("bfloat16", "activation", 30)]


def test_a_custom_function() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad * b, grad * a

    w = torch.ones(4, requires_grad=True)
    kept = saved_tensors(lambda: Product.apply(w, w * 2))
    assert [(row.keeper, row.kind) for row in kept] == [("Product", "input"), ("Product", "activation")]


def test_what_the_function_drops_is_not_kept() -> None:
    layer, x = nn.Linear(5, 7, bias=False), torch.rand(3, 5)

    def with_a_branch_that_is_dropped() -> torch.Tensor:
        _ = (layer(torch.rand(100, 5)) ** 2).relu()
        return layer(x)

    assert [row.shape for row in saved_tensors(with_a_branch_that_is_dropped)] == [(3, 5)]


def test_reading_leaves_the_gradient_path_as_it_was() -> None:
    layer, x = nn.Linear(5, 7), torch.rand(3, 5)
    saved_tensors(lambda: layer(x).relu().sum())
    assert layer.weight.grad is None
    layer(x).relu().sum().backward()
    assert layer.weight.grad is not None


def test_nothing_is_saved_without_gradients() -> None:
    layer, x = nn.Linear(5, 7), torch.rand(3, 5)
    with torch.no_grad():
        kept = saved_tensors(lambda: layer(x).relu())
    assert len(kept) == 0 and kept.total == B(0)


def test_a_function_that_lost_its_graph_is_refused() -> None:
    layer, x = nn.Linear(5, 7), torch.rand(3, 5)
    with pytest.raises(LectureError, match=r"got float.*return the loss itself"):
        saved_tensors(lambda: layer(x).relu().sum().item())
    with pytest.raises(LectureError, match=r"stops before backward"):
        saved_tensors(lambda: layer(x).relu().sum().backward())
    with pytest.raises(LectureError, match="expected a function to call"):
        saved_tensors(layer(x))  # type: ignore[arg-type]


def test_the_table_names_every_tensor() -> None:
    layer, x = nn.Linear(5, 7, bias=False), torch.rand(3, 5)
    kept = saved_tensors(lambda: layer(x).relu())
    assert "Mm: self" in str(kept) and "3×7" in str(kept) and str(kept) == repr(kept)
    page = kept._repr_html_()
    assert page.startswith("<table><caption>") and '<th scope="row"' in page and '<th scope="col"' in page
