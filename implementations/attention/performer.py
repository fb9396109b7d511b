"""Random-feature attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem, takes
from implementations.registry import implementation

if TYPE_CHECKING:
    from torch import Tensor

#: Random features per channel; the paper takes ln(head_dim), which is 4.2 at 64.
FEATURES_PER_CHANNEL = 4


@implementation(
    "performer",
    operation="attention",
    exact=False,
    laws={
        "time": "batch*heads*n*d^2",
        "memory": "batch*heads*n*d + batch*heads*d^2",
        "bytes": "batch*heads*n*d^2 + batch*heads*n*d",
    },
    supports=takes("padding"),
)
def performer(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """FAVOR+ (Choromanski et al. 2020): 4·head_dim positive orthogonal random features, causal by chunks.

    φ(x) = exp(Wx − ‖x‖²/2) with x = q/⁴√d makes φ(q)·φ(k) an unbiased estimate of exp(q·k/√d). The
    projection is drawn from the problem's seed. A query's own ‖x‖²/2 cancels and is left out.
    """
    from implementations.attention._chunked import kernel_attention
    from implementations.attention._favor import LOG2_E, Projection
    from implementations.attention._kernel_sums import LogSums

    projection = Projection(FEATURES_PER_CHANNEL * problem.head_dim, problem)

    def attend(inputs: AttentionInputs) -> Tensor:
        weight = projection.on(inputs.q)
        half = problem.scale / 2 * LOG2_E

        def log_queries(q: Tensor) -> Tensor:
            return q @ weight

        def log_keys(k: Tensor) -> Tensor:
            return (k @ weight).sub_(k.square().sum(-1, keepdim=True) * half)

        return kernel_attention(problem, inputs, LogSums(log_queries, log_keys))

    return attend
