"""Predicts a training step's three ledgers: storage, arithmetic, data movement. No torch.

dtypes       number formats by name, and their bits
tensors      elements and bytes of a tensor, and what a view spans
allocator    the CUDA caching allocator's rules, without a GPU
contraction  FLOPs, bytes and intensity of a pattern with named axes
flops        linear layers, their backward products, networks, Transformers, training runs
models       configurations with Hugging Face's field names, and exact parameter counts
"""

from lecture_lib.accounting import allocator, contraction, dtypes, flops, models, tensors
from lecture_lib.quantity import LectureError, Ledger, Quantity

__all__ = [
    "Ledger",
    "LectureError",
    "Quantity",
    "allocator",
    "contraction",
    "dtypes",
    "flops",
    "models",
    "tensors",
]
