"""§3: the formula itself: against PyTorch, its weights, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from harness.verify.claim import Finding, below, claim, exactly
from harness.verify.counted import certified, misfits


def _heads(n: int, d: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(2, 4, n, d, dtype=dtype) for _ in range(3))


@claim("§3", "softmax(QKᵀ/√d_k)·V equals PyTorch's scaled_dot_product_attention")
def equals_pytorch() -> Finding:
    """Plain and causal, float64, so that only a different formula differs."""
    from implementations.transformer import scaled_dot_product_attention

    worst = 0.0
    for causal in (False, True):
        q, k, v = _heads(33, 16, torch.float64)
        ours, _ = scaled_dot_product_attention(q, k, v, causal=causal, return_weights=True)
        theirs = torch_attention(q, k, v, is_causal=causal)
        worst = max(worst, float((ours - theirs).abs().max()))
    return Finding(worst, below(1e-12), "max |Δ| in float64, plain and causal")


@claim("§3", "Each row of A is a probability distribution: not negative, and its sum is 1")
def rows_sum_to_one() -> Finding:
    """A negative weight counts as what it lacks to 0."""
    from implementations.transformer import scaled_dot_product_attention

    worst = 0.0
    for causal in (False, True):
        q, k, v = _heads(64, 32)
        _, weights = scaled_dot_product_attention(q, k, v, causal=causal, return_weights=True)
        off = (weights.sum(-1, dtype=torch.float64) - 1).abs().max()
        worst = max(worst, float(off), float(-weights.min()))
    return Finding(worst, below(1e-6), "max |sum of a row − 1|, float32, plain and causal")


@claim("§3", "Each output is a weighted mean of the values: it lies within their range")
def within_the_values() -> Finding:
    """By how much an output leaves the range of the values of its channel."""
    from implementations.transformer import scaled_dot_product_attention

    q, k, v = _heads(64, 32)
    output = scaled_dot_product_attention(q, k, v)
    beyond = torch.maximum(output - v.amax(2, keepdim=True), v.amin(2, keepdim=True) - output)
    return Finding(float(beyond.max().clamp_min(0)), below(1e-6), "largest excess over the values' range")


@claim(
    "§3",
    "n = 4096 makes 16,777,216 attention weights per head",
    document="loose",
    care="'16M' is 16 · 2²⁰ exactly: 16,777,216, or 16.8 million.",
)
def weights_of_4096() -> Finding:
    """Elements of the weights that attention returns, on fake tensors."""
    from implementations.transformer import scaled_dot_product_attention

    with FakeTensorMode():
        q, k, v = (torch.randn(1, 1, 4096, 64) for _ in range(3))
        _, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
        number = weights.numel()
    return Finding(number, exactly(16_777_216), "elements of A for one head, counted")


@claim("§3", "QKᵀ costs O(n²·d_k): exactly 2·n²·d_k FLOPs, a multiply-add being 2")
def scores_cost() -> Finding:
    """Half of what the whole attention counts: A·V is the other product."""
    from implementations.transformer import scaled_dot_product_attention

    def make(sizes: Mapping[str, int]) -> Callable[[], object]:
        q, k, v = (torch.randn(1, 1, sizes["n"], sizes["d"]) for _ in range(3))
        return lambda: scaled_dot_product_attention(q, k, v, return_weights=True)

    found = certified(make, "flops", {"n": (64, 128, 192, 256, 384), "d": (16, 32, 48, 64)})
    number = misfits(found.polynomial, [(2, 1)])
    return Finding(number, exactly(0), f"both products: {found.polynomial}; terms beside n²·d")
