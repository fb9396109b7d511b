# mypy: ignore-errors
# Triton's language is parsed by Triton, not run by Python. Imported on first use only.
"""Kernels that show whether the interpreter is repaired and its hooks count."""

import triton
import triton.language as tl


@triton.jit
def add_one_element(X, Y, OUT):
    """OUT = X + Y, one element each."""
    tl.store(OUT, tl.load(X) + tl.load(Y))
