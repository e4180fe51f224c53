"""Where the course keeps its facts and its notebooks, in a clone as in an installed wheel.

A clone (or an editable install of one) has `data/` and `notebooks/` beside the package; a wheel carries
both inside it. Ask here, never with `__file__` elsewhere.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE: Path = Path(__file__).resolve().parent


def project_root() -> Path | None:
    """The clone that this package is imported from; None for an installed wheel."""
    root = PACKAGE.parent
    # site-packages can hold anything, a pyproject.toml included: start.py beside it makes it this project's.
    return root if (root / "pyproject.toml").is_file() and (root / "start.py").is_file() else None


def _beside_or_inside(name: str) -> Path:
    root = project_root()
    return PACKAGE / name if root is None else root / name


DATA: Path = _beside_or_inside("data")
"""The folder of `hardware.toml`, `models.toml` and `exercises/`."""

NOTEBOOKS: Path | None = folder if (folder := _beside_or_inside("notebooks")).is_dir() else None
"""The folder of the students' notebooks; None where there is none (then say so, with what to do)."""
