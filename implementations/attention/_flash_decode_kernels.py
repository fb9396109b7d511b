# mypy: ignore-errors
# Triton's language is parsed by Triton, not run by Python. Imported on first use only.
"""Attention of few queries to many keys: the keys are split among programs, and their answers merged.

Flash-decoding (Dao, Haziza, Massa, Sizov 2023): with one new token there is one tile of queries, and one
program a head would leave most of the chip idle while it reads the whole cache. The query heads that share a
key/value head sit side by side in one tile, so that the cache is read once for all of them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from implementations.attention._flash_kernels import LOWEST, attend_tiles, key_runs
from implementations.attention._flash_loads import element_offset, row_pointer


@triton.jit
def packed_offsets(members, rows, head_stride, row_stride, WIDE: tl.constexpr):
    """Offsets (rows, 1) of rows of several heads."""
    if WIDE:
        members, rows = members.to(tl.int64), rows.to(tl.int64)
    return (members * head_stride + rows * row_stride)[:, None]


@triton.jit
def flash_decode(
    Q, K, V, PARTS, PART_SUMS, MASK_VALUES,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, mask_b, mask_h, mask_m, mask_n,
    kv_heads, group, q_len, kv_len, causal_offset, window_offset, scale_log2, splits, chunk,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASK: tl.constexpr, MASK_ROWS: tl.constexpr,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, EIGHTS: tl.constexpr,
):  # fmt: skip
    """PARTS (batch·heads·q_len, splits, HEAD_DIM): the output over `chunk` keys alone, and PART_SUMS
    (batch·heads·q_len, splits) its log₂ Σ 2^score, -inf where no key is seen; both float32.

    One-dimensional grid: splits × kv_heads × batch. A tile's row is query row % q_len of head row // q_len.
    """
    split, head = tl.program_id(0) % splits, tl.program_id(0) // splits
    b, kv_h = head // kv_heads, head % kv_heads
    first_head = kv_h * group
    packed, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    members, rows = packed // q_len, packed % q_len
    inside = (members < group)[:, None]
    channels = columns[None, :] < HEAD_DIM
    q_base = row_pointer(Q, b, q_b, first_head, q_h, 0, q_n, False)
    q_offsets = packed_offsets(members, rows, q_h, q_n, WIDE) + columns[None, :] * q_d
    q = tl.load(q_base + q_offsets, inside & channels, 0.0)
    k_base = row_pointer(K, b, k_b, kv_h, k_h, 0, k_n, EIGHTS)
    v_base = row_pointer(V, b, v_b, kv_h, v_h, 0, v_n, EIGHTS)
    mask_base, shown = MASK_VALUES, None
    if MASK != "none":
        mask_base = row_pointer(MASK_VALUES, b, mask_b, first_head, mask_h, 0, mask_m, False)
        if MASK_ROWS:
            mask_base += packed_offsets(members, rows, mask_h, mask_m, WIDE)
            shown = inside
        else:
            mask_base += tl.zeros([1, 1], tl.int32)
            shown = tl.full([1, 1], True, tl.int1)

    begin, open, whole, end = key_runs(
        0, q_len, kv_len, causal_offset, window_offset, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    first = begin + split * chunk
    last = tl.minimum(first + chunk, end)
    whole = tl.maximum(first, tl.minimum(whole, last // BLOCK_N * BLOCK_N))
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    total = tl.zeros([BLOCK_M, 1], tl.float32)
    top = tl.full([BLOCK_M], LOWEST, tl.float32)
    if WINDOW:
        open = tl.maximum(first, open)
        whole = tl.maximum(open, whole)
        acc, total, top = attend_tiles(
            acc, total, top, q, rows, shown, first, tl.minimum(open, last),
            k_base, k_n, k_d, v_base, v_n, v_d, mask_base, mask_n,
            b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
            HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, WINDOW, MASK, PRECISION, False, WIDE, EIGHTS, True, 1, False,
        )  # fmt: skip
        first = open
    acc, total, top = attend_tiles(
        acc, total, top, q, rows, shown, first, whole,
        k_base, k_n, k_d, v_base, v_n, v_d, mask_base, mask_n,
        b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, WINDOW, MASK, PRECISION, False, WIDE, EIGHTS, False, 1, False,
    )  # fmt: skip
    acc, total, top = attend_tiles(
        acc, total, top, q, rows, shown, whole, last,
        k_base, k_n, k_d, v_base, v_n, v_d, mask_base, mask_n,
        b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, WINDOW, MASK, PRECISION, False, WIDE, EIGHTS, True, 1, False,
    )  # fmt: skip

    total = tl.sum(total, 1)
    empty = total == 0.0
    total = tl.where(empty, 1.0, total)
    acc = acc / total[:, None]
    part_sum = tl.where(empty, float("-inf"), top + tl.log2(total))
    heads = kv_heads * group
    place = (element_offset(b * heads + first_head, q_len) + packed) * splits + split
    tl.store(PART_SUMS + place, part_sum, members < group)
    tl.store(PARTS + place[:, None] * HEAD_DIM + columns[None, :], acc, inside & channels)


@triton.jit
def flash_merge(
    PARTS, PART_SUMS, OUT, LOG_SUM_EXP, o_b, o_h, o_n, o_d, heads, q_len, splits,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """OUT and LOG_SUM_EXP of one row from its parts, BLOCK_S of them at a time."""
    row = tl.program_id(0)
    head, m = row // q_len, row % q_len
    columns = tl.arange(0, BLOCK_D)
    channels = columns < HEAD_DIM
    acc = tl.zeros([BLOCK_D], tl.float32)
    total = tl.zeros([], tl.float32)
    top = tl.full([], LOWEST, tl.float32)
    for first in tl.range(0, splits, BLOCK_S):
        split = first + tl.arange(0, BLOCK_S)
        place = element_offset(row, splits) + split
        part_sum = tl.load(PART_SUMS + place, split < splits, float("-inf"))
        inside = (split < splits)[:, None] & channels[None, :]
        part = tl.load(PARTS + place[:, None] * HEAD_DIM + columns[None, :], inside, 0.0)
        new_top = tl.maximum(top, tl.max(part_sum, 0))
        weights = tl.exp2(part_sum - new_top)
        shrink = tl.exp2(top - new_top)
        acc = acc * shrink + tl.sum(part * weights[:, None], 0)
        total = total * shrink + tl.sum(weights, 0)
        top = new_top
    empty = total == 0.0
    total = tl.where(empty, 1.0, total)
    out = acc / total
    tl.store(LOG_SUM_EXP + row, tl.where(empty, float("inf"), top + tl.log2(total)))
    o_base = row_pointer(OUT, head // heads, o_b, head % heads, o_h, m, o_n, False)
    tl.store(o_base + columns * o_d, out.to(OUT.dtype.element_ty), channels)
