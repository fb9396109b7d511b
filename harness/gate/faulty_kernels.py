"""A kernel and what can go wrong with it, as variants of one name: what the self-check must find.

`work` costs in proportion to its heads; every variant computes the plain formula but for its fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from implementations.registry import implementation

Attend = Callable[[Any], Any]
KEPT: list[Any] = []


def _attention(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
    import torch

    scores = (q * scale) @ k.mT
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~allowed, -math.inf)
    return scores.softmax(-1) @ v


def _heads(problem: Any, inputs: Any, scale: float, causal: bool) -> Any:
    """One head after the other: the work is proportional to them."""
    import torch

    output = torch.empty_like(inputs.q)
    for head in range(inputs.q.shape[1]):
        parts = (inputs.q[:, head], inputs.k[:, head], inputs.v[:, head])
        output[:, head] = _attention(*parts, scale, causal)
    return output


def work(problem: Any) -> Attend:
    """The plain formula, one head after the other."""
    return lambda inputs: _heads(problem, inputs, problem.scale, problem.causal)


def wrong_mask(problem: Any) -> Attend:
    """Sees the future."""
    return lambda inputs: _heads(problem, inputs, problem.scale, not problem.causal)


def dropped_scale(problem: Any) -> Attend:
    """Forgets 1/√d."""
    return lambda inputs: _heads(problem, inputs, 1.0, problem.causal)


def constant_time(problem: Any) -> Attend:
    """Answers at once what it once computed."""
    kept: list[Any] = []

    def attend(inputs: Any) -> Any:
        if not kept:
            kept.append(work(problem)(inputs))
        return kept[0]

    return attend


def leaked_memory(problem: Any) -> Attend:
    """Holds twice the memory that it needs, and 2 MiB."""

    def attend(inputs: Any) -> Any:
        import torch

        room = torch.empty(2 * inputs.q.numel() + 2**19, dtype=torch.float32, device=inputs.q.device)
        output = work(problem)(inputs)
        del room
        return output

    return attend


def oversubscribed(problem: Any) -> Attend:
    """Runs on four times as many threads as there are CPUs."""
    import os

    import torch

    torch.set_num_threads(4 * (os.cpu_count() or 1))
    return work(problem)


def slower(heads: int) -> Callable[[Any], Attend]:
    """Computes so many of its heads twice."""

    def prepare(problem: Any) -> Attend:
        def attend(inputs: Any) -> Any:
            for head in range(heads):
                parts = (inputs.q[:, head], inputs.k[:, head], inputs.v[:, head])
                _attention(*parts, problem.scale, problem.causal)
            return _heads(problem, inputs, problem.scale, problem.causal)

        return attend

    return prepare


implementation(
    "work",
    operation="attention",
    exact=True,
    laws={"time": "batch*heads*n^2*d"},
    variants={
        "wrong_mask": wrong_mask,
        "dropped_scale": dropped_scale,
        "constant_time": constant_time,
        "leaked_memory": leaked_memory,
        "oversubscribed": oversubscribed,
        "slower_1": slower(1),
        "slower_2": slower(2),
    },
)(work)
