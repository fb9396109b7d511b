"""Attention: softmax(QKᵀ/√d)·V and what stands in for it."""

from implementations.attention.problem import AttentionProblem
from implementations.operation import Errors, Operation


def _judge(problem, inputs, output, gradients):  # type: ignore[no-untyped-def]
    from implementations.attention.reference import judge

    return judge(problem, inputs, output, gradients)


OPERATION = Operation(
    name="attention",
    problem=AttentionProblem,
    variables={"n": "seq_len", "d": "head_dim", "heads": "heads", "batch": "batch"},
    flop_convention="4·pairs·head_dim per head over the exact attended pairs; backward ×2.5",
    judge=_judge,
)

__all__ = ["OPERATION", "AttentionProblem", "Errors"]
