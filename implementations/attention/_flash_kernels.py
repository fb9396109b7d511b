# mypy: ignore-errors
# Triton's language is parsed by Triton, not run by Python. Imported on first use only.
"""The forward kernel of flash attention: exact attention in one pass over K and V.

Milakov & Gimelshein 2018 (the running maximum and sum), Dao 2022 and 2023 (tiles, log-sum-exp, causal tiles
that are skipped). One program computes BLOCK_M rows of one head's output. Its tiles of K and V come in runs:
those that every row may see whole, which pay for no rule at all, then those on the diagonal or at the end;
before them, with a window, those at its far edge. Scores are kept in units of log₂: exp2 is the instruction
that the hardware has.
"""

from __future__ import annotations

import triton
import triton.language as tl

from implementations.attention._flash_loads import (
    element_offset,
    first_tile,
    form_in_name,
    load_tile,
    mask_lines,
    masked_scores,
    row_pointer,
    sequence,
    tile_offsets,
)

#: The running maximum before anything was seen. Finite, so that a row whose every score is -inf needs no
#: special case: exp2(-inf - LOWEST) is 0, where exp2(-inf + inf) is NaN.
LOWEST = tl.constexpr(-1.0e38)


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
    acc, total, top, q, rows, rows_inside, first, last,
    K, k_n, k_d, V, v_n, v_d, MASK_BASE, mask_n,
    b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, MASK: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr,
    WIDE: tl.constexpr, EIGHTS: tl.constexpr, MASKED: tl.constexpr, SUMS: tl.constexpr,
    PACKED: tl.constexpr,
):  # fmt: skip
    """Take the keys first … last into the running output, sum and maximum of each row.

    MASKED tiles apply the causal rule, the window and the end; MASK holds in every tile. MASK_BASE points at
    each row's mask of key 0. The sum is kept in SUMS parts, column by column modulo SUMS: with 8, each thread
    adds up the columns it holds, and the exchange between threads is left for the end.
    """
    # Pointers that move on cost two additions each; offsets from a base that moves cost more.
    k_source = first_tile(K, first, k_n, k_d, BLOCK_N, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
    v_source = first_tile(V, first, v_n, v_d, BLOCK_N, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
    if MASK != "none":
        mask_source = MASK_BASE + element_offset(first, mask_n) + tl.arange(0, BLOCK_N)[None, :] * mask_n
    for n in tl.range(first, last, BLOCK_N):
        k = load_tile(k_source, n, b, kv_h, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, DESCRIPTORS, MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        unit = scale_log2
        if MASK != "none":
            shown = rows_inside
            if MASKED:
                shown = shown & (n + tl.arange(0, BLOCK_N)[None, :] < kv_len)
            scores = masked_scores(scores, scale_log2, tl.load(mask_source, shown, 0), MASK)
            mask_source += element_offset(BLOCK_N, mask_n)
            unit = 1.0
        if MASKED:
            columns = n + tl.arange(0, BLOCK_N)
            seen = columns[None, :] < kv_len
            if CAUSAL:
                seen = seen & (columns[None, :] <= rows[:, None] + causal_offset)
            if WINDOW:
                seen = seen & (columns[None, :] >= rows[:, None] + window_offset)
            scores = tl.where(seen, scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1) * unit)
        weights = tl.exp2(scores * unit - new_top[:, None])
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
def key_runs(first, q_len, kv_len, causal_offset, window_offset, BLOCK_M: tl.constexpr,
             BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):  # fmt: skip
    """The tiles of keys that BLOCK_M rows from `first` on look at: where they begin, where those begin and
    end that every row sees whole, and where the keys end."""
    begin, open, whole, end = 0, 0, kv_len, kv_len
    if CAUSAL:
        whole = tl.minimum(kv_len, tl.maximum(0, first + causal_offset + 1))
        end = tl.minimum(kv_len, tl.minimum(q_len, first + BLOCK_M) + causal_offset)
    whole = whole // BLOCK_N * BLOCK_N
    if WINDOW:
        begin = tl.maximum(0, first + window_offset)
        begin = tl.where(begin < end, begin // BLOCK_N * BLOCK_N, tl.maximum(0, end))
        open = tl.cdiv(tl.maximum(0, first + BLOCK_M - 1 + window_offset), BLOCK_N) * BLOCK_N
        whole = tl.maximum(open, whole)
    return begin, open, whole, end


@triton.jit(repr=form_in_name("flash_forward"))
def flash_forward(
    Q, K, V, OUT, LOG_SUM_EXP, MASK_VALUES, STARTS,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, o_b, o_h, o_n, o_d,
    mask_b, mask_h, mask_m, mask_n,
    heads, group, q_len, kv_len, causal_offset, window_offset, scale_log2, tokens,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASK: tl.constexpr, MASK_ROWS: tl.constexpr,
    LENGTHS: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
    EIGHTS: tl.constexpr, SUMS: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """OUT = softmax(QKᵀ·scale)·V and each row's log₂ Σ 2^score (+inf for a row that sees no key).

    One-dimensional grid: tiles of queries × heads × batch, which has no limit of 65,535. CAUSAL keys end at
    row + causal_offset, and with a WINDOW begin at row + window_offset. With LENGTHS, the batch is packed one
    after another as STARTS says, and q_len is the longest sequence.
    """
    tiles = tl.cdiv(q_len, BLOCK_M)
    program = tl.program_id(0)
    tile, head = program % tiles, program // tiles
    if CAUSAL:  # the longest rows start first, so that none is left for the end
        tile = tiles - 1 - tile
    b, h = head // heads, head % heads
    kv_h = h // group
    start, row_count = 0, q_len
    if LENGTHS:
        start, q_len = sequence(STARTS, b)
        b, head, kv_len, row_count = 0, h, q_len, tokens
        if tile * BLOCK_M >= q_len:
            return
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_D)
    inside = (rows[:, None] < q_len) & (columns[None, :] < HEAD_DIM)

    q_base = row_pointer(Q, b, q_b, h, q_h, start + tile * BLOCK_M, q_n, EIGHTS)
    q = tl.load(q_base + tile_offsets(tl.arange(0, BLOCK_M), columns, q_n, q_d, WIDE, EIGHTS), inside, 0.0)
    k_base, v_base = K, V
    if not DESCRIPTORS:
        k_base = row_pointer(K, b, k_b, kv_h, k_h, start, k_n, EIGHTS)
        v_base = row_pointer(V, b, v_b, kv_h, v_h, start, v_n, EIGHTS)
    mask_base, rows_inside = MASK_VALUES, None
    if MASK != "none":
        mask_base, rows_inside = mask_lines(
            MASK_VALUES, b, mask_b, h, mask_h, start, tile * BLOCK_M, q_len, mask_m, mask_n,
            BLOCK_M, MASK_ROWS, WIDE,
        )  # fmt: skip

    begin, open, whole, end = key_runs(
        tile * BLOCK_M, q_len, kv_len, causal_offset, window_offset, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    total = tl.zeros([BLOCK_M, SUMS], tl.float32)
    top = tl.full([BLOCK_M], LOWEST, tl.float32)
    if WINDOW:
        acc, total, top = attend_tiles(
            acc, total, top, q, rows, rows_inside, begin, tl.minimum(open, end),
            k_base, k_n, k_d, v_base, v_n, v_d, mask_base, mask_n,
            b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
            HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, WINDOW, MASK, PRECISION, DESCRIPTORS, WIDE, EIGHTS, True,
            SUMS, PACKED,
        )  # fmt: skip
    acc, total, top = attend_tiles(
        acc, total, top, q, rows, rows_inside, open, whole,
        k_base, k_n, k_d, v_base, v_n, v_d, mask_base, mask_n,
        b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, WINDOW, MASK, PRECISION, DESCRIPTORS, WIDE, EIGHTS, False,
        SUMS, PACKED,
    )  # fmt: skip
    acc, total, top = attend_tiles(
        acc, total, top, q, rows, rows_inside, whole, end,
        k_base, k_n, k_d, v_base, v_n, v_d, mask_base, mask_n,
        b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, WINDOW, MASK, PRECISION, DESCRIPTORS, WIDE, EIGHTS, True,
        SUMS, PACKED,
    )  # fmt: skip

    total = tl.sum(total, 1)
    empty = total == 0.0
    total = tl.where(empty, 1.0, total)
    acc = acc / total[:, None]
    log_sum_exp = tl.where(empty, float("inf"), top + tl.log2(total))
    statistics = element_offset(head, row_count) + start
    tl.store(LOG_SUM_EXP + statistics + rows, log_sum_exp, rows < q_len)
    o_base = row_pointer(OUT, b, o_b, h, o_h, start + tile * BLOCK_M, o_n, EIGHTS)
    o_offsets = tile_offsets(tl.arange(0, BLOCK_M), columns, o_n, o_d, WIDE, EIGHTS)
    tl.store(o_base + o_offsets, acc.to(OUT.dtype.element_ty), inside)
