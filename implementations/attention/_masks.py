"""Who may look at whom: masks, windows, packed sequences and shared heads, in the words of torch."""

from __future__ import annotations

import torch
from torch import Tensor

from implementations.attention.problem import AttentionInputs, AttentionProblem


def sees_everything(problem: AttentionProblem) -> bool:
    """Whether causal rule, window and lengths hide no key from any query (decoding: one query at the end)."""
    first, *others = problem.sequences
    return not others and first.sees_everything()


def rule(problem: AttentionProblem, rows: Tensor) -> Tensor | None:
    """Boolean (rows, kv_len): the keys that causal rule, window and lengths leave to these queries.

    rows (rows,), whole numbers. None when they hide nothing from any query.
    """
    if sees_everything(problem):
        return None
    keys, places = torch.arange(problem.n_keys, device=rows.device), rows[:, None] + problem.causal_offset
    allowed = keys <= places if problem.causal else None
    if problem.window is not None:
        near = keys > places - problem.window
        if not problem.causal:
            near &= keys < places + problem.window
        allowed = near if allowed is None else allowed & near
    if problem.lengths is not None:
        numbers = sequence_numbers(problem, rows.device)
        same = numbers[rows][:, None] == numbers
        allowed = same if allowed is None else allowed & same
    return allowed


def sequence_numbers(problem: AttentionProblem, device: torch.device) -> Tensor:
    """(seq_len,): which of the packed sequences each token belongs to."""
    lengths = torch.tensor([band.queries for band in problem.sequences], device=device)
    return torch.arange(len(lengths), device=device).repeat_interleave(lengths, output_size=problem.seq_len)


def allowed_pairs(problem: AttentionProblem, inputs: AttentionInputs) -> Tensor | None:
    """Boolean, broadcastable to (batch, heads, seq_len, kv_len), True where a query may look.

    The mask with causal rule, window and lengths; None when every query sees every key.
    """
    if sees_everything(problem):  # before any tensor is made: this is timed and counted
        return inputs.mask
    ruled = rule(problem, torch.arange(problem.seq_len, device=inputs.q.device))
    return ruled if ruled is None or inputs.mask is None else ruled & inputs.mask


def may_have_blind_rows(problem: AttentionProblem, inputs: AttentionInputs) -> bool:
    """Whether some query may have no key to look at; told without reading the mask."""
    return inputs.mask is not None or any(band.may_be_blind() for band in problem.sequences)


def open_blind_rows(allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Let rows that see nothing see everything: (allowed, blind), blind of shape (..., seq_len, 1).

    A softmax over nothing is 0/0 and its gradient NaN even where a zero multiplies it. Opened, the row is
    finite; the caller then sets its output to 0, which sends no gradient back.
    """
    blind = ~allowed.any(-1, keepdim=True)
    return allowed | blind, blind


def opened(problem: AttentionProblem, inputs: AttentionInputs) -> tuple[Tensor | None, Tensor | None]:
    """(allowed, blind): `allowed_pairs` with its blind rows opened, and which those are; None for none."""
    allowed = allowed_pairs(problem, inputs)
    if allowed is None or not may_have_blind_rows(problem, inputs):
        return allowed, None
    return open_blind_rows(allowed)


def additive(problem: AttentionProblem, inputs: AttentionInputs) -> tuple[Tensor | None, Tensor | None]:
    """(bias, blind): `opened` and the inputs' bias as one tensor of q's dtype to be added to the scores."""
    allowed, blind = opened(problem, inputs)
    if allowed is None:
        return inputs.bias, blind
    bias = torch.zeros_like(allowed, dtype=inputs.q.dtype) if inputs.bias is None else inputs.bias
    return bias.masked_fill(~allowed, float("-inf")), blind


def repeat_heads(problem: AttentionProblem, keys: Tensor) -> Tensor:
    """(batch, kv_heads, ...) -> (batch, heads, ...): each key/value head for its group of query heads."""
    return keys if problem.group_size == 1 else keys.repeat_interleave(problem.group_size, dim=1)
