"""Attention: softmax(QKᵀ/√d)·V and what stands in for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.operation import LENGTHS, Diagnosis, Errors, Operation

if TYPE_CHECKING:
    from torch import Tensor


def _judge(
    problem: AttentionProblem,
    inputs: AttentionInputs,
    output: Tensor,
    gradients: tuple[Tensor, ...],
) -> tuple[Errors, ...]:
    from implementations.attention.reference import judge

    return judge(problem, inputs, output, gradients)


def _judged_inputs(problem: AttentionProblem, inputs: AttentionInputs) -> AttentionInputs:
    from implementations.attention.reference import judged_inputs

    return judged_inputs(problem, inputs)


def _diagnose(problem: AttentionProblem, inputs: AttentionInputs) -> Sequence[Diagnosis]:
    from implementations.attention.diagnosis import diagnose_problem

    return diagnose_problem(problem, inputs)


OPERATION = Operation(
    name="attention",
    problem=AttentionProblem,
    variables={"n": "seq_len", "m": "kv_len", "d": "head_dim", "heads": "heads", "batch": "batch"},
    counted_at={"n": LENGTHS, "d": (16, 32, 64, 128), "heads": (1, 2, 3)},
    flop_convention="4·pairs·head_dim per head over the exact attended pairs; backward ×2.5",
    judge=_judge,
    judged_inputs=_judged_inputs,
    diagnose=_diagnose,
    floor="uniform",
)
