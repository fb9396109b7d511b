"""The multi-head attention problem: self-attention of hidden states with its projections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from implementations.attention.problem import PASS_FLOPS
from implementations.hidden_states import HiddenStatesProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHeadProblem(HiddenStatesProblem):
    """Concat(head_1, …, head_h)·W_O of one sequence looking at itself."""

    heads: int = 4
    causal: bool = False

    def __post_init__(self) -> None:
        HiddenStatesProblem.__post_init__(self)
        if self.d_model % self.heads:
            raise ValueError(
                f"heads: {self.heads} heads do not divide d_model = {self.d_model}; use a divisor of it"
            )

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The weights under the names of `transformer.MultiHeadAttention`."""
        found: dict[str, tuple[int, ...]] = {}
        for name in ("query", "key", "value", "output"):
            found |= {f"{name}.weight": (self.d_model, self.d_model), f"{name}.bias": (self.d_model,)}
        return found

    def variables(self) -> dict[str, int]:
        """n, d_model, heads and batch."""
        return {"n": self.seq_len, "d_model": self.d_model, "heads": self.heads, "batch": self.batch}

    def attention_flops(self) -> int:
        """4·pairs·d_model over all heads together, exact pairs; backward ×2.5."""
        n = self.seq_len
        pairs = n * (n + 1) // 2 if self.causal else n * n
        return int(PASS_FLOPS[self.pass_] * 4 * self.batch * pairs * self.d_model)

    def flops(self) -> int:
        """Four projections and the attention."""
        return self.product_flops(4 * self.tokens * self.d_model**2) + self.attention_flops()
