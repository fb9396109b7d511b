"""Softmax attention over the keys near each query, in blocks of queries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from implementations.attention import _masks as masks
from implementations.attention._chunked import joined, padding
from implementations.attention._pairs import Band
from implementations.attention.problem import AttentionInputs, AttentionProblem

#: Queries at once: on a CPU what stays in its cache, on a GPU what fills it.
BLOCK = {"cpu": 128, "cuda": 1024}


def narrowed(problem: AttentionProblem, window: int) -> AttentionProblem:
    """The problem with at most this window."""
    return replace(problem, window=min(window, problem.window or window))


def windowed_attention(problem: AttentionProblem, inputs: AttentionInputs) -> Tensor:
    """(batch, heads, seq_len, head_dim): exact attention under the problem's window, causal rule and lengths.

    Masks that pad keys are kept to; raises Unsupported for other masks. Each block of queries multiplies the
    pieces of keys that hold its window: time seq_len · window · head_dim and, where no gradient is wanted,
    extra memory (block + window) · (block + head_dim) per head.
    """
    return joined(_outputs(problem, inputs), inputs)


def _outputs(problem: AttentionProblem, inputs: AttentionInputs) -> Iterator[Tensor]:
    """(batch · kv_heads, group, block, head_dim) of block after block."""
    block = BLOCK.get(inputs.q.device.type, BLOCK["cpu"])
    sight = _Sight.of(problem, inputs)
    shared = (problem.batch, problem.n_kv_heads, problem.group_size)
    k, v = (_Pieces.cut(t, problem.causal_offset % block, block) for t in (inputs.k, inputs.v))
    blocks = inputs.q.view(*shared, *inputs.q.shape[2:]).split(block, -2)
    ends = itertools.accumulate(queries.shape[-2] for queries in blocks)
    for queries, end in zip(blocks, ends, strict=True):
        rows = range(end - queries.shape[-2], end)
        if not (keys := sight.reach(rows)):
            yield torch.zeros_like(queries).flatten(0, 1)
            continue
        (near_k, start), (near_v, _) = k.covering(keys), v.covering(keys)
        allowed = sight.allowed(rows, range(start, start + near_k.shape[-2]))
        yield _attend(problem.scale, queries, near_k, near_v, allowed)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Keys or values (..., length, channels) in pieces, cut where blocks of queries have their own keys.

    By `split`, whose gradient is one concatenation: that of a slice for each block is as large as the whole.
    """

    parts: tuple[Tensor, ...]
    edges: tuple[int, ...]

    @classmethod
    def cut(cls, tensor: Tensor, first: int, size: int) -> _Pieces:
        """A piece of `first` tokens if that is not 0, the others of `size`."""
        length = tensor.shape[-2]
        edges = (0, *range(first or size, length, size), length)
        return cls(tensor.split([end - start for start, end in itertools.pairwise(edges)], -2), edges)

    def covering(self, keys: range) -> tuple[Tensor, int]:
        """The pieces that hold these keys, as one tensor, and its first key."""
        held = [
            i
            for i, (start, end) in enumerate(itertools.pairwise(self.edges))
            if start < keys.stop and end > keys.start
        ]
        return torch.cat(self.parts[held[0] : held[-1] + 1], -2), self.edges[held[0]]


@dataclass(frozen=True, slots=True)
class _Sight:
    """Who may look at whom, for any rows and keys.

    sequences  (seq_len,): which packed sequence a token belongs to; None without lengths
    present    (batch or 1, kv_heads or 1, kv_len, 1): False where a key is padding; None without a mask
    """

    band: Band
    device: torch.device
    sequences: Tensor | None
    present: Tensor | None

    @classmethod
    def of(cls, problem: AttentionProblem, inputs: AttentionInputs) -> _Sight:
        band = Band(problem.seq_len, problem.n_keys, problem.causal_offset, problem.causal, problem.window)
        device = inputs.q.device
        sequences = None if problem.lengths is None else masks.sequence_numbers(problem, device)
        return cls(band, device, sequences, padding(problem, inputs))

    def reach(self, rows: range) -> range:
        """The keys that some of these rows attend: runs only move on with the row."""
        return range(self.band.row(rows[0]).start, self.band.row(rows[-1]).stop)

    def allowed(self, rows: range, keys: range) -> Tensor:
        """Boolean, broadcastable to (batch, kv_heads, group, rows, keys)."""
        places = torch.arange(rows.start, rows.stop, device=self.device)[:, None] + self.band.offset
        near = torch.arange(keys.start, keys.stop, device=self.device)
        window = self.band.window or self.band.keys
        allowed = near > places - window
        allowed &= near <= (places if self.band.causal else places + (window - 1))
        if self.sequences is not None:
            allowed &= self.sequences[rows.start : rows.stop, None] == self.sequences[keys.start : keys.stop]
        if self.present is not None:
            allowed = allowed & self.present[..., keys.start : keys.stop, :].mT.unsqueeze(2)
        return allowed


def _attend(scale: float, queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor) -> Tensor:
    """queries (batch, kv_heads, group, block, head_dim); keys, values (batch, kv_heads, near, head_dim).

    -> (batch · kv_heads, group, block, head_dim), computed in float32 or wider; rows that see nothing are 0.
    """
    wide = torch.promote_types(queries.dtype, torch.float32)
    grid = (*queries.shape[:4], -1)
    q, k, v = (t.to(wide).flatten(0, 1) for t in (queries.flatten(2, 3), keys, values))
    opened, blind = masks.open_blind_rows(allowed)
    scores = torch.bmm(q * scale, k.mT).view(grid).masked_fill_(~opened, -torch.inf)
    weights = scores.softmax(-1)
    del scores
    output = torch.bmm(weights.view(*q.shape[:2], -1), v).view(grid)
    return output.masked_fill(blind, 0).flatten(0, 1)
