"""The float64 truth of the feed-forward network."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from implementations.feedforward.problem import FeedForwardProblem
from implementations.hidden_states import HiddenStates, judge
from implementations.operation import Errors


def feed_forward(x: Tensor, weights: Mapping[str, Tensor], activation: str) -> Tensor:
    """act(x·W_1 + b_1)·W_2 + b_2 as it is written; x (…, d_model)."""

    def linear(name: str, y: Tensor) -> Tensor:
        return y @ weights[f"{name}.weight"].mT + weights[f"{name}.bias"]

    inside = linear("expand", x)
    if activation == "relu":
        inside = inside.clamp_min(0)
    elif activation == "gelu":
        inside = inside * (1 + torch.erf(inside / 2**0.5)) / 2
    else:
        inside = inside / (1 + torch.exp(-inside)) * linear("gate", x)
    return linear("contract", inside)


def judged(
    problem: FeedForwardProblem, inputs: HiddenStates, output: Tensor, gradients: tuple[Tensor, ...]
) -> tuple[Errors, ...]:
    """Errors of every token."""
    rows = list(range(problem.seq_len))
    return judge(
        problem, inputs, output, gradients, lambda x, w, _: feed_forward(x, w, problem.activation), rows
    )
