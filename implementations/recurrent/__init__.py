"""The recurrent baseline: what attention replaced."""

from __future__ import annotations

from typing import Any

from implementations.operation import Errors, Operation
from implementations.recurrent.problem import RecurrentProblem


def _judge(problem: Any, inputs: Any, output: Any, gradients: Any) -> tuple[Errors, ...]:
    from implementations.recurrent.reference import judged

    return judged(problem, inputs, output, gradients)


OPERATION = Operation(
    name="recurrent",
    problem=RecurrentProblem,
    variables={"n": "seq_len", "d_model": "d_model", "batch": "batch"},
    counted_at={"n": (16, 32, 48, 64, 96, 128, 192), "d_model": (32, 64, 96, 128)},
    flop_convention="4·n·d_model², of a GRU three times as many; backward ×2",
    judge=_judge,
    follows={},
)
