"""Exercises in the notebooks: `check("4.1", answer)`, `hint("4.1")`, `progress()`."""

from lecture_lib.exercises.checking import CheckFailed, check, hint, progress

__all__ = ["CheckFailed", "check", "hint", "progress"]
