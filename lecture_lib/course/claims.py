"""`docs/claims.md`: where the course teaches, shows and exercises what the lecture claims.

Made from `data/claims.toml`, whose cell ids become headings that a reader can find.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from lecture_lib.quantity import LectureError

HEAD = """\
# Where each claim of the lecture is taught, shown and exercised

Each row names headings of the notebook above its table. *Shown* means that a cell computes the claim and
asserts the number, the inequality or the behaviour; *measured*, that the machine which runs the notebook is
asked too; *there*, under the headings that teach it. An exercise has its number in its heading.

`lecture build` makes this page from `data/claims.toml`, which names the cells.
"""
COLUMNS = "| claim | taught | shown | measured | exercised |\n| --- | --- | --- | --- | --- |"


@dataclass(frozen=True)
class Claim:
    """One claim: ids of the cells and exercises for it (`data/claims.toml` says what each list is)."""

    claim: str
    teach: list[str]
    asserts: list[str]
    exercises: list[str] = field(default_factory=list)
    exercise_none: str = ""
    measure: list[str] = field(default_factory=list)
    measured: bool = False
    beyond: bool = False


def load(path: Path) -> tuple[dict[str, Claim], list[str]]:
    """({claim's id: claim}, the ids of the exercises that mend a calculator) of a `claims.toml`."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    return {number: Claim(**entry) for number, entry in entries["claims"].items()}, entries["calculators"]


def page(claims: Mapping[str, Claim], headings: Mapping[str, tuple[str, str]]) -> str:
    """The page's text; headings: {cell's id: (the heading that it stands under, its notebook's name)}.

    Raises LectureError where a claim names a cell that no notebook has.
    """
    for number, claim in claims.items():
        lost = [cell for cell in [*claim.teach, *claim.asserts, *claim.measure] if cell not in headings]
        if lost:
            raise LectureError(
                f"expected the cells of claim {number} in the notebooks; {', '.join(lost)} is in none: "
                "mend data/claims.toml"
            )
    parts = [HEAD]
    for _, group in groupby(claims.items(), key=lambda item: item[0].partition(".")[0]):
        rows = list(group)
        notebook = headings[rows[0][1].teach[0]][1]
        parts.append(f"## [{notebook}](../notebooks/{notebook}.ipynb)\n\n{COLUMNS}")
        parts[-1] += "".join("\n" + _row(number, claim, headings) for number, claim in rows) + "\n"
    return "\n".join(parts)


def _row(number: str, claim: Claim, headings: Mapping[str, tuple[str, str]]) -> str:
    taught = _under(claim.teach, headings)
    shown, measured = (_under(ids, headings) for ids in (claim.asserts, claim.measure))
    cells = [
        f"**{number}** {claim.claim}" + (" *(beyond the lecture)*" if claim.beyond else ""),
        taught,
        "there" if shown == taught else shown,
        "there" if measured == taught else measured,
        ", ".join(claim.exercises) or claim.exercise_none,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _under(ids: Iterable[str], headings: Mapping[str, tuple[str, str]]) -> str:
    return "; ".join(dict.fromkeys(f"“{headings[cell][0]}”" for cell in ids)) or "—"
