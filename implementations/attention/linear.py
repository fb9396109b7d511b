"""Linear attention with a fixed feature map."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem, takes
from implementations.registry import implementation

if TYPE_CHECKING:
    from torch import Tensor

LOG2_E = math.log2(math.e)


def elu_features(x: Tensor) -> Tensor:
    """elu(x) + 1, written where(x > 0, x + 1, exp x): elu's −1 and the 1 would cancel to 0 below −17.

    By exp2, which is the cheaper power.
    """
    return x.relu() + x.clamp(max=0).mul_(LOG2_E).exp2_()


@implementation(
    "linear_elu",
    operation="attention",
    exact=False,
    laws={
        "time": "batch*heads*n*d^2",
        "memory": "batch*heads*n*d + batch*heads*d^2",
        "bytes": "batch*heads*n*d^2 + batch*heads*n*d",
    },
    supports=takes("padding"),
)
def linear_elu(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """Linear attention with φ = elu + 1 (Katharopoulos et al. 2020), causal by chunks.

    φ(q)·φ(k) stands for exp(q·k); it does not approximate softmax, it replaces it.
    """
    from implementations.attention._chunked import kernel_attention
    from implementations.attention._kernel_sums import PlainSums

    def attend(inputs: AttentionInputs) -> Tensor:
        return kernel_attention(problem, inputs, PlainSums(elu_features))

    return attend
