"""All three budgets of one step on one device: what it stores, computes and moves, and which is the limit.

`training_step` and `decode_step` put the other modules together. Every time is a lower bound: peak rates,
each value moved once, arithmetic and traffic of a part overlapping, the parts one after another.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

from lecture_lib.accounting import flops, hardware, kv_cache, models, operators, peak, roofline
from lecture_lib.accounting.dtypes import bits, bytes_per_element, resolve
from lecture_lib.accounting.inputs import sizes, whole
from lecture_lib.accounting.memory import BLOCKWISE_8BIT, Recipe, model_states, named_recipe
from lecture_lib.accounting.models import ModelConfig
from lecture_lib.quantity import LectureError, Ledger, Quantity

ONE_PASS = "each value read once and written once by the pass that needs it"
SHARDED_OVER = 8  # devices of the change "over 8 devices": one server's


class Machine(Protocol):
    """What a budget asks of a device: `hardware.Device` has it, and so have measured ceilings."""

    @property
    def name(self) -> str: ...
    @property
    def memory(self) -> Quantity: ...
    @property
    def bandwidth(self) -> Quantity: ...
    def peak(self, dtype: object) -> Quantity: ...


@dataclass(frozen=True)
class Change:
    """One change to a step, and what the limiting budget was before it and would be after it."""

    what: str
    before: Quantity
    after: Quantity

    def __str__(self) -> str:
        share = float(self.after / self.before) - 1
        return f"{self.what}: {self.before} → {self.after} ({share:+.0%})"


@dataclass(frozen=True)
class Budget:
    """A step's ledgers and bounds.

    storage:    bytes that must be there at once, by row; memory: what the device has
    arithmetic, traffic, time: FLOPs, bytes and least seconds of each part, rows alike
    limits:     part -> "arithmetic" or "bandwidth", whichever sets its time
    tokens:     that one step works on (decoding: makes)
    change:     of the changes tried, the one that moves the limiting budget most; None if none does
    """

    name: str
    storage: Ledger
    arithmetic: Ledger
    traffic: Ledger
    time: Ledger
    limits: Mapping[str, str]
    memory: Quantity
    tokens: int
    change: Change | None = None

    @property
    def fits(self) -> bool:
        """Whether all that is stored fits into the device's memory."""
        return self.storage.total <= self.memory

    @property
    def limiting(self) -> str:
        """ "storage" if it does not fit; else what sets most of the time: "arithmetic" or "bandwidth"."""
        if not self.fits:
            return "storage"
        spent = {limit: self._limited_by(limit) for limit in ("arithmetic", "bandwidth")}
        return max(spent, key=lambda limit: spent[limit])

    @property
    def time_per_token(self) -> Quantity:
        """Least seconds for each of the step's tokens."""
        total = self.time.total
        seconds = total / Quantity(self.tokens, "token")
        unit = next((u for u in ("s", "ms", "µs") if float(seconds.to(f"{u}/token").value) >= 1), "ns")
        return seconds.to(f"{unit}/token").with_(
            name="least time for a token", formula="t/T", inputs={"t": total, "T": self.tokens}
        )

    def _limited_by(self, limit: str) -> Fraction | float | int:
        return sum(row.value for part, row in self.time.items() if self.limits[part] == limit)

    def _verdict(self) -> list[str]:
        kept, memory = self.storage.total, self.memory
        if self.fits:
            share = float(self._limited_by(self.limiting)) / float(self.time.total)
            lines = [
                f"It fits: {kept} of {memory}.",
                f"The limit is {self.limiting}, for {share:.0%} of the least time.",
            ]
        else:
            lines = [f"It does not fit: {kept} into {memory}.", "The limit is storage."]
        tried = str(self.change) if self.change else "none of the changes tried moves it"
        return [*lines, f"First change: {tried}."]

    def _lines(self) -> list[tuple[str, str, str, str, str]]:
        rows = [
            (part, str(self.arithmetic[part]), str(self.traffic[part]), str(row), self.limits[part])
            for part, row in self.time.items()
        ]
        totals = [str(ledger.total) for ledger in (self.arithmetic, self.traffic, self.time)]
        return [*rows, ("total", totals[0], totals[1], totals[2], "")]

    def __str__(self) -> str:
        lines = [_HEAD, *self._lines()]
        wide = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
        table = [
            "  ".join(f"{cell:<{w}}" for cell, w in zip(line, wide, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([self.name, str(self.storage), "", *table, "", *self._verdict()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        left = ' style="text-align:left"'
        head = "".join(f'<th scope="col"{left}>{name}</th>' for name in _HEAD)
        body = "".join(
            f'<tr><th scope="row"{left}>{html.escape(part)}</th>'
            + "".join(f"<td{left}>{html.escape(cell)}</td>" for cell in cells)
            + "</tr>"
            for part, *cells in self._lines()
        )
        caption = f"<caption>{html.escape(self.name)}</caption>"
        verdict = "".join(f"<p>{html.escape(line)}</p>" for line in self._verdict())
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return self.storage._repr_html_() + table + verdict


_HEAD = ("part", "arithmetic", "traffic", "at least", "limit")


# -- a training step


def training_step(
    model: ModelConfig | str,
    batch: tuple[int, int],
    recipe: Recipe | str,
    device: Machine | str,
    *,
    dtype: object | None = None,
    fused: bool = True,
    segment: int | None = None,
    microbatches: int = 1,
) -> Budget:
    """Forward, backward and update of a Transformer on one device.

    model:   a configuration, or a name for `models.load`
    batch:   (sequences, tokens of each), of all microbatches together
    recipe:  a `memory.Recipe` or its name ("lecture", "autocast", "bf16-master" …)
    device:  a `hardware.Device` or its name, or this machine's `measuring.ceilings`
    dtype:   of the matrix products; the parameters' if left out (under autocast BF16)
    fused:   attention whose scores stay on chip, and which skips what the mask hides; otherwise all of them
             are computed and go through memory
    segment: layers under one checkpoint; None keeps all activations
    LectureError where `peak.transformer_peak` has no part for the model (experts, latent attention).
    """
    config, machine, kept = _model(model), _machine(device), named_recipe(recipe)
    shape = sizes("batch", batch)
    if len(shape) != 2:
        raise LectureError(f"expected batch as (sequences, tokens of each); got {batch!r}; write (8, 1024)")
    step = _Training(config, *shape, kept, machine, _products(dtype, kept), fused, segment, microbatches)
    budget = step.budget()
    return replace(budget, change=_best(budget, step.changes(budget.limiting)))


def _products(dtype: object | None, recipe: Recipe) -> str:
    if dtype is not None:
        return resolve(dtype).name
    return "bf16" if recipe.name == "autocast" else resolve(recipe.parameters).name


@dataclass(frozen=True)
class _Training:
    config: ModelConfig
    sequences: int
    seq: int
    recipe: Recipe
    machine: Machine
    dtype: str  # of the products
    fused: bool
    segment: int | None
    microbatches: int
    devices: int = 1  # that ZeRO-3 divides the model states over

    def budget(self) -> Budget:
        config, tokens = self.config, self.sequences * self.seq
        storage = self.storage()  # first: it knows what cannot be predicted
        parts = self.parts()
        what = f"{config.name or 'Transformer'}, training step of {self.sequences:,} × {self.seq:,} tokens"
        return _budget(f"{what} on {self.machine.name}", storage, parts, self.machine, self.dtype, tokens)

    def storage(self) -> Ledger:
        """Model states by recipe, and what a walk of the step holds beside them at its peak."""
        parameters = resolve(self.recipe.parameters).name
        walk = peak.transformer_peak(
            self.config,
            self.sequences,
            self.seq,
            fused=self.fused,
            dtype=parameters,
            autocast=None if self.dtype == parameters else self.dtype,
            optimizer="sgd",
            microbatches=self.microbatches,
            segment=self.segment,
        )
        count = models.parameters(self.config).total
        states = model_states(count, self.recipe, self.devices, 3 if self.devices > 1 else 0)
        beside = {
            label: walk.by_category[label].with_(
                conventions=(f"at the peak of a walk of the step: {walk.moment}",)
            )
            for label in ("activations", "temporaries")
        }
        return Ledger({**states, **beside}, name="Storage")

    def parts(self) -> dict[str, tuple[Quantity, Quantity]]:
        """Part -> its FLOPs and bytes, of all microbatches."""
        config, m = self.config, self.microbatches
        rows, seq, s = self.sequences // m * self.seq, self.seq, bytes_per_element(self.dtype)
        pairs, kernel = ("causal", "fused") if self.fused else ("full", "eager")
        forward = flops.transformer_forward(config, rows, seq, pairs)
        backward = flops.transformer_backward(config, rows, seq, pairs, kernel=kernel)
        L, d, V = config.num_hidden_layers, config.hidden_size, config.vocab_size
        attention, mlp = (
            models.attention_matrices(config),
            models.mlp_matrices(config, config.intermediate_size),
        )
        head = {"head": (d, V)}
        found: dict[str, tuple[Quantity, Quantity]] = {}
        for phase, counted in (("forward", forward), ("backward", backward)):
            back = phase == "backward"
            in_attention = [
                row
                for label, row in counted.items()
                if label.startswith("attention ") and label != _PROJECTIONS
            ]
            layers = {
                "attention projections": (
                    counted[_PROJECTIONS],
                    _times("L", L, _products_traffic(attention, rows, self.dtype, back)),
                ),
                "attention": (
                    _sum(in_attention),
                    _attention_traffic(config, rows, seq, s, self.fused, back),
                ),
                "MLP": (counted["MLP"], _times("L", L, _products_traffic(mlp, rows, self.dtype, back))),
                "norms, activations, sums": (_NONE, _passes_traffic(config, rows, s, back)),
            }
            found |= {f"{phase}: {part}": both for part, both in layers.items()}
            found[f"{phase}: head"] = (counted["head"], _products_traffic(head, rows, self.dtype, back))
            found[f"{phase}: loss"] = (_NONE, _values("2·T·V", s, {"T": rows, "V": V}, 2 * rows * V))
            found[f"{phase}: embedding"] = (
                _NONE,
                _values("T·d + V·d", s, {"T": rows, "V": V, "d": d}, (rows + V) * d)
                if back
                else operators.embedding(rows, d, self.dtype).bytes,
            )
            if not back and self.segment is not None:
                again = flops.recomputation(config, rows, seq, "full", pairs, self.segment)
                segments = -(-L // self.segment)
                stopped = operators.gemm(rows, config.intermediate_size, d, self.dtype).bytes
                moved = [*(traffic for _, traffic in layers.values()), -segments * stopped]
                found["recomputation"] = (_sum(list(again.values())), _sum(moved))
        found = {part: (_times("m", m, work), _times("m", m, moved)) for part, (work, moved) in found.items()}
        return {**found, **self._update()}

    def _update(self) -> dict[str, tuple[Quantity, Quantity]]:
        r, P = self.recipe, models.parameters(self.config).total
        gradients = r.main_gradients or r.gradients
        g = bytes_per_element(gradients)
        cost = operators.optimizer_step(int(P), r.optimizer, r.parameters, gradients, r.moments, r.master)
        rows = {}
        sums = self.microbatches - 1 + (r.main_gradients is not None)
        if sums:  # every further microbatch reads the sum and its own gradients, and writes the sum
            inputs = {"n": sums, "P": int(P)}
            rows["gradient sums"] = (_NONE, _values("3·n·P", g, inputs, 3 * sums * int(P)))
        return {**rows, "optimizer update": (cost.flops, cost.bytes)}

    def changes(self, limiting: str) -> Iterable[tuple[str, Budget]]:
        """Words and the budget after each change that could move the limiting one."""
        tries: list[tuple[str, _Training]] = []
        if not self.fused:
            tries.append(("fused attention", replace(self, fused=True)))
        if limiting == "storage":
            if self.segment is None:
                tries.append(("checkpoint every layer", replace(self, segment=1)))
            if self.microbatches < self.sequences:
                tries.append(("one sequence in each microbatch", replace(self, microbatches=self.sequences)))
            if bits(self.recipe.moments) > 16:
                eight = replace(
                    self.recipe, moments=BLOCKWISE_8BIT, name=f"{self.recipe.name}, 8-bit moments"
                )
                tries.append(("moments in 8 bits", replace(self, recipe=eight)))
            if self.devices == 1:
                words = f"model states divided over {SHARDED_OVER} devices (ZeRO-3)"
                tries.append((words, replace(self, devices=SHARDED_OVER)))
            return [(words, step.budget()) for words, step in tries]
        if self.segment is not None:
            tries.append(("keep all activations, no recomputation", replace(self, segment=None)))
        if self.microbatches > 1:
            tries.append(("all sequences in one microbatch", replace(self, microbatches=1)))
        if limiting == "bandwidth":
            tries.append(("twice the sequences", replace(self, sequences=2 * self.sequences)))
        budgets = [(words, step.budget()) for words, step in tries]
        for faster in _faster(self.machine, self.dtype):
            # In FP8 the operands are cast for the product, the rest stays in 16 bits: the rate alone moves.
            parts = (self if bits(faster) == 8 else replace(self, dtype=faster)).parts()
            moved = _budget("", Ledger({}, unit="B"), parts, self.machine, faster, self.sequences * self.seq)
            budgets.append((f"matrix products in {_family(faster)}", moved))
        return [(words, budget) for words, budget in budgets if budget.fits]


_PROJECTIONS = "attention projections"
_NONE = Quantity(0, "FLOP", formula="0", conventions=("matrix products and the optimizer alone are counted",))


def _products_traffic(
    matrices: Mapping[str, tuple[int, int]], rows: int, dtype: object, back: bool
) -> Quantity:
    """Bytes of Y = X·W for every matrix; back: of dX = G·Wᵀ and dW = Xᵀ·G."""
    moved = [
        gemm.bytes
        for d_in, d_out in matrices.values()
        for gemm in (
            [operators.gemm(rows, d_out, d_in, dtype), operators.gemm(d_in, rows, d_out, dtype)]
            if back
            else [operators.gemm(rows, d_in, d_out, dtype)]
        )
    ]
    return _sum(moved)


def _sum(parts: list[Quantity]) -> Quantity:
    """Their sum, with the parts in its formula: 442,368 FLOP + 552,960 FLOP."""
    if len(parts) == 1:
        return parts[0]
    symbols = {f"x_{number}": part for number, part in enumerate(parts, 1)}
    return sum(parts[1:], parts[0]).with_(formula=" + ".join(symbols), inputs=symbols)


def _times(symbol: str, count: int, each: Quantity) -> Quantity:
    """So many of it; one is itself."""
    if count == 1 or not each.value:
        return each
    total = count * each
    return total.with_(name=each.name, formula=f"{symbol}·x", inputs={symbol: count, "x": each})


def _attention_traffic(
    config: ModelConfig, rows: int, seq: int, s: int | Fraction, fused: bool, back: bool
) -> Quantity:
    """Bytes of attention over T rows, all layers.

    Fused, forward: Q, K, V and the output, once each. Backward: those and the output's gradient read, three
    gradients written. Eager: beside them 4 passes over the T·H·S scores forward (written; softmax reads and
    writes; read), and 7 backward (dP written; P read for dV; P and dP read, dS written; dS read twice).
    """
    L, H, K = config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads
    inputs = {"L": L, "T": rows, "H": H, "K": K, "k": config.head_dim, "v": config.value_dim, "S": seq}
    width = H * config.head_dim + K * config.head_dim + K * config.value_dim
    out = H * config.value_dim
    each, formula = (
        (2 * width + 2 * out, "2·(H·k + K·k + K·v + H·v)")
        if back
        else (width + out, "(H·k + K·k + K·v + H·v)")
    )
    if not fused:
        passes = 7 if back else 4
        each, formula = each + passes * H * seq, f"({formula} + {passes}·H·S)"
    return _values(f"L·T·{formula}", s, inputs, L * rows * each)


def _passes_traffic(config: ModelConfig, rows: int, s: int | Fraction, back: bool) -> Quantity:
    """Bytes of norms, residual sums, rotation and the MLP's activation over T rows, all layers, a pass each.

    Forward a norm reads and writes d values, a sum reads 2·d and writes d, a rotation reads and writes the
    queries and keys, an activation reads f (gated 2·f) and writes f; Σf is over the layers. Backward a norm
    reads its input beside the gradient, a sum adds two gradients, an activation reads what it read and the
    gradient, and writes a gradient for each.
    """
    d, L, H = config.hidden_size, config.num_hidden_layers, config.num_attention_heads
    active = config.num_experts_per_tok + config.n_shared_experts
    f = config.dense_layers * config.intermediate_size
    f += config.moe_layers * active * config.moe_intermediate_size
    if config.kv_lora_rank is None:
        turned = (H + config.num_key_value_heads) * config.head_dim
    else:  # the rotary part of each query, and of the one key
        turned = (H + 1) * config.qk_rope_head_dim
    turned *= config.positions == "rotary"
    norm, activation = (3, 5 if config.gated_mlp else 3) if back else (2, 3 if config.gated_mlp else 2)
    values = L * (norm * config.norms_per_layer * d + 6 * d + 2 * turned) + activation * f
    inputs = {"L": L, "T": rows, "n_norms": config.norms_per_layer, "d": d, "r": turned, "Σf": f}
    return _values(f"T·(L·({norm}·n_norms·d + 6·d + 2·r) + {activation}·Σf)", s, inputs, rows * values)


def _values(formula: str, s: int | Fraction, inputs: Mapping[str, int], count: int) -> Quantity:
    """Bytes of a count of values, s each."""
    return Quantity(
        s * count, "B", formula=f"s·({formula})", inputs={"s": s, **inputs}, conventions=(ONE_PASS,)
    )


# -- a decoding step


def decode_step(
    model: ModelConfig | str, batch: int, context: int, dtype: object, device: Machine | str
) -> Budget:
    """One new token for each of `batch` sequences; with it each has `context` tokens in the cache.

    model, device: as for `training_step`; dtype: of weights, cache and products alike
    A mixture of experts reads the experts that B tokens hit on average if all are equally likely. Latent
    attention works on the latents (its up-projection applied to queries and outputs), as DeepSeek's does.
    """
    config, machine, kind = _model(model), _machine(device), resolve(dtype).name
    B, C = whole("batch", batch), whole("context", context, unit="token")
    if config.max_position_embeddings < C:
        raise LectureError(
            f"expected a context of at most max_position_embeddings = {config.max_position_embeddings}; "
            f"got {C}"
        )
    budget = _decode(config, B, C, kind, machine)
    tries: dict[str, tuple[int, int, str]] = {}
    if budget.limiting == "storage":
        tries |= {"half the sequences": (B // 2, C, kind)} if B > 1 else {}
        tries |= {"half the context": (B, C // 2, kind)} if C > 1 else {}
    elif budget.limiting == "bandwidth":
        tries["twice the sequences"] = (2 * B, C, kind)
    tries |= {f"weights, cache and products in {_family(f)}": (B, C, f) for f in _faster(machine, kind)}
    changed = [(words, _decode(config, *given, machine)) for words, given in tries.items()]
    if budget.limiting == "storage":
        share = {**budget.storage, "weights": budget.storage["weights"] / SHARDED_OVER}
        words = f"weights divided over {SHARDED_OVER} devices"
        changed.append((words, replace(budget, storage=Ledger(share, name="Storage"))))
    else:
        changed = [(words, after) for words, after in changed if after.fits]
    return replace(budget, change=_best(budget, changed))


def _decode(config: ModelConfig, B: int, C: int, dtype: str, machine: Machine) -> Budget:
    s, L, d, V = bytes_per_element(dtype), config.num_hidden_layers, config.hidden_size, config.vocab_size
    work = flops.transformer_forward(config, B, 1)  # but for attention, which has the cache's positions
    experts = [work[label] for label in ("routed experts", "shared experts", "router") if label in work]
    cache = kv_cache.kv_cache(config, B, C, dtype)
    parts = {
        "attention projections": (
            work["attention projections"],
            _times("L", L, _products_traffic(models.attention_matrices(config), B, dtype, back=False)),
        ),
        "attention": _decode_attention(config, B, C, dtype),
    }
    if "MLP" in work:
        mlp = models.mlp_matrices(config, config.intermediate_size)
        moved = _products_traffic(mlp, B, dtype, back=False)
        parts["MLP"] = (work["MLP"], _times("L_dense", config.dense_layers, moved))
    if experts:
        parts["experts"] = (_sum(experts), _experts_traffic(config, B, s))
    parts |= {
        "norms, activations, sums": (_NONE, _passes_traffic(config, B, s, back=False)),
        "head": (work["head"], operators.gemm(B, d, V, dtype).bytes),
        "embedding": (_NONE, operators.embedding(B, d, dtype).bytes),
    }
    weights = models.parameters(config).total
    storage = {
        "weights": Quantity(
            s * int(weights), "B", formula="s·P", inputs={"s": s, "P": int(weights)}, conventions=(dtype,)
        ),
        "KV cache": _sum(list(cache.values())),
        "logits": _values("B·V", s, {"B": B, "V": V}, B * V),
    }
    what = f"{config.name or 'Transformer'}, one token for {B:,} sequence{'s' * (B > 1)} of {C:,}"
    return _budget(f"{what} on {machine.name}", Ledger(storage, name="Storage"), parts, machine, dtype, B)


def _decode_attention(config: ModelConfig, B: int, C: int, dtype: object) -> tuple[Quantity, Quantity]:
    """FLOPs and bytes of B queries against their caches; queries and outputs go through memory too."""
    cost = operators.decode_attention(config, B, C, dtype)
    n: dict[str, Any] = {symbol: cost.flops.inputs[symbol] for symbol in ("B", "L", "H", "k", "v")}
    beside = n["B"] * n["L"] * n["H"] * (n["k"] + n["v"])
    return cost.flops, _sum([cost.bytes, _values("B·L·H·(k + v)", bytes_per_element(dtype), n, beside)])


def _experts_traffic(config: ModelConfig, B: int, s: int | Fraction) -> Quantity:
    """Bytes of E·(1 - (1 - top_k/E)^B) routed experts (the average), every shared one, and the router."""
    E, top_k, d = config.num_experts, config.num_experts_per_tok, config.hidden_size
    matrices = models.mlp_matrices(config, config.moe_intermediate_size)
    each, row = models.weights(matrices), sum(d_in + d_out for d_in, d_out in matrices.values())
    hit = E * (1 - (1 - top_k / E) ** B)
    acting = top_k + config.n_shared_experts
    values = (hit + config.n_shared_experts) * each + B * acting * row + d * E + B * (d + E)
    return Quantity(
        float(s) * config.moe_layers * values,
        "B",
        formula="s·L_moe·((n_hit + n_shared)·P_expert + B·(top_k + n_shared)·r + d·E + B·(d + E))",
        inputs={
            "s": s,
            "L_moe": config.moe_layers,
            "n_hit": float(hit),
            "n_shared": config.n_shared_experts,
            "P_expert": each,
            "B": B,
            "top_k": top_k,
            "r": row,
            "d": d,
            "E": E,
        },
        conventions=(ONE_PASS, "every expert equally likely: the number hit is an average"),
    )


# -- both


def _budget(
    name: str,
    storage: Ledger,
    parts: Mapping[str, tuple[Quantity, Quantity]],
    machine: Machine,
    dtype: object,
    tokens: int,
) -> Budget:
    C, beta = machine.peak(dtype), machine.bandwidth
    work = {part: F.with_(name=part) for part, (F, _) in parts.items()}
    moved = {part: Q.with_(name=part) for part, (_, Q) in parts.items()}
    return Budget(
        name,
        storage,
        Ledger(work, name="Arithmetic"),
        Ledger(moved, name="Data movement"),
        Ledger(
            {part: roofline.time_bound(work[part], moved[part], C, beta).with_(name=part) for part in parts},
            name="Least time",
        ),
        {part: roofline.limit(work[part], moved[part], C, beta) for part in parts},
        machine.memory,
        tokens,
    )


def _best(budget: Budget, tries: Iterable[tuple[str, Budget]]) -> Change | None:
    def measure(of: Budget) -> Quantity:
        return of.storage.total if budget.limiting == "storage" else of.time_per_token

    before = measure(budget)
    changes = [Change(words, before, measure(after)) for words, after in tries]
    return min((c for c in changes if c.after < before), key=lambda c: c.after, default=None)


def _faster(machine: Machine, dtype: str) -> list[str]:
    """The next narrower format, where it has a higher peak here: BF16 after FP32, FP8 after 16 bits."""
    narrower = "bf16" if bits(dtype) > 16 else "fp8_e4m3" if bits(dtype) > 8 else None
    if narrower is None:
        return []
    try:
        return [narrower] if machine.peak(narrower) > machine.peak(dtype) else []
    except LectureError:  # not recorded, or not measured
        return []


def _family(dtype: str) -> str:
    return hardware.rate_format(dtype).upper()


def _model(model: object) -> ModelConfig:
    return models.load(model) if isinstance(model, str) else models.a_config(model)


def _machine(device: Machine | str) -> Machine:
    if isinstance(device, str):
        return hardware.device(device)
    if not all(hasattr(device, wanted) for wanted in ("name", "memory", "bandwidth", "peak")):
        raise LectureError(
            f"expected a device's name, hardware.device(…) or measuring.ceilings(…); got {device!r}"
        )
    return device
