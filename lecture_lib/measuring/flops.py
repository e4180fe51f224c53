"""FLOPs of the matrix products that really ran, and the name of every operation that could not be counted.

Torch's own `FlopCounterMode` does the counting. It passes over what it does not know as if that cost nothing:
fused attention on a CPU (pytorch#195460), matrix times vector, LSTMs, MultiheadAttention's fast path. Here
the first two are counted; whatever is neither counted nor known to hold no matrix product is named uncounted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from lecture_lib.measuring.tables import html_table
from lecture_lib.quantity import LectureError, Ledger, Quantity

CONVENTIONS = (
    "FMA = 2 FLOPs",
    "matrix products, convolutions and attention alone",
    "attention counted in full, causal or not",
)

_Shape = tuple[int, ...]


@dataclass(frozen=True)
class FlopCount:
    """What `count_flops` found.

    by_operation: FLOPs of each counted operation, by its ATen name ("addmm")
    uncounted:    calls of each operation that may hold matrix products and that nothing here can count
    """

    by_operation: Ledger
    uncounted: dict[str, int]

    @property
    def total(self) -> Quantity:
        """The FLOPs that were counted; what is `uncounted` is not in it, and named in the conventions."""
        total = self.by_operation.total
        left_out = (f"without {self._uncounted_text()}",) if self.uncounted else ()
        name = "counted FLOPs, some left out" if self.uncounted else "counted FLOPs"
        return total.with_(name=name, conventions=(*CONVENTIONS, *left_out))

    def _uncounted_text(self) -> str:
        return ", ".join(f"{name} ({calls} uncounted)" for name, calls in self.uncounted.items())

    def _lines(self) -> list[tuple[str, str]]:
        return [
            *((name, str(flops)) for name, flops in self.by_operation.items()),
            *(
                (name, f"uncounted, {calls} call{'s' * (calls != 1)}")
                for name, calls in self.uncounted.items()
            ),
            ("total" if not self.uncounted else "total of what was counted", str(self.total)),
        ]

    def __str__(self) -> str:
        wide = max(len(name) for name, _ in self._lines())
        return "\n".join(f"{name:<{wide}}  {flops}" for name, flops in self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table("Counted FLOPs", ("operation", "FLOPs"), self._lines())


def count_flops(fn: Callable[[], Any]) -> FlopCount:
    """Run `fn` once and count the FLOPs of every matrix product in it, backward and recomputation included.

    fn: takes nothing; `lambda: model(x)` is a forward, `lambda: model(x).sum().backward()` a whole step's.
    """
    if not callable(fn):
        raise LectureError(f"expected a function to call, such as `lambda: model(x)`; got {fn!r}")
    counter = FlopCounterMode(display=False, custom_mapping=_FORMULAS)
    with _Ran() as ran, counter:  # the counter takes composite operations apart; what is left of them ran
        fn()
    counted = counter.get_flop_counts().get("Global", {})
    uncounted = {
        str(op).removeprefix("aten."): calls
        for op, calls in ran.calls.items()
        if op not in counter.flop_registry and _may_hold_products(op)
    }
    rows = {
        str(op).removeprefix("aten."): Quantity(flops, "FLOP", conventions=CONVENTIONS)
        for op, flops in counted.items()
    }
    return FlopCount(Ledger(rows, name="Counted FLOPs", unit="FLOP"), uncounted)


class _Ran(TorchDispatchMode):
    """Calls of each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[Any] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not (func.is_view or _NO_PRODUCT_TAGS & set(func.tags)):
            self.calls[func._overloadpacket] += 1
        return func(*args, **(kwargs or {}))


def _may_hold_products(op: Any) -> bool:
    namespace, _, name = str(op).partition(".")
    if namespace in ("prim", "prims", "profiler"):
        return False
    in_place_too = name.removesuffix("_")
    return in_place_too not in _NO_PRODUCTS and not name.startswith(_NO_PRODUCTS_FAMILIES)


def _matrix_vector(matrix: _Shape, vector: _Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(matrix)


def _add_matrix_vector(added: _Shape, matrix: _Shape, vector: _Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(matrix)


def _dot(a: _Shape, b: _Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(a)


def _add_outer(added: _Shape, a: _Shape, b: _Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(a) * prod(b)


def _add_product(added: _Shape, a: _Shape, b: _Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(a) * b[-1]


def _attention(query: _Shape, key: _Shape, value: _Shape, *_: Any, **__: Any) -> int:
    # Q·Kᵀ and weights·V, each query head against all keys; fewer key heads serve several query heads.
    batch, heads, queries, dim = query
    return 2 * batch * heads * queries * key[2] * (dim + value[3])


def _attention_backward(grad: _Shape, query: _Shape, key: _Shape, value: _Shape, *_: Any, **__: Any) -> int:
    # The scores again (fused attention kept none), then a product for each of dV, dweights, dQ and dK.
    batch, heads, queries, dim = query
    return 2 * batch * heads * queries * key[2] * (3 * dim + 2 * value[3])


_aten = torch.ops.aten
_FORMULAS: dict[Any, Any] = {
    _aten.mv: _matrix_vector,
    _aten.addmv: _add_matrix_vector,
    _aten.addmv_: _add_matrix_vector,
    _aten.dot: _dot,
    _aten.vdot: _dot,
    _aten.addr: _add_outer,
    _aten.addr_: _add_outer,
    _aten.addbmm: _add_product,
    _aten.addbmm_: _add_product,
    _aten.addmm_: _add_product,
    _aten.baddbmm_: _add_product,
    # Every fused kernel by one formula: torch's own refuses grouped queries in some versions.
    **{
        getattr(_aten, f"_scaled_dot_product_{kernel}{suffix}"): formula
        for kernel in ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
        for suffix, formula in (("", _attention), ("_backward", _attention_backward))
    },
}

# Operations that are neither views nor elementwise, and hold no matrix product: made, copied and moved;
# reduced, sorted and scanned; softmax, norms, losses, look-ups, pools; layouts, checks.
# What is not here is uncounted.
_NO_PRODUCT_NAMES = """
    arange bernoulli cat clone constant_pad_nd copy empty empty_like empty_permuted empty_strided
    exponential eye fill full full_like geometric index index_add index_copy index_put index_select isin
    lift_fresh linspace masked_scatter masked_select multinomial narrow_copy new_empty new_empty_strided
    new_full new_ones new_zeros nonzero normal normal_functional ones ones_like rand rand_like randint
    randint_like randn randn_like random randperm reflection_pad1d reflection_pad2d repeat
    repeat_interleave resize roll rot90 scalar_tensor scatter scatter_add scatter_reduce gather
    select_backward select_scatter slice_backward slice_scatter flip split_with_sizes_copy stack take
    tril tril_indices triu triu_indices unfold_backward uniform unique_consecutive unsafe_split
    unsafe_split_with_sizes zero zeros zeros_like _to_copy _unique2 _unsafe_index _unsafe_index_put
    _unsafe_view _index_put_impl _reshape_copy _local_scalar_dense _pin_memory _assert_async
    _assert_scalar set record_stream diag_embed diagonal_backward bincount searchsorted bucketize complex
    polar all amax amin aminmax any argmax argmin argsort count_nonzero cummax cummin cumprod cumsum
    kthvalue linalg_vector_norm logcumsumexp logsumexp max mean median min mode nanmedian norm prod sort
    std std_mean sum topk var var_mean nansum renorm _is_all_true _is_any_true equal histc _softmax
    _softmax_backward_data _log_softmax _log_softmax_backward_data _safe_softmax _masked_softmax
    native_layer_norm native_layer_norm_backward native_group_norm native_group_norm_backward
    native_batch_norm native_batch_norm_backward _native_batch_norm_legit
    _native_batch_norm_legit_no_training batch_norm_backward _batch_norm_with_update
    _batch_norm_no_update cudnn_batch_norm cudnn_batch_norm_backward _fused_rms_norm
    _fused_rms_norm_backward native_dropout native_dropout_backward _fused_dropout nll_loss_forward
    nll_loss_backward nll_loss2d_forward nll_loss2d_backward mse_loss mse_loss_backward smooth_l1_loss
    smooth_l1_loss_backward huber_loss huber_loss_backward binary_cross_entropy
    binary_cross_entropy_backward embedding embedding_dense_backward embedding_backward _embedding_bag
    max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward glu glu_backward _to_sparse _to_dense _coalesce
    is_pinned _nested_tensor_from_tensor_list _amp_foreach_non_finite_check_and_unscale _amp_update_scale
    _linalg_check_errors
"""
_NO_PRODUCTS = frozenset(_NO_PRODUCT_NAMES.split())
_NO_PRODUCT_TAGS = {torch.Tag.pointwise, torch.Tag.inplace_view}
_NO_PRODUCTS_FAMILIES = ("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad")  # optimizer steps
