"""Attention diagnostics: is a head degenerate? They diagnose; they do not explain what a model does.

The weights are softmax-normalised similarities in a learned projection. That a head puts much weight on a key
does not say that the model uses what is there, nor why (Jain & Wallace 2019; Brunner et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from implementations.attention._truth import attention_weights
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.attention.reference import sampled_rows

#: A head is called collapsed where one key takes this much of all queries' weight.
COLLAPSED = 0.9


@dataclass(frozen=True, slots=True)
class HeadDiagnosis:
    """One head over one batch of rows.

    entropy        mean over queries of −Σ a·ln a over ln(kv_len): 1 is uniform, 0 is one key for each query
    top_mass       mean over queries of the largest weight
    most_attended  the key that all queries together attend to most
    mass_on_it     mean over queries of the weight on that key: of a collapsed head near 1
    """

    entropy: float
    top_mass: float
    most_attended: int
    mass_on_it: float

    @property
    def collapsed(self) -> bool:
        """Whether all queries look at the same key, such as [CLS]: the head hands on one value."""
        return self.mass_on_it >= COLLAPSED


def diagnose(weights: Tensor, stands_for: Sequence[float] | None = None) -> list[HeadDiagnosis]:
    """Each head of A (batch, heads, seq_len, kv_len); `stands_for`: how many rows each row stands for.

    Raises ValueError for fewer than two keys.
    """
    if weights.shape[-1] < 2:
        raise ValueError(f"weights over {weights.shape[-1]} key have no entropy to speak of; use two or more")
    rows = torch.as_tensor(stands_for or [1.0] * weights.shape[2], dtype=torch.float64, device=weights.device)
    every = rows.sum() * weights.shape[0]
    a = weights.detach().double()
    entropy = -torch.special.xlogy(a, a).sum(-1, keepdim=True) / math.log(a.shape[-1])
    of_heads = [
        (x * rows[:, None]).sum((0, 2)) / every for x in (entropy, a.amax(-1, keepdim=True), a)
    ]  # (heads, 1 or keys)
    return [
        HeadDiagnosis(float(e), float(top), int(by_key.argmax()), float(by_key.max()))
        for e, top, by_key in zip(*of_heads, strict=True)
    ]


def diagnose_problem(problem: AttentionProblem, inputs: AttentionInputs) -> list[HeadDiagnosis]:
    """Each head of the exact weights of a problem, in float64, over the rows that are judged.

    Rows that may attend to nothing have no weights, and lower every mean. Raises ValueError as `diagnose`.
    """
    rows, stands_for = sampled_rows(problem, inputs.q.device.type)
    return diagnose(attention_weights(problem, inputs, rows), stands_for)
