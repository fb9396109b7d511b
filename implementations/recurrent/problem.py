"""The recurrent problem: one token after another through a state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from implementations.hidden_states import HiddenStatesProblem

#: Products with each input and with each state.
GATES = {"rnn": 1, "gru": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentProblem(HiddenStatesProblem):
    """The states of all tokens, d_model wide, from zeros on: Elman's network with tanh, or a GRU.

    GRU as torch has it (Cho et al. 2014, with the reset gate after the product).
    """

    cell: Literal["rnn", "gru"] = "rnn"

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """W_x and W_h, the gates of a GRU (reset, update, new) stacked."""
        rows = GATES[self.cell] * self.d_model
        return {
            "input.weight": (rows, self.d_model), "input.bias": (rows,),
            "recurrence.weight": (rows, self.d_model), "recurrence.bias": (rows,),
        }  # fmt: skip

    def flops(self) -> int:
        """4·n·d_model² per gate: one product with the token, one with the state; backward twice as many."""
        return self.product_flops(2 * GATES[self.cell] * self.tokens * self.d_model**2)
