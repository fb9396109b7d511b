# mypy: ignore-errors
# Triton's language is parsed by Triton, not run by Python. Imported on first use only.
"""The backward kernels of flash attention: dQ, dK and dV from the saved log-sum-exp (Dao 2022, 2023).

With P = exp(S − log-sum-exp) and δ = rowsum(dO ∘ O):  dV = Pᵀ·dO,  dS = P ∘ (dO·Vᵀ − δ),  dQ = dS·K·scale,
dK = dSᵀ·Q·scale. One kernel owns tiles of keys and walks the queries, the other owns queries and walks the
keys, so that every gradient is summed in registers in a fixed order: no atomics, the same bits every time.
A row that saw no key has log-sum-exp +inf, which makes its P zero without a special case.
"""

from __future__ import annotations

import triton
import triton.language as tl

from implementations.attention._flash_kernels import (
    element_offset,
    first_tile,
    load_tile,
    row_pointer,
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
    Q, q_n, q_d, D_OUT, do_n, do_d, LOG_SUM_EXP, DELTA, b, h, q_len, causal_offset, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
    EIGHTS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Add what `steps` tiles of queries contribute to dk and dv. They begin at row `first`, and the masked
    ones go on at row `jump_to` from step `jump_at`: one loop serves both the diagonal and the end."""
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
        weights = tl.exp2(scores * scale_log2 - log_sum_exp[None, :])
        if MASKED and CAUSAL:
            weights = tl.where(keys[:, None] <= rows[None, :] + causal_offset, weights, 0.0)
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
def flash_backward_keys(
    Q, K, V, D_OUT, LOG_SUM_EXP, DELTA, DK, DV,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, do_b, do_h, do_n, do_d,
    dk_b, dk_h, dk_n, dk_d, dv_b, dv_h, dv_n, dv_d,
    kv_heads, group, q_len, kv_len, causal_offset, scale, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
    EIGHTS: tl.constexpr,
):  # fmt: skip
    """dK and dV of BLOCK_N keys of one key/value head, summed over the query heads that read it."""
    tiles = tl.cdiv(kv_len, BLOCK_N)
    tile, head = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    b, kv_h = head // kv_heads, head % kv_heads
    first = tile * BLOCK_N
    keys, columns = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    inside = (first + keys[:, None] < kv_len) & (columns[None, :] < HEAD_DIM)
    k_base = row_pointer(K, b, k_b, kv_h, k_h, first, k_n, EIGHTS)
    v_base = row_pointer(V, b, v_b, kv_h, v_h, first, v_n, EIGHTS)
    # Keys past the end read as zeros: their rows of dK and dV are garbage that is not stored.
    k = tl.load(k_base + tile_offsets(keys, columns, k_n, k_d, WIDE, EIGHTS), inside, 0.0)
    v = tl.load(v_base + tile_offsets(keys, columns, v_n, v_d, WIDE, EIGHTS), inside, 0.0)

    # Queries from `diagonal` on see some of these keys, from `open` to `whole` all of them, tile by tile.
    diagonal, open = 0, 0
    if CAUSAL:
        diagonal = tl.maximum(0, first - causal_offset) // BLOCK_M * BLOCK_M
        open = tl.cdiv(tl.maximum(0, first + BLOCK_N - 1 - causal_offset), BLOCK_M) * BLOCK_M
    whole = tl.maximum(open, q_len // BLOCK_M * BLOCK_M)
    diagonal_steps = tl.cdiv(tl.maximum(0, tl.minimum(open, q_len) - diagonal), BLOCK_M)
    open_steps = (whole - open) // BLOCK_M
    end_steps = tl.cdiv(tl.maximum(0, q_len - whole), BLOCK_M)

    dk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for member in range(group):
        h = kv_h * group + member
        statistics = element_offset(b * (kv_heads * group) + h, q_len)
        q_base, do_base = Q, D_OUT
        if not DESCRIPTORS:
            q_base = row_pointer(Q, b, q_b, h, q_h, 0, q_n, EIGHTS)
            do_base = row_pointer(D_OUT, b, do_b, h, do_h, 0, do_n, EIGHTS)
        dk, dv = walk_queries(
            dk, dv, k, v, first + keys, open, open_steps, 0, 0,
            q_base, q_n, q_d, do_base, do_n, do_d, LOG_SUM_EXP + statistics, DELTA + statistics,
            b, h, q_len, causal_offset, scale_log2,
            HEAD_DIM, BLOCK_D, BLOCK_M, CAUSAL, PRECISION, DESCRIPTORS, WIDE, EIGHTS, False,
        )  # fmt: skip
        dk, dv = walk_queries(
            dk, dv, k, v, first + keys, diagonal, diagonal_steps + end_steps, diagonal_steps, whole,
            q_base, q_n, q_d, do_base, do_n, do_d, LOG_SUM_EXP + statistics, DELTA + statistics,
            b, h, q_len, causal_offset, scale_log2,
            HEAD_DIM, BLOCK_D, BLOCK_M, CAUSAL, PRECISION, DESCRIPTORS, WIDE, EIGHTS, True,
        )  # fmt: skip
    dk_base = row_pointer(DK, b, dk_b, kv_h, dk_h, first, dk_n, EIGHTS)
    dv_base = row_pointer(DV, b, dv_b, kv_h, dv_h, first, dv_n, EIGHTS)
    dk = (dk * scale).to(DK.dtype.element_ty)
    tl.store(dk_base + tile_offsets(keys, columns, dk_n, dk_d, WIDE, EIGHTS), dk, inside)
    tl.store(
        dv_base + tile_offsets(keys, columns, dv_n, dv_d, WIDE, EIGHTS), dv.to(DV.dtype.element_ty), inside
    )


@triton.jit
def walk_keys(
    dq, q, d_out, log_sum_exp, delta, rows, first, last,
    K, k_n, k_d, V, v_n, v_d, b, kv_h, kv_len, causal_offset, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
    EIGHTS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Add the keys first … last to dq."""
    k_source = first_tile(K, first, k_n, k_d, BLOCK_N, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
    v_source = first_tile(V, first, v_n, v_d, BLOCK_N, BLOCK_D, DESCRIPTORS, WIDE, EIGHTS)
    for n in tl.range(first, last, BLOCK_N):
        k = load_tile(k_source, n, b, kv_h, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, DESCRIPTORS, MASKED)
        v = load_tile(v_source, n, b, kv_h, kv_len, HEAD_DIM, BLOCK_N, BLOCK_D, DESCRIPTORS, MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        weights = tl.exp2(scores * scale_log2 - log_sum_exp[:, None])
        if MASKED:
            columns = n + tl.arange(0, BLOCK_N)
            seen = columns[None, :] < kv_len
            if CAUSAL:
                seen = seen & (columns[None, :] <= rows[:, None] + causal_offset)
            weights = tl.where(seen, weights, 0.0)
        d_weights = tl.dot(d_out, tl.trans(v), input_precision=PRECISION)
        d_scores = weights * (d_weights - delta[:, None])
        dq = tl.dot(d_scores.to(k.dtype), k, dq, input_precision=PRECISION)
        if not DESCRIPTORS:
            k_source += element_offset(BLOCK_N, k_n)
            v_source += element_offset(BLOCK_N, v_n)
    return dq


@triton.jit
def flash_backward_queries(
    Q, K, V, D_OUT, LOG_SUM_EXP, DELTA, DQ,
    q_b, q_h, q_n, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_d, do_b, do_h, do_n, do_d,
    dq_b, dq_h, dq_n, dq_d,
    heads, group, q_len, kv_len, causal_offset, scale, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
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
    queries, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    rows = first + queries
    inside = (rows[:, None] < q_len) & (columns[None, :] < HEAD_DIM)
    q_base = row_pointer(Q, b, q_b, h, q_h, first, q_n, EIGHTS)
    do_base = row_pointer(D_OUT, b, do_b, h, do_h, first, do_n, EIGHTS)
    q = tl.load(q_base + tile_offsets(queries, columns, q_n, q_d, WIDE, EIGHTS), inside, 0.0)
    d_out = tl.load(do_base + tile_offsets(queries, columns, do_n, do_d, WIDE, EIGHTS), inside, 0.0)
    statistics = element_offset(head, q_len) + rows
    log_sum_exp = tl.load(LOG_SUM_EXP + statistics, rows < q_len, float("inf"))
    delta = tl.load(DELTA + statistics, rows < q_len, 0.0)
    k_base, v_base = K, V
    if not DESCRIPTORS:
        k_base = row_pointer(K, b, k_b, kv_h, k_h, 0, k_n, EIGHTS)
        v_base = row_pointer(V, b, v_b, kv_h, v_h, 0, v_n, EIGHTS)

    end, whole = kv_len, kv_len
    if CAUSAL:
        whole = tl.minimum(kv_len, tl.maximum(0, first + causal_offset + 1))
        end = tl.minimum(kv_len, tl.minimum(q_len, first + BLOCK_M) + causal_offset)
    whole = whole // BLOCK_N * BLOCK_N
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    dq = walk_keys(
        dq, q, d_out, log_sum_exp, delta, rows, 0, whole,
        k_base, k_n, k_d, v_base, v_n, v_d, b, kv_h, kv_len, causal_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, PRECISION, DESCRIPTORS, WIDE, EIGHTS, False,
    )  # fmt: skip
    dq = walk_keys(
        dq, q, d_out, log_sum_exp, delta, rows, whole, end,
        k_base, k_n, k_d, v_base, v_n, v_d, b, kv_h, kv_len, causal_offset, scale_log2,
        HEAD_DIM, BLOCK_D, BLOCK_N, CAUSAL, PRECISION, DESCRIPTORS, WIDE, EIGHTS, True,
    )  # fmt: skip
    dq_base = row_pointer(DQ, b, dq_b, h, dq_h, first, dq_n, EIGHTS)
    dq = (dq * scale).to(DQ.dtype.element_ty)
    tl.store(dq_base + tile_offsets(queries, columns, dq_n, dq_d, WIDE, EIGHTS), dq, inside)
