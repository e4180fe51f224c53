from __future__ import annotations

from typing import Any

import pytest
import torch

from lecture_lib.exercises import drivers
from lecture_lib.exercises.evidence import collect, reference_values
from lecture_lib.quantity import LectureError


def array(nested: Any, dtype: str = "float32") -> dict[str, Any]:
    return {"array": nested, "dtype": dtype}


def values(driver: str, answer: Any, case: dict[str, Any]) -> Any:
    return reference_values("driver", driver, answer, [case])[0]


def test_an_unknown_driver_says_which_there_are() -> None:
    with pytest.raises(LectureError, match="call, einops"):
        drivers.get("nothing")


def test_call_takes_tensors_by_name() -> None:
    def linear_backward(X, W, G):
        return G @ W, G.T @ X

    case = {
        "X": array([[1.0, 2.0]]),
        "W": array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        "G": array([[1.0, 1.0, 1.0]]),
    }
    dX, dW = values("call", linear_backward, case)["tuple"]
    assert dX["array"]["values"] == [2.0, 2.0] and dW["array"]["shape"] == [3, 2]


def test_einops_patterns() -> None:
    case = {"X": array([[1.0, 2.0]]), "W": array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])}
    assert values("einops", "m i, o i -> m o", case)["array"] == {
        "dtype": "float32",
        "shape": [1, 3],
        "values": [1, 2, 3],
    }
    split = {"X": array([[1.0, 2.0, 3.0, 4.0]]), "operation": "rearrange", "h": 2}
    assert values("einops", "b (h d) -> h b d", split)["array"]["shape"] == [2, 1, 2]
    mean = {"X": array([[1.0, 3.0]]), "operation": "mean"}
    assert values("einops", "b d -> b", mean)["array"]["values"] == [2.0]


@pytest.mark.parametrize(
    ("answer", "words"), [("m k -> k m q", "q"), (3, "in quotes"), (lambda: 1, "in quotes")]
)
def test_a_wrong_pattern_is_an_error_in_words(answer: Any, words: str) -> None:
    row = collect("driver", answer, [{"X": array([[1.0]]), "operation": "rearrange"}], driver="einops").rows[
        0
    ]
    assert row.error is not None and words in row.error.message


STEP = {
    "widths": [3, 4, 2],
    "seed": 0,
    "learning_rate": 0.125,
    "X": array([[1.0, 2.0, 3.0], [0.5, 0.25, 1.0]]),
    "Y": array([[1.0, 0.0], [0.0, 1.0]]),
}


def right_step(model, optimizer, X, Y):
    optimizer.zero_grad()
    ((model(X) - Y) ** 2).mean().backward()
    optimizer.step()


def test_a_training_step_shows_in_the_parameters() -> None:
    def no_zero_grad(model, optimizer, X, Y):
        ((model(X) - Y) ** 2).mean().backward()
        optimizer.step()

    def no_step(model, optimizer, X, Y):
        optimizer.zero_grad()
        ((model(X) - Y) ** 2).mean().backward()

    right, again = values("training_step", right_step, STEP), values("training_step", right_step, STEP)
    forgot, stood = values("training_step", no_zero_grad, STEP), values("training_step", no_step, STEP)
    assert right == again
    assert right[0] == forgot[0] and right[1] != forgot[1], "a forgotten zero_grad shows in the second step"
    assert stood[0] == stood[1] != right[0]


def test_the_models_weights_do_not_hang_on_torchs_seed() -> None:
    torch.manual_seed(1)
    one = drivers.small_mlp([3, 4, 2], seed=5)
    torch.manual_seed(2)
    two = drivers.small_mlp([3, 4, 2], seed=5)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert [type(layer).__name__ for layer in one] == ["Linear", "ReLU", "Linear"]
    assert not torch.equal(one[0].weight, drivers.small_mlp([3, 4, 2], seed=6)[0].weight)


def test_what_a_result_keeps_is_asked_of_tensors_only() -> None:
    case = {"batch": 1, "position": 2, "feature": 3}
    kept = values("kept_by_result", lambda hidden: hidden[:, -1], case)
    assert dict(kept["dict"])["bytes kept alive"] == 24
    [row] = collect("driver", lambda hidden: [hidden[:, -1]], [case], "kept_by_result").rows
    assert row.error is not None and "expected a tensor from your function; got list" in row.error.message
    [row] = collect("driver", lambda hidden: print(end=""), [case], "kept_by_result").rows
    assert row.error is None and row.value is None


def test_block_quantizer_scales_back_where_each_value_has_its_scale() -> None:
    case = {"values": array([[3.0, 1.0, -4.0], [0.5, 8.0, 2.0]]), "block": 2, "element": "fp4_e2m1"}

    def halves(values, block, element):
        return [value / 2 for value in values], [2.0] * -(-len(values) // block)

    rows = [dict(row["dict"]) for row in values("block_quantizer", halves, case)]
    assert [row["values"] for row in rows] == [[3.0, 1.0, -4.0], [0.5, 8.0, 2.0]]
    assert rows[0]["scales"] == [2.0, 2.0]

    def one_scale(values, block, element):
        return torch.tensor(values), (1.0,)

    (row, _) = (dict(row["dict"]) for row in values("block_quantizer", one_scale, case))
    assert row["scales"] == [1.0] and "values" not in row
    assert values("block_quantizer", lambda values, block, element: 7, case) == 7


def test_optimizer_steps_hand_on_what_is_returned() -> None:
    def counted(w, g, m, v, t, eta):
        return w - eta * t * g, m + g, v + t

    case = {
        "w": array([1.0, 2.0], "float64"),
        "gradients": array([[1.0, 0.0], [1.0, 1.0]], "float64"),
        "keeps": "m v t",
        "eta": 0.5,
    }
    found = {name: value["array"] for name, value in values("optimizer_steps", counted, case)["dict"]}
    assert found["w"] == {"dtype": "float64", "shape": [2, 2], "values": [0.5, 2.0, -0.5, 1.0]}
    assert found["m"]["values"] == [2.0, 1.0] and found["v"]["values"] == [3.0, 3.0]


def test_optimizer_steps_say_what_should_be_returned() -> None:
    case = {"w": array([1.0], "float64"), "gradients": array([[1.0]], "float64"), "keeps": "s"}
    for answer in (lambda w, g, s: w, lambda w, g, s: (w, s, g), lambda w, g, s: (w,)):
        row = collect("driver", answer, [case], driver="optimizer_steps").rows[0]
        assert row.error is not None and "expected w, s to be returned" in row.error.message
    assert collect("driver", lambda w, g, s: ..., [case], driver="optimizer_steps").blank


def test_after_one_step_there_are_gradients_and_state_where_layers_train() -> None:
    def seen(model, optimizer):
        return {
            "dtypes": sorted({str(p.dtype) for p in model.parameters()}),
            "without gradient": sum(p.grad is None for p in model.parameters()),
            "with state": len(optimizer.state),
        }

    case = {"widths": [2, 3, 4, 5], "dtype": "bfloat16", "optimizer": "AdamW", "frozen": 1}
    found = dict(map(tuple, values("after_one_step", seen, case)["dict"]))
    assert found == {"dtypes": ["torch.bfloat16"], "without gradient": 2, "with state": 4}


def test_an_asynchronous_device_works_while_the_host_goes_on() -> None:
    case = {"launch": 10, "pending": 500, "durations": [70, 90], "warmup": 0, "repeats": 0}

    def readings(work, device, warmup, repeats):
        times = [device.now()]
        work()
        times.append(device.now())  # launched, behind what is pending
        device.synchronize()
        times.append(device.now())
        work()
        device.synchronize()
        device.synchronize()  # nothing more to wait for
        times.append(device.now())
        work()
        device.synchronize()
        return [*times, device.now()]  # the last duration again

    assert values("asynchronous_device", readings, case) == [0, 10, 570, 670, 770]


def test_accumulated_gradients_are_those_that_the_function_leaves() -> None:
    import torch

    inputs = {
        "widths": [2, 3, 2],
        "seed": 1,
        "rows": [1, 2],
        "X": torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.5, 1.5]], dtype=torch.float64),
        "Y": torch.tensor([0, 1, -100]),
    }
    sizes = []

    def last_only(model: Any, batches: Any) -> None:
        sizes.extend(len(X) for X, _ in batches)
        X, Y = batches[-1]
        torch.nn.functional.cross_entropy(model(X), Y).backward()

    run = drivers.get("accumulated_gradients").run
    made = run(last_only, inputs)
    assert sizes == [1, 2] and made.shape == (17,) and made.dtype == torch.float64
    assert run(lambda model, batches: ..., inputs) is ...
    with pytest.raises(ValueError, match="call backward"):
        run(lambda model, batches: None, inputs)

    def all_at_once(model: Any, batches: Any) -> None:
        sum(torch.nn.functional.cross_entropy(model(X), Y, reduction="sum") for X, Y in batches).backward()

    def one_batch(model: Any, batches: Any) -> None:
        X, Y = (torch.cat(parts) for parts in zip(*batches, strict=True))
        torch.nn.functional.cross_entropy(model(X), Y).backward()

    def with_an_update(model: Any, batches: Any) -> None:
        last_only(model, batches)
        torch.optim.SGD(model.parameters(), lr=0.1).step()

    for function, said in (
        (all_at_once, "one microbatch"),
        (one_batch, "one microbatch"),
        (with_an_update, "no update"),
    ):
        with pytest.raises(ValueError, match=said):
            run(function, inputs)


def test_segments_are_computed_again_after_the_output() -> None:
    def forward(layers: Any, x: Any, k: int, checkpoint: Any) -> Any:
        for first in range(0, len(layers), k):
            x = checkpoint(lambda x: layers[first](x), x)  # noqa: B023  the slip that it must show
        return x

    made = drivers.get("segment_checkpoints").run(forward, {"layers": [[2, 1], [3, 5]], "x": 3, "k": 1})
    assert made == {"output": 26, "kept": [3, 7], "computed again": [26, 14]}
