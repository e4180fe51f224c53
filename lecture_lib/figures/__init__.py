"""Pictures with alternative text. Drawing functions take plain data and return a `Drawing`.

show    the one way in which a figure is shown
style   how every figure looks
"""

from lecture_lib.figures.show import Drawing, Shown, show
from lecture_lib.figures.style import course_style

__all__ = ["Drawing", "Shown", "course_style", "show"]
