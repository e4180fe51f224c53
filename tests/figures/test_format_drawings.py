"""Pictures of number formats: what they refuse, and how they follow a slider."""

import pytest

from lecture_lib.figures.dtypes import bit_layout, flipped_bit, range_and_spacing, running_sums, survivors
from lecture_lib.figures.widgets import menu, slider, widget
from lecture_lib.quantity import LectureError


def test_impossible_pictures_are_refused() -> None:
    with pytest.raises(LectureError, match="at most 32 bits"):
        bit_layout(1.0, ["fp64"])
    with pytest.raises(LectureError, match="one to six formats"):
        bit_layout(1.0, [])
    with pytest.raises(LectureError, match=r"BF16's bits, 0 \(the last\) to 15; got 16"):
        flipped_bit("bf16", 1.0, 16)
    with pytest.raises(LectureError, match="one to 5 formats"):
        range_and_spacing([])
    with pytest.raises(LectureError, match="2 to 10,000 additions"):
        running_sums(["bf16"], 1)


def test_a_flipped_bit_follows_its_controls() -> None:
    made = widget(
        flipped_bit,
        dtype=menu("format", ["bf16", "fp32"], "bf16"),
        value=menu("value", [1.0, -6.5], 1.0),
        bit=slider("flipped bit", list(range(32)), 14),
    )
    first = made.html
    assert "bit 14 flipped: 0 11111111 0000000 is inf" in first
    made.controls["bit"].value = 31
    assert made.text.startswith("Not possible: expected one of BF16's bits")
    made.controls["dtype"].value = "fp32"
    assert "bit 31 flipped: 1 01111111 00000000000000000000000 is -1" in made.html
    made.controls["dtype"].value = "bf16"
    made.controls["bit"].value = 14
    assert made.html == first  # nothing of another picture is left on it


def test_survivors_follow_their_controls() -> None:
    made = widget(
        survivors,
        value=slider("value", [1e-8, 1.0], 1.0),
        update=slider("update added", [0.002, 0.1], 0.002),
    )
    assert "BF16: 1, then 1, update is lost" in made.html
    made.controls["value"].value = 1e-8
    assert "FP16: 0, then 0.002000809, value becomes 0" in made.html
