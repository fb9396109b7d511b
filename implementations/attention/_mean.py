"""The mean of V over the attended keys."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from implementations.attention import _masks as masks
from implementations.attention.problem import AttentionInputs, AttentionProblem


class _Unread(torch.autograd.Function):
    """Passes an output on and gives the inputs it does not depend on the gradient that they have: 0."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, *unread: Tensor) -> Tensor:
        ctx.save_for_backward(*unread)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return gradients[0], *(torch.zeros_like(tensor) for tensor in ctx.saved_tensors)


def mean_of_values(problem: AttentionProblem, inputs: AttentionInputs) -> Tensor:
    """(batch, heads, seq_len, head_dim); rows that see no key are 0."""
    wide = torch.promote_types(inputs.v.dtype, torch.float32)
    values = masks.repeat_heads(problem, inputs.v).to(wide)
    if inputs.mask is not None:
        mean = _masked(problem, inputs, values)
    elif masks.sees_everything(problem):
        mean = values.mean(-2, keepdim=True).repeat(1, 1, problem.seq_len, 1)
    else:
        mean = _running(problem, values)
    output: Tensor = _Unread.apply(mean.to(inputs.v.dtype), inputs.q, inputs.k)  # type: ignore[no-untyped-call]
    return output


def _running(problem: AttentionProblem, values: Tensor) -> Tensor:
    """Row i is the mean of the first i + 1 + offset values."""
    counts = torch.arange(1, problem.n_keys + 1, device=values.device, dtype=values.dtype)
    means = values.cumsum(-2) / counts[:, None]
    last = torch.arange(problem.seq_len, device=values.device) + problem.causal_offset
    rows = means.index_select(-2, last.clamp(0, problem.n_keys - 1))
    return rows.masked_fill((last < 0)[:, None], 0)


def _masked(problem: AttentionProblem, inputs: AttentionInputs, values: Tensor) -> Tensor:
    allowed = masks.allowed_pairs(problem, inputs)
    assert allowed is not None
    weights = allowed.to(values.dtype)
    mean = (weights @ values) / weights.sum(-1, keepdim=True).clamp_min(1)
    return mean.expand(values.shape[0], values.shape[1], problem.seq_len, -1).contiguous()
