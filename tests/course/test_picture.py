"""The README's picture: computed, the same everywhere, and its description says what it shows."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from lecture_lib import paths
from lecture_lib.course import build
from lecture_lib.course.picture import budgets, svg

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_the_ledgers() -> None:
    totals = [f"{ledger.total.to(unit).value:g} {unit}" for unit, ledger in budgets().values()]
    assert totals == ["84 GB", "42 GFLOP", "154 GB"]
    page = ElementTree.fromstring(svg())
    widths: dict[str, float] = {}
    for box in page.iter(f"{SVG}rect"):
        if box.get("stroke"):
            widths[box.get("y", "")] = widths.get(box.get("y", ""), 0) + float(box.get("width", 0))
    assert len(widths) == 3
    assert all(width == pytest.approx(700, abs=0.3) for width in widths.values())
    described = page.findtext(f"{SVG}desc") or ""
    for total in totals:
        assert total in described


def test_stale_picture_is_said_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "project_root", lambda: tmp_path)
    assert build.picture(check=True) == []  # no docs/, no picture
    (tmp_path / "docs").mkdir()
    assert "lecture build" in build.picture(check=True)[0]
    assert build.picture(check=False) == []
    assert (tmp_path / build.PICTURE).read_text(encoding="utf-8") == svg()
    assert build.picture(check=True) == []


def test_the_readme_shows_it_with_the_same_figures(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert build.PICTURE in readme
    for figure in ("84 GB", "42 GFLOP", "154 GB"):
        assert figure in readme
