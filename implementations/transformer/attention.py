"""Scaled dot-product attention as the document writes it, and multi-head attention around any of the suite's.

Shapes: hidden states (batch, seq_len, d_model), heads (batch, heads, seq_len, head_dim).
"""

from __future__ import annotations

import math
from typing import Literal, overload

import torch
from torch import Tensor, nn

from implementations.attention._masks import open_blind_rows
from implementations.transformer.cache import KeyValueCache
from implementations.transformer.plugged import PluggedAttention
from implementations.transformer.positions import RotaryPositions


@overload
def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    return_weights: Literal[False] = False,
) -> Tensor: ...
@overload
def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(QKᵀ/√d_k + hidden pairs at −∞)·V (Vaswani et al. 2017, equation 1); with weights, (output, A).

    q (batch, heads, seq_len, d_k), k (batch, heads, kv_len, d_k), v (batch, heads, kv_len, d_v); the output
    (batch, heads, seq_len, d_v), A (batch, heads, seq_len, kv_len). mask: boolean, broadcastable to A's
    shape, True where a query may look; causal: the last query stands at the last key. A query that may look
    nowhere has weights and output 0.
    """
    weights = _weights(q @ k.mT / math.sqrt(q.shape[-1]), mask, causal)
    output = weights @ v
    return (output, weights) if return_weights else output


def _weights(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    allowed = _allowed(scores, mask, causal)
    if allowed is None:
        return scores.softmax(-1)
    opened, blind = open_blind_rows(allowed)
    return scores.masked_fill(~opened, float("-inf")).softmax(-1).masked_fill(blind, 0)


def _allowed(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
    if not causal:
        return mask
    seq_len, kv_len = scores.shape[-2:]
    seen = torch.ones(seq_len, kv_len, dtype=torch.bool, device=scores.device).tril(kv_len - seq_len)
    return seen if mask is None else seen & mask


class MultiHeadAttention(nn.Module):
    """Concat(head_1, …, head_h)·W_O, head_i = Attention(X·W_Q_i, C·W_K_i, C·W_V_i) (the document's §4).

    The projections of all heads lie side by side in one matrix; head i owns columns i·head_dim and on.

    attention  the name of any attention of the suite
    causal     a token looks at itself and those before it
    positions  rotates queries and keys; None for none
    Raises ValueError where heads does not divide d_model.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        attention: str = "sdpa_flash",
        causal: bool = False,
        bias: bool = True,
        positions: RotaryPositions | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or d_model % heads:
            raise ValueError(f"heads: {heads} heads do not divide d_model = {d_model}; use a divisor of it")
        self.d_model, self.heads, self.head_dim, self.causal = d_model, heads, d_model // heads, causal
        self.query = nn.Linear(d_model, d_model, bias=bias)  # W_Q
        self.key = nn.Linear(d_model, d_model, bias=bias)  # W_K
        self.value = nn.Linear(d_model, d_model, bias=bias)  # W_V
        self.output = nn.Linear(d_model, d_model, bias=bias)  # W_O
        self.positions = positions
        self.attend = PluggedAttention(attention)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """(batch, seq_len, d_model). Queries come from x, keys and values from the context, or from x.

        context (batch, kv_len, d_model). mask: boolean, broadcastable to (batch, heads, seq_len, kv_len),
        True where a query may look. cache: the keys and values of earlier tokens, to which those of x are
        appended; of a context, which stays the same, they are computed once.
        Raises registry.Unsupported where the attention cannot do it.
        """
        q, k, v = self.project(x, context, cache=cache)
        heads = self.attend(q, k, v, causal=self.causal, mask=mask)
        done: Tensor = self.output(self.concatenate_heads(heads))
        return done

    def with_weights(
        self, x: Tensor, context: Tensor | None = None, *, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(output, A): as `forward`, and the weights (batch, heads, seq_len, kv_len).

        Both come from the formula, whatever is plugged in: fused attention makes no weights.
        """
        q, k, v = self.project(x, context)
        heads, weights = scaled_dot_product_attention(
            q, k, v, mask=mask, causal=self.causal, return_weights=True
        )
        return self.output(self.concatenate_heads(heads)), weights

    def project(
        self, x: Tensor, context: Tensor | None = None, *, cache: KeyValueCache | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q (batch, heads, seq_len, head_dim), k and v (batch, heads, kv_len, head_dim), with the cache's."""
        q = self.split_heads(self.query(x))
        if context is not None and cache is not None and len(cache):
            return q, *cache.held()
        source = x if context is None else context
        k, v = self.split_heads(self.key(source)), self.split_heads(self.value(source))
        if self.positions is not None:
            start = 0 if cache is None else len(cache)
            q, k = self.positions.rotate(q, start), self.positions.rotate(k, start)
        return (q, k, v) if cache is None else (q, *cache.append(k, v))

    def split_heads(self, x: Tensor) -> Tensor:
        """(batch, seq_len, d_model) → (batch, heads, seq_len, head_dim), without a copy."""
        return x.view(*x.shape[:2], self.heads, self.head_dim).transpose(1, 2)

    def concatenate_heads(self, heads: Tensor) -> Tensor:
        """(batch, heads, seq_len, head_dim) → (batch, seq_len, d_model)."""
        return heads.transpose(1, 2).flatten(-2)
