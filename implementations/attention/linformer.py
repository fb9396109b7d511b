"""Linformer with nothing to learn: what its projection costs, not what it would be worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Reason, Target, implementation

if TYPE_CHECKING:
    from torch import Tensor

#: Keys that are left after the projection, as in the paper.
PROJECTED = 256


def _supports(problem: AttentionProblem, target: Target) -> Reason:
    from implementations.attention._landmarks import sees_everything

    return sees_everything(problem, target)


@implementation(
    "linformer_mean",
    operation="attention",
    exact=False,
    laws={
        "time": "batch*heads*n*d",
        "memory": "batch*heads*n*d + batch*heads*n",
        "bytes": "batch*heads*n*d + batch*heads*n",
    },
    supports=_supports,
)
def linformer_mean(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """Timing stand-in: Linformer (Wang et al. 2020) whose learned projection of keys is a mean over segments.

    softmax(q k̃ᵀ/√d) ṽ with k̃, ṽ the means of 256 segments. It does the work of Linformer after its
    projection; its error says what averaging costs, nothing of a trained Linformer.
    """
    from implementations.attention import _landmarks as marks

    def attend(inputs: AttentionInputs) -> Tensor:
        q, k, v, present = marks.computed(problem, inputs)
        (k_mean, held), (v_mean, _) = (marks.segment_means(t, present, PROJECTED) for t in (k, v))
        return (marks.softmax_over(q @ k_mean.mT, held) @ v_mean).to(inputs.q.dtype)

    return attend
