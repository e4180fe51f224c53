"""The small networks that the notebooks measure, written in named axes."""

from lecture_lib.networks.mlp import mlp
from lecture_lib.networks.steps import forward_in_segments, training_step
from lecture_lib.networks.transformer import transformer

__all__ = ["forward_in_segments", "mlp", "training_step", "transformer"]
