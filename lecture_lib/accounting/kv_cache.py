"""The keys and values that decoding keeps: bytes for each token, and for a batch of sequences."""

from __future__ import annotations

from lecture_lib.accounting.dtypes import bytes_per_element, resolve
from lecture_lib.accounting.inputs import whole
from lecture_lib.accounting.models import ModelConfig, a_config
from lecture_lib.accounting.tensors import tensor_bytes
from lecture_lib.quantity import Ledger, Quantity

ALL_POSITIONS = "every position kept in every layer: no sliding window"


def bytes_per_token(config: ModelConfig, dtype: object = "bf16") -> Ledger:
    """Cache bytes of one token in all layers, by row, in "B/token".

    With key and value heads: "keys" L·K·k·s and "values" L·K·v·s, K key heads (grouped or not), k and v the
    widths of one head's keys and values. With latent attention: "latent" L·d_c·s and "rotary key" L·d_r·s,
    one for all heads, as the paper and transformers 5.24 cache them; what caches the heads' keys and values
    instead keeps more.
    """
    fmt, L = resolve(dtype), a_config(config).num_hidden_layers
    widths: dict[str, tuple[str, dict[str, int]]]
    if config.kv_lora_rank is None:
        K = config.num_key_value_heads
        widths = {
            "keys": ("L·K·k·s", {"K": K, "k": config.head_dim}),
            "values": ("L·K·v·s", {"K": K, "v": config.value_dim}),
        }
        source = "Ainslie et al. 2023 (2305.13245) for grouped heads"
    else:
        widths = {
            "latent": ("L·d_c·s", {"d_c": config.kv_lora_rank}),
            "rotary key": ("L·d_r·s", {"d_r": config.qk_rope_head_dim}),
        }
        source = "DeepSeek-V2 (2405.04434), section 2.1.4 and Table 1"
    s = bytes_per_element(fmt)
    rows = {}
    for label, (formula, inputs) in widths.items():
        rows[label] = Quantity(
            int(tensor_bytes((L, *inputs.values()), fmt)),
            "B/token",
            name=label,
            formula=formula,
            inputs={"L": L, **inputs, "s": s},
            conventions=(fmt.name, ALL_POSITIONS),
            source=source,
        )
    return Ledger(rows, name=f"{config.name or 'model'}: KV cache of a token")


def kv_cache(
    config: ModelConfig, batch: int | Quantity, seq: int | Quantity, dtype: object = "bf16"
) -> Ledger:
    """Cache bytes of `batch` sequences of `seq` tokens each, in all layers, by row: B·S times a token's."""
    B, S = whole("batch", batch), whole("seq", seq)
    rows = {
        label: Quantity(
            row.value * B * S,
            "B",
            name=label,
            formula=f"B·S·{row.formula}",
            inputs={"B": B, "S": S, **row.inputs},
            conventions=row.conventions,
            source=row.source,
        )
        for label, row in bytes_per_token(config, dtype).items()
    }
    return Ledger(rows, name=f"{config.name or 'model'}: KV cache of {B:,} × {S:,} tokens")
