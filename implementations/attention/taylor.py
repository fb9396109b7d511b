"""Attention with the exponential cut off after its second power."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem, takes
from implementations.registry import implementation

if TYPE_CHECKING:
    from torch import Tensor

#: Twice that of methods with few features: its sums are large, and are written once a chunk.
CHUNK = {"cpu": 128, "cuda": 256}


def taylor_features(x: Tensor) -> Tensor:
    """(..., d) -> (..., 1 + d + d(d + 1)/2): φ(x)·φ(y) = 1 + x·y + (x·y)²/2.

    Of the d² products only one of each pair, and those of a channel with itself times √½.
    """
    import torch

    channels = x.shape[-1]
    i, j = torch.triu_indices(channels, channels, device=x.device)
    weight = x.new_ones(len(i)).masked_fill_(i == j, math.sqrt(0.5))
    return torch.cat([torch.ones_like(x[..., :1]), x, x[..., i] * (x[..., j] * weight)], -1)


def taylor_kernel(queries: Tensor, keys: Tensor) -> Tensor:
    """1 + x·y + (x·y)²/2 of every pair: (heads, queries, keys). Never below ½."""
    import torch

    products = torch.bmm(queries, keys.mT)
    return products * (products * 0.5 + 1) + 1


@implementation(
    "taylor",
    operation="attention",
    exact=False,
    laws={
        "time": "batch*heads*n*d^3",
        "memory": "batch*heads*n*d + batch*heads*d^3",
        "bytes": "batch*heads*n*d^3 + batch*heads*n*d^2",
    },
    supports=takes("padding"),
)
def taylor(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """Second-order Taylor features, exp(s) ≈ 1 + s + s²/2 (Arora et al. 2024, Based), causal by chunks.

    On all head_dim channels: Based itself projects queries and keys to 16 first. Within a chunk the
    polynomial is taken of the scores, which is cheaper than features.
    """
    from implementations.attention._chunked import kernel_attention
    from implementations.attention._kernel_sums import PlainSums

    root = math.sqrt(problem.scale)

    def features(x: Tensor) -> Tensor:
        return taylor_features(x * root)

    def kernel(queries: Tensor, keys: Tensor) -> Tensor:
        return taylor_kernel(queries * problem.scale, keys)

    def attend(inputs: AttentionInputs) -> Tensor:
        return kernel_attention(problem, inputs, PlainSums(features, kernel, CHUNK))

    return attend
