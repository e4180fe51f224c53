from __future__ import annotations

import html.parser
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import toys

from lecture_lib.exercises import CheckFailed, check, definition, hint, memory, progress
from lecture_lib.exercises.checking import MIME


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "exercises"
    toys.write_bank(
        folder,
        toys.quantity_exercise(),
        toys.choice_exercise(),
        toys.tensor_exercise(),
        toys.function_exercise(),
        toys.function_exercise(
            id="4.2", points=3, minutes=8, level="stretch", title="A <b>bold</b> & long title" * 3
        ),
    )
    monkeypatch.setattr(definition, "FOLDER", folder)
    return folder


def half(M, d_in, d_out):
    return M * d_in * d_out


def text(thing: Any) -> str:
    return " ".join(repr(thing).split())


# -- check


def test_the_four_outcomes() -> None:
    assert check("4.1", toys.linear_flops).outcome == "passed"
    assert check("4.1", half).outcome == "wrong"
    assert check("4.1", lambda M, d_in, d_out: 1 / 0).outcome == "error"
    assert check("4.1", ...).outcome == "not_attempted"


def test_what_a_terminal_shows() -> None:
    assert repr(check("4.1", half)) == (
        "Wrong · 4.1 Count one linear layer\n"
        "  A multiply and its add are two FLOPs; with M=3 you counted one.\n"
        '  hint("4.1") opens the first hint.\n'
        "  wrong  M=3, d_in=5, d_out=7: 105, wanted 210 FLOP\n"
        "  wrong  M=4, d_in=9, d_out=11: 396, wanted 792 FLOP"
    )
    assert "All 2 cases are right. Grading uses fresh cases." in text(check("4.1", toys.linear_flops))


def test_the_words_fit_a_terminal() -> None:
    def noisy(M, d_in, d_out):
        raise ValueError("words " * 100 + "x" * 300)

    for answer in (noisy, half, lambda M, d_in, d_out: "y" * 1_000):
        assert max(map(len, repr(check("4.2", answer)).splitlines()[1:])) <= 80


def test_the_same_answer_is_shown_the_same_way_every_time() -> None:
    for answer in (
        half,
        lambda M, d_in, d_out: object(),
        lambda M, d_in, d_out: print,
        lambda M, d_in, d_out: 1 / 0,
    ):
        first, second = check("4.1", answer), check("4.1", answer)
        assert repr(first) == repr(second) and first._repr_html_() == second._repr_html_()
        assert " at 0x" not in repr(first)


class _Page(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_what_a_notebook_shows_can_be_read_by_everyone() -> None:
    page = _Page(check("4.1", half)._repr_html_())
    assert [attrs.get("scope") for tag, attrs in page.tags if tag == "th"] == ["col"] * 4 + ["row"] * 2
    assert "caption" in [tag for tag, _ in page.tags] and "0 of 2 public cases right" in page.text
    assert "✗ Wrong · 4.1" in page.text and "✗ wrong" in page.text, "in words and by a symbol"
    styles = " ".join(attrs.get("style") or "" for _, attrs in page.tags)
    assert "background" not in styles and "#" not in styles, "follows the reader's colours"
    assert "✓ Passed" in _Page(check("4.1", toys.linear_flops)._repr_html_()).text


def test_everything_of_the_students_is_escaped() -> None:
    evil = "<img src=x onerror=alert(1)>"

    def raises(M, d_in, d_out):
        print(evil)
        raise ValueError(evil)

    named = type(evil, (Exception,), {})

    def raises_named(M, d_in, d_out):
        raise named("x")

    for answer in (raises, raises_named, lambda M, d_in, d_out: evil, lambda M, d_in, d_out: {evil: 1}):
        shown = check("4.1", answer)._repr_html_()
        assert "<img" not in shown and "&lt;img" in shown
        _Page(shown)
    assert "<b>" not in check("4.2", half)._repr_html_()
    assert "<img" not in check(evil, 1)._repr_html_() and "<img" not in hint(evil)._repr_html_()
    assert "<img" not in progress(evil)._repr_html_()


def test_the_outcome_can_be_read_by_programs() -> None:
    assert check("4.1", half)._repr_mimebundle_() == {MIME: {"exercise": "4.1", "outcome": "wrong"}}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), 'check("4.1", linear_flops)'),
        (("4.1",), 'expected your answer too: check("4.1", linear_flops)'),
        (("4.7", 3), "did you mean"),
        ((4.1, 3), "in quotes"),
        ((half, "4.1"), "the exercise first"),
        ((210, "4.1"), "the exercise first"),
        (("84 GB", "4.1"), "the exercise first"),
        ((["x"], "4.1"), "the exercise first"),
        ((4.1, "84 GB"), "in quotes"),
        ((None, None), "in quotes"),
        (("4.1", half, 3), "one answer"),
    ],
)
def test_a_wrong_call_is_explained_and_never_raises(arguments: tuple[Any, ...], words: str) -> None:
    found = check(*arguments)
    assert found.outcome == "error" and words in text(found) and "Not checked" in text(found)


def test_a_check_inside_its_own_function_is_said_and_ends() -> None:
    def slipped(M, d_in, d_out):
        check("4.1", slipped)
        return 2 * M * d_in * d_out

    found = check("4.1", slipped)
    assert found.outcome == "error" and "inside the function that it checks: move it out" in text(found)
    assert check("4.1", lambda M, d_in, d_out: 2 * M * d_in * d_out).outcome == "passed"


def test_a_check_inside_its_own_function_outside_the_main_thread() -> None:
    found: list[Any] = []

    def slipped(M, d_in, d_out):
        return check("4.1", slipped)

    thread = threading.Thread(target=lambda: found.append(check("4.1", slipped)))
    thread.start()
    thread.join(30)
    assert "inside the function that it checks" in text(found[0])
    assert check("4.1", lambda M, d_in, d_out: 2 * M * d_in * d_out).outcome == "passed"


def test_a_broken_course_never_raises(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bank / "04_flops.json").write_text("{", encoding="utf-8")
    assert "04_flops.json" in text(check("4.1", half)) and "04_flops.json" in text(hint("4.1"))
    assert "04_flops.json" in text(progress())
    for file in bank.iterdir():
        file.unlink()
    assert "found none" in text(check("4.1", half)) and "found none" in text(progress())

    def broken(*_: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(definition, "load", broken)
    monkeypatch.setattr(definition, "load_all", broken)
    assert "Your work is untouched" in text(check("4.1", half))
    assert "a bug" in text(hint("4.1")) and "a bug" in text(progress())


def test_strict_mode_raises_with_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = repr(check("4.1", half))
    monkeypatch.setenv("LECTURE_STRICT", "1")
    with pytest.raises(CheckFailed) as caught:
        check("4.1", half)
    assert str(caught.value) == shown
    for answer in (..., lambda M, d_in, d_out: 1 / 0):
        with pytest.raises(CheckFailed):
            check("4.1", answer)
    with pytest.raises(CheckFailed, match="did you mean"):
        check("4.7", half)
    assert check("4.1", toys.linear_flops).outcome == "passed"


# -- when the right value is shown


def open_all_hints(exercise: str, wrong_answers: list[Any]) -> None:
    for answer in wrong_answers:
        check(exercise, answer)
        hint(exercise)


def test_a_quantitys_value_shows_only_after_a_pass_or_the_last_hint() -> None:
    for shown in (check("0.1", "83 GB"), check("0.1", "84")):
        assert "84 GB" not in text(shown) and "84 GB" not in shown._repr_html_()
    open_all_hints("0.1", ["1 GB", "2 GB", "3 GB"])
    shown = check("0.1", "83 GB")
    assert "The value wanted is '84 GB'." in text(shown) and "opens the" not in text(shown)
    assert "&#x27;84 GB&#x27;" in shown._repr_html_()


def test_a_choices_letter_shows_only_after_the_last_hint() -> None:
    assert "'b'" not in text(check("1.2", "c"))
    open_all_hints("1.2", ["a", "c", "a"])
    assert "The value wanted is 'b'." in text(check("1.2", "c"))


def test_a_functions_public_cases_show_what_was_wanted() -> None:
    assert "wanted 210 FLOP" in text(check("4.1", half))


# -- hint


def test_hints_open_one_level_at_a_time_each_after_a_changed_answer() -> None:
    assert "Hint 1 of 3: the first hint" in text(hint("4.1"))
    again = text(hint("4.1"))
    assert "Hint 2" not in again and "opens when you have changed your answer" in again
    check("4.1", half)
    assert "Hint 2 of 3" in text(hint("4.1"))
    check("4.1", half)
    assert "Hint 3" not in text(hint("4.1")), "the same answer again"
    check("4.1", ...)
    assert "Hint 3" not in text(hint("4.1")), "a blank is no answer"
    check("4.1", lambda M, d_in, d_out: 1)
    opened = text(hint("4.1"))
    assert "Hint 3 of 3" in opened and "Hint 1 of 3" in opened
    assert "That was the last hint." in text(hint("4.1"))


def test_hint_never_raises() -> None:
    assert "expected an exercise" in text(hint()) and "did you mean" in text(hint("4.7"))
    assert "in quotes" in text(hint(4.1)) and "in quotes" in text(hint(half))
    _Page(hint("4.1")._repr_html_())


# -- progress


def test_progress_counts_points_and_minutes() -> None:
    check("4.1", toys.linear_flops)
    check("0.1", "83 GB")
    check("1.2", ...)
    shown = text(progress())
    assert "1 of 5 exercises passed, 1 wrong, 3 open · 2 of 8 points · about 14 minutes left" in shown
    assert (
        "passed 4.1 Count one linear layer 2 points 6 min" in shown
        and "wrong 0.1" in shown
        and "open 1.2" in shown
    )
    page = _Page(progress()._repr_html_())
    assert (
        "✓ passed" in page.text and "✗ wrong" in page.text and "○ open" in page.text and "1 of 5" in page.text
    )
    assert max(map(len, repr(progress()).splitlines())) <= 80


def test_a_pass_stays_a_pass() -> None:
    check("4.1", toys.linear_flops)
    check("4.1", half)
    assert "passed 4.1" in text(progress())


@pytest.mark.parametrize("notebook", ["04", "4", 4, "04_flops", "04_flops.ipynb"])
def test_progress_of_one_notebook(notebook: str | int) -> None:
    assert "0 of 2 exercises passed" in text(progress(notebook))


def test_progress_of_no_notebook_says_which_there_are() -> None:
    assert "00_start_here, 01_tensors, 04_flops" in text(progress("07"))


def test_an_unsaved_progress_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = [memory.UNSAVED, "", ""]
    monkeypatch.setattr(memory, "update", lambda *_, **__: notes.pop(0))
    assert "cannot be saved" in text(check("4.1", half)) and "cannot be saved" not in text(check("4.1", half))


# -- in a kernel


def test_in_a_kernel_the_error_is_on_the_cells_own_line(bank: Path, tmp_path: Path) -> None:
    import nbclient
    import nbformat

    cells = [
        f"import sys\nsys.path[:0] = {sys.path!r}\n"
        f"from pathlib import Path\nfrom lecture_lib.exercises import check, definition\n"
        f"definition.FOLDER = Path({str(bank)!r})",
        "def linear_flops(M, d_in, d_out):\n    rows = M\n    return rows / 0  # here",
        'check("4.1", linear_flops)',
        "def leaves(M, d_in, d_out):\n    exit()",
        'check("4.1", leaves)',
        'check("4.1", lambda M, d_in, d_out: 2 * M * d_in * d_out)',
    ]
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(node, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = node.cells[2].outputs[0]["data"]
    assert "Line 3 of your cell: return rows / 0  # here" in said["text/plain"]
    assert "<table>" in said["text/html"] and said[MIME] == {"exercise": "4.1", "outcome": "error"}
    left = node.cells[4].outputs[0]["data"]["text/plain"]
    assert "your code calls exit(); return the value instead" in " ".join(left.split())
    assert node.cells[5].outputs[0]["data"][MIME]["outcome"] == "passed", "the kernel lives on"


def test_a_check_is_quick() -> None:
    """No tensors in it: neither torch nor pint is loaded by a check of a function of numbers."""
    code = (
        "import sys; from lecture_lib.exercises import check, definition; from pathlib import Path\n"
        f"definition.FOLDER = Path({str(definition.FOLDER)!r})\n"
        "outcome = check('4.1', lambda M, d_in, d_out: 2 * M * d_in * d_out).outcome\n"
        "print(outcome, 'torch' in sys.modules, 'pint' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.split() == ["passed", "False", "False"]


def test_the_public_file_is_plain_json(bank: Path) -> None:
    assert [e["id"] for e in json.loads((bank / "04_flops.json").read_text())["exercises"]] == ["4.1", "4.2"]
