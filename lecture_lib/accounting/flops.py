"""FLOPs of linear layers, their backward products, networks, Transformers and training runs.

A multiply and its add are two FLOPs. The leading count, which counters report, gives every term of a sum
an add; `exact=True` drops the add that the first term does not need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from lecture_lib.accounting.contraction import FMA
from lecture_lib.accounting.inputs import chain_widths, one_of, segment_length, whole
from lecture_lib.accounting.models import ModelConfig, active_parameters, matmul_parameters, parameters
from lecture_lib.quantity import LectureError, Ledger, Quantity

MATMULS = "matrix products only (no bias, no activation)"


def linear_forward(M: int, d_in: int, d_out: int, exact: bool = False) -> Quantity:
    """FLOPs of Y = X·W, X (M, d_in), W (d_in, d_out): 2·M·d_in·d_out, or M·d_out·(2·d_in−1) exactly."""
    return _product("forward", M, d_in, d_out, ("M", "d_out"), "d_in", exact)


def linear_input_gradient(M: int, d_in: int, d_out: int, exact: bool = False) -> Quantity:
    """FLOPs of dX = G·Wᵀ, G (M, d_out): 2·M·d_in·d_out, or M·d_in·(2·d_out−1) exactly."""
    return _product("input gradient", M, d_in, d_out, ("M", "d_in"), "d_out", exact)


def linear_weight_gradient(M: int, d_in: int, d_out: int, exact: bool = False) -> Quantity:
    """FLOPs of dW = Xᵀ·G: 2·M·d_in·d_out, or d_in·d_out·(2·M−1) exactly."""
    return _product("weight gradient", M, d_in, d_out, ("d_in", "d_out"), "M", exact)


def _product(
    name: str, M: int, d_in: int, d_out: int, kept: tuple[str, str], summed: str, exact: bool
) -> Quantity:
    inputs = {"M": whole("M", M), "d_in": whole("d_in", d_in), "d_out": whole("d_out", d_out)}
    rows, columns, terms = inputs[kept[0]], inputs[kept[1]], inputs[summed]
    if exact:
        value, formula, order = (
            rows * columns * (2 * terms - 1),
            f"{kept[0]}·{kept[1]}·(2·{summed} - 1)",
            "exact",
        )
    else:
        value, formula, order = 2 * rows * columns * terms, "2·M·d_in·d_out", "leading order"
    return Quantity(value, "FLOP", name=name, formula=formula, inputs=inputs, conventions=(FMA, order))


def linear_step(M: int, d_in: int, d_out: int, input_gradient: bool = True, exact: bool = False) -> Ledger:
    """Forward and backward products of a linear layer over M rows: 6·M·P, P = d_in·d_out.

    At a fixed boundary (`input_gradient=False`) the row "input gradient" is absent, and 4·M·P remain.
    """
    rows = {"forward": linear_forward(M, d_in, d_out, exact)}
    if input_gradient:
        rows["input gradient"] = linear_input_gradient(M, d_in, d_out, exact)
    rows["weight gradient"] = linear_weight_gradient(M, d_in, d_out, exact)
    return Ledger(rows, name=f"linear layer {d_in} -> {d_out}, {M} rows")


def mlp_step(M: int, widths: Sequence[int], input_gradient: bool = False, exact: bool = False) -> Ledger:
    """Matrix products of a training step of a chain of linear layers.

    M: rows; widths: (d_0, d_1, …, d_L), so L layers. The data need no gradient, so the first layer computes
    no input gradient unless asked. Rows are named "layer 1: forward" and so on.
    """
    chain = chain_widths(widths)
    rows: dict[str, Quantity] = {}
    for number, (d_in, d_out) in enumerate(zip(chain, chain[1:], strict=False), 1):
        step = linear_step(M, d_in, d_out, input_gradient or number > 1, exact)
        for row, quantity in step.items():
            rows[f"layer {number}: {row}"] = quantity.with_(conventions=(*quantity.conventions, MATMULS))
    return Ledger(rows, name="MLP " + " -> ".join(map(str, chain)) + f", {M} rows")


def training_run(parameters: int | Quantity, tokens: int | Quantity) -> Quantity:
    """FLOPs of training P parameters on T tokens, repeats included: 6·P·T.

    P: parameters that act on every token (for a mixture of experts the active ones).
    """
    P, T = whole("parameters", parameters, unit="parameter"), whole("tokens", tokens, unit="token")
    return Quantity(
        6 * P * T,
        "FLOP",
        name="training run",
        formula="6·P·T",
        inputs={"P": P, "T": T},
        conventions=(FMA, "every parameter acts once on every token; no attention scores, no recomputation"),
        source="Kaplan et al. 2020, section 2.1",
    )


# -- attention: the two products that no parameter is in


def attention_forward(
    batch: int, heads: int, seq: int, head_dim: int, v_head_dim: int | None = None, attention: str = "full"
) -> Ledger:
    """FLOPs of softmax(Q·Kᵀ)·V without the softmax: Q, K (batch, heads, seq, head_dim), V (…, v_head_dim).

    attention: "full" counts all S² pairs, as torch's counter does; "causal" counts half of them (the exact
    number, S·(S+1)/2, is that and the diagonal's other half).
    """
    sizes_ = _attention_inputs(batch, heads, seq, head_dim, v_head_dim)
    return Ledger(
        {
            "scores": _attention_product("scores Q·Kᵀ", "k", sizes_, attention),
            "values": _attention_product("values P·V", "v", sizes_, attention),
        },
        name=f"attention forward, {attention}",
    )


def attention_backward(
    batch: int,
    heads: int,
    seq: int,
    head_dim: int,
    v_head_dim: int | None = None,
    attention: str = "full",
    kernel: str = "eager",
) -> Ledger:
    """FLOPs of attention's backward: four products (dV, dP, dQ, dK), twice the forward.

    kernel: "fused" (flash attention) keeps no scores and forms them again, a fifth product: 2.5 times.
    """
    sizes_ = _attention_inputs(batch, heads, seq, head_dim, v_head_dim)
    one_of("kernel", kernel, KERNELS)
    rows = {} if kernel == "eager" else {"scores again": ("scores Q·Kᵀ again", "k")}
    rows |= {
        "dV": ("dV = Pᵀ·dO", "v"),
        "dP": ("dP = dO·Vᵀ", "v"),
        "dQ": ("dQ = dS·K", "k"),
        "dK": ("dK = dSᵀ·Q", "k"),
    }
    return Ledger(
        {row: _attention_product(name, width, sizes_, attention) for row, (name, width) in rows.items()},
        name=f"attention backward, {attention}, {kernel}",
    )


ATTENTION = {"full": "full attention: all S² pairs", "causal": "causal attention: half of the S² pairs"}
KERNELS = {
    "eager": "attention's scores kept for the backward",
    "fused": "fused attention: the scores are formed again in the backward",
}
RECOMPUTE = {
    "none": "no recomputation",
    "selective": "attention scores and values computed again in the backward",
    "full": "every layer's forward computed again in the backward, the head's not",
}
EARLY_STOP = "what follows a segment's last saved tensor is not computed again"
_EARLY_STOP_SOURCE = "torch.utils.checkpoint.checkpoint, use_reentrant=False, early_stop=True (its default)"
# Elementwise FLOPs per parameter and step; a square root and a division are one each, bias corrections of the
# scalars are none.
UPDATE_FLOPS = {
    "sgd": 2,  # w - lr·g
    "momentum": 4,  # μ·v + g; w - lr·v
    "adagrad": 7,  # s + g·g; w - lr·g/√(s + ε)
    "adam": 13,  # β1·m + (1-β1)·g; β2·v + (1-β2)·g·g; √v/c2 + ε; w - lr·m/denominator
    "adamw": 14,  # as Adam, and w·(1 - lr·λ)
}


def _attention_inputs(batch: int, heads: int, seq: int, k: int, v: int | None) -> dict[str, int]:
    return {
        "B": whole("batch", batch),
        "H": whole("heads", heads),
        "S": whole("seq", seq),
        "k": whole("head_dim", k),
        "v": whole("v_head_dim", k if v is None else v),
    }


def _attention_product(name: str, width: str, inputs: Mapping[str, int], attention: str) -> Quantity:
    one_of("attention", attention, ATTENTION)
    pairs = inputs["B"] * inputs["H"] * inputs["S"] ** 2 * inputs[width]
    factor = 2 if attention == "full" else 1
    formula = f"{'2·' if factor == 2 else ''}B·H·S·S·{width}"
    return Quantity(
        factor * pairs,
        "FLOP",
        name=name,
        formula=formula,
        inputs=inputs,
        conventions=(FMA, ATTENTION[attention]),
    )


# -- the Transformer of a configuration


def transformer_forward(
    config: ModelConfig, tokens: int, seq: int, attention: str = "full", head: bool = True
) -> Ledger:
    """Matrix products of a forward over `tokens` tokens in sequences of `seq`, by component.

    tokens: T, of all sequences together (batch · seq); attention: "full" or "causal"; head: logits for every
    position, or none. Embedding look-ups are no FLOPs; of a mixture of experts the active ones count.
    """
    T, S = whole("tokens", tokens, unit="token"), whole("seq", seq)
    one_of("attention", attention, ATTENTION)
    conventions = (FMA, MATMULS, ATTENTION[attention], "embedding look-ups are no FLOPs")
    rows = {
        label: Quantity(
            2 * int(row) * T,
            "FLOP",
            name=label,
            formula=f"2·T·({row.formula})",
            inputs={"T": T, **row.inputs},
            conventions=conventions,
        )
        for label, row in matmul_parameters(config).items()
        if head or label != "head"
    }
    products = {"attention scores": ("k", config.head_dim), "attention values": ("v", config.value_dim)}
    factor = 2 if attention == "full" else 1
    for label, (symbol, width) in products.items():
        inputs = {
            "L": config.num_hidden_layers,
            "T": T,
            "S": S,
            "H": config.num_attention_heads,
            symbol: width,
        }
        rows[label] = Quantity(
            factor * math.prod(inputs.values()),
            "FLOP",
            name=label,
            formula=f"{'2·' if factor == 2 else ''}L·T·S·H·{symbol}",
            inputs=inputs,
            conventions=conventions,
        )
    return Ledger(rows, name=f"{config.name or 'Transformer'}: forward, {T:,} tokens")


def transformer_backward(
    config: ModelConfig,
    tokens: int,
    seq: int,
    attention: str = "full",
    head: bool = True,
    kernel: str = "eager",
) -> Ledger:
    """Matrix products of the backward: twice the forward's, row by row.

    The first layer's input gradient is in it, since it trains the embeddings. kernel "fused" adds the row
    "attention scores again".
    """
    one_of("kernel", kernel, KERNELS)
    forward = transformer_forward(config, tokens, seq, attention, head)
    rows = {
        label: (2 * row).with_(name=label, formula=f"2·({row.formula})", inputs=row.inputs)
        for label, row in forward.items()
    }
    if kernel == "fused":
        rows["attention scores again"] = forward["attention scores"].with_(name="attention scores again")
    rows = {label: row.with_(conventions=(*row.conventions, KERNELS[kernel])) for label, row in rows.items()}
    return Ledger(rows, name=f"{config.name or 'Transformer'}: backward, {whole('tokens', tokens):,} tokens")


def recomputation(
    config: ModelConfig,
    tokens: int,
    seq: int,
    recompute: str = "full",
    attention: str = "full",
    segment: int | None = None,
) -> Ledger:
    """Matrix products that checkpointing repeats, by component.

    recompute: "none"; "selective" (attention's two products); "full" (every layer once, not the head).
    segment: with "full", the layers k under one checkpoint; torch then stops at a segment's last saved
    tensor, and the row "stopped early" (negative) takes off the product after it. None: without that stop.
    """
    one_of("recompute", recompute, RECOMPUTE)
    kept = {"none": (), "selective": ("attention scores", "attention values"), "full": None}[recompute]
    forward = transformer_forward(config, tokens, seq, attention, head=False)
    rows = {
        label: row.with_(conventions=(*row.conventions, RECOMPUTE[recompute]))
        for label, row in forward.items()
        if kept is None or label in kept
    }
    if segment is not None:
        if recompute != "full":
            raise LectureError(
                f"expected segments with recompute='full' alone; got {recompute!r}; leave segment out"
            )
        rows["stopped early"] = _stopped_early(config, whole("tokens", tokens, unit="token"), segment)
    return Ledger(rows, name=f"{config.name or 'Transformer'}: recomputation, {recompute}", unit="FLOP")


def _stopped_early(config: ModelConfig, tokens: int, segment: int) -> Quantity:
    """The last products of the segments: down projections, whose outputs only a sum needs, which keeps none.

    Routed experts' outputs are multiplied by their weights, and so are kept; a shared expert's are not.
    """
    layers = config.num_hidden_layers
    k = segment_length(segment, layers)
    ends = [min(first + k, layers) - 1 for first in range(0, layers, k)]  # from 0; the last may be shorter
    widths = [
        (config.moe_intermediate_size * bool(config.n_shared_experts))
        if config.has_experts(last)
        else config.intermediate_size
        for last in ends
    ]
    return Quantity(
        -2 * tokens * config.hidden_size * sum(widths),
        "FLOP",
        name="stopped early",
        formula="-2·T·d·Σf",
        inputs={"T": tokens, "d": config.hidden_size, "Σf": sum(widths)},
        conventions=(FMA, EARLY_STOP),
        source=_EARLY_STOP_SOURCE,
    )


def mlp_recomputation(M: int, widths: Sequence[int], segment: int) -> Ledger:
    """Products that a chain of linear layers repeats with every `segment` of them under one checkpoint.

    An activation follows each layer but the last, and is saved: a segment that ends in one is repeated whole.
    Of the last layer's product nothing is saved: the row "stopped early" (negative) takes it off.
    """
    forward = {
        label.replace("forward", "again"): row
        for label, row in mlp_step(M, widths).items()
        if label.endswith(": forward")
    }
    k = segment_length(segment, len(forward))
    last = list(forward.values())[-1]
    stopped = (-last).with_(
        name="stopped early",
        formula=f"-{last.formula}",
        conventions=(FMA, EARLY_STOP),
        source=_EARLY_STOP_SOURCE,
    )
    return Ledger({**forward, "stopped early": stopped}, name=f"MLP: recomputation, segments of {k}")


def optimizer_update(parameters: int | Quantity, optimizer: str = "adamw", steps: int = 1) -> Quantity:
    """Elementwise FLOPs of the optimizer: c·P·steps, c from `UPDATE_FLOPS`."""
    one_of("optimizer", optimizer, UPDATE_FLOPS)
    P, n = whole("parameters", parameters, unit="parameter"), whole("steps", steps)
    return Quantity(
        UPDATE_FLOPS[optimizer] * P * n,
        "FLOP",
        name="optimizer update",
        formula="c·P·n_steps",
        inputs={"c": UPDATE_FLOPS[optimizer], "P": P, "n_steps": n},
        conventions=(f"{optimizer}: a square root and a division are 1 FLOP each",),
    )


def beyond_6pt(
    config: ModelConfig,
    tokens: int,
    seq: int,
    attention: str = "full",
    kernel: str = "eager",
    recompute: str = "none",
    optimizer: str = "adamw",
    tokens_per_step: int | None = None,
) -> Ledger:
    """6·P·T with P all parameters, and term by term what it misses; the total is the full count.

    tokens: T; seq: S of each sequence; tokens_per_step: T itself if left out, so one step. Rows: "6PT";
    "inactive experts", "embedding look-ups" and "biases and norms" (in 6PT, though in no product: negative);
    "attention", "attention scores again", "recomputation" and "optimizer update" (left out by 6PT).
    """
    T, S = whole("tokens", tokens, unit="token"), whole("seq", seq)
    per_step = T if tokens_per_step is None else whole("tokens_per_step", tokens_per_step, unit="token")
    every, active = parameters(config), active_parameters(config)
    products = int(matmul_parameters(config).total)
    tables = ["position embeddings", "token type embeddings"]
    tables += [] if config.tie_word_embeddings else ["token embeddings"]
    looked_up = sum(int(every[label]) for label in tables if label in every)
    idle = int(every.total) - int(active.total)
    rest = int(active.total) - products - looked_up

    backward = transformer_backward(config, T, S, attention, kernel=kernel)
    forward = transformer_forward(config, T, S, attention)
    scores = [
        ledger[row] for ledger in (forward, backward) for row in ("attention scores", "attention values")
    ]
    again = backward["attention scores again"] if kernel == "fused" else Quantity(0, "FLOP")
    rows = {
        "6PT": training_run(every.total, T),
        "inactive experts": _overcharge("inactive experts", idle, T),
        "embedding look-ups": _overcharge("embedding look-ups", looked_up, T),
        "biases and norms": _overcharge("biases and norms", rest, T),
        "attention": Quantity(
            sum(int(row) for row in scores),
            "FLOP",
            name="attention",
            formula="3·(scores + values)",
            inputs={"scores": int(forward["attention scores"]), "values": int(forward["attention values"])},
            conventions=(FMA, ATTENTION[attention]),
        ),
        "attention scores again": again.with_(name="attention scores again", conventions=(KERNELS[kernel],)),
        "recomputation": recomputation(config, T, S, recompute, attention).total.with_(
            name="recomputation", conventions=(RECOMPUTE[recompute],)
        ),
        "optimizer update": optimizer_update(every.total, optimizer, -(-T // per_step)),
    }
    kept = {label: row for label, row in rows.items() if row.value}
    return Ledger(
        kept, name=f"{config.name or 'Transformer'}: beyond 6PT, {T:,} tokens in sequences of {S:,}"
    )


def _overcharge(name: str, count: int, tokens: int) -> Quantity:
    return Quantity(
        -6 * count * tokens,
        "FLOP",
        name=name,
        formula="-6·n·T",
        inputs={"n": count, "T": tokens},
        conventions=("charged by 6PT, though no matrix product has them",),
    )


# -- published formulas, as printed


def palm_flops_per_token(
    parameters: int | Quantity, layers: int, heads: int, head_dim: int, seq: int
) -> Quantity:
    """6·N + 12·L·H·Q·T: training FLOPs per token, attention over all T positions of the sequence."""
    inputs = {
        "N": whole("parameters", parameters, unit="parameter"),
        "L": whole("layers", layers),
        "H": whole("heads", heads),
        "Q": whole("head_dim", head_dim),
        "T": whole("seq", seq),
    }
    value = 6 * inputs["N"] + 12 * inputs["L"] * inputs["H"] * inputs["Q"] * inputs["T"]
    return Quantity(
        value,
        "FLOP/token",
        name="training FLOPs per token",
        formula="6·N + 12·L·H·Q·T",
        inputs=inputs,
        conventions=(FMA, ATTENTION["full"]),
        source="Chowdhery et al. 2022 (PaLM), appendix B",
    )


def narayanan_flops(batch: int, layers: int, hidden: int, seq: int, vocab: int) -> Quantity:
    """96·B·s·l·h²·(1 + s/(6·h) + V/(16·l·h)): one iteration, full recomputation of every layer included."""
    B, layers_, h = whole("batch", batch), whole("layers", layers), whole("hidden", hidden)
    s, V = whole("seq", seq), whole("vocab", vocab)
    return Quantity(
        96 * B * s * layers_ * h * h + 16 * B * s * s * layers_ * h + 6 * B * s * h * V,
        "FLOP",
        name="FLOPs of one iteration",
        formula="96·B·s·l·h·h·(1 + s/(6·h) + V/(16·l·h))",
        inputs={"B": B, "s": s, "l": layers_, "h": h, "V": V},
        conventions=(FMA, ATTENTION["full"], RECOMPUTE["full"]),
        source="Narayanan et al. 2021 (2104.04473), equation 3",
    )


def narayanan_parameters(layers: int, hidden: int, seq: int, vocab: int) -> Quantity:
    """12·l·h²·(1 + 13/(12·h) + (V + s)/(12·l·h)): parameters of a GPT, its last norm left out."""
    layers_, h = whole("layers", layers), whole("hidden", hidden)
    s, V = whole("seq", seq), whole("vocab", vocab)
    return Quantity(
        12 * layers_ * h * h + 13 * layers_ * h + (V + s) * h,
        "parameter",
        name="parameters",
        formula="12·l·h·h·(1 + 13/(12·h) + (V + s)/(12·l·h))",
        inputs={"l": layers_, "h": h, "V": V, "s": s},
        source="Narayanan et al. 2021 (2104.04473), equation 2",
    )


def chinchilla_forward(
    layers: int, d_model: int, ffw_size: int, heads: int, key_size: int, seq: int, vocab: int
) -> Ledger:
    """Forward FLOPs of one sequence as in Chinchilla's appendix F; the backward is twice that.

    Counts the embedding as a product and the softmax as 3 FLOPs a score. The paper's table A4 reproduces only
    without its rows "embeddings" and "logits".
    """
    n = {
        "n_layers": whole("layers", layers),
        "d": whole("d_model", d_model),
        "f": whole("ffw_size", ffw_size),
        "H": whole("heads", heads),
        "k": whole("key_size", key_size),
        "s": whole("seq", seq),
        "V": whole("vocab", vocab),
    }
    formulas: dict[str, tuple[int, tuple[str, ...]]] = {
        "embeddings": (2, ("s", "V", "d")),
        "key, query and value projections": (6, ("n_layers", "s", "d", "k", "H")),
        "key @ query logits": (2, ("n_layers", "s", "s", "k", "H")),
        "softmax": (3, ("n_layers", "H", "s", "s")),
        "softmax @ query reductions": (2, ("n_layers", "s", "s", "k", "H")),
        "final linear": (2, ("n_layers", "s", "k", "H", "d")),
        "dense block": (4, ("n_layers", "s", "d", "f")),
        "logits": (2, ("s", "d", "V")),
    }
    rows = {
        row: Quantity(
            factor * math.prod(n[symbol] for symbol in symbols),
            "FLOP",
            name=row,
            formula="·".join([str(factor), *symbols]),
            inputs=n,
            conventions=(FMA, ATTENTION["full"]),
            source="Hoffmann et al. 2022 (2203.15556), appendix F",
        )
        for row, (factor, symbols) in formulas.items()
    }
    return Ledger(rows, name="Chinchilla's count: forward of one sequence")
