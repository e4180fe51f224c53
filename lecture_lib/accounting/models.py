"""One configuration for the Transformers of the course, and their exact parameter counts.

Field names are Hugging Face's; what its model classes fix in code and not in the configuration (norms, gated
MLPs, biases, positions) is a field here. `load` reads `data/models.toml`, `from_config_json` a config.json.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from os import PathLike
from typing import Any

from lecture_lib.accounting.inputs import closest, unknown, whole
from lecture_lib.quantity import LectureError, Ledger, Quantity


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A decoder-only Transformer (or, with `type_vocab_size` and `pooler`, a BERT encoder).

    hidden_size d, intermediate_size f (of the dense MLP), num_hidden_layers L, num_attention_heads H,
    num_key_value_heads K, head_dim (stated, never derived), vocab_size V, max_position_embeddings.

    tie_word_embeddings: the head is the token embedding, counted once
    gated_mlp:           three matrices (gate, up, down) and not two (up, down)
    positions:           "learned" (a table of max_position_embeddings rows), "rotary" or "none"
    attention_bias:      biases in the query, key, value and output projections (latent attention: only in
                         those into a latent, and the output); qkv_bias: in the first three
    mlp_bias, norm_bias: biases in the MLP; in the norms ("layernorm" in most models has one, RMSNorm not)
    norms_per_layer:     2 in most, 4 in Gemma 2 and 3, 1 in a parallel block
    qk_norm:             a norm over head_dim on queries and one on keys, without bias

    Mixture of experts: num_experts E routed ones, num_experts_per_tok of them active, each of width
    moe_intermediate_size, beside n_shared_experts always active ones. A layer i (from 0) has experts if
    i >= first_k_dense_replace and (i + 1) is a multiple of decoder_sparse_step; the others are dense.
    router_bias: the router also keeps a correction for each expert, which no gradient reaches (DeepSeek-V3).

    Multi-head latent attention, if kv_lora_rank is set: q_lora_rank (None for a plain query projection),
    qk_nope_head_dim, qk_rope_head_dim, v_head_dim; head_dim is then qk_nope_head_dim + qk_rope_head_dim.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    max_position_embeddings: int
    tie_word_embeddings: bool
    gated_mlp: bool
    positions: str = "rotary"
    attention_bias: bool = False
    qkv_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    norms_per_layer: int = 2
    qk_norm: bool = False
    num_experts: int = 0
    num_experts_per_tok: int = 0
    moe_intermediate_size: int = 0
    n_shared_experts: int = 0
    first_k_dense_replace: int = 0
    router_bias: bool = False
    decoder_sparse_step: int = 1
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    qk_nope_head_dim: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0
    type_vocab_size: int = 0
    pooler: bool = False
    name: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.type == "int":
                least = 1 if f.default is MISSING or f.default == 1 else 0
                object.__setattr__(self, f.name, whole(f.name, value, least))
            elif f.type == "int | None" and value is not None:
                object.__setattr__(self, f.name, whole(f.name, value))
            elif f.type == "bool" and not isinstance(value, bool):
                raise LectureError(f"expected True or False for {f.name}; got {value!r}; write it so")
        if self.positions not in ("learned", "rotary", "none"):
            raise unknown(
                "positions 'learned', 'rotary' or 'none'", self.positions, ["learned", "rotary", "none"]
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise LectureError(
                "expected num_attention_heads to be a multiple of num_key_value_heads; got "
                f"{self.num_attention_heads} and {self.num_key_value_heads}; "
                "each key head serves equally many queries"
            )
        if self.num_experts and not (
            1 <= self.num_experts_per_tok <= self.num_experts and self.moe_intermediate_size
        ):
            raise LectureError(
                "expected num_experts_per_tok of 1 to num_experts and a moe_intermediate_size with "
                f"num_experts = {self.num_experts}; "
                f"got {self.num_experts_per_tok} and {self.moe_intermediate_size}; state all three"
            )
        if not self.num_experts and (
            self.num_experts_per_tok or self.n_shared_experts or self.moe_intermediate_size
        ):
            raise LectureError(
                "expected num_experts with the other fields of a mixture of experts; got none; add it"
            )
        if self.kv_lora_rank is not None:
            if not (self.qk_nope_head_dim and self.qk_rope_head_dim and self.v_head_dim):
                raise LectureError(
                    "expected qk_nope_head_dim, qk_rope_head_dim and v_head_dim with kv_lora_rank; got "
                    f"{self.qk_nope_head_dim}, {self.qk_rope_head_dim}, {self.v_head_dim}; state all three"
                )
            if self.head_dim != self.qk_nope_head_dim + self.qk_rope_head_dim:
                raise LectureError(
                    "expected head_dim = qk_nope_head_dim + qk_rope_head_dim = "
                    f"{self.qk_nope_head_dim + self.qk_rope_head_dim} with kv_lora_rank; "
                    f"got {self.head_dim}; state that"
                )

    @property
    def value_dim(self) -> int:
        """Width of one head's values: v_head_dim where set, else head_dim."""
        return self.v_head_dim or self.head_dim

    def has_experts(self, layer: int) -> bool:
        """Whether that layer (from 0) has experts, and no dense MLP."""
        sparse = layer >= self.first_k_dense_replace and (layer + 1) % self.decoder_sparse_step == 0
        return bool(self.num_experts) and sparse

    @property
    def moe_layers(self) -> int:
        """How many layers have experts."""
        return sum(map(self.has_experts, range(self.num_hidden_layers)))

    @property
    def dense_layers(self) -> int:
        return self.num_hidden_layers - self.moe_layers


def a_config(config: object) -> ModelConfig:
    """LectureError for what is no configuration, such as a model's name."""
    if not isinstance(config, ModelConfig):
        raise LectureError(
            f"expected a ModelConfig; got {config!r}; models.load('gpt2') gives one, and from_config_json"
        )
    return config


# -- matrices of one layer, which both the parameter count and the FLOP count read


def attention_matrices(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """Name -> (d_in, d_out) of each projection of one layer's attention."""
    a_config(config)
    d, H, K = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
    if config.kv_lora_rank is None:
        return {
            "q_proj": (d, H * config.head_dim),
            "k_proj": (d, K * config.head_dim),
            "v_proj": (d, K * config.value_dim),
            "o_proj": (H * config.value_dim, d),
        }
    rank = config.kv_lora_rank
    queries: dict[str, tuple[int, int]] = {"q_proj": (d, H * config.head_dim)}
    if config.q_lora_rank is not None:
        queries = {
            "q_a_proj": (d, config.q_lora_rank),
            "q_b_proj": (config.q_lora_rank, H * config.head_dim),
        }
    return {
        **queries,
        "kv_a_proj": (d, rank + config.qk_rope_head_dim),
        "kv_b_proj": (rank, H * (config.qk_nope_head_dim + config.value_dim)),
        "o_proj": (H * config.value_dim, d),
    }


def mlp_matrices(config: ModelConfig, width: int) -> dict[str, tuple[int, int]]:
    """Name -> (d_in, d_out) of each matrix of an MLP of that width."""
    d, width = a_config(config).hidden_size, whole("width", width, 0)
    gate = {"gate_proj": (d, width)} if config.gated_mlp else {}
    return {**gate, "up_proj": (d, width), "down_proj": (width, d)}


def weights(matrices: Mapping[str, tuple[int, int]]) -> int:
    """Entries of all the matrices, by their (d_in, d_out)."""
    if not isinstance(matrices, Mapping):
        raise LectureError(f"expected matrices by name; got {matrices!r}; attention_matrices gives such")
    return sum(d_in * d_out for d_in, d_out in matrices.values())


# -- parameters


def parameters(config: ModelConfig) -> Ledger:
    """Every parameter of the model, by component, in the unit "parameter"; rows of 0 are left out.

    With tied embeddings the head is the row "token embeddings", counted once. Rotary positions have none.
    """
    return _parameters(config, a_config(config).num_experts, "parameters")


def active_parameters(config: ModelConfig) -> Ledger:
    """The parameters that act on one token: as `parameters`, with the active experts only.

    Embedding tables are counted whole, as the published figures of most models do.
    """
    return _parameters(config, a_config(config).num_experts_per_tok, "active parameters")


def matmul_parameters(config: ModelConfig) -> Ledger:
    """The entries of the matrices that multiply a token's activations, active experts only.

    No biases, norms or embedding look-ups; the head is in, tied or not. 2·P of them are a token's forward
    FLOPs without attention scores.
    """
    d, L = a_config(config).hidden_size, config.num_hidden_layers
    expert = weights(mlp_matrices(config, config.moe_intermediate_size))
    rows = {
        "attention projections": _row(
            L * weights(attention_matrices(config)),
            "L·P_attention",
            {"L": L, "P_attention": weights(attention_matrices(config))},
        ),
        "MLP": _row(
            config.dense_layers * weights(mlp_matrices(config, config.intermediate_size)),
            f"L_dense·{3 if config.gated_mlp else 2}·d·f",
            {"L_dense": config.dense_layers, "d": d, "f": config.intermediate_size},
        ),
        "routed experts": _row(
            config.moe_layers * config.num_experts_per_tok * expert,
            "L_moe·top_k·P_expert",
            {"L_moe": config.moe_layers, "top_k": config.num_experts_per_tok, "P_expert": expert},
        ),
        "shared experts": _row(
            config.moe_layers * config.n_shared_experts * expert,
            "L_moe·n_shared·P_expert",
            {"L_moe": config.moe_layers, "n_shared": config.n_shared_experts, "P_expert": expert},
        ),
        "router": _row(
            config.moe_layers * d * config.num_experts,
            "L_moe·d·E",
            {"L_moe": config.moe_layers, "d": d, "E": config.num_experts},
        ),
        "head": _row(config.vocab_size * d, "V·d", {"V": config.vocab_size, "d": d}),
    }
    return _ledger(config, rows, "parameters in matrix products")


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every parameter tensor that a gradient reaches, each expert's matrices apart.

    They add up to `parameters`, less the corrections of DeepSeek-V3's router. A matrix is (d_out, d_in), as
    in torch.
    """
    d, V = a_config(config).hidden_size, config.vocab_size
    shapes: dict[str, tuple[int, ...]] = {"embed_tokens.weight": (V, d)}

    def norm(name: str, width: int, bias: bool = False) -> None:
        shapes[f"{name}.weight"] = (width,)
        if bias:
            shapes[f"{name}.bias"] = (width,)

    def matrices(where: str, found: Mapping[str, tuple[int, int]], biased: Container[str] = ()) -> None:
        for name, (d_in, d_out) in found.items():
            shapes[f"{where}.{name}.weight"] = (d_out, d_in)
            if name in biased:
                shapes[f"{where}.{name}.bias"] = (d_out,)

    def mlp(where: str, width: int) -> None:
        found = mlp_matrices(config, width)
        matrices(where, found, found if config.mlp_bias else ())

    if config.positions == "learned":
        shapes["embed_positions.weight"] = (config.max_position_embeddings, d)
    if config.type_vocab_size:
        shapes["embed_token_types.weight"] = (config.type_vocab_size, d)
    for i in range(config.num_hidden_layers):
        layer = f"layers.{i}"
        matrices(f"{layer}.attention", attention_matrices(config), _biased(config))
        for number in range(1, config.norms_per_layer + 1):
            norm(f"{layer}.norm_{number}", d, config.norm_bias)
        inner = {"q_norm": config.head_dim, "k_norm": config.head_dim} if config.qk_norm else {}
        if config.kv_lora_rank is not None:
            inner |= {"kv_a_norm": config.kv_lora_rank}
            inner |= {"q_a_norm": config.q_lora_rank} if config.q_lora_rank is not None else {}
        for name, width in inner.items():
            norm(f"{layer}.attention.{name}", width)
        if not config.has_experts(i):
            mlp(f"{layer}.mlp", config.intermediate_size)
            continue
        shapes[f"{layer}.router.weight"] = (config.num_experts, d)
        for expert in range(config.num_experts):
            mlp(f"{layer}.experts.{expert}", config.moe_intermediate_size)
        for expert in range(config.n_shared_experts):
            mlp(f"{layer}.shared_experts.{expert}", config.moe_intermediate_size)
    norm("norm", d, config.norm_bias)
    if config.pooler:
        shapes |= {"pooler.weight": (d, d), "pooler.bias": (d,)}
    if not config.tie_word_embeddings:
        shapes["head.weight"] = (V, d)
    return shapes


def _parameters(config: ModelConfig, experts: int, what: str) -> Ledger:
    d, L, V = config.hidden_size, config.num_hidden_layers, config.vocab_size
    learned = config.max_position_embeddings if config.positions == "learned" else 0
    attention = weights(attention_matrices(config))
    dense, expert = (
        weights(mlp_matrices(config, width))
        for width in (config.intermediate_size, config.moe_intermediate_size)
    )
    rows = {
        "token embeddings": _row(V * d, "V·d", {"V": V, "d": d}),
        "position embeddings": _row(learned * d, "S_max·d", {"S_max": learned, "d": d}),
        "token type embeddings": _row(
            config.type_vocab_size * d, "n_types·d", {"n_types": config.type_vocab_size, "d": d}
        ),
        "attention": _row(L * attention, "L·P_attention", {"L": L, "P_attention": attention}),
        "MLP": _row(
            config.dense_layers * dense,
            f"L_dense·{3 if config.gated_mlp else 2}·d·f",
            {"L_dense": config.dense_layers, "d": d, "f": config.intermediate_size},
        ),
        "routed experts": _row(
            config.moe_layers * experts * expert,
            "L_moe·n_experts·P_expert",
            {"L_moe": config.moe_layers, "n_experts": experts, "P_expert": expert},
        ),
        "shared experts": _row(
            config.moe_layers * config.n_shared_experts * expert,
            "L_moe·n_shared·P_expert",
            {"L_moe": config.moe_layers, "n_shared": config.n_shared_experts, "P_expert": expert},
        ),
        "router": _row(
            config.moe_layers * (d + config.router_bias) * config.num_experts,
            "L_moe·(d + 1)·E" if config.router_bias else "L_moe·d·E",
            {"L_moe": config.moe_layers, "d": d, "E": config.num_experts},
        ),
        "biases": _biases(config, experts),
        "norms": _norms(config),
        "pooler": _row(config.pooler * (d * d + d), "d·d + d", {"d": d}),
        "head": _row(0 if config.tie_word_embeddings else V * d, "V·d", {"V": V, "d": d}),
    }
    return _ledger(config, rows, what)


def _biased(config: ModelConfig) -> list[str]:
    """The projections of attention that have a bias."""
    names = list(attention_matrices(config))
    if config.attention_bias:
        # Of latent attention only what writes a latent, and the output, has one.
        without = () if config.kv_lora_rank is None else ("q_proj", "q_b_proj", "kv_b_proj")
        return [name for name in names if name not in without]
    return [name for name in names if name != "o_proj"] if config.qkv_bias else []


def _biases(config: ModelConfig, experts: int) -> Quantity:
    outputs = {name: d_out for name, (_, d_out) in attention_matrices(config).items()}
    per_attention = sum(outputs[name] for name in _biased(config))
    dense, expert = (
        sum(d_out for _, d_out in mlp_matrices(config, width).values()) * config.mlp_bias
        for width in (config.intermediate_size, config.moe_intermediate_size)
    )
    inputs = {
        "L": config.num_hidden_layers,
        "b_attention": per_attention,
        "L_dense": config.dense_layers,
        "b_mlp": dense,
        "L_moe": config.moe_layers,
        "n_experts": experts + config.n_shared_experts,
        "b_expert": expert,
    }
    total = config.num_hidden_layers * per_attention + config.dense_layers * dense
    total += config.moe_layers * (experts + config.n_shared_experts) * expert
    return _row(total, "L·b_attention + L_dense·b_mlp + L_moe·n_experts·b_expert", inputs)


def _norms(config: ModelConfig) -> Quantity:
    d, L = config.hidden_size, config.num_hidden_layers
    each = 2 if config.norm_bias else 1
    inner = 2 * config.head_dim if config.qk_norm else 0
    if config.kv_lora_rank is not None:  # RMSNorms on the two latents
        inner += config.kv_lora_rank + (config.q_lora_rank or 0)
    inputs = {"w": each, "d": d, "L": L, "n_norms": config.norms_per_layer, "d_inner": inner}
    total = each * d * (L * config.norms_per_layer + 1) + L * inner
    return _row(total, "w·d·(L·n_norms + 1) + L·d_inner", inputs)


def _row(value: int, formula: str, inputs: Mapping[str, object]) -> Quantity:
    return Quantity(value, "parameter", formula=formula, inputs=inputs)


def _ledger(config: ModelConfig, rows: Mapping[str, Quantity], what: str) -> Ledger:
    kept = {label: row.with_(name=label, source=config.source) for label, row in rows.items() if row.value}
    return Ledger(kept, name=f"{config.name or 'model'}: {what}")


# -- where configurations come from


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, Any]]:
    import tomllib  # only where a model is loaded

    from lecture_lib.paths import DATA

    path = DATA / "models.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LectureError(
            f"expected the table of models at {path}; got no file; reinstall the course"
        ) from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise LectureError(f"expected a TOML file at {path}; got {error}; mend that line") from None
    for kind in ("families", "models"):
        tables = content.get(kind)
        if not isinstance(tables, dict) or not all(isinstance(entry, dict) for entry in tables.values()):
            raise LectureError(f"expected tables [{kind}.NAME] in {path}; got {tables!r:.80}; mend that")
    if stray := sorted(set(content) - {"families", "models"}):
        raise unknown(f"[families] and [models] in {path}", stray[0], ["families", "models"])
    models = {}
    for name, entry in content["models"].items():
        family = entry.pop("family", None)
        if family is not None and (not isinstance(family, str) or family not in content["families"]):
            raise unknown(f"a family for {name}", family, content["families"], "(data/models.toml)")
        models[name] = {**content["families"].get(family, {}), **entry, "name": name}
    return models


def names() -> list[str]:
    """The models that `load` knows, in the order of `data/models.toml`."""
    return list(_table())


def load(name: str) -> ModelConfig:
    """A model of `data/models.toml` by name ("gpt2", "llama-3-8b"); LectureError names the close ones."""
    table = _table()
    key = str(name).strip().lower()
    if key not in table:
        raise unknown(
            "a model of data/models.toml", name, table, "(lecture_lib.accounting.models.names() lists all)"
        )
    return from_fields(table[key], f"data/models.toml, {key}")


def from_fields(values: Mapping[str, Any], where: str = "the configuration") -> ModelConfig:
    """A configuration from named fields; LectureError for an unknown or a missing one."""
    if not isinstance(values, Mapping):
        raise LectureError(f"expected fields by name in {where}; got {values!r}; give a dict")
    known = {f.name: f for f in fields(ModelConfig)}
    for field in values:
        if field not in known:
            raise unknown(f"fields of ModelConfig in {where}", field, known, "")
    missing = [f.name for f in known.values() if f.default is MISSING and f.name not in values]
    if missing:
        raise LectureError(f"expected {', '.join(missing)} in {where}; got none; add each")
    return ModelConfig(**values)


_LLAMA = {"gated_mlp": True}
_GPT = {"gated_mlp": False, "attention_bias": True, "mlp_bias": True, "norm_bias": True}
# What the model classes of transformers fix in code, and their defaults for keys that a file may leave out.
_FIXED: dict[str, dict[str, Any]] = {
    "gpt2": {**_GPT, "positions": "learned", "tie_word_embeddings": True},
    "gpt_neox": {**_GPT, "tie_word_embeddings": False},
    "llama": {**_LLAMA, "tie_word_embeddings": False},
    "mistral": {**_LLAMA, "tie_word_embeddings": False},
    "mixtral": {**_LLAMA, "tie_word_embeddings": False},
    "qwen2": {**_LLAMA, "tie_word_embeddings": False, "qkv_bias": True},
    "qwen3": {**_LLAMA, "tie_word_embeddings": False, "qk_norm": True},
    "qwen3_moe": {**_LLAMA, "tie_word_embeddings": False, "qk_norm": True},
    "deepseek_v3": {**_LLAMA, "tie_word_embeddings": False, "router_bias": True},
    "gemma": {**_LLAMA, "tie_word_embeddings": True},
    "gemma2": {**_LLAMA, "tie_word_embeddings": True, "norms_per_layer": 4},
    "gemma3_text": {**_LLAMA, "tie_word_embeddings": True, "norms_per_layer": 4, "qk_norm": True},
}
_READ = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "max_position_embeddings",
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
    "num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "n_shared_experts",
    "first_k_dense_replace",
    "decoder_sparse_step",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
)
# Keys whose absence would make another model; the files of these types state them (q_lora_rank may be null).
_STATED = {
    "deepseek_v3": ("n_shared_experts", "first_k_dense_replace", "q_lora_rank", "kv_lora_rank"),
}
# Types whose classes fill in the shapes of one of their models, and no rule, where the file leaves them out.
_NO_KEY_HEADS_RULE = ("mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text")
_NO_HEAD_DIM_RULE = ("qwen3", "gemma", "gemma2", "gemma3_text")
_OTHER_NAMES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings",
    "n_inner": "intermediate_size",
    "num_local_experts": "num_experts",
    "n_routed_experts": "num_experts",
}


def from_config_json(source: str | PathLike[str] | Mapping[str, Any]) -> ModelConfig:
    """The configuration in a Hugging Face config.json: a path, or its content as a mapping.

    Keys that say nothing of shapes (dtypes, token ids, dropout …) are passed over. Where the file leaves out
    head_dim, num_key_value_heads or GPT-2's n_inner, transformers' own rule is used if it has one for that
    type, and `source` says so. LectureError for a model type that is not known, for a missing key, with the
    close ones in the file, and for a misspelt one that the file could do without.
    """
    content, where = _read_json(source)
    kind = content.get("model_type")
    if not isinstance(kind, str) or kind not in _FIXED:
        raise unknown(f"a model_type of {', '.join(_FIXED)} in {where}", kind, _FIXED, "")
    if content.get("mlp_only_layers"):
        raise LectureError(
            f"expected no mlp_only_layers in {where}; got some; use first_k_dense_replace or a step"
        )
    if content.get("moe_layer_freq", 1) != 1:
        raise LectureError(
            f"expected moe_layer_freq = 1 in {where}; got {content['moe_layer_freq']!r}; "
            "write the configuration with decoder_sparse_step"
        )
    _check_spelling(content, where)
    stated = {key for key in content if content[key] is not None or key == "q_lora_rank"}
    if missing := [key for key in _STATED.get(kind, ()) if key not in stated]:
        raise LectureError(f"expected {', '.join(missing)} in {where} of a {kind}; got none; add each")
    values = {_OTHER_NAMES.get(key, key): value for key, value in content.items() if value is not None}
    values = {**_FIXED[kind], **{key: values[key] for key in _READ if key in values}}
    rules = _fill(kind, values)
    if kind == "mixtral":
        values["moe_intermediate_size"] = values.get("intermediate_size")
    required = [f.name for f in fields(ModelConfig) if f.default is MISSING]
    for field in required:
        if values.get(field) is None:
            near = closest(field, [key for key in content if key not in _READ])
            hint = f"did you mean it by {near[0]!r}?" if near else "add it"
            raise LectureError(f"expected {field} in {where}; got none; {hint}")
    label = content.get("_name_or_path") or str(kind)
    return ModelConfig(**values, name=label, source="; ".join([where, *rules]))


def _check_spelling(content: Mapping[str, Any], where: str) -> None:
    """LectureError for a key that nobody reads and that is nearly one which the file lacks."""
    from difflib import get_close_matches  # only where a file is read

    known = {*_READ, *_OTHER_NAMES}
    for key in content:
        if key not in known and (near := get_close_matches(key, known - set(content), n=1, cutoff=0.9)):
            raise LectureError(
                f"expected known keys in {where}; got {key!r}; did you mean {near[0]!r}? (else take it out)"
            )


def _fill(kind: str, values: dict[str, Any]) -> list[str]:
    """Applies transformers' rules to what a file leaves out; says which."""
    rules = []
    for field in fields(ModelConfig):
        if field.name in values and field.type in ("int", "int | None"):
            values[field.name] = whole(field.name, values[field.name], least=0)
    d, H = values.get("hidden_size"), values.get("num_attention_heads")
    if "num_key_value_heads" not in values and H is not None and kind not in _NO_KEY_HEADS_RULE:
        values["num_key_value_heads"] = H
        if kind not in ("gpt2", "gpt_neox"):
            rules.append("num_key_value_heads left out: as many as num_attention_heads")
    if kind == "gpt2" and "intermediate_size" not in values and d is not None:
        values["intermediate_size"] = 4 * d
        rules.append("n_inner left out: 4·n_embd")
    if kind == "deepseek_v3":
        values["head_dim"] = values.get("qk_nope_head_dim", 0) + values.get("qk_rope_head_dim", 0)
    elif "head_dim" not in values and d is not None and H and kind not in _NO_HEAD_DIM_RULE:
        if d % H:
            raise LectureError(
                f"expected hidden_size to be a multiple of num_attention_heads, as head_dim is left out; "
                f"got {d} and {H}; state head_dim"
            )
        values["head_dim"] = d // H
        rules.append("head_dim left out: hidden_size / num_attention_heads")
    return rules


def _read_json(source: str | PathLike[str] | Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    if isinstance(source, Mapping):
        return source, "the mapping"
    import json  # only where a file is read
    from pathlib import Path

    try:
        path = Path(source)
    except TypeError:
        raise LectureError(
            f"expected the path of a config.json, or its content as a mapping; got {source!r}; give one"
        ) from None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LectureError(f"expected a config.json at {path}; got no file; give its path") from None
    except (OSError, ValueError) as error:
        raise LectureError(f"expected JSON in {path}; got {error}; is it the model's config.json?") from None
    if not isinstance(content, dict):
        raise LectureError(
            f"expected an object in {path}; got a {type(content).__name__}; is it a config.json?"
        )
    return content, path.name
