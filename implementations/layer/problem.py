"""The problem of a whole encoder layer: multi-head attention and feed-forward, residuals and LayerNorms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from implementations.multi_head.problem import MultiHeadProblem

#: Inside the feed-forward network, in units of d_model, where nothing else is said.
EXPANSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProblem(MultiHeadProblem):
    """One encoder layer; d_ff is 4·d_model unless given."""

    d_ff: int | None = None
    activation: Literal["relu", "gelu"] = "relu"
    norm: Literal["pre", "post"] = "pre"

    @property
    def width_inside(self) -> int:
        """d_ff, resolved."""
        return EXPANSION * self.d_model if self.d_ff is None else self.d_ff

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The weights under the names of `transformer.EncoderLayer`."""
        inside, d = self.width_inside, self.d_model
        attention = MultiHeadProblem.shapes(self)
        found = {f"attention.{name}": shape for name, shape in attention.items()}
        found |= {"feed_forward.expand.weight": (inside, d), "feed_forward.expand.bias": (inside,)}
        found |= {"feed_forward.contract.weight": (d, inside), "feed_forward.contract.bias": (d,)}
        for part in ("attention", "feed_forward"):
            found |= {f"{part}_residual.norm.weight": (d,), f"{part}_residual.norm.bias": (d,)}
        return found

    def flops(self) -> int:
        """Projections, attention and feed-forward: (8 + 4·d_ff/d_model)·n·d_model² + 4·pairs·d_model."""
        feed_forward = self.product_flops(2 * self.tokens * self.d_model * self.width_inside)
        return MultiHeadProblem.flops(self) + feed_forward
