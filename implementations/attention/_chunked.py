"""Kernel attention in chunks of tokens: sums over keys that a query reads, and the causal core.

A kernel method replaces exp(q·k) by φ(q)·φ(k), so that the sums S = Σ φ(k)ᵀv and z = Σ φ(k) serve every
query. Features are computed per chunk: extra memory is O(features · head_dim + chunk²), whatever the length.
Layouts are (batch, kv_heads, group, length, channels), group 1 for keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from implementations.attention import _masks as masks
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Unsupported

#: Tokens at once: on a CPU what stays in its cache, on a GPU what fills it.
CAUSAL_CHUNK = {"cpu": 64, "cuda": 256}
SPAN = {"cpu": 256, "cuda": 16384}


class Sums(Protocol):
    """What is known of the keys so far; computed in float32 or wider."""

    def absorb(self, keys: Tensor, values: Tensor, present: Tensor | None) -> None:
        """Add keys; `present` (..., length, 1) is False where a key is padding."""

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
    return torch.cat(list(pieces), dim=3).view(inputs.q.shape)


class _Tokens:
    """Cuts the inputs into chunks of tokens, in the dtype of the computation.

    By `split`, whose gradient is one concatenation: that of a slice is as large as the whole tensor, and
    a slice for each chunk would make the backward pass quadratic in the length.
    """

    def __init__(self, problem: AttentionProblem, inputs: AttentionInputs) -> None:
        shared = (problem.batch, problem.n_kv_heads, problem.group_size)
        self.q = inputs.q.view(*shared, *inputs.q.shape[2:])  # splits a dimension: a view of any layout
        self.k, self.v = inputs.k.unsqueeze(2), inputs.v.unsqueeze(2)
        self.present = _padding(problem, inputs)
        self.wide = torch.promote_types(inputs.q.dtype, torch.float32)
        kind = inputs.q.device.type
        self.span, self.chunk = SPAN.get(kind, SPAN["cpu"]), CAUSAL_CHUNK.get(kind, CAUSAL_CHUNK["cpu"])

    def queries(self, start: int, stop: int, size: int) -> Iterator[Tensor]:
        for q in self.q[..., start:stop, :].split(size, -2):
            yield q.to(self.wide)

    def keys(self, start: int, stop: int, size: int) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Keys, values, and which of them are present; absent values are 0."""
        cut = [tensor[..., start:stop, :].split(size, -2) for tensor in (self.k, self.v)]
        if self.present is None:
            for k, v in zip(*cut, strict=True):
                yield k.to(self.wide), v.to(self.wide), None
            return
        present = self.present[..., start:stop, :].split(size, -2)
        for k, v, here in zip(*cut, present, strict=True):
            yield k.to(self.wide), v.to(self.wide).masked_fill(~here, 0), here


def _padding(problem: AttentionProblem, inputs: AttentionInputs) -> Tensor | None:
    """The mask as (batch or 1, kv_heads or 1, 1, kv_len, 1), True for keys that are present."""
    if inputs.mask is None:
        return None
    mask = inputs.mask.reshape((1,) * (4 - inputs.mask.dim()) + tuple(inputs.mask.shape))
    per_head = mask.shape[1] > 1 and problem.group_size > 1
    if mask.dtype != torch.bool or mask.shape[2] != 1 or mask.shape[3] != problem.n_keys or per_head:
        raise Unsupported(
            "kernel methods sum over keys once for all queries: of masks only a boolean padding of keys, "
            "(batch, 1, 1, kv_len), can be kept to"
        )
    return mask.unsqueeze(2).mT


def _bidirectional(tokens: _Tokens, sums: Sums) -> Iterator[Tensor]:
    _absorb(tokens, sums, 0, tokens.k.shape[-2])
    yield from _read(tokens, sums, 0, tokens.q.shape[-2])


def _causal(problem: AttentionProblem, tokens: _Tokens, sums: Sums) -> Iterator[Tensor]:
    """Rows that see nothing, then the square whose diagonal is the causal one, then rows that see all.

    Keys before the square are seen by every row of it, and keys after it by none.
    """
    blind, prefix = max(-problem.causal_offset, 0), max(problem.causal_offset, 0)
    square = min(problem.seq_len - blind, problem.n_keys - prefix)
    yield torch.zeros_like(tokens.q[..., :blind, :])
    _absorb(tokens, sums, 0, prefix)
    queries = tokens.queries(blind, blind + square, tokens.chunk)
    keys = tokens.keys(prefix, prefix + square, tokens.chunk)
    for q, (k, v, present) in zip(queries, keys, strict=True):
        yield sums.causal(q, k, v, present).to(tokens.q.dtype)
    yield from _read(tokens, sums, blind + square, problem.seq_len)


def _absorb(tokens: _Tokens, sums: Sums, start: int, stop: int) -> None:
    if start < stop:
        for k, v, present in tokens.keys(start, stop, tokens.span):
            sums.absorb(k, v, present)


def _read(tokens: _Tokens, sums: Sums, start: int, stop: int) -> Iterator[Tensor]:
    if start < stop:
        for q in tokens.queries(start, stop, tokens.span):
            yield sums.read(q).to(tokens.q.dtype)


def is_nothing(denominator: Tensor) -> Tensor:
    """Where a sum of features is so near the end of its dtype's range that its reciprocal would overflow."""
    return denominator < 1024 * torch.finfo(denominator.dtype).tiny


def divide(numerator: Tensor, denominator: Tensor, otherwise: Tensor | None = None) -> Tensor:
    """numerator / denominator (..., 1); where that is nothing, `otherwise` or 0, with finite gradients."""
    nothing = is_nothing(denominator)
    if otherwise is not None:
        numerator = torch.where(nothing, otherwise, numerator)
    return numerator / denominator.masked_fill(nothing, 1)
