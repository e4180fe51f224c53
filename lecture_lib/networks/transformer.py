"""A decoder-only Transformer in named axes, as a configuration describes it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor, nn

from lecture_lib.accounting.models import ModelConfig
from lecture_lib.accounting.steps import check_parts
from lecture_lib.quantity import LectureError


class Transformer(nn.Module):
    """tokens (batch, position), whole numbers below vocab_size → logits (batch, position, vocab_size)."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        fused: bool,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        width = config.hidden_size
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, width, **where)
        self.positions = (
            nn.Embedding(config.max_position_embeddings, width, **where)
            if config.positions == "learned"
            else None
        )
        self.blocks = nn.ModuleList(
            Block(config, fused, experts=config.has_experts(layer), **where)
            for layer in range(config.num_hidden_layers)
        )
        self.norm = _norm(config, width, **where)
        self.head = nn.Linear(width, config.vocab_size, bias=False, **where)
        if config.tie_word_embeddings:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        length, limit = tokens.shape[1], self.config.max_position_embeddings
        if length > limit:
            raise LectureError(f"expected at most max_position_embeddings = {limit} positions; got {length}")
        position = torch.arange(length, device=tokens.device)
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions(position)
        turn = (
            _rotation(position, self.config.head_dim, x.dtype) if self.config.positions == "rotary" else None
        )
        for block in self.blocks:
            x = block(x, turn)
        return self.head(self.norm(x))


class Block(nn.Module):
    """Attention, then an MLP or experts; each after a norm, added to its input (batch, position, hidden)."""

    def __init__(self, config: ModelConfig, fused: bool, *, experts: bool = False, **where: Any) -> None:
        super().__init__()
        self.attention_norm = _norm(config, config.hidden_size, **where)
        self.attention = Attention(config, fused, **where)
        self.mlp_norm = _norm(config, config.hidden_size, **where)
        self.mlp = (
            MixtureOfExperts(config, **where) if experts else _mlp(config, config.intermediate_size, **where)
        )

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), turn)
        return x + self.mlp(self.mlp_norm(x))


class Attention(nn.Module):
    """Causal attention; num_key_value_heads keys and values, each shared by a group of query heads.

    fused: torch's fused kernel, which never stores the scores; otherwise product, mask, softmax, product.
           In FP32 on a GPU torch has no fused kernel for shared keys, and takes the products itself.
    """

    def __init__(self, config: ModelConfig, fused: bool, **where: Any) -> None:
        super().__init__()
        width, dim = config.hidden_size, config.head_dim
        self.kv_heads, self.fused = config.num_key_value_heads, fused
        queries, keys = config.num_attention_heads * dim, config.num_key_value_heads * dim
        bias = config.attention_bias or config.qkv_bias
        self.q_proj = _linear(width, queries, bias, **where)
        self.k_proj = _linear(width, keys, bias, **where)
        self.v_proj = _linear(width, keys, bias, **where)
        self.o_proj = _linear(queries, width, config.attention_bias, **where)
        self.q_norm = _norm(config, dim, bias=False, **where) if config.qk_norm else nn.Identity()
        self.k_norm = _norm(config, dim, bias=False, **where) if config.qk_norm else nn.Identity()
        self.dim = dim

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        split = "batch position (head dim) -> batch head position dim"
        q = self.q_norm(rearrange(self.q_proj(x), split, dim=self.dim))
        k = self.k_norm(rearrange(self.k_proj(x), split, dim=self.dim))
        v = rearrange(self.v_proj(x), split, dim=self.dim)
        if turn is not None:
            q, k = _turned(q, *turn), _turned(k, *turn)
        if self.fused:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        else:
            out = self._eager(q, k, v)
        return self.o_proj(rearrange(out, "batch head position dim -> batch position (head dim)"))

    def _eager(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = rearrange(q, "batch (kv group) query dim -> batch kv group query dim", kv=self.kv_heads)
        scores = einsum(q, k, "batch kv group query dim, batch kv key dim -> batch kv group query key")
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        weights = (scores * self.dim**-0.5).masked_fill(later, -torch.inf).softmax(dim=-1)
        out = einsum(weights, v, "batch kv group query key, batch kv key dim -> batch kv group query dim")
        return rearrange(out, "batch kv group query dim -> batch (kv group) query dim")


class PlainMLP(nn.Module):
    """Two matrices with a GELU between them."""

    def __init__(self, config: ModelConfig, width: int, **where: Any) -> None:
        super().__init__()
        self.up_proj = _linear(config.hidden_size, width, config.mlp_bias, **where)
        self.down_proj = _linear(width, config.hidden_size, config.mlp_bias, **where)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.gelu(self.up_proj(x)))


class GatedMLP(PlainMLP):
    """Three matrices: a SiLU of the gate scales what goes up (SwiGLU)."""

    def __init__(self, config: ModelConfig, width: int, **where: Any) -> None:
        super().__init__(config, width, **where)
        self.gate_proj = _linear(config.hidden_size, width, config.mlp_bias, **where)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class MixtureOfExperts(nn.Module):
    """Each token goes through its num_experts_per_tok experts of the highest weight, and every shared expert.

    A router's softmax weighs the experts; no token is dropped. On the meta device it holds shapes and cannot
    run: how many tokens an expert gets is a value.
    """

    def __init__(self, config: ModelConfig, **where: Any) -> None:
        super().__init__()
        self.per_token = config.num_experts_per_tok
        self.router = _linear(config.hidden_size, config.num_experts, False, **where)
        self.experts, self.shared = (
            nn.ModuleList(_mlp(config, config.moe_intermediate_size, **where) for _ in range(count))
            for count in (config.num_experts, config.n_shared_experts)
        )

    def forward(self, x: Tensor) -> Tensor:
        tokens = rearrange(x, "batch position width -> (batch position) width")
        weights, chosen = self.router(tokens).softmax(dim=-1).topk(self.per_token)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            row, rank = torch.where(chosen == number)
            out = out.index_add(0, row, expert(tokens[row]) * weights[row, rank, None])
        for expert in self.shared:
            out = out + expert(tokens)
        return rearrange(out, "(batch position) width -> batch position width", batch=x.shape[0])


def transformer(
    config: ModelConfig,
    *,
    fused: bool = True,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Transformer:
    """The decoder that a configuration describes, with `accounting.models.parameters(config)` parameters.

    fused: fused or eager causal attention; device: "meta" holds shapes alone
    LectureError for what it has no part for: latent attention, other than two norms a layer, a router's bias.
    """
    check_parts(config, {"router_bias": False}, "this Transformer")
    return Transformer(config, fused=fused, device=device, dtype=dtype)


def _mlp(config: ModelConfig, width: int, **where: Any) -> PlainMLP:
    return (GatedMLP if config.gated_mlp else PlainMLP)(config, width, **where)


def _linear(d_in: int, d_out: int, bias: bool, **where: Any) -> nn.Linear:
    return nn.Linear(d_in, d_out, bias=bias, **where)


def _norm(config: ModelConfig, width: int, *, bias: bool = True, **where: Any) -> nn.Module:
    """A LayerNorm where norms have biases, else an RMSNorm."""
    if config.norm_bias and bias:
        return nn.LayerNorm(width, **where)
    return nn.RMSNorm(width, **where)


def _rotation(position: Tensor, dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosine and sine (position, dim/2) of each position times each frequency 10000^(−2i/dim)."""
    frequency = 10_000.0 ** (-torch.arange(0, dim, 2, device=position.device) / dim)
    angle = einsum(position.float(), frequency, "position, half -> position half")
    return angle.cos().to(dtype), angle.sin().to(dtype)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x (batch, head, position, dim) with its halves turned against each other by each position's angles."""
    a, b = rearrange(x, "batch head position (two half) -> two batch head position half", two=2)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
