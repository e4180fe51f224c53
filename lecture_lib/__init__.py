"""Three Budgets: storage, arithmetic and data movement of a training step, predicted and then measured.

Nothing is imported here, so that `import lecture_lib` costs nothing and works in a broken environment.
"""

__version__ = "0.1.0"
