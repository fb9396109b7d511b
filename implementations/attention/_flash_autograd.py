"""Flash attention as a differentiable function of q, k and v. Imports Triton."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from implementations.attention import _flash_launch as launch
from implementations.attention._flash_arguments import Attention

__all__ = ["Attention", "flash_attention", "flash_attention_with_log_sum_exp"]


class FlashAttention(torch.autograd.Function):
    """Saves the output and the log-sum-exp, and recomputes the weights in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, attention: Attention, mask: Tensor | None
    ) -> Tensor:
        out, log_sum_exp = launch.forward(q, k, v, attention, mask)
        ctx.save_for_backward(q, k, v, out, log_sum_exp, mask)
        ctx.attention = attention
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v, out, log_sum_exp, mask = ctx.saved_tensors
        gradients = launch.backward(d_out, q, k, v, out, log_sum_exp, ctx.attention, mask)
        return *gradients, None, None


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, attention: Attention, mask: Tensor | None = None
) -> Tensor:
    """softmax(QKᵀ·scale + mask)·V.

    q (batch, heads, seq_len, head_dim), k and v (batch, kv_heads, kv_len, head_dim), all of one dtype among
    float16, bfloat16 and float32, with any strides; the output is contiguous, of q's shape and dtype.
    Query head h reads key/value head h // (heads // kv_heads). A row that sees no key is 0.
    mask is broadcastable to (batch, heads, seq_len, kv_len): boolean, True where a query may look, or of any
    floating dtype and added to the scores. Raises Unsupported for a mask that wants a gradient.
    """
    out: Tensor = FlashAttention.apply(q, k, v, attention, mask)  # type: ignore[no-untyped-call]
    return out


def flash_attention_with_log_sum_exp(
    q: Tensor, k: Tensor, v: Tensor, attention: Attention, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same without gradients, and log Σ exp(score) of each row, (batch, heads, seq_len) in float32;
    -inf for a row that sees no key."""
    out, base_two = launch.forward(q, k, v, attention, mask)
    return out, torch.where(base_two == math.inf, -math.inf, base_two * math.log(2.0))
