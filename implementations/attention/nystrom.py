"""Nyström attention: a low-rank reconstruction of the softmax matrix from averaged tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Reason, Target, implementation

if TYPE_CHECKING:
    from torch import Tensor

#: Segments of queries and of keys, as in the paper.
LANDMARKS = 64


def _supports(problem: AttentionProblem, target: Target) -> Reason:
    from implementations.attention._landmarks import sees_everything

    return sees_everything(problem, target)


@implementation(
    "nystrom",
    operation="attention",
    exact=False,
    laws={
        "time": "batch*heads*n*d",
        "memory": "batch*heads*n*d + batch*heads*n",
        "bytes": "batch*heads*n*d + batch*heads*n",
    },
    supports=_supports,
)
def nystrom(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """softmax(q k̃ᵀ) · softmax(q̃ k̃ᵀ)⁺ · softmax(q̃ kᵀ) v with means q̃, k̃ of 64 segments (Xiong et al. 2021).

    The pseudo-inverse by 6 iterations, started for each matrix by itself; without the paper's convolution
    of v, which is no part of attention. Where queries and keys are the same tokens, padding is left out of
    both means.
    """
    from implementations.attention import _landmarks as marks

    def attend(inputs: AttentionInputs) -> Tensor:
        q, k, v, present = marks.computed(problem, inputs)
        asking = present if problem.seq_len == problem.n_keys else None
        q_mean, asked = marks.segment_means(q, asking, LANDMARKS)
        k_mean, held = marks.segment_means(k, present, LANDMARKS)
        middle = marks.softmax_over(q_mean @ k_mean.mT, held)
        inverse = marks.pseudo_inverse(middle if asked is None else middle * asked)
        seen = marks.softmax_over(q_mean @ k.mT, present) @ v  # (batch, heads, landmarks, head_dim)
        output = marks.softmax_over(q @ k_mean.mT, held) @ (inverse @ seen)
        return output.to(inputs.q.dtype)

    return attend
