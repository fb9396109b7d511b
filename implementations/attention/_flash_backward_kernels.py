# mypy: ignore-errors
# Triton's language is parsed by Triton, not run by Python. Imported on first use only.
"""The backward kernels of flash attention: dQ, dK and dV from the saved log-sum-exp (Dao 2022, 2023).

With P = exp(S − log-sum-exp) and δ = rowsum(dO ∘ O):  dV = Pᵀ·dO,  dS = P ∘ (dO·Vᵀ − δ),  dQ = dS·K·scale,
dK = dSᵀ·Q·scale. One kernel owns tiles of keys and walks the queries (here), the other owns queries and walks
the keys (`_flash_query_kernels`), so that every gradient is summed in registers in a fixed order: no atomics,
the same bits every time.
A row that saw no key has log-sum-exp +inf, which makes its P zero without a special case.
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


@triton.jit
def flash_delta(
    OUT, D_OUT, DELTA, o_b, o_h, o_n, o_d, do_b, do_h, do_n, do_d, heads, q_len,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, WIDE: tl.constexpr,
    EIGHTS: tl.constexpr,
):  # fmt: skip
    """DELTA (batch·heads, q_len) = rowsum(dO ∘ O), float32."""
    tiles = tl.cdiv(q_len, BLOCK_M)
    tile, head = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    b, h = head // heads, head % heads
    first = tile * BLOCK_M
    rows, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    inside = (first + rows[:, None] < q_len) & (columns[None, :] < HEAD_DIM)
    o_base = row_pointer(OUT, b, o_b, h, o_h, first, o_n, EIGHTS)
    do_base = row_pointer(D_OUT, b, do_b, h, do_h, first, do_n, EIGHTS)
    out = tl.load(o_base + tile_offsets(rows, columns, o_n, o_d, WIDE, EIGHTS), inside, 0.0)
    d_out = tl.load(do_base + tile_offsets(rows, columns, do_n, do_d, WIDE, EIGHTS), inside, 0.0)
    delta = tl.sum(out.to(tl.float32) * d_out.to(tl.float32), 1)
    tl.store(DELTA + element_offset(head, q_len) + first + rows, delta, first + rows < q_len)


@triton.jit
def walk_queries(
    dk, dv, k, v, keys, first, steps, jump_at, jump_to,
    Q, q_n, q_d, D_OUT, do_n, do_d, LOG_SUM_EXP, DELTA, MASK_BASE, mask_m, keys_inside,
    b, h, q_len, causal_offset, window_offset, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr, MASK: tl.constexpr, MASK_ROWS: tl.constexpr, PRECISION: tl.constexpr,
    DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr, EIGHTS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Add what `steps` tiles of queries contribute to dk and dv. They begin at row `first`, and the masked
    ones go on at row `jump_to` from step `jump_at`: one loop serves both the diagonal and the end.
    MASK_BASE points at each key's mask in row 0."""
    q_source = first_tile(Q, first, q_n, q_d, BLOCK_M, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
    do_source = first_tile(D_OUT, first, do_n, do_d, BLOCK_M, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
    for step in tl.range(0, steps):
        m = first + step * BLOCK_M
        if MASKED:
            m = tl.where(step < jump_at, m, jump_to + (step - jump_at) * BLOCK_M)
            q_source = first_tile(Q, m, q_n, q_d, BLOCK_M, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
            do_source = first_tile(D_OUT, m, do_n, do_d, BLOCK_M, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
        rows = m + tl.arange(0, BLOCK_M)
        q = load_tile(q_source, m, b, h, q_len, HEAD_DIM, BLOCK_M, BLOCK_D, DESCRIPTORS, MASKED)
        if MASKED:
            log_sum_exp = tl.load(LOG_SUM_EXP + rows, rows < q_len, float("inf"))
        else:
            log_sum_exp = tl.load(LOG_SUM_EXP + rows)
        scores = tl.dot(k, tl.trans(q), input_precision=PRECISION)
        unit = scale_log2
        if MASK != "none":
            mask_source, shown = MASK_BASE, keys_inside
            if MASK_ROWS:
                mask_source += element_offset(m, mask_m) + tl.arange(0, BLOCK_M)[None, :] * mask_m
                if MASKED:
                    shown = shown & (rows[None, :] < q_len)
            scores = masked_scores(scores, scale_log2, tl.load(mask_source, shown, 0), MASK)
            unit = 1.0
        weights = tl.exp2(scores * unit - log_sum_exp[None, :])
        if MASKED and CAUSAL:
            weights = tl.where(keys[:, None] <= rows[None, :] + causal_offset, weights, 0.0)
        if MASKED and WINDOW:
            weights = tl.where(keys[:, None] >= rows[None, :] + window_offset, weights, 0.0)
        d_out = load_tile(do_source, m, b, h, q_len, HEAD_DIM, BLOCK_M, BLOCK_D, DESCRIPTORS, MASKED)
        dv = tl.dot(weights.to(d_out.dtype), d_out, dv, input_precision=PRECISION)
        if MASKED:
            delta = tl.load(DELTA + rows, rows < q_len, 0.0)
        else:
            delta = tl.load(DELTA + rows)
        d_weights = tl.dot(v, tl.trans(d_out), input_precision=PRECISION)
        d_scores = weights * (d_weights - delta[None, :])
        dk = tl.dot(d_scores.to(q.dtype), q, dk, input_precision=PRECISION)
        if not DESCRIPTORS and not MASKED:
            q_source += element_offset(BLOCK_M, q_n)
            do_source += element_offset(BLOCK_M, do_n)
    return dk, dv


@triton.jit
def query_runs(first, q_len, kv_len, causal_offset, window_offset, BLOCK_M: tl.constexpr,
               BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):  # fmt: skip
    """The tiles of queries that look at BLOCK_N keys from `first` on: where they begin, where those begin and
    end that see all these keys, and where the queries end."""
    diagonal, open, whole, end = 0, 0, q_len, q_len
    if WINDOW:
        whole = tl.minimum(q_len, tl.maximum(0, first - window_offset + 1))
        end = tl.minimum(q_len, tl.minimum(kv_len, first + BLOCK_N) - window_offset)
    if CAUSAL:
        diagonal = tl.maximum(0, first - causal_offset) // BLOCK_M * BLOCK_M
        open = tl.cdiv(tl.maximum(0, first + BLOCK_N - 1 - causal_offset), BLOCK_M) * BLOCK_M
    if WINDOW:
        diagonal = tl.where(first - causal_offset < end, diagonal, tl.maximum(0, end))
    return diagonal, open, tl.maximum(open, whole // BLOCK_M * BLOCK_M), end


@triton.jit(repr=form_in_name("flash_backward_keys"))
def flash_backward_keys(
    Q, K, V, D_OUT, LOG_SUM_EXP, DELTA, DK, DV, MASK_VALUES, STARTS,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, do_b, do_h, do_n, do_d,
    dk_b, dk_h, dk_n, dk_d, dv_b, dv_h, dv_n, dv_d, mask_b, mask_h, mask_m, mask_n,
    kv_heads, group, q_len, kv_len, causal_offset, window_offset, scale, scale_log2, tokens,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASK: tl.constexpr, MASK_ROWS: tl.constexpr,
    LENGTHS: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
    EIGHTS: tl.constexpr,
):  # fmt: skip
    """dK and dV of BLOCK_N keys of one key/value head, summed over the query heads that read it."""
    tiles = tl.cdiv(kv_len, BLOCK_N)
    tile, head = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    b, kv_h = head // kv_heads, head % kv_heads
    first = tile * BLOCK_N
    start, row_count = 0, q_len
    if LENGTHS:
        start, kv_len = sequence(STARTS, b)
        b, q_len, row_count = 0, kv_len, tokens
        if first >= kv_len:
            return
    keys, columns = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    inside = (first + keys[:, None] < kv_len) & (columns[None, :] < HEAD_DIM)
    k_base = row_pointer(K, b, k_b, kv_h, k_h, start + first, k_n, EIGHTS)
    v_base = row_pointer(V, b, v_b, kv_h, v_h, start + first, v_n, EIGHTS)
    # Keys past the end read as zeros: their rows of dK and dV are garbage that is not stored.
    k = tl.load(k_base + tile_offsets(keys, columns, k_n, k_d, WIDE, EIGHTS), inside, 0.0)
    v = tl.load(v_base + tile_offsets(keys, columns, v_n, v_d, WIDE, EIGHTS), inside, 0.0)

    diagonal, open, whole, end = query_runs(
        first, q_len, kv_len, causal_offset, window_offset, BLOCK_M, BLOCK_N, CAUSAL, WINDOW
    )
    diagonal_steps = tl.cdiv(tl.maximum(0, tl.minimum(open, end) - diagonal), BLOCK_M)
    open_steps = (whole - open) // BLOCK_M
    end_steps = tl.cdiv(tl.maximum(0, end - whole), BLOCK_M)

    dk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for member in range(group):
        h = kv_h * group + member
        statistics = element_offset(b * (kv_heads * group) + h, row_count) + start
        q_base, do_base = Q, D_OUT
        if not DESCRIPTORS:
            q_base = row_pointer(Q, b, q_b, h, q_h, start, q_n, EIGHTS)
            do_base = row_pointer(D_OUT, b, do_b, h, do_h, start, do_n, EIGHTS)
        mask_base, keys_inside = MASK_VALUES, None
        if MASK != "none":
            mask_base, keys_inside = mask_lines(
                MASK_VALUES, b, mask_b, h, mask_h, start, first, kv_len, mask_n, mask_m, BLOCK_N, True, WIDE
            )
        dk, dv = walk_queries(
            dk, dv, k, v, first + keys, open, open_steps, 0, 0,
            q_base, q_n, q_d, do_base, do_n, do_d, LOG_SUM_EXP + statistics, DELTA + statistics,
            mask_base, mask_m, keys_inside, b, h, q_len, causal_offset, window_offset, scale_log2,
            HEAD_DIM, BLOCK_D, BLOCK_M, CAUSAL, WINDOW, MASK, MASK_ROWS, PRECISION, DESCRIPTORS, WIDE, EIGHTS,
            False,
        )  # fmt: skip
        dk, dv = walk_queries(
            dk, dv, k, v, first + keys, diagonal, diagonal_steps + end_steps, diagonal_steps, whole,
            q_base, q_n, q_d, do_base, do_n, do_d, LOG_SUM_EXP + statistics, DELTA + statistics,
            mask_base, mask_m, keys_inside, b, h, q_len, causal_offset, window_offset, scale_log2,
            HEAD_DIM, BLOCK_D, BLOCK_M, CAUSAL, WINDOW, MASK, MASK_ROWS, PRECISION, DESCRIPTORS, WIDE, EIGHTS,
            True,
        )  # fmt: skip
    dk_base = row_pointer(DK, b, dk_b, kv_h, dk_h, start + first, dk_n, EIGHTS)
    dv_base = row_pointer(DV, b, dv_b, kv_h, dv_h, start + first, dv_n, EIGHTS)
    dk = (dk * scale).to(DK.dtype.element_ty)
    tl.store(dk_base + tile_offsets(keys, columns, dk_n, dk_d, WIDE, EIGHTS), dk, inside)
    tl.store(
        dv_base + tile_offsets(keys, columns, dv_n, dv_d, WIDE, EIGHTS), dv.to(DV.dtype.element_ty), inside
    )
