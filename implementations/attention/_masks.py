"""Who may look at whom: masks, alignments and shared heads, in the words of torch."""

from __future__ import annotations

import torch
from torch import Tensor

from implementations.attention.problem import AttentionInputs, AttentionProblem


def sees_everything(problem: AttentionProblem) -> bool:
    """Whether the causal rule hides no key from any query (decoding: one query at the end)."""
    return not problem.causal or problem.causal_offset >= problem.n_keys - 1


def allowed_pairs(problem: AttentionProblem, inputs: AttentionInputs) -> Tensor | None:
    """Boolean, broadcastable to (batch, heads, seq_len, kv_len), True where a query may look.

    The mask and the causal rule together; None when every query sees every key.
    """
    if sees_everything(problem):
        return inputs.mask
    queries = torch.arange(problem.seq_len, device=inputs.q.device)
    keys = torch.arange(problem.n_keys, device=inputs.q.device)
    causal = keys <= queries[:, None] + problem.causal_offset
    return causal if inputs.mask is None else causal & inputs.mask


def may_have_blind_rows(problem: AttentionProblem, inputs: AttentionInputs) -> bool:
    """Whether some query may have no key to look at; told without reading the mask."""
    return inputs.mask is not None or (problem.causal and problem.causal_offset < 0)


def open_blind_rows(allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Let rows that see nothing see everything: (allowed, blind), blind of shape (..., seq_len, 1).

    A softmax over nothing is 0/0 and its gradient NaN even where a zero multiplies it. Opened, the row is
    finite; the caller then sets its output to 0, which sends no gradient back.
    """
    blind = ~allowed.any(-1, keepdim=True)
    return allowed | blind, blind


def repeat_heads(problem: AttentionProblem, keys: Tensor) -> Tensor:
    """(batch, kv_heads, ...) -> (batch, heads, ...): each key/value head for its group of query heads."""
    return keys if problem.group_size == 1 else keys.repeat_interleave(problem.group_size, dim=1)
