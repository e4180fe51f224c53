"""What an operator costs: FLOPs, bytes read and written, intensity, under the assumptions that it states.

Ideal traffic reads each input once and writes each output once. `tiled_gemm` and `attention(on_chip=…)` read
again what the chip cannot hold; `fused` keeps what passes between operators on chip, `in_sequence` does not.

>>> gemm(128, 4096, 4096, dtype="bf16").intensity
120.5 FLOP/B
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lecture_lib.accounting import kv_cache as cache
from lecture_lib.accounting import roofline
from lecture_lib.accounting.contraction import FMA
from lecture_lib.accounting.dtypes import bytes_per_element, resolve
from lecture_lib.accounting.flops import UPDATE_FLOPS
from lecture_lib.accounting.inputs import amount, one_of, whole
from lecture_lib.accounting.memory import OPTIMIZERS
from lecture_lib.accounting.models import ModelConfig, a_config, matmul_parameters
from lecture_lib.quantity import LectureError, Quantity

IDEAL = "each input read once, each output written once"
ANY_OPERATION = "a comparison, division, root or exponential counts as 1 operation"
_ACCUMULATOR = 4  # bytes: products are summed in FP32

Number = int | Fraction


@dataclass(frozen=True)
class Cost:
    """An operator's ledger: FLOPs done, bytes read from memory, bytes written to it."""

    name: str
    flops: Quantity
    reads: Quantity
    writes: Quantity

    @property
    def bytes(self) -> Quantity:
        """Traffic Q: reads and writes."""
        return (self.reads + self.writes).with_(
            name=f"{self.name}: bytes moved",
            formula=f"{self.reads.formula} + {self.writes.formula}",
            inputs={**self.reads.inputs, **self.writes.inputs},
        )

    @property
    def intensity(self) -> Quantity:
        """Arithmetic intensity F/Q in FLOP/B, with the whole formula."""
        traffic = self.bytes
        return roofline.intensity(self.flops, traffic).with_(
            name=f"{self.name}: intensity",
            formula=f"({self.flops.formula})/({traffic.formula})",
            inputs={**self.flops.inputs, **traffic.inputs},
        )

    def time_bound(self, peak: object, bandwidth: object) -> Quantity:
        """Seconds that it takes at least: `roofline.time_bound` of its FLOPs and bytes."""
        bound = roofline.time_bound(self.flops, self.bytes, peak, bandwidth)
        return bound.with_(name=f"{self.name}: time bound")

    def limit(self, peak: object, bandwidth: object) -> str:
        """ "arithmetic" or "bandwidth", whichever sets the bound."""
        return roofline.limit(self.flops, self.bytes, peak, bandwidth)

    def __str__(self) -> str:
        return f"{self.name}: {self.flops}, {self.bytes}, {self.intensity}"

    def _repr_html_(self) -> str:
        return "".join(q._repr_html_() for q in (self.flops, self.bytes, self.intensity))


# -- matrix products


def gemm(M: int, d_in: int, d_out: int, dtype: object = "bf16", exact: bool = False) -> Cost:
    """Y = X·W, X (M, d_in), W (d_in, d_out), ideal traffic.

    2·M·d_in·d_out FLOPs, or M·d_out·(2·d_in - 1) with exact=True; s·(M·d_in + d_in·d_out + M·d_out) bytes.
    """
    n = _sizes(dtype, M=M, d_in=d_in, d_out=d_out)
    count = (
        (n["M"] * n["d_out"] * (2 * n["d_in"] - 1), "M·d_out·(2·d_in - 1)")
        if exact
        else (2 * n["M"] * n["d_in"] * n["d_out"], "2·M·d_in·d_out")
    )
    return _cost(
        "GEMM",
        n,
        count,
        (n["s"] * (n["M"] * n["d_in"] + n["d_in"] * n["d_out"]), "s·(M·d_in + d_in·d_out)"),
        (n["s"] * n["M"] * n["d_out"], "s·M·d_out"),
        (FMA, "exact count" if exact else "leading order", IDEAL),
    )


def batched_gemm(batch: int, M: int, d_in: int, d_out: int, dtype: object = "bf16") -> Cost:
    """`batch` products of matrices of their own: nothing is shared, so intensity ignores B."""
    n = _sizes(dtype, B=batch, M=M, d_in=d_in, d_out=d_out)
    return _cost(
        "batched GEMM",
        n,
        (2 * n["B"] * n["M"] * n["d_in"] * n["d_out"], "2·B·M·d_in·d_out"),
        (n["s"] * n["B"] * (n["M"] * n["d_in"] + n["d_in"] * n["d_out"]), "s·B·(M·d_in + d_in·d_out)"),
        (n["s"] * n["B"] * n["M"] * n["d_out"], "s·B·M·d_out"),
        (FMA, "leading order", IDEAL),
    )


def tiled_gemm(M: int, d_in: int, d_out: int, on_chip: object, dtype: object = "bf16") -> Cost:
    """Y = X·W in output tiles of m × n that fit `on_chip` bytes, each tile passing once over d_in.

    A tile keeps its m·n sums in FP32 and holds one column of X and one row of W: 4·m·n + s·(m + n) bytes.
    X is read once for each of the ⌈d_out/n⌉ columns of tiles, W once for each of the ⌈M/m⌉ rows of them. The
    tile is the largest square that fits, widened where the output is narrower than it.
    """
    n = _sizes(dtype, M=M, d_in=d_in, d_out=d_out)
    s, room = Fraction(n["s"]), Fraction(amount("on_chip", on_chip, "B"))
    rows, columns = _tile(n["M"], n["d_out"], s, room)
    n |= {"m": rows, "n": columns}
    reread = n["M"] * n["d_in"] * -(-n["d_out"] // columns) + n["d_in"] * n["d_out"] * -(-n["M"] // rows)
    return _cost(
        "tiled GEMM",
        n,
        (2 * n["M"] * n["d_in"] * n["d_out"], "2·M·d_in·d_out"),
        (n["s"] * reread, "s·(M·d_in·⌈d_out/n⌉ + d_in·d_out·⌈M/m⌉)"),
        (n["s"] * n["M"] * n["d_out"], "s·M·d_out"),
        (
            FMA,
            "leading order",
            f"output tiles of {rows} × {columns}, sums in FP32 on chip",
        ),
    )


def _tile(M: int, d_out: int, s: Fraction, room: Fraction) -> tuple[int, int]:
    def across(side: int) -> int:
        """How wide a tile of `side` can be: 4·side·x + s·(side + x) ≤ room."""
        return int((room - s * side) // (_ACCUMULATOR * side + s))

    if across(1) < 1:
        raise LectureError(
            f"expected room for one output, {float(_ACCUMULATOR + 2 * s):g} B; got {float(room):g} B; "
            "give the bytes of the cache or shared memory, such as 228 * 1024"
        )
    side = max(1, math.isqrt(int(room)) // 2)  # 4·side² ≤ room: at or above the largest square
    while across(side) < side:
        side -= 1
    rows = min(M, side)
    columns = min(d_out, across(rows))
    return min(M, across(columns)), columns


def dot(n: int, dtype: object = "bf16") -> Cost:
    """Dot product of two vectors of n values: 2·n - 1 FLOPs; near 0.5 FLOP/B in BF16."""
    return _renamed(gemm(1, n, 1, dtype, exact=True), "dot product")


def vector_matrix(n: int, dtype: object = "bf16") -> Cost:
    """A vector times an n × n matrix: n·(2·n - 1) FLOPs; near 1 FLOP/B in BF16."""
    return _renamed(gemm(1, n, n, dtype, exact=True), "vector × matrix")


# -- elementwise, reductions, norms


def elementwise(
    n: int, operations: int, dtype: object = "bf16", inputs: int = 1, name: str = "elementwise"
) -> Cost:
    """`operations` on each of n positions, reading `inputs` tensors and writing one."""
    k = _sizes(dtype, n=n, k=inputs)
    k["c"] = whole("operations", operations, least=0)
    return _cost(
        name,
        k,
        (k["c"] * k["n"], "c·n"),
        (k["s"] * k["k"] * k["n"], "s·k·n"),
        (k["s"] * k["n"], "s·n"),
        (ANY_OPERATION, IDEAL),
    )


def relu(n: int, dtype: object = "bf16") -> Cost:
    """ReLU: one comparison a value, 0.25 operations a byte in BF16."""
    return elementwise(n, 1, dtype, name="ReLU")


def gelu(n: int, dtype: object = "bf16") -> Cost:
    """GELU at the lecture's illustrative 20 operations a value, 5 a byte in BF16; kernels differ."""
    return elementwise(n, 20, dtype, name="GELU")


def reduction(rows: int, columns: int, dtype: object = "bf16") -> Cost:
    """Sum (or maximum) of each row: columns - 1 operations a row."""
    n = _sizes(dtype, M=rows, n=columns)
    return _cost(
        "reduction",
        n,
        (n["M"] * (n["n"] - 1), "M·(n - 1)"),
        (n["s"] * n["M"] * n["n"], "s·M·n"),
        (n["s"] * n["M"], "s·M"),
        (ANY_OPERATION, IDEAL),
    )


def softmax(rows: int, columns: int, dtype: object = "bf16") -> Cost:
    """Softmax of each row: maximum n - 1, subtract n, exponential n, sum n - 1, divide n: 5·n - 2 in all."""
    return _by_row("softmax", rows, columns, dtype, (5, -2), parameters=0)


def layer_norm(rows: int, width: int, dtype: object = "bf16") -> Cost:
    """LayerNorm with gain and bias: 7·n + 2 operations a row.

    Mean n, centre n, squares n, their sum n - 1, and divide, add ε, root: 3; scale, gain, bias 3·n.
    """
    return _by_row("LayerNorm", rows, width, dtype, (7, 2), parameters=2)


def rms_norm(rows: int, width: int, dtype: object = "bf16") -> Cost:
    """RMSNorm with gain, 4·n + 2 operations a row.

    Squares n, their sum n - 1, and divide, add ε, root: 3; scale and gain 2·n.
    """
    return _by_row("RMSNorm", rows, width, dtype, (4, 2), parameters=1)


def _by_row(
    name: str, rows: int, columns: int, dtype: object, operations: tuple[int, int], parameters: int
) -> Cost:
    n = _sizes(dtype, M=rows, n=columns)
    each, rest = operations
    extra = f" + {parameters}·n" if parameters else ""
    return _cost(
        name,
        n,
        (n["M"] * (each * n["n"] + rest), f"M·({each}·n {'+' if rest > 0 else '-'} {abs(rest)})"),
        (n["s"] * (n["M"] * n["n"] + parameters * n["n"]), f"s·(M·n{extra})"),
        (n["s"] * n["M"] * n["n"], "s·M·n"),
        (ANY_OPERATION, IDEAL, "a row stays on chip"),
    )


# -- attention


def attention(
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    head_dim: int,
    dtype: object = "bf16",
    kv_heads: int | None = None,
    fused: bool = True,
    on_chip: object = None,
) -> Cost:
    """softmax(Q·Kᵀ)·V, full (no mask), per batch and head; Q (queries, head_dim), K and V (keys, head_dim).

    kv_heads: heads of K and V, which divide `heads` (grouped-query attention); as many unless given.
    fused:    True keeps scores and probabilities on chip; False writes and reads both.
    on_chip:  bytes that hold a block of Q, K, V and output, 4·s·head_dim a row, as in FlashAttention: K and V
              are then read once for every such block of a key head's query rows. None: read once in all.
    FLOPs are the two products, 4·b·h·q·k·d, and softmax's 5·k - 2 operations a row, however it is run.
    """
    n = _sizes(
        dtype, b=batch, h=heads, g=heads if kv_heads is None else kv_heads, q=queries, k=keys, d=head_dim
    )
    if n["h"] % n["g"]:
        raise LectureError(f"expected kv_heads that divide the {n['h']} heads; got {n['g']}; give a divisor")
    s, product = n["s"], 2 * n["b"] * n["h"] * n["q"] * n["k"] * n["d"]
    q_bytes, kv_bytes = s * n["b"] * n["h"] * n["q"] * n["d"], s * n["b"] * n["g"] * n["k"] * n["d"]
    square = s * n["b"] * n["h"] * n["q"] * n["k"]
    if not fused:
        if on_chip is not None:
            raise LectureError("expected on_chip with fused=True alone; got fused=False; leave one out")
        one = (product, "2·b·h·q·k·d")
        return in_sequence(
            _cost(
                "scores",
                n,
                one,
                (q_bytes + kv_bytes, "s·b·(h·q + g·k)·d"),
                (square, "s·b·h·q·k"),
                (FMA, IDEAL),
            ),
            softmax(n["b"] * n["h"] * n["q"], n["k"], dtype),
            _cost(
                "values",
                n,
                one,
                (square + kv_bytes, "s·b·(h·q·k + g·k·d)"),
                (q_bytes, "s·b·h·q·d"),
                (FMA, IDEAL),
            ),
            name="attention, unfused",
        )
    n["r"] = n["h"] // n["g"] * n["q"] if on_chip is None else _query_rows(on_chip, s, n["d"])
    blocks = -(-(n["h"] // n["g"] * n["q"]) // n["r"])
    return _cost(
        "attention, fused",
        n,
        (2 * product + n["b"] * n["h"] * n["q"] * (5 * n["k"] - 2), "4·b·h·q·k·d + b·h·q·(5·k - 2)"),
        (q_bytes + 2 * kv_bytes * blocks, "s·b·(h·q + 2·g·k·⌈h/g·q/r⌉)·d"),
        (q_bytes, "s·b·h·q·d"),
        (
            FMA,
            ANY_OPERATION,
            "scores stay on chip",
            f"K and V read once for {n['r']:,} query rows of a key head",
        ),
        source="Dao et al. 2022, FlashAttention, Algorithm 1; Dao 2023: queries in the outer loop",
    )


def _query_rows(on_chip: object, s: Number, head_dim: int) -> int:
    rows = int(Fraction(amount("on_chip", on_chip, "B")) // (4 * s * head_dim))
    if rows < 1:
        raise LectureError(
            f"expected on_chip to hold a row of Q, K, V and output, {float(4 * s * head_dim):g} B; "
            f"got {on_chip!r}"
        )
    return rows


def decode_attention(config: ModelConfig, batch: int, context: int, dtype: object = "bf16") -> Cost:
    """One query for each of `batch` sequences against the `context` positions in its cache, all layers.

    2·B·L·H·S·(k + v) FLOPs; each cache is read once, and the new position's keys and values are written.
    Latent attention works on the latents (its up-projection applied to queries and outputs), as DeepSeek's
    does. Queries and outputs stay on chip.
    """
    rank = a_config(config).kv_lora_rank
    n: dict[str, Any] = {
        "B": whole("batch", batch),
        "L": config.num_hidden_layers,
        "H": config.num_attention_heads,
        "S": whole("context", context, unit="token"),
        "k": config.head_dim if rank is None else rank + config.qk_rope_head_dim,
        "v": config.value_dim if rank is None else rank,
    }
    token = cache.bytes_per_token(config, dtype)
    kept, formula = int(token.total), " + ".join(row.formula for row in token.values())
    return _cost(
        "decode attention",
        n | {symbol: size for row in token.values() for symbol, size in row.inputs.items()},
        (
            2 * n["B"] * n["L"] * n["H"] * n["S"] * (n["k"] + n["v"]),
            "2·B·L·H·S·(k + v)",
        ),
        (n["B"] * n["S"] * kept, f"B·S·({formula})"),
        (n["B"] * kept, f"B·({formula})"),
        (FMA, "leading order", "each cache read once", "queries, scores and outputs stay on chip"),
    )


def decode_step(config: ModelConfig, batch: int, context: int, dtype: object = "bf16") -> Cost:
    """One new token for each of `batch` sequences that have `context` positions in their caches.

    2·P·B FLOPs with the weights, which are read once for all sequences, and `decode_attention`. What passes
    between layers stays on chip (`budget.decode_step` moves it, part by part). LectureError for a mixture of
    experts: which weights it reads depends on the tokens.
    """
    if a_config(config).num_experts:
        raise LectureError(
            f"expected a dense model; got {config.name}, whose tokens choose which experts are read"
        )
    attended = decode_attention(config, batch, context, dtype)
    n: dict[str, Any] = {**attended.flops.inputs, "P": int(matmul_parameters(config).total)}
    n["s"] = bytes_per_element(dtype)
    return _cost(
        "decode step",
        n,
        (2 * n["P"] * n["B"] + int(attended.flops), f"2·P·B + {attended.flops.formula}"),
        (n["s"] * n["P"] + int(attended.reads), f"s·P + {attended.reads.formula}"),
        (int(attended.writes), attended.writes.formula),
        (
            FMA,
            "leading order",
            "weights in matrix products read once for the batch, each cache read once",
            "activations stay on chip",
        ),
    )


# -- tables and optimizers


def embedding(tokens: int, width: int, dtype: object = "bf16", index: object = "int64") -> Cost:
    """Looking up `tokens` rows of a table: no FLOPs, each row read and written once, and an index a token."""
    n = _sizes(dtype, T=tokens, n=width)
    n["i"] = bytes_per_element(index)
    return _cost(
        "embedding",
        n,
        (0, "0"),
        (n["T"] * (n["i"] + n["s"] * n["n"]), "T·(i + s·n)"),
        (n["s"] * n["T"] * n["n"], "s·T·n"),
        ("no row is found in a cache", IDEAL),
    )


def optimizer_step(
    parameters: int,
    optimizer: str = "adamw",
    parameter: object = "bf16",
    gradient: object = "bf16",
    state: object = "fp32",
    master: object = None,
) -> Cost:
    """One update of every parameter in one pass: each array read once, each changed one written once.

    parameter, gradient, state, master: formats of each. With a master copy the update reads and writes that,
    and writes the parameter from it.
    """
    one_of("optimizer", optimizer, UPDATE_FLOPS)
    n: dict[str, Any] = {
        "P": whole("parameters", parameters),
        "c": UPDATE_FLOPS[optimizer],
        "a": len(OPTIMIZERS[optimizer].arrays),
        "w": bytes_per_element(parameter),
        "g": bytes_per_element(gradient),
        "o": bytes_per_element(state),
    }
    reads, writes = (n["w"], "w"), (n["w"], "w")
    if master is not None:
        n["m"] = bytes_per_element(master)
        reads, writes = (n["m"], "m"), (n["w"] + n["m"], "w + m")
    return _cost(
        f"{optimizer} step",
        n,
        (n["P"] * n["c"], "P·c"),
        (n["P"] * (reads[0] + n["g"] + n["a"] * n["o"]), f"P·({reads[1]} + g + a·o)"),
        (n["P"] * (writes[0] + n["a"] * n["o"]), f"P·({writes[1]} + a·o)"),
        (ANY_OPERATION, "one fused pass over parameters, gradients and states"),
    )


# -- several operators


def in_sequence(*costs: Cost, name: str = "in sequence") -> Cost:
    """One operator after the other, each through memory: everything adds up."""
    _some(costs)
    return Cost(
        name,
        _sum(name, "FLOPs", "F", [c.flops for c in costs]),
        _sum(name, "bytes read", "R", [c.reads for c in costs]),
        _sum(name, "bytes written", "W", [c.writes for c in costs]),
    )


def fused(*costs: Cost, name: str = "fused") -> Cost:
    """A chain in one kernel: each operator's output is the next one's input and never leaves the chip.

    LectureError if an operator reads less than the one before it wrote: it cannot have read all of it.
    """
    _some(costs)
    reads = [costs[0].reads]
    for before, after in zip(costs, costs[1:], strict=False):
        if after.reads < before.writes:
            raise LectureError(
                f"expected {after.name} to read all that {before.name} writes, {before.writes}; "
                f"got {after.reads} read; fuse only operators that follow each other"
            )
        reads.append(after.reads - before.writes)
    return Cost(
        name,
        _sum(name, "FLOPs", "F", [c.flops for c in costs]),
        _sum(name, "bytes read", "R", reads),
        costs[-1].writes.with_(name=f"{name}: bytes written"),
    )


def _some(costs: tuple[Cost, ...]) -> None:
    if not costs or not all(isinstance(cost, Cost) for cost in costs):
        raise LectureError(f"expected operators' costs; got {costs!r}; write fused(gemm(…), gelu(…))")


def _sum(name: str, what: str, symbol: str, parts: list[Quantity]) -> Quantity:
    symbols = {f"{symbol}{number}": part for number, part in enumerate(parts, 1)}
    total = sum(parts[1:], parts[0])
    return total.with_(name=f"{name}: {what}", formula=" + ".join(symbols), inputs=symbols)


def _sizes(dtype: object, **sizes: object) -> dict[str, Any]:
    """Checked sizes by symbol, and s, the bytes of a value (a Fraction below a byte)."""
    s = bytes_per_element(resolve(dtype))
    return {**{symbol: whole(symbol, size) for symbol, size in sizes.items()}, "s": s}


def _cost(
    name: str,
    inputs: Mapping[str, Number],
    flops: tuple[Number, str],
    reads: tuple[Number, str],
    writes: tuple[Number, str],
    conventions: tuple[str, ...],
    source: str = "",
) -> Cost:
    def quantity(what: str, unit: str, part: tuple[Number, str]) -> Quantity:
        return Quantity(part[0], unit, f"{name}: {what}", part[1], dict(inputs), conventions, source)

    return Cost(
        name,
        quantity("FLOPs", "FLOP", flops),
        quantity("bytes read", "B", reads),
        quantity("bytes written", "B", writes),
    )


def _renamed(cost: Cost, name: str) -> Cost:
    def named(q: Quantity) -> Quantity:
        return q.with_(name=f"{name}: {q.name.partition(': ')[2]}")

    return Cost(name, named(cost.flops), named(cost.reads), named(cost.writes))
