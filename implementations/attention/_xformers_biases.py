"""The attention biases of xformers for a problem."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from implementations.attention import _masks as masks
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Reason

#: Strides of a tensor bias are to be multiples of 16 bytes: of 8 elements in float16, and of 4 in float32.
ALIGNED = 8


def lacking(problem: AttentionProblem) -> Reason:
    """What xformers has no bias for, or None. A tensor bias, where there is a mask, can say anything."""
    first = problem.sequences[0]
    if problem.mask != "none":
        return None
    if first.may_be_blind():
        return "xformers' biases do not say what rows that see no key are to give"
    if problem.lengths is not None and problem.window is not None and not problem.causal:
        return "xformers has no bias for packed sequences with a window that is not causal"
    if problem.window is not None and problem.causal_offset != problem.n_keys - problem.seq_len:
        return "xformers' local biases are aligned bottom-right"
    return None


def structured(problem: AttentionProblem, attn_bias: Any, device: torch.device) -> Any:
    """The bias that lets xformers skip what is hidden, from its module `attn_bias`; None for no bias."""
    if masks.sees_everything(problem):
        return None
    if problem.lengths is not None:
        lengths = [band.queries for band in problem.sequences]
        packed = attn_bias.BlockDiagonalMask.from_seqlens(lengths, device=device)
        if problem.window is not None:
            return packed.make_local_attention(problem.window)
        return packed.make_causal() if problem.causal else packed
    if problem.window is None:
        corner = "FromBottomRight" if problem.causal_offset else ""
        return getattr(attn_bias, f"LowerTriangular{corner}Mask")()
    if problem.causal:
        return attn_bias.LowerTriangularFromBottomRightLocalAttentionMask(_window_size=problem.window)
    beside = problem.window - 1
    return attn_bias.LocalAttentionFromBottomRightMask(window_left=beside, window_right=beside)


def as_tensor(problem: AttentionProblem, inputs: AttentionInputs) -> tuple[Tensor | None, Tensor | None]:
    """(bias, blind): everything hidden or added as one tensor of q's dtype; both None for nothing.

    bias (batch, heads, seq_len, kv_len), or (batch, kv_heads, group, seq_len, kv_len) for shared heads, rows
    aligned in memory; blind as `masks.open_blind_rows` gives it.
    """
    values, blind = masks.additive(problem, inputs)
    if values is None:
        return None, blind
    shape = (problem.batch, problem.heads, problem.seq_len, problem.n_keys)
    room = -(-problem.n_keys // ALIGNED) * ALIGNED
    bias = values.new_empty(*shape[:3], room)[..., : problem.n_keys].copy_(values.expand(shape))
    if problem.group_size > 1:
        bias = bias.unflatten(1, (problem.n_kv_heads, problem.group_size))
    return bias, blind
