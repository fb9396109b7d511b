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
def tile_offsets(rows, columns, row_stride, column_stride, WIDE: tl.constexpr, EIGHTS: tl.constexpr):
    """Offsets inside one tile; 32 bits do unless the strides are huge, and cost half the registers.

    EIGHTS promises row strides of whole eights: head dimensions such as 40 are then read 16 bytes at a time
    too (by itself Triton knows of multiples of 16 only).
    """
    if WIDE:
        rows, columns = rows.to(tl.int64), columns.to(tl.int64)
    row_offsets = rows[:, None] * row_stride
    if EIGHTS:
        row_offsets = tl.multiple_of(row_offsets, [8, 8])
    return row_offsets + columns[None, :] * column_stride


@triton.jit
def row_pointer(SOURCE, b, b_stride, h, h_stride, first, stride, EIGHTS: tl.constexpr):
    """Where row `first` of one head begins; on a boundary of 16 bytes if EIGHTS promises it."""
    offset = element_offset(b, b_stride) + element_offset(h, h_stride) + element_offset(first, stride)
    pointer = SOURCE + offset
    if EIGHTS:
        pointer = tl.multiple_of(pointer, 16)
    return pointer


@triton.jit
def first_tile(
    SOURCE, first, stride, column_stride,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
    EIGHTS: tl.constexpr,
):  # fmt: skip
    """Where the tile that begins at row `first` of one head is read from: pointers, or the descriptor."""
    source = SOURCE
    if not DESCRIPTORS:
        rows, columns = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
        source += element_offset(first, stride)
        if EIGHTS:
            source = tl.multiple_of(source, 16)
        source += tile_offsets(rows, columns, stride, column_stride, WIDE, EIGHTS)
    return source


@triton.jit
def load_tile(
    source, first, b, h, count,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    DESCRIPTORS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Rows first … first + BLOCK_N of one head, (BLOCK_N, BLOCK_D); zero outside the tensor."""
    columns = tl.arange(0, BLOCK_D)[None, :]
    if DESCRIPTORS:  # the copy engine fills with zeros by itself
        tile = source.load([b, h, first, 0]).reshape(BLOCK_N, BLOCK_D)
    elif MASKED:
        rows = first + tl.arange(0, BLOCK_N)[:, None]
        tile = tl.load(source, mask=(rows < count) & (columns < HEAD_DIM), other=0.0)
    elif HEAD_DIM < BLOCK_D:
        tile = tl.load(source, mask=columns < HEAD_DIM, other=0.0)
    else:
        tile = tl.load(source)
    return tile


@triton.jit
def product(a, b, PACKED: tl.constexpr):
    """a·b in float32; PACKED takes two elements per instruction, as Blackwell can."""
    if PACKED:
        a, b = tl.broadcast(a, b)
        result = tl.inline_asm_elementwise(
            """
            {
            .reg .b64 x, y, z;
            mov.b64 x, {$2, $3};
            mov.b64 y, {$4, $5};
            mul.rn.f32x2 z, x, y;
            mov.b64 {$0, $1}, z;
            }
            """,
            "=r,=r,r,r,r,r", [a, b], dtype=tl.float32, is_pure=True, pack=2,
        )  # fmt: skip
    else:
        result = a * b
    return result


@triton.jit
def attend_tiles(
    acc, total, top, q, rows, first, last,
    K, k_n, k_d, V, v_n, v_d, b, kv_h, kv_len, causal_offset, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr, EIGHTS: tl.constexpr,
    MASKED: tl.constexpr, SUMS: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Take the keys first … last into the running output, sum and maximum of each row.

    The sum is kept in SUMS parts, column by column modulo SUMS: with 8, each thread adds up the columns it
    holds, and the exchange between threads is left for the end.
    """
    # Pointers that move on cost two additions each; offsets from a base that moves cost more.
    k_source = first_tile(K, first, k_n, k_d, BLOCK_N, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
    v_source = first_tile(V, first, v_n, v_d, BLOCK_N, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
    for n in tl.range(first, last, BLOCK_N):
        k = load_tile(k_source, n, b, kv_h, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, DESCRIPTORS, MASKED)
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
        parts = tl.reshape(weights, [weights.shape[0], BLOCK_N // SUMS, SUMS])
        total = total * shrink[:, None] + tl.sum(parts, 1)
        acc = product(acc, shrink[:, None], PACKED)
        v = load_tile(v_source, n, b, kv_h, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, DESCRIPTORS, MASKED)
        acc = tl.dot(weights.to(v.dtype), v, acc, input_precision=PRECISION)
        top = new_top
        if not DESCRIPTORS:
            k_source += element_offset(BLOCK_N, k_n)
            v_source += element_offset(BLOCK_N, v_n)
    return acc, total, top


@triton.jit
def flash_forward(
    Q, K, V, OUT, LOG_SUM_EXP,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, o_b, o_h, o_n, o_d,
    heads, group, q_len, kv_len, causal_offset, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
    EIGHTS: tl.constexpr, SUMS: tl.constexpr, PACKED: tl.constexpr,
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
    inside = (rows[:, None] < q_len) & (columns[None, :] < HEAD_DIM)

    q_base = row_pointer(Q, b, q_b, h, q_h, tile * BLOCK_M, q_n, EIGHTS)
    q = tl.load(q_base + tile_offsets(tl.arange(0, BLOCK_M), columns, q_n, q_d, WIDE, EIGHTS), inside, 0.0)
    k_base, v_base = K, V
    if not DESCRIPTORS:
        k_base = row_pointer(K, b, k_b, kv_h, k_h, 0, k_n, EIGHTS)
        v_base = row_pointer(V, b, v_b, kv_h, v_h, 0, v_n, EIGHTS)

    end = kv_len
    whole = kv_len
    if CAUSAL:
        whole = tl.minimum(kv_len, tl.maximum(0, tile * BLOCK_M + causal_offset + 1))
        end = tl.minimum(kv_len, tl.minimum(q_len, (tile + 1) * BLOCK_M) + causal_offset)
    whole = whole // BLOCK_N * BLOCK_N

    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    total = tl.zeros([BLOCK_M, SUMS], tl.float32)
    top = tl.full([BLOCK_M], LOWEST, tl.float32)
    acc, total, top = attend_tiles(
        acc, total, top, q, rows, 0, whole,
        k_base, k_n, k_d, v_base, v_n, v_d, b, kv_h, kv_len, causal_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, PRECISION, DESCRIPTORS, WIDE, EIGHTS, False, SUMS, PACKED,
    )  # fmt: skip
    acc, total, top = attend_tiles(
        acc, total, top, q, rows, whole, end,
        k_base, k_n, k_d, v_base, v_n, v_d, b, kv_h, kv_len, causal_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, PRECISION, DESCRIPTORS, WIDE, EIGHTS, True, SUMS, PACKED,
    )  # fmt: skip

    total = tl.sum(total, 1)
    empty = total == 0.0
    total = tl.where(empty, 1.0, total)
    acc = acc / total[:, None]
    log_sum_exp = tl.where(empty, float("inf"), top + tl.log2(total))
    tl.store(LOG_SUM_EXP + element_offset(head, q_len) + rows, log_sum_exp, rows < q_len)
    o_base = row_pointer(OUT, b, o_b, h, o_h, tile * BLOCK_M, o_n, EIGHTS)
    o_offsets = tile_offsets(tl.arange(0, BLOCK_M), columns, o_n, o_d, WIDE, EIGHTS)
    tl.store(o_base + o_offsets, acc.to(OUT.dtype.element_ty), inside)
