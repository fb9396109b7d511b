"""Drawing a problem's tensors from its distribution and its seed.

Drawn in float32 and rounded, so that every dtype sees the same numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from implementations.attention.problem import AttentionProblem

#: Of a boolean mask, the share of pairs that are let through.
LET_THROUGH = 0.9
#: How alike neighbouring tokens of "ar1" are, and a query is to its own key.
TOKEN_CORRELATION = 0.98
QUERY_CORRELATION = 0.9


class Draw:
    """Draws tensors one after another from the problem's seed."""

    def __init__(self, problem: AttentionProblem, device: str) -> None:
        self.problem, self.device = problem, device
        self.dtype: torch.dtype = getattr(torch, problem.dtype)
        self.generator = torch.Generator(device).manual_seed(problem.seed)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, device=self.device)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator, device=self.device)

    def queries_keys_values(self) -> tuple[Tensor, Tensor, Tensor]:
        """q (batch, heads, seq_len, head_dim); k and v (batch, kv_heads, kv_len, head_dim)."""
        problem = self.problem
        if problem.distribution == "activations":
            return self._activations()
        queries = (problem.batch, problem.heads, problem.seq_len, problem.head_dim)
        keys = (problem.batch, problem.n_kv_heads, problem.n_keys, problem.head_dim)
        if problem.distribution == "ar1":
            k = self._correlated(keys)
            noise = math.sqrt(1 - QUERY_CORRELATION**2) * self._normal(*queries)
            q, v = (
                QUERY_CORRELATION * k.repeat_interleave(problem.group_size, 1) + noise,
                self._correlated(keys),
            )
        else:
            sample = self._normal if problem.distribution == "randn" else self._uniform
            q, k, v = sample(*queries), sample(*keys), sample(*keys)
        return self._scaled(q), self._scaled(k), v.to(self.dtype)

    def _activations(self) -> tuple[Tensor, Tensor, Tensor]:
        """Those of a trained encoder; fake tensors, which are counted and hold no numbers, need none."""
        problem = self.problem
        shape = (problem.batch, problem.heads, problem.seq_len, problem.head_dim)
        assert problem.layer is not None
        q, k, v = (torch.empty(shape, device=self.device) for _ in range(3))
        if not isinstance(q, FakeTensor):
            from implementations.pretrained.activations import drawn

            found = drawn(
                problem.layer, batch=problem.batch, heads=problem.heads, seq_len=problem.seq_len,
                seed=problem.seed,
            )  # fmt: skip
            for target, source in zip((q, k, v), found, strict=True):
                target.copy_(source)
        return self._scaled(q), self._scaled(k), v.to(self.dtype)

    def _scaled(self, tensor: Tensor) -> Tensor:
        return (tensor * self.problem.input_scale).to(self.dtype)

    def _correlated(self, shape: tuple[int, ...]) -> Tensor:
        """x_t = ρ·x_{t−1} + √(1 − ρ²)·ε_t, of variance 1 from the first token on.

        Summed by doubling: after step s, x_t holds the terms of the 2s latest tokens.
        """
        x = self._normal(*shape)
        x[..., 1:, :] *= math.sqrt(1 - TOKEN_CORRELATION**2)
        step = 1
        while step < shape[-2]:
            x[..., step:, :] += TOKEN_CORRELATION**step * x[..., :-step, :].clone()
            step *= 2
        return x

    def grad_output(self) -> Tensor:
        """The gradient of the output, of q's shape."""
        problem = self.problem
        sample = self._uniform if problem.distribution == "uniform" else self._normal
        return sample(problem.batch, problem.heads, problem.seq_len, problem.head_dim).to(self.dtype)

    def mask(self) -> Tensor | None:
        """(batch, 1, seq_len or 1, kv_len), True where a query may look; None without a boolean mask."""
        return {"boolean": self._scattered, "padding": self._padding}.get(self.problem.mask, lambda: None)()

    def _scattered(self) -> Tensor:
        """Each pair let through or not; a few rows of every item see nothing."""
        problem = self.problem
        mask = self._uniform(problem.batch, 1, problem.seq_len, problem.n_keys) < LET_THROUGH
        blind = self._whole(0, problem.seq_len, problem.batch, min(3, problem.seq_len // 4))
        rows = torch.arange(problem.seq_len, device=self.device)
        return mask & ~(rows == blind[..., None]).any(1)[:, None, :, None]

    def _padding(self) -> Tensor:
        """The first keys of every item but item 0 are padding: fewer than half of them."""
        problem = self.problem
        padded = self._whole(0, (problem.n_keys + 1) // 2, problem.batch)
        padded[0] = 0
        return (torch.arange(problem.n_keys, device=self.device) >= padded[:, None])[:, None, None]

    def _whole(self, low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=self.generator, device=self.device)

    def bias(self) -> Tensor | None:
        """(1, heads, seq_len, kv_len), added to the scaled scores; None without an additive mask."""
        problem = self.problem
        if problem.mask != "additive":
            return None
        return self._normal(1, problem.heads, problem.seq_len, problem.n_keys).to(self.dtype)
