"""Attention diagnostics: is a head degenerate? They diagnose; they do not explain what a model does.

The weights are softmax-normalised similarities in a learned projection. That a head puts much weight on a key
does not say that the model uses what is there, nor why (Jain & Wallace 2019; Brunner et al. 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

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


def diagnose(weights: Tensor) -> list[HeadDiagnosis]:
    """Each head of A (batch, heads, seq_len, kv_len). Raises ValueError for fewer than two keys."""
    if weights.shape[-1] < 2:
        raise ValueError(f"weights over {weights.shape[-1]} key have no entropy to speak of; use two or more")
    a = weights.detach().double().transpose(0, 1).flatten(1, 2)  # (heads, queries of the batch, keys)
    entropy = -torch.special.xlogy(a, a).sum(-1).mean(-1) / math.log(a.shape[-1])
    top, by_key = a.amax(-1).mean(-1), a.mean(1)
    mass, most = by_key.max(-1)
    return [
        HeadDiagnosis(float(e), float(t), int(k), float(m))
        for e, t, k, m in zip(entropy, top, most, mass, strict=True)
    ]
