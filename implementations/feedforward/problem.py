"""The feed-forward problem: tokens, widths and the activation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from implementations.hidden_states import HiddenStatesProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardProblem(HiddenStatesProblem):
    """FFN(x) = act(x·W_1 + b_1)·W_2 + b_2 for every token; swiglu has a gate x·W_3 + b_3 besides."""

    d_ff: int = 1024
    activation: Literal["relu", "gelu", "swiglu"] = "relu"

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The weights under the names of `transformer.FeedForward`."""
        inner, outer = (self.d_ff, self.d_model), (self.d_model, self.d_ff)
        gate = {"gate.weight": inner, "gate.bias": (self.d_ff,)} if self.activation == "swiglu" else {}
        return {
            "expand.weight": inner, "expand.bias": (self.d_ff,), **gate,
            "contract.weight": outer, "contract.bias": (self.d_model,),
        }  # fmt: skip

    def variables(self) -> dict[str, int]:
        """n, d_model, d_ff and batch."""
        return {"n": self.seq_len, "d_model": self.d_model, "d_ff": self.d_ff, "batch": self.batch}

    def flops(self) -> int:
        """Two products, three with a gate; backward twice as many."""
        products = 3 if self.activation == "swiglu" else 2
        return self.product_flops(products * self.tokens * self.d_model * self.d_ff)
