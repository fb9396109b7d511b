"""The random projection of FAVOR+."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from implementations.attention.problem import AttentionProblem

LOG2_E = math.log2(math.e)


class Projection:
    """W of orthogonal blocks whose rows have the lengths of Gaussian vectors, times 1/⁴√head_dim.

    Drawn in float64 on the CPU from the problem's seed, so that it is the same on every device; moved to
    the device and dtype of the computation on first use, there times log2(e): its powers are of 2.
    """

    def __init__(self, features: int, problem: AttentionProblem) -> None:
        generator = torch.Generator().manual_seed(problem.seed)
        drawn = orthogonal_gaussian(features, problem.head_dim, generator)
        self.weight = (drawn * math.sqrt(problem.scale)).mT.contiguous()  # (head_dim, features)
        self.moved: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def on(self, like: Tensor) -> Tensor:
        """log2(e)·W, (head_dim, features), on the tensor's device, in float32 or wider."""
        key = (like.device, torch.promote_types(like.dtype, torch.float32))
        if key not in self.moved:
            self.moved[key] = (self.weight * LOG2_E).to(*key)
        return self.moved[key]


def orthogonal_gaussian(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """(rows, columns) in float64: every block of `columns` rows is orthogonal, each row N(0, I) by itself."""
    blocks = []
    for first in range(0, rows, columns):
        q, r = torch.linalg.qr(torch.randn(columns, columns, dtype=torch.float64, generator=generator))
        # The signs of R's diagonal make Q uniform over the orthogonal matrices (Mezzadri 2007).
        blocks.append((q * r.diagonal().sign())[: rows - first])
    gaussian = torch.randn(rows, columns, dtype=torch.float64, generator=generator)
    lengths: Tensor = gaussian.norm(dim=-1, keepdim=True)
    return torch.cat(blocks) * lengths
