"""What README and CONTRIBUTING say of the project is so: commands, links, notebooks, versions, variables."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from lecture_lib import cli

PAGES = ("README.md", "CONTRIBUTING.md", "tests/answer_key/README.md")
each_page = pytest.mark.parametrize("page", PAGES)


def _text(root: Path, page: str) -> str:
    return (root / page).read_text(encoding="utf-8")


def _commands(text: str) -> list[list[str]]:
    """What follows `lecture` and `start.py` in code, word by word."""
    code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^    (.+)$", text, re.M)
    found = []
    for snippet in code:
        plain = snippet.replace("[NN…]", "").replace("…", "").strip()
        if said := re.match(r"(?:lecture|python3 start\.py) +([a-z][^#]*)", plain):
            found.append(said[1].split())
    return found


@each_page
def test_every_command_exists(page: str, root: Path) -> None:
    commands = [words for words in _commands(_text(root, page)) if words[0] != "test"]
    assert commands
    for words in commands:
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                cli._parser().parse_args(words)
        except SystemExit:
            raise AssertionError(
                f"{page} names `lecture {' '.join(words)}`; there is no such command"
            ) from None


@each_page
def test_every_link_leads_to_a_file(page: str, root: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", _text(root, page)):
        if not target.startswith("https://"):
            assert (root / page).parent.joinpath(target).is_file(), f"{page} links to {target}"


def test_the_readme_counts_the_notebooks(root: Path) -> None:
    names = sorted(path.stem for path in (root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    words = ("ten", "eleven", "twelve")
    opening = _text(root, "README.md").partition("![")[0]
    assert f"{words[len(names) - 10].capitalize()} notebooks, `{names[0]}` to `{names[-1]}`" in opening
    assert len(opening.strip().splitlines()) == 2 + 5, "a title, and the course in five lines"


def test_what_a_reader_types_by_hand_is_what_the_lock_holds(root: Path) -> None:
    (torch,) = re.findall(r"pip install (torch==\S+)", _text(root, "README.md"))
    assert torch in _text(root, "requirements.lock").splitlines()


@each_page
def test_every_variable_is_read_by_something(page: str, root: Path) -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (root / "lecture_lib").rglob("*.py"))
    for name in re.findall(r"LECTURE_[A-Z]+", _text(root, page)):
        assert name in code, f"{page} names {name}"
