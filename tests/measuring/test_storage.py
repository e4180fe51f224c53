import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from lecture_lib.measuring.storage import allocated_and_reserved, keeps_alive, logical_bytes, storage_bytes
from lecture_lib.quantity import LectureError, Quantity


def B(value: int) -> Quantity:
    return Quantity(value, "B")


def test_views_add_nothing_to_storage_and_all_to_logical_bytes() -> None:
    x = torch.zeros(6, 4)
    views = [x, x.T, x[1:3], x[0].expand(5, 4), x.view(24), x.detach()]
    assert logical_bytes(*views) == B(4 * (24 + 24 + 8 + 20 + 24 + 24))
    assert storage_bytes(*views) == B(96)
    assert storage_bytes(x, x.clone()) == B(192)


def test_a_small_view_keeps_the_whole_storage() -> None:
    x = torch.zeros(1000, dtype=torch.float64)
    kept = keeps_alive(x[:1])
    assert kept == B(8000) and kept.name == "kept alive by a tensor of 8 B"
    assert keeps_alive(x[:1].clone()) == B(8)


def test_tied_weights_count_once_in_storage() -> None:
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10, bias=False))
    model[1].weight = model[0].weight
    assert storage_bytes(model) == B(160)
    assert logical_bytes(model) == B(320)


def test_buffers_count() -> None:
    norm = nn.BatchNorm1d(8)  # weight, bias, running mean and variance in FP32, one int64 counter
    assert storage_bytes(norm) == B(4 * 32 + 8)


@pytest.mark.parametrize(
    ("make", "arrays", "scalars"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), 0, 0),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 1, 0),
        (lambda p: torch.optim.Adagrad(p), 1, 1),
        (lambda p: torch.optim.AdamW(p), 2, 1),
        (lambda p: torch.optim.AdamW(p, amsgrad=True), 3, 1),
    ],
)
def test_an_optimizer_counts_its_state(make, arrays: int, scalars: int) -> None:
    layer = nn.Linear(10, 10)
    optimizer = make(layer.parameters())
    layer(torch.ones(1, 10)).sum().backward()
    optimizer.step()
    expected = B(arrays * 440 + scalars * 2 * 4)
    assert storage_bytes(optimizer) == expected
    assert storage_bytes(optimizer.state_dict()["state"]) == expected
    assert storage_bytes([p.grad for p in layer.parameters()]) == B(440)
    assert storage_bytes(layer, optimizer) == B(440) + expected


def test_containers_of_any_shape() -> None:
    x = torch.zeros(4)
    nested: dict[str, object] = {"a": [x, (x, {"b": x})], "lr": 0.1, "name": "x", "none": None}
    nested["itself"] = nested
    assert storage_bytes(nested) == B(16)
    assert storage_bytes(value for value in [x, torch.zeros(2)]) == B(24)
    assert storage_bytes([]) == B(0) and storage_bytes() == B(0)


def test_one_memory_behind_two_storages_counts_once() -> None:
    array = np.zeros(100, dtype=np.float32)
    first, second = torch.from_numpy(array), torch.from_numpy(array[50:])
    assert first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr()
    assert storage_bytes(first, second) == B(400)
    assert storage_bytes(torch.from_numpy(array[:60]), second) == B(400)


def test_gaps_between_storages_are_not_counted() -> None:
    array = np.zeros(100, dtype=np.float32)
    assert storage_bytes(torch.from_numpy(array[:10]), torch.from_numpy(array[90:])) == B(80)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_are_their_indices_and_values() -> None:
    eye = torch.eye(10)
    assert storage_bytes(eye.to_sparse()) == B(2 * 10 * 8 + 10 * 4)
    assert logical_bytes(eye.to_sparse()) == B(400)
    ends, places, values = torch.arange(11), torch.arange(10), torch.ones(10)
    assert storage_bytes(torch.sparse_csr_tensor(ends, places, values, (10, 10))) == B(
        11 * 8 + 10 * 8 + 10 * 4
    )
    assert storage_bytes(torch.sparse_csc_tensor(ends, places, values, (10, 10))) == B(
        11 * 8 + 10 * 8 + 10 * 4
    )
    ends, places, blocks = torch.arange(3), torch.arange(2), torch.ones(2, 5, 5)
    assert storage_bytes(torch.sparse_bsr_tensor(ends, places, blocks, (10, 10))) == B(3 * 8 + 2 * 8 + 50 * 4)
    assert storage_bytes(torch.sparse_bsc_tensor(ends, places, blocks, (10, 10))) == B(3 * 8 + 2 * 8 + 50 * 4)


def test_nested_tensors_are_their_parts() -> None:
    jagged = torch.nested.nested_tensor([torch.ones(3), torch.ones(5)], layout=torch.jagged)
    assert storage_bytes(jagged) == B(8 * 4 + 3 * 8)


def test_a_layout_whose_storage_cannot_be_read_is_refused() -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    with pytest.raises(LectureError, match="strided or sparse"):
        storage_bytes(torch.ones(3, 3).to_mkldnn())


def test_meta_tensors_count_what_they_would_hold() -> None:
    layer = nn.Linear(10, 10, device="meta")
    counted = storage_bytes(layer, layer.weight.T)
    assert counted == B(440) and "would hold" in " ".join(counted.conventions)


def test_fake_cuda_tensors_count_once_without_a_gpu() -> None:
    with FakeTensorMode():
        x = torch.empty(100, 100, device="cuda")
        y = x.T
        assert y.device.type == "cuda"
        assert storage_bytes(x, y) == B(40_000)
        assert storage_bytes(x, torch.empty(5, device="cuda")) == B(40_020)
    assert storage_bytes([x, {"view": y}]) == B(40_000)


@pytest.mark.parametrize("thing", [3, "84 GB", None, 0.5])
def test_a_number_or_text_alone_holds_no_tensor(thing: object) -> None:
    with pytest.raises(LectureError, match="expected tensors, modules, optimizers"):
        storage_bytes(thing)


def test_an_array_is_refused_with_the_way_out() -> None:
    with pytest.raises(LectureError, match=r"got ndarray; .*torch\.from_numpy"):
        storage_bytes([np.zeros(3)])
    with pytest.raises(LectureError, match="expected a tensor; got ndarray"):
        keeps_alive(np.zeros(3))  # type: ignore[arg-type]


def test_an_allocators_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 512)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 2**21)
    reading = allocated_and_reserved("cuda:0")
    assert (reading.allocated, reading.reserved) == (B(512), B(2**21))
    with pytest.raises(LectureError, match="expected a CUDA device; got cpu"):
        allocated_and_reserved("cpu")
