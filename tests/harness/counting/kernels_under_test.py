# mypy: ignore-errors
"""Small Triton kernels whose counts can be written down by hand."""

import triton
import triton.language as tl


@triton.jit
def copy(X, OUT, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASKED:
        tl.store(OUT + at, tl.load(X + at, mask=at < n, other=0.0), mask=at < n)
    else:
        tl.store(OUT + at, tl.load(X + at))


@triton.jit
def stray_store(OUT, offset):
    tl.store(OUT + offset + tl.arange(0, 4), tl.zeros([4], tl.float32))


@triton.jit
def everyone_stores_first(OUT):
    tl.store(OUT, tl.program_id(0).to(tl.float32))


@triton.jit
def lanes_collide(OUT):
    tl.store(OUT + tl.arange(0, 8) // 2, tl.zeros([8], tl.float32))


@triton.jit
def stores_twice_itself(OUT):
    tl.store(OUT + tl.arange(0, 8), tl.zeros([8], tl.float32))
    tl.store(OUT + tl.arange(0, 8), tl.zeros([8], tl.float32))


@triton.jit
def add_atomically(X, OUT, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(OUT + at % 4, tl.load(X + at))


@triton.jit
def operations(X, OUT, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(X + at)
    y = tl.exp2(x) + tl.exp(x)
    y = tl.maximum(y, x) * tl.where(x > 0.0, x, y)
    tl.store(OUT + at, y - tl.max(y, 0) + tl.sum(y, 0))


@triton.jit
def product(A, B, OUT, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    a = tl.load(A + m[:, None] * K + k[None, :])
    b = tl.load(B + k[:, None] * N + n[None, :])
    tl.store(OUT + m[:, None] * N + n[None, :], tl.dot(a, b))


@triton.jit
def combine(X, Y, OUT, n, OPERATION: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(X + at, mask=at < n), tl.load(Y + at, mask=at < n)
    if OPERATION == "add":
        out = x + y
    elif OPERATION == "mul":
        out = x * y
    elif OPERATION == "div":
        out = (x / y).to(x.dtype)
    elif OPERATION == "max":
        out = tl.maximum(x, y)
    elif OPERATION == "select":
        out = tl.where(x > y, x, y)
    else:
        out = tl.fma(x, y, x)
    tl.store(OUT + at, out, mask=at < n)


@triton.jit
def cast(X, OUT, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(OUT + at, tl.load(X + at, mask=at < n).to(OUT.dtype.element_ty), mask=at < n)


@triton.jit
def row_of(X, OUT, BLOCK: tl.constexpr):
    row = tl.load(X)
    for i in range(row):  # a loaded scalar as a Python index
        tl.store(OUT + i, i)


@triton.jit
def matmul(A, B, C, k_len, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros([M, N], tl.float32)
    for start in range(0, k_len, K):
        a = tl.load(A + m[:, None] * k_len + (start + k)[None, :])
        b = tl.load(B + (start + k)[:, None] * N + n[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(C + m[:, None] * N + n[None, :], acc)
