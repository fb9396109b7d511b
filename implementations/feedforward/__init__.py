"""The position-wise feed-forward network: two products around a nonlinearity."""

from __future__ import annotations

from typing import Any

from implementations.feedforward.problem import FeedForwardProblem
from implementations.operation import Errors, Operation


def _judge(problem: Any, inputs: Any, output: Any, gradients: Any) -> tuple[Errors, ...]:
    from implementations.feedforward.reference import judged

    return judged(problem, inputs, output, gradients)


OPERATION = Operation(
    name="feedforward",
    problem=FeedForwardProblem,
    variables={"n": "seq_len", "d_model": "d_model", "d_ff": "d_ff", "batch": "batch"},
    counted_at={
        "n": (256, 512, 768, 1024, 1536, 2048, 4096),
        "d_model": (32, 64, 96, 128),
        "d_ff": (256, 512, 768, 1024),
    },
    flop_convention="4·n·d_model·d_ff, with a gate 6·n·d_model·d_ff; backward ×2",
    judge=_judge,
    follows={},
)
