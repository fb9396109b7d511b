"""Kernel attention in chunks of tokens: sums over keys that a query reads, and the causal core.

A kernel method replaces exp(q·k) by φ(q)·φ(k), so that the sums S = Σ φ(k)ᵀv and z = Σ φ(k) serve every
query. Features are computed per chunk: extra memory is O(features · head_dim + chunk²), whatever the length.
Layouts: keys and values (heads, length, channels), queries (heads, group, length, channels), where heads are
the key/value heads of the whole batch and group the query heads that share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import torch
from torch import Tensor

from implementations.attention import _masks as masks
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Unsupported

#: Tokens at once: on a CPU what stays in its cache, on a GPU what fills it.
SPAN = {"cpu": 256, "cuda": 16384}


class Sums(Protocol):
    """What is known of the keys so far; computed in float32 or wider.

    chunk  device -> tokens of a causal chunk, powers of 2
    """

    chunk: Mapping[str, int]

    def absorb(self, keys: Tensor, values: Tensor, present: Tensor | None) -> None:
        """Add keys; `present` (heads, length, 1) is False where a key is padding."""

    def read(self, queries: Tensor) -> Tensor:
        """The outputs of queries that see every key so far and no other; 0 where there is none."""

    def causal(self, queries: Tensor, keys: Tensor, values: Tensor, present: Tensor | None) -> Tensor:
        """The outputs of a chunk whose query i sees every key so far and the chunk's keys up to i.

        Then absorbs the chunk. No output depends on a later key, to the last bit.
        """


def kernel_attention(problem: AttentionProblem, inputs: AttentionInputs, sums: Sums) -> Tensor:
    """(batch, heads, seq_len, head_dim): every query reads the sums of the keys that it sees.

    Both causal alignments, shared heads, and masks that pad keys; raises Unsupported for other masks.
    """
    tokens = _Tokens(problem, inputs)
    sees_all = masks.sees_everything(problem)
    pieces = _bidirectional(tokens, sums) if sees_all else _causal(problem, tokens, sums)
    return joined(pieces, inputs)


def joined(pieces: Iterable[Tensor], inputs: AttentionInputs) -> Tensor:
    """Outputs (heads, group, length, head_dim) of successive tokens as one tensor of q's shape and dtype.

    Written where they belong as they come. Where a gradient is wanted they are kept and concatenated: that of
    writing a part is as large as the whole, and would make the backward pass quadratic in the length.
    """
    q = inputs.q
    heads, length, width = q.shape[0] * inputs.k.shape[1], q.shape[2], inputs.v.shape[-1]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs.differentiable):
        return torch.cat([piece.to(q.dtype) for piece in pieces], dim=2).view(q.shape)
    whole, start = q.new_empty(heads, q.shape[1] // inputs.k.shape[1], length, width), 0
    for piece in pieces:
        whole[:, :, start : start + piece.shape[2]] = piece
        start += piece.shape[2]
    return whole.view(q.shape)


class _Tokens:
    """Cuts the inputs into chunks of tokens, in the dtype of the computation.

    By `split`, whose gradient is one concatenation: that of a slice is as large as the whole tensor, and
    a slice for each chunk would make the backward pass quadratic in the length.
    """

    def __init__(self, problem: AttentionProblem, inputs: AttentionInputs) -> None:
        shared = (problem.batch, problem.n_kv_heads, problem.group_size)
        self.q = inputs.q.view(*shared, *inputs.q.shape[2:])  # splits a dimension: a view of any layout
        self.k, self.v = inputs.k, inputs.v
        self.present = padding(problem, inputs)
        self.wide = torch.promote_types(inputs.q.dtype, torch.float32)
        self.device = inputs.q.device.type
        self.span = SPAN.get(self.device, SPAN["cpu"])

    def queries(self, start: int, stop: int, size: int) -> Iterator[Tensor]:
        for q in self.q[..., start:stop, :].split(size, -2):
            yield q.to(self.wide).flatten(0, 1)

    def keys(self, start: int, stop: int, size: int) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Keys, values, and which of them are present; absent keys and values are 0."""
        cut = [tensor[..., start:stop, :].split(size, -2) for tensor in (self.k, self.v)]
        if self.present is None:
            for k, v in zip(*cut, strict=True):
                yield k.to(self.wide).flatten(0, 1), v.to(self.wide).flatten(0, 1), None
            return
        present = self.present[..., start:stop, :].split(size, -2)
        for k, v, here in zip(*cut, present, strict=True):
            held = [tensor.to(self.wide).masked_fill(~here, 0).flatten(0, 1) for tensor in (k, v)]
            yield held[0], held[1], here.expand(*k.shape[:3], 1).flatten(0, 1)


def padding(problem: AttentionProblem, inputs: AttentionInputs) -> Tensor | None:
    """The mask as (batch or 1, kv_heads or 1, kv_len, 1), True for keys that are present; None without one.

    Raises Unsupported for any other mask.
    """
    if inputs.mask is None:
        return None
    mask = inputs.mask.reshape((1,) * (4 - inputs.mask.dim()) + tuple(inputs.mask.shape))
    per_head = mask.shape[1] > 1 and problem.group_size > 1
    if mask.dtype != torch.bool or mask.shape[2] != 1 or mask.shape[3] != problem.n_keys or per_head:
        raise Unsupported(
            "it treats all queries alike: of masks it can keep to a boolean padding of keys, "
            "(batch, 1, 1, kv_len), and to no other"
        )
    return mask.mT


def _bidirectional(tokens: _Tokens, sums: Sums) -> Iterator[Tensor]:
    _absorb(tokens, sums, 0, tokens.k.shape[-2])
    yield from _read(tokens, sums, 0, tokens.q.shape[-2])


def _causal(problem: AttentionProblem, tokens: _Tokens, sums: Sums) -> Iterator[Tensor]:
    """Rows that see nothing, then the square whose diagonal is the causal one, then rows that see all.

    Keys before the square are seen by every row of it, and keys after it by none.
    """
    blind, prefix = max(-problem.causal_offset, 0), max(problem.causal_offset, 0)
    square = min(problem.seq_len - blind, problem.n_keys - prefix)
    chunk = sums.chunk.get(tokens.device, sums.chunk["cpu"])
    yield torch.zeros_like(tokens.q[..., :blind, :]).flatten(0, 1)
    _absorb(tokens, sums, 0, prefix)
    queries = tokens.queries(blind, blind + square, chunk)
    keys = tokens.keys(prefix, prefix + square, chunk)
    for q, (k, v, present) in zip(queries, keys, strict=True):
        yield sums.causal(q, k, v, present)
    yield from _read(tokens, sums, blind + square, problem.seq_len)


def _absorb(tokens: _Tokens, sums: Sums, start: int, stop: int) -> None:
    if start < stop:
        for k, v, present in tokens.keys(start, stop, tokens.span):
            sums.absorb(k, v, present)


def _read(tokens: _Tokens, sums: Sums, start: int, stop: int) -> Iterator[Tensor]:
    if start < stop:
        for q in tokens.queries(start, stop, tokens.span):
            yield sums.read(q)


def is_nothing(denominator: Tensor) -> Tensor:
    """Where a sum of features is so near the end of its dtype's range that its reciprocal would overflow."""
    return denominator < 1024 * torch.finfo(denominator.dtype).tiny


def divide(numerator: Tensor, denominator: Tensor, otherwise: Tensor | None = None) -> Tensor:
    """numerator / denominator (..., 1); where that is nothing, `otherwise` or 0, with finite gradients."""
    nothing = is_nothing(denominator)
    if otherwise is not None:
        numerator = numerator.addcmul(otherwise, nothing.to(otherwise.dtype))  # itself less than nothing
    return numerator / denominator.masked_fill(nothing, 1)
