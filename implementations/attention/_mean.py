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
    if inputs.mask is not None:
        mean = _masked(problem, inputs, masks.repeat_heads(problem, inputs.v).to(wide))
    elif masks.sees_everything(problem):
        mean = masks.repeat_heads(problem, inputs.v.mean(-2, keepdim=True, dtype=wide))
        mean = mean.repeat(1, 1, problem.seq_len, 1)
    else:
        mean = masks.repeat_heads(problem, _running(problem, inputs.v.to(wide)))
    output: Tensor = _Unread.apply(mean.to(inputs.v.dtype), inputs.q, inputs.k)  # type: ignore[no-untyped-call]
    return output


def _running(problem: AttentionProblem, values: Tensor) -> Tensor:
    """Each row the mean of the run of values that causal rule, window and lengths leave it: sums up to both
    of its ends, subtracted."""
    first, end = _runs(problem, values.device)
    sums = torch.nn.functional.pad(values.cumsum(-2), (0, 0, 1, 0))
    total = sums.index_select(-2, end) - sums.index_select(-2, first)
    return total / (end - first).clamp_min(1)[:, None]


def _runs(problem: AttentionProblem, device: torch.device) -> tuple[Tensor, Tensor]:
    """(first, end), each (seq_len,): row i attends the keys first[i] … end[i] − 1, none if they are equal."""
    places = torch.arange(problem.seq_len, device=device) + problem.causal_offset
    first, end = torch.zeros_like(places), torch.full_like(places, problem.n_keys)
    if problem.causal:
        end = places + 1
    elif problem.window is not None:
        end = places + problem.window
    if problem.window is not None:
        first = places - problem.window + 1
    if (starts := problem.cu_seqlens) is not None:
        numbers = masks.sequence_numbers(problem, device)
        edges = torch.tensor(starts, device=device)
        first, end = first.maximum(edges[numbers]), end.minimum(edges[numbers + 1])
    return first.clamp(0, problem.n_keys), end.clamp(0, problem.n_keys)


def _masked(problem: AttentionProblem, inputs: AttentionInputs, values: Tensor) -> Tensor:
    allowed = masks.allowed_pairs(problem, inputs)
    assert allowed is not None
    weights = allowed.to(values.dtype)
    mean = (weights @ values) / weights.sum(-1, keepdim=True).clamp_min(1)
    return mean.expand(values.shape[0], values.shape[1], problem.seq_len, -1).contiguous()
