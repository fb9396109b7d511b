"""Segment means: a few averaged tokens that stand for all, and what Nyström and Linformer make of them."""

from __future__ import annotations

import torch
from torch import Tensor

from implementations.attention import _masks as masks
from implementations.attention._chunked import padding
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Reason, Target

#: Iterations of the pseudo-inverse, as in the paper.
ITERATIONS = 6


def sees_everything(problem: AttentionProblem, target: Target) -> Reason:
    """A mean over a segment holds later tokens, so that no row would be causal; padding can be left out."""
    if problem.causal:
        return "it averages tokens over segments: an average holds later tokens, so it has no causal form"
    return problem.beyond("padding")


def segment_means(tokens: Tensor, present: Tensor | None, segments: int) -> tuple[Tensor, Tensor | None]:
    """(..., length, channels) -> (..., segments, channels), and which segments hold a token at all.

    Consecutive present tokens, in segments whose sizes differ by 1 at most; of fewer tokens than segments
    each is one. present (..., length, 1) is False for tokens that are left out; the mean of none is 0, and
    its place in the second tensor (..., segments, 1) False. Computed in the tokens' dtype.
    """
    length = tokens.shape[-2]
    segments = min(segments, length)
    if present is None and length % segments == 0:
        return tokens.unflatten(-2, (segments, -1)).mean(-2), None
    here = torch.ones_like(tokens[..., :1], dtype=torch.bool) if present is None else present
    here = here.expand(*tokens.shape[:-1], 1)
    total = here.sum(-2, keepdim=True)
    number = (here.cumsum(-2) - 1).clamp_min(0) * total.clamp_max(segments) // total.clamp_min(1)
    held = here.to(tokens.dtype)
    count = _sums(held, number, segments)
    means = _sums(tokens * held, number, segments) / count.clamp_min(1)
    return means, None if present is None else count > 0


def _sums(tokens: Tensor, number: Tensor, segments: int) -> Tensor:
    """The sum of the tokens of each segment; number (..., length, 1) is the segment of a token."""
    none = tokens.new_zeros(*tokens.shape[:-2], segments, tokens.shape[-1])
    return none.scatter_add(-2, number.expand_as(tokens), tokens)


def pseudo_inverse(matrix: Tensor) -> Tensor:
    """The Moore–Penrose inverse of square matrices (..., m, m) by a cubic iteration (Razavi et al. 2014).

    Started from Aᵀ / (‖A‖₁ ‖A‖∞) of each matrix by itself: the largest norm of the whole batch, as in the
    paper's code, would let the items of a batch influence each other.
    """
    size = matrix.abs()
    norms = size.sum(-2).amax(-1) * size.sum(-1).amax(-1)
    inverse = matrix.mT / norms.clamp_min(torch.finfo(matrix.dtype).tiny)[..., None, None]
    unit = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    for _ in range(ITERATIONS):
        product = matrix @ inverse
        inverse = 0.25 * inverse @ (13 * unit - product @ (15 * unit - product @ (7 * unit - product)))
    return inverse


def computed(
    problem: AttentionProblem, inputs: AttentionInputs
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """q, scaled, k and v (batch, heads, length, head_dim), in float32 or wider; which keys are present.

    present (batch or 1, heads or 1, kv_len, 1), None without a mask; absent keys and values are 0.
    """
    dtype = torch.promote_types(inputs.q.dtype, torch.float32)
    q, k, v = (tensor.to(dtype) for tensor in inputs.differentiable)
    if (present := padding(problem, inputs)) is not None:
        k, v = k.masked_fill(~present, 0), v.masked_fill(~present, 0)
    return q * problem.scale, masks.repeat_heads(problem, k), masks.repeat_heads(problem, v), present


def softmax_over(scores: Tensor, present: Tensor | None) -> Tensor:
    """softmax over the last dimension, of present keys (..., keys, 1) alone; 0 where there is none."""
    if present is None:
        return scores.softmax(-1)
    hidden = ~present.mT
    lowest = torch.finfo(scores.dtype).min  # finite: the gradient of a row of −inf is NaN
    return scores.masked_fill(hidden, lowest).softmax(-1).masked_fill(hidden, 0)
