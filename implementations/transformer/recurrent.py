"""The recurrent baseline: one token after another through a state of fixed size."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class RecurrentNetwork(nn.Module):
    """h_t = tanh(W_x·x_t + b_x + W_h·h_(t−1) + b_h), Elman's network, written as the chain it is.

    The inputs' part is one product for all tokens; what remains to be done one after another is W_h.
    """

    def __init__(self, d_model: int, d_hidden: int, *, bias: bool = True) -> None:
        super().__init__()
        self.d_hidden = d_hidden
        self.input = nn.Linear(d_model, d_hidden, bias=bias)  # W_x
        self.recurrence = nn.Linear(d_hidden, d_hidden, bias=bias)  # W_h
        for parameter in self.parameters():  # as torch's own recurrent networks start
            nn.init.uniform_(parameter, -1 / math.sqrt(d_hidden), 1 / math.sqrt(d_hidden))

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (batch, seq_len, d_model) → the states of all tokens (batch, seq_len, d_hidden), and the last.

        state (batch, d_hidden): where to start; zeros if None. The state is all that is handed on: its size
        does not depend on how many tokens it stands for.
        """
        inputs = self.input(x)
        if state is None:
            state = x.new_zeros(x.shape[0], self.d_hidden)
        states = []
        for token in inputs.unbind(1):
            state = torch.tanh(token + self.recurrence(state))
            states.append(state)
        return torch.stack(states, 1), state
