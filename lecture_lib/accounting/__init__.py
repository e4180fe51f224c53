"""Predicts a training step's three ledgers: storage, arithmetic, data movement. No torch.

dtypes         number formats by name, and their bits
formats        values to codes and back, spacing, range; blocks that share a scale
tensors        elements and bytes of a tensor, and what a view spans
allocator      the CUDA caching allocator's rules, without a GPU
contraction    FLOPs, bytes and intensity of a pattern with named axes
flops          linear layers, their backward products, networks, Transformers, training runs
memory         model states by recipe, optimizer state by shape, ZeRO, the largest model
kv_cache       what decoding keeps for each token
activations    what a forward keeps for its backward, tensor by tensor, and the published forms
checkpointing  segments: what they keep, what is computed again, the best length
accumulation   how microbatches' losses combine
peak           peak memory of a training step, by a walk of allocations and frees
eager          torch's eager mode on tensors without values, which that walk runs on
steps          the course's networks and training step, written on it
models         configurations with Hugging Face's field names, and exact parameter counts
hardware       peaks, memory, bandwidth and links of devices, with their sources
roofline       time bound, ridge, attainable rate, rows to the ridge
operators      FLOPs and bytes of operators under stated assumptions
utilization    MFU and HFU, days and device-hours of a run
budget         all three ledgers of a training or decoding step, its limit, and what would move it
"""

from lecture_lib.accounting import (
    accumulation,
    activations,
    allocator,
    budget,
    checkpointing,
    contraction,
    dtypes,
    flops,
    formats,
    hardware,
    kv_cache,
    memory,
    models,
    operators,
    peak,
    roofline,
    tensors,
    utilization,
)
from lecture_lib.quantity import LectureError, Ledger, Quantity

__all__ = [
    "Ledger",
    "LectureError",
    "Quantity",
    "accumulation",
    "activations",
    "allocator",
    "budget",
    "checkpointing",
    "contraction",
    "dtypes",
    "flops",
    "formats",
    "hardware",
    "kv_cache",
    "memory",
    "models",
    "operators",
    "peak",
    "roofline",
    "tensors",
    "utilization",
]
