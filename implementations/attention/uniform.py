"""The floor that an approximation of attention must beat: attend to everything alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import implementation

if TYPE_CHECKING:
    from torch import Tensor


@implementation(
    "uniform",
    operation="attention",
    exact=False,
    laws={"time": "batch*heads*n*d", "memory": "batch*heads*n*d", "bytes": "batch*heads*n*d"},
)
def uniform(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """The mean of V over the keys that a query may see; it never reads Q, K or an additive mask."""
    from implementations.attention._mean import mean_of_values

    def attend(inputs: AttentionInputs) -> Tensor:
        return mean_of_values(problem, inputs)

    return attend
