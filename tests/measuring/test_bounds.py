from __future__ import annotations

import pytest

from lecture_lib.accounting.operators import gemm, relu
from lecture_lib.measuring.bounds import beside_bounds
from lecture_lib.quantity import LectureError, Quantity

PEAK, BANDWIDTH = Quantity(100, "FLOP/s"), Quantity(10, "B/s")


def test_each_time_stands_beside_its_bound() -> None:
    costs = {"ReLU": relu(10), "product": gemm(100, 100, 100)}  # 40 B: 4 s; 2,000,000 FLOP: 20,000 s
    shown = beside_bounds(
        costs, {"ReLU": Quantity(8, "s"), "product": Quantity(15_000, "s")}, PEAK, BANDWIDTH
    )
    assert shown.ratios == {"ReLU": 2.0, "product": 0.75}
    text = str(shown).splitlines()
    assert text[0] == "At 100 FLOP/s and 10 B/s"
    assert text[2].split() == ["ReLU", "0.25", "FLOP/B", "bandwidth", "4", "s", "8", "s", "2"]
    assert "arithmetic" in text[3] and text[3].endswith("0.75")
    page = shown._repr_html_()
    assert "<caption>At 100 FLOP/s and 10 B/s</caption>" in page and '<th scope="row"' in page


@pytest.mark.parametrize("measured", [{}, {"GELU": Quantity(1, "s")}])
def test_every_operator_needs_its_time(measured: dict[str, Quantity]) -> None:
    with pytest.raises(LectureError, match="a time for each of ReLU"):
        beside_bounds({"ReLU": relu(10)}, measured, PEAK, BANDWIDTH)
