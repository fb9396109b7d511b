"""The position-wise feed-forward network: two linear layers around a nonlinearity, or three with a gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn.functional import gelu, relu_, silu

Activation = Literal["relu", "gelu", "swiglu"]
#: relu in place: what it is given is the product's own, and neither gradient needs it as it was.
PLAIN: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu_, "gelu": gelu}


class FeedForward(nn.Module):
    """FFN(x) = act(x·W_1 + b_1)·W_2 + b_2; with SwiGLU (swish(x·W_1)⊙(x·W_3))·W_2 (Shazeer 2020).

    gelu is the exact one, x·Φ(x). swiglu has a third matrix W_3, `gate`: for as many parameters as the
    others, give it ⅔ of their d_ff. Raises ValueError for an unknown activation.
    """

    def __init__(
        self, d_model: int, d_ff: int, *, activation: Activation = "relu", bias: bool = True
    ) -> None:
        super().__init__()
        if activation not in get_args(Activation):
            raise ValueError(f"activation: {activation!r} is not one of {', '.join(get_args(Activation))}")
        self.activation = activation
        self.expand = nn.Linear(d_model, d_ff, bias=bias)  # W_1
        self.gate = nn.Linear(d_model, d_ff, bias=bias) if activation == "swiglu" else None  # W_3
        self.contract = nn.Linear(d_ff, d_model, bias=bias)  # W_2

    def forward(self, x: Tensor) -> Tensor:
        """(batch, seq_len, d_model) → the same shape; each token by itself."""
        done: Tensor = self.contract(self._inside(x))
        return done

    def _inside(self, x: Tensor) -> Tensor:
        if self.gate is not None:
            gated: Tensor = silu(self.expand(x)) * self.gate(x)
            return gated
        return PLAIN[self.activation](self.expand(x))
