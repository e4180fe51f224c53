"""The small networks that the notebooks measure, written in named axes."""

from lecture_lib.networks.mlp import mlp
from lecture_lib.networks.transformer import transformer

__all__ = ["mlp", "transformer"]
