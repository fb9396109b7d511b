"""Launches attention of few queries to many keys: the keys split among programs. Imports Triton."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from implementations.attention import _flash_decode_kernels as kernels
from implementations.attention._flash_arguments import Attention, Mask, addressing, strides_of
from implementations.attention._flash_tiles import Tile, block_d, decode_tile

#: Rows (query heads that share keys × queries) that still make one tile, and queries that still are few.
MOST_ROWS, MOST_QUERIES = 64, 16
#: Keys from which splitting them is worth a second kernel, and that each program takes at least.
LEAST_KEYS = 256
#: Chunks are whole numbers of these keys, of which every tile is a divisor.
KEY_UNIT = 128
#: Parts that one step of the merging kernel takes.
MERGED = 16
#: Multiprocessors that the interpreter is taken to have.
INTERPRETED_PROCESSORS = 8


@dataclass(frozen=True, slots=True)
class Split:
    """`count` programs a key/value head, each of `chunk` keys."""

    count: int
    chunk: int


def pays(q: Tensor, k: Tensor, attention: Attention) -> bool:
    """Whether the queries are few and the keys many."""
    group, q_len = q.shape[1] // k.shape[1], q.shape[2]
    few = q_len <= MOST_QUERIES and group * q_len <= MOST_ROWS
    first, end = attention.keys_seen(q_len, k.shape[2])
    return few and end - first >= LEAST_KEYS and attention.lengths is None


def split_of(keys: int, heads: int, processors: int) -> Split:
    """Two programs a multiprocessor, unless their chunks would be small. `heads`: over the batch."""
    wanted = min(triton.cdiv(2 * processors, heads), triton.cdiv(keys, LEAST_KEYS))
    chunk = triton.cdiv(triton.cdiv(keys, max(1, wanted)), KEY_UNIT) * KEY_UNIT
    return Split(triton.cdiv(keys, chunk), chunk)


def launch(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, log_sum_exp: Tensor, attention: Attention, mask: Mask
) -> None:
    """Fill out (batch, heads, seq_len, head_dim) and log₂-sum-exp (batch, heads, seq_len)."""
    batch, heads, q_len, head_dim = q.shape
    kv_heads, group = k.shape[1], heads // k.shape[1]
    tile = _tile_for(q, group)
    first, end = attention.keys_seen(q_len, k.shape[2])
    # The kernel begins at a whole tile, up to tile.n keys earlier.
    split = split_of(end - first // tile.n * tile.n, batch * kv_heads, _processors(q))
    parts = torch.empty((out.shape[:3].numel(), split.count, head_dim), dtype=torch.float32, device=q.device)
    sums = torch.empty(parts.shape[:2], dtype=torch.float32, device=q.device)
    sizes = {"HEAD_DIM": head_dim, "BLOCK_D": block_d(head_dim)}
    with torch.cuda.device_of(q):
        kernels.flash_decode[(split.count * kv_heads * batch,)](
            q, k, v, parts, sums, mask.values, *strides_of(q, k, v), *mask.strides,
            kv_heads, group, q_len, k.shape[2], *attention.offsets, attention.scale_log2,
            split.count, split.chunk, **sizes, BLOCK_M=tile.m, BLOCK_N=tile.n, CAUSAL=attention.causal,
            WINDOW=attention.window_offset is not None, MASK=mask.kind, MASK_ROWS=_differs_by_row(mask),
            PRECISION=attention.precision, **_addressing(q, k, v, mask, group),
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
        kernels.flash_merge[(len(parts),)](
            parts, sums, out, log_sum_exp, *strides_of(out), heads, q_len, split.count, **sizes,
            BLOCK_S=MERGED,
        )  # fmt: skip


def _tile_for(q: Tensor, group: int) -> Tile:
    return decode_tile(group * q.shape[2], q.shape[3], q.element_size())


def _differs_by_row(mask: Mask) -> bool:
    """Rows of the tile are queries of several heads."""
    return mask.differs_by_row or mask.strides[1] != 0


def _addressing(q: Tensor, k: Tensor, v: Tensor, mask: Mask, group: int) -> dict[str, bool]:
    """As elsewhere; a tile's rows also reach over `group` heads."""
    known = addressing((k, v), mask)
    reaches = (group * abs(s[1]) + MOST_ROWS * abs(s[2]) + 256 * abs(s[3])
               for s in (q.stride(), mask.strides))  # fmt: skip
    return {**known, "WIDE": known["WIDE"] or max(reaches) >= 2**31}


def _processors(q: Tensor) -> int:
    if triton.knobs.runtime.interpret:
        return INTERPRETED_PROCESSORS
    return int(torch.cuda.get_device_properties(q.device).multi_processor_count)
