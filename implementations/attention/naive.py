"""Attention as the formula is written: the seq_len × kv_len matrix in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import implementation

if TYPE_CHECKING:
    from torch import Tensor


@implementation(
    "naive",
    operation="attention",
    exact=True,
    laws={
        "time": "batch*heads*n^2*d",
        "memory": "batch*heads*n^2",
        "bytes": "batch*heads*n^2 + batch*heads*n*d",
    },
)
def naive(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """softmax(QKᵀ/√d + bias)·V with the whole matrix in memory.

    Vaswani et al. 2017, equation 1. q is scaled before the product: in float16, 128 channels of 40 · 40
    overflow when scaled after it.
    """
    from implementations.attention import _masks as masks

    def attend(inputs: AttentionInputs) -> Tensor:
        allowed, blind = masks.opened(problem, inputs)
        scores = (inputs.q * problem.scale) @ masks.repeat_heads(problem, inputs.k).mT
        if inputs.bias is not None:
            scores = scores + inputs.bias
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        weights = scores.softmax(-1)
        del scores  # not held while the weights are multiplied
        output = weights @ masks.repeat_heads(problem, inputs.v)
        return output if blind is None else output.masked_fill(blind, 0)

    return attend
