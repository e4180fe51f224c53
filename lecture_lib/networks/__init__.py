"""The small networks that the notebooks measure, written in named axes."""

from lecture_lib.networks.mlp import mlp

__all__ = ["mlp"]
