"""Attention in float64, one row at a time: an oracle that shares no code with what it judges."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Target, load, lookup

load("attention")
CPU = Target("cpu")

Results = tuple[Tensor, tuple[Tensor, ...]]
Oracle = Callable[[AttentionProblem, AttentionInputs], Results]
SpelledOut = Callable[[AttentionProblem, AttentionInputs, tuple[int, int, int]], list[int]]
Runner = Callable[[str, AttentionProblem, AttentionInputs], "Results | None"]
Distance = Callable[[Tensor, Tensor], float]


def visible(problem: AttentionProblem, inputs: AttentionInputs, place: tuple[int, int, int]) -> list[int]:
    """The keys that one query of one head of one item may look at, spelled out."""
    item, head, row = place
    keys = list(range(problem.n_keys))
    position = row + (problem.n_keys - problem.seq_len if problem.alignment == "bottom_right" else 0)
    if problem.causal:
        keys = [key for key in keys if key <= position]
    if problem.window is not None:
        keys = [key for key in keys if abs(position - key) < problem.window]
    if problem.lengths is not None:
        of_token = [i for i, length in enumerate(problem.lengths.split("+")) for _ in range(int(length))]
        keys = [key for key in keys if of_token[key] == of_token[row]]
    if inputs.mask is not None:
        mask = inputs.mask.expand(problem.batch, problem.heads, problem.seq_len, problem.n_keys)
        keys = [key for key in keys if mask[item, head, row, key]]
    return keys


def row_of(
    problem: AttentionProblem, inputs: AttentionInputs, leaves: list[Tensor], place: tuple[int, int, int]
) -> Tensor:
    item, head, row = place
    q, k, v = leaves
    keys = visible(problem, inputs, place)
    shared = head // (problem.heads // k.shape[1])
    if not keys:
        return torch.zeros(q.shape[-1], dtype=torch.float64)
    scores = k[item, shared, keys] @ q[item, head, row] / math.sqrt(q.shape[-1])
    if inputs.bias is not None:
        bias = inputs.bias.expand(problem.batch, problem.heads, problem.seq_len, problem.n_keys)
        scores = scores + bias[item, head, row, keys].double()
    weights = torch.exp(scores - scores.detach().max())
    return (weights / weights.sum()) @ v[item, shared, keys]


@pytest.fixture(scope="session")
def spelled_out() -> SpelledOut:
    """The keys of one query (item, head, row), by a loop over all keys."""
    return visible


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """The output and the gradients by q, k and v, in float64."""

    def attention(problem: AttentionProblem, inputs: AttentionInputs) -> Results:
        leaves = [t.detach().double().requires_grad_(True) for t in (inputs.q, inputs.k, inputs.v)]
        items, heads, rows = range(problem.batch), range(problem.heads), range(problem.seq_len)
        places = [(item, head, row) for item in items for head in heads for row in rows]
        flat = [row_of(problem, inputs, leaves, place) for place in places]
        output = torch.stack(flat).view(inputs.q.shape)
        gradients = torch.autograd.grad(output, leaves, inputs.grad_output.double(), materialize_grads=True)
        return output.detach(), gradients

    return attention


@pytest.fixture(scope="session")
def run() -> Runner:
    """An implementation's output and, for a backward pass, gradients; None where it said why it cannot."""

    def attend(name: str, problem: AttentionProblem, inputs: AttentionInputs) -> Results | None:
        found = lookup(name)
        if reason := found.reason_against(problem, CPU):
            assert len(reason.split()) > 3, f"{name}: {reason!r} is no reason in words"
            return None
        function = found.prepare(problem)
        if problem.pass_ in ("forward", "decode"):
            with torch.no_grad():
                return function(inputs), ()
        leaves = [tensor.requires_grad_(True) for tensor in inputs.differentiable]
        output = function(inputs)
        return output.detach(), torch.autograd.grad(output, leaves, inputs.grad_output)

    return attend


@pytest.fixture(scope="session")
def distance() -> Distance:
    """‖a − b‖ / ‖b‖ in float64."""

    def relative(a: Tensor, b: Tensor) -> float:
        b = b.double()
        return float((a.detach().double() - b).norm() / b.norm().clamp_min(1e-300))

    return relative


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Tests share the machine."""
    torch.set_num_threads(1)
