"""The float64 truth of multi-head attention: head by head, and only for the rows that are judged."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from implementations.hidden_states import HiddenStates, judge, judged_inputs, judged_rows
from implementations.multi_head.problem import MultiHeadProblem
from implementations.operation import Errors


def multi_head(
    x: Tensor, weights: Mapping[str, Tensor], rows: Tensor, heads: int, causal: bool, prefix: str = ""
) -> Tensor:
    """(batch, rows, d_model): each head from its own columns of W_Q, W_K, W_V, concatenated, times W_O."""
    width = x.shape[-1] // heads

    def part(name: str, y: Tensor, head: int) -> Tensor:
        own = slice(head * width, (head + 1) * width)
        return y @ weights[f"{prefix}{name}.weight"][own].mT + weights[f"{prefix}{name}.bias"][own]

    chosen, outputs = x[:, rows], []
    for head in range(heads):
        scores = part("query", chosen, head) @ part("key", x, head).mT / math.sqrt(width)
        if causal:
            later = torch.arange(x.shape[1], device=x.device) > rows[:, None]
            scores = scores.masked_fill(later, float("-inf"))
        outputs.append(scores.softmax(-1) @ part("value", x, head))
    joined = torch.cat(outputs, -1)
    return joined @ weights[f"{prefix}output.weight"].mT + weights[f"{prefix}output.bias"]


def rows_of(problem: MultiHeadProblem) -> list[int]:
    """The tokens that are judged."""
    return judged_rows(problem, problem.tokens * problem.heads)


def judged(
    problem: MultiHeadProblem, inputs: HiddenStates, output: Tensor, gradients: tuple[Tensor, ...]
) -> tuple[Errors, ...]:
    """Errors of the judged rows."""

    def formula(x: Tensor, weights: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        return multi_head(x, weights, rows, problem.heads, problem.causal)

    return judge(problem, inputs, output, gradients, formula, rows_of(problem))


def chosen_inputs(problem: MultiHeadProblem, inputs: HiddenStates) -> HiddenStates:
    """The inputs whose gradient comes from the judged rows alone."""
    return judged_inputs(inputs, rows_of(problem))
