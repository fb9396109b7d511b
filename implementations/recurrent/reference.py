"""The float64 truth of recurrent networks, token by token."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from implementations.hidden_states import HiddenStates, judge
from implementations.operation import Errors
from implementations.recurrent.problem import RecurrentProblem


def states(x: Tensor, weights: Mapping[str, Tensor], cell: str) -> Tensor:
    """(batch, seq_len, d_model), from zeros on."""
    state, found = torch.zeros_like(x[:, 0]), []
    for token in x.unbind(1):
        given = token @ weights["input.weight"].mT + weights["input.bias"]
        held = state @ weights["recurrence.weight"].mT + weights["recurrence.bias"]
        state = (given + held).tanh() if cell == "rnn" else _gated(given, held, state)
        found.append(state)
    return torch.stack(found, 1)


def _gated(given: Tensor, held: Tensor, state: Tensor) -> Tensor:
    """(1 − z)·tanh(W_n·x + r⊙(U_n·h)) + z·h."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = given.chunk(3, -1), held.chunk(3, -1)
    reset, update = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
    return (1 - update) * (x_n + reset * h_n).tanh() + update * state


def judged(
    problem: RecurrentProblem, inputs: HiddenStates, output: Tensor, gradients: tuple[Tensor, ...]
) -> tuple[Errors, ...]:
    """Errors of every state."""
    rows = list(range(problem.seq_len))
    return judge(problem, inputs, output, gradients, lambda x, w, _: states(x, w, problem.cell), rows)
