# mypy: ignore-errors
# Triton's language is parsed by Triton, not run by Python. Imported on first use only.
"""The forward kernel of flash attention: exact attention in one pass over K and V.

Milakov & Gimelshein 2018 (the running maximum and sum), Dao 2022 and 2023 (tiles, log-sum-exp, causal tiles
that are skipped). One program computes BLOCK_M rows of one head's output. Its tiles of K and V come in two
runs: first those that every row may see whole, which pay for no mask at all, then those on the diagonal or
at the end. Scores are kept in units of log₂: exp2 is the instruction that the hardware has.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: The running maximum before anything was seen. Finite, so that a row whose every score is -inf needs no
#: special case: exp2(-inf - LOWEST) is 0, where exp2(-inf + inf) is NaN.
LOWEST = tl.constexpr(-1.0e38)


@triton.jit
def element_offset(index, stride):
    """index·stride elements, in 64 bits: row 70,000 of stride 65,536 lies past 2^32."""
    return tl.cast(index, tl.int64) * stride


@triton.jit
def tile_offsets(rows, columns, row_stride, column_stride, WIDE: tl.constexpr):
    """Offsets inside one tile; 32 bits do unless the strides are huge, and cost half the registers."""
    if WIDE:
        rows, columns = rows.to(tl.int64), columns.to(tl.int64)
    return rows[:, None] * row_stride + columns[None, :] * column_stride


@triton.jit
def load_tile(
    SOURCE, offsets, first, stride, b, h, count,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    DESCRIPTORS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Rows first … first + BLOCK_N of one head, (BLOCK_N, BLOCK_D); zero outside the tensor."""
    if DESCRIPTORS:  # the copy engine fills with zeros by itself
        tile = SOURCE.load([b, h, first, 0]).reshape(BLOCK_N, BLOCK_D)
    else:
        pointers = SOURCE + element_offset(first, stride) + offsets
        rows = first + tl.arange(0, BLOCK_N)[:, None]
        columns = tl.arange(0, BLOCK_D)[None, :]
        if MASKED:
            tile = tl.load(pointers, mask=(rows < count) & (columns < HEAD_DIM), other=0.0)
        elif HEAD_DIM < BLOCK_D:
            tile = tl.load(pointers, mask=columns < HEAD_DIM, other=0.0)
        else:
            tile = tl.load(pointers)
    return tile


@triton.jit
def attend_tiles(
    acc, total, top, q, rows, first, last,
    K, k_offsets, k_n, V, v_offsets, v_n, b, kv_h, kv_len, causal_offset, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Take the keys first … last into the running output, sum and maximum of each row."""
    for n in tl.range(first, last, BLOCK_N):
        k = load_tile(K, k_offsets, n, k_n, b, kv_h, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, DESCRIPTORS, MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        if MASKED:
            columns = n + tl.arange(0, BLOCK_N)
            seen = columns[None, :] < kv_len
            if CAUSAL:
                seen = seen & (columns[None, :] <= rows[:, None] + causal_offset)
            scores = tl.where(seen, scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1) * scale_log2)
        weights = tl.exp2(scores * scale_log2 - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None]
        v = load_tile(V, v_offsets, n, v_n, b, kv_h, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, DESCRIPTORS, MASKED)
        acc = tl.dot(weights.to(v.dtype), v, acc, input_precision=PRECISION)
        top = new_top
    return acc, total, top


@triton.jit
def flash_forward(
    Q, K, V, OUT, LOG_SUM_EXP,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, o_b, o_h, o_n, o_d,
    heads, group, q_len, kv_len, causal_offset, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """OUT = softmax(QKᵀ·scale)·V and each row's log₂ Σ 2^score (+inf for a row that sees no key).

    One-dimensional grid: tiles of queries × heads × batch, which has no limit of 65,535.
    """
    tiles = tl.cdiv(q_len, BLOCK_M)
    program = tl.program_id(0)
    tile, head = program % tiles, program // tiles
    if CAUSAL:  # the longest rows start first, so that none is left for the end
        tile = tiles - 1 - tile
    b, h = head // heads, head % heads
    kv_h = h // group
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_D)
    keys = tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < q_len) & (columns[None, :] < HEAD_DIM)

    q_base = Q + element_offset(b, q_b) + element_offset(h, q_h) + element_offset(tile * BLOCK_M, q_n)
    q = tl.load(q_base + tile_offsets(tl.arange(0, BLOCK_M), columns, q_n, q_d, WIDE), inside, 0.0)
    if DESCRIPTORS:
        k_base, k_offsets, v_base, v_offsets = K, 0, V, 0
    else:
        k_base = K + element_offset(b, k_b) + element_offset(kv_h, k_h)
        v_base = V + element_offset(b, v_b) + element_offset(kv_h, v_h)
        k_offsets = tile_offsets(keys, columns, k_n, k_d, WIDE)
        v_offsets = tile_offsets(keys, columns, v_n, v_d, WIDE)

    end = kv_len
    whole = kv_len
    if CAUSAL:
        whole = tl.minimum(kv_len, tl.maximum(0, tile * BLOCK_M + causal_offset + 1))
        end = tl.minimum(kv_len, tl.minimum(q_len, (tile + 1) * BLOCK_M) + causal_offset)
    whole = whole // BLOCK_N * BLOCK_N

    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    top = tl.full([BLOCK_M], LOWEST, tl.float32)
    acc, total, top = attend_tiles(
        acc, total, top, q, rows, 0, whole,
        k_base, k_offsets, k_n, v_base, v_offsets, v_n, b, kv_h, kv_len, causal_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, PRECISION, DESCRIPTORS, WIDE, False,
    )  # fmt: skip
    acc, total, top = attend_tiles(
        acc, total, top, q, rows, whole, end,
        k_base, k_offsets, k_n, v_base, v_offsets, v_n, b, kv_h, kv_len, causal_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, PRECISION, DESCRIPTORS, WIDE, True,
    )  # fmt: skip

    empty = total == 0.0
    total = tl.where(empty, 1.0, total)
    acc = acc / total[:, None]
    log_sum_exp = tl.where(empty, float("inf"), top + tl.log2(total))
    tl.store(LOG_SUM_EXP + element_offset(head, q_len) + rows, log_sum_exp, rows < q_len)
    o_base = OUT + element_offset(b, o_b) + element_offset(h, o_h) + element_offset(tile * BLOCK_M, o_n)
    o_offsets = tile_offsets(tl.arange(0, BLOCK_M), columns, o_n, o_d, WIDE)
    tl.store(o_base + o_offsets, acc.to(OUT.dtype.element_ty), inside)
