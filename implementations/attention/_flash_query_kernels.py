# mypy: ignore-errors
# Triton's language is parsed by Triton, not run by Python. Imported on first use only.
"""The backward kernel of flash attention that owns queries: dQ (formulas: `_flash_backward_kernels`)."""

from __future__ import annotations

import triton
import triton.language as tl

from implementations.attention._flash_kernels import key_runs
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


@triton.jit
def walk_keys(
    dq, q, d_out, log_sum_exp, delta, rows, rows_inside, first, last,
    K, k_n, k_d, V, v_n, v_d, MASK_BASE, mask_n,
    b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, MASK: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr,
    WIDE: tl.constexpr, EIGHTS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Add the keys first … last to dq. MASK_BASE points at each row's mask of key 0."""
    k_source = first_tile(K, first, k_n, k_d, BLOCK_N, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
    v_source = first_tile(V, first, v_n, v_d, BLOCK_N, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
    if MASK != "none":
        mask_source = MASK_BASE + element_offset(first, mask_n) + tl.arange(0, BLOCK_N)[None, :] * mask_n
    for n in tl.range(first, last, BLOCK_N):
        k = load_tile(k_source, n, b, kv_h, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, DESCRIPTORS, MASKED)
        v = load_tile(v_source, n, b, kv_h, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, DESCRIPTORS, MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        unit = scale_log2
        if MASK != "none":
            shown = rows_inside
            if MASKED:
                shown = shown & (n + tl.arange(0, BLOCK_N)[None, :] < kv_len)
            scores = masked_scores(scores, scale_log2, tl.load(mask_source, shown, 0), MASK)
            mask_source += element_offset(BLOCK_N, mask_n)
            unit = 1.0
        weights = tl.exp2(scores * unit - log_sum_exp[:, None])
        if MASKED:
            columns = n + tl.arange(0, BLOCK_N)
            seen = columns[None, :] < kv_len
            if CAUSAL:
                seen = seen & (columns[None, :] <= rows[:, None] + causal_offset)
            if WINDOW:
                seen = seen & (columns[None, :] >= rows[:, None] + window_offset)
            weights = tl.where(seen, weights, 0.0)
        d_weights = tl.dot(d_out, tl.trans(v), input_precision=PRECISION)
        d_scores = weights * (d_weights - delta[:, None])
        dq = tl.dot(d_scores.to(k.dtype), k, dq, input_precision=PRECISION)
        if not DESCRIPTORS:
            k_source += element_offset(BLOCK_N, k_n)
            v_source += element_offset(BLOCK_N, v_n)
    return dq


@triton.jit(repr=form_in_name("flash_backward_queries"))
def flash_backward_queries(
    Q, K, V, D_OUT, LOG_SUM_EXP, DELTA, DQ, MASK_VALUES, STARTS,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, do_b, do_h, do_n, do_d,
    dq_b, dq_h, dq_n, dq_d, mask_b, mask_h, mask_m, mask_n,
    heads, group, q_len, kv_len, causal_offset, window_offset, scale, scale_log2, tokens,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASK: tl.constexpr, MASK_ROWS: tl.constexpr,
    LENGTHS: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
    EIGHTS: tl.constexpr,
):  # fmt: skip
    """dQ of BLOCK_M queries of one head."""
    tiles = tl.cdiv(q_len, BLOCK_M)
    tile, head = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    if CAUSAL:
        tile = tiles - 1 - tile
    b, h = head // heads, head % heads
    kv_h = h // group
    first = tile * BLOCK_M
    start, row_count = 0, q_len
    if LENGTHS:
        start, q_len = sequence(STARTS, b)
        b, head, kv_len, row_count = 0, h, q_len, tokens
        if first >= q_len:
            return
    queries, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    rows = first + queries
    inside = (rows[:, None] < q_len) & (columns[None, :] < HEAD_DIM)
    q_base = row_pointer(Q, b, q_b, h, q_h, start + first, q_n, EIGHTS)
    do_base = row_pointer(D_OUT, b, do_b, h, do_h, start + first, do_n, EIGHTS)
    q = tl.load(q_base + tile_offsets(queries, columns, q_n, q_d, WIDE, EIGHTS), inside, 0.0)
    d_out = tl.load(do_base + tile_offsets(queries, columns, do_n, do_d, WIDE, EIGHTS), inside, 0.0)
    statistics = element_offset(head, row_count) + start + rows
    log_sum_exp = tl.load(LOG_SUM_EXP + statistics, rows < q_len, float("inf"))
    delta = tl.load(DELTA + statistics, rows < q_len, 0.0)
    k_base, v_base = K, V
    if not DESCRIPTORS:
        k_base = row_pointer(K, b, k_b, kv_h, k_h, start, k_n, EIGHTS)
        v_base = row_pointer(V, b, v_b, kv_h, v_h, start, v_n, EIGHTS)
    mask_base, rows_inside = MASK_VALUES, None
    if MASK != "none":
        mask_base, rows_inside = mask_lines(
            MASK_VALUES, b, mask_b, h, mask_h, start, first, q_len, mask_m, mask_n, BLOCK_M, MASK_ROWS, WIDE
        )

    begin, open, whole, end = key_runs(
        first, q_len, kv_len, causal_offset, window_offset, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    if WINDOW:
        dq = walk_keys(
            dq, q, d_out, log_sum_exp, delta, rows, rows_inside, begin, tl.minimum(open, end),
            k_base, k_n, k_d, v_base, v_n, v_d, mask_base, mask_n,
            b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
            HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, WINDOW, MASK, PRECISION, DESCRIPTORS, WIDE, EIGHTS, True,
        )  # fmt: skip
    dq = walk_keys(
        dq, q, d_out, log_sum_exp, delta, rows, rows_inside, open, whole,
        k_base, k_n, k_d, v_base, v_n, v_d, mask_base, mask_n,
        b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, WINDOW, MASK, PRECISION, DESCRIPTORS, WIDE, EIGHTS, False,
    )  # fmt: skip
    dq = walk_keys(
        dq, q, d_out, log_sum_exp, delta, rows, rows_inside, whole, end,
        k_base, k_n, k_d, v_base, v_n, v_d, mask_base, mask_n,
        b, kv_h, kv_len, causal_offset, window_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, WINDOW, MASK, PRECISION, DESCRIPTORS, WIDE, EIGHTS, True,
    )  # fmt: skip
    dq_base = row_pointer(DQ, b, dq_b, h, dq_h, start + first, dq_n, EIGHTS)
    dq = (dq * scale).to(DQ.dtype.element_ty)
    tl.store(dq_base + tile_offsets(queries, columns, dq_n, dq_d, WIDE, EIGHTS), dq, inside)
