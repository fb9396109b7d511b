"""A whole encoder layer of a transformer."""

from __future__ import annotations

from typing import Any

from implementations.layer.problem import LayerProblem
from implementations.operation import Errors, Operation


def _judge(problem: Any, inputs: Any, output: Any, gradients: Any) -> tuple[Errors, ...]:
    from implementations.layer.reference import judged

    return judged(problem, inputs, output, gradients)


def _judged_inputs(problem: Any, inputs: Any) -> Any:
    from implementations.multi_head.reference import chosen_inputs

    return chosen_inputs(problem, inputs)


OPERATION = Operation(
    name="layer",
    problem=LayerProblem,
    variables={"n": "seq_len", "d_model": "d_model", "heads": "heads", "batch": "batch"},
    counted_at={
        "n": (256, 512, 768, 1024, 1536, 2048, 4096),
        "d_model": (64, 128, 192, 256),
        "heads": (1, 2, 4, 8),
    },
    flop_convention="24·n·d_model² (d_ff = 4·d_model) + 4·pairs·d_model, exact pairs; backward ×2 and ×2.5",
    judge=_judge,
    judged_inputs=_judged_inputs,
    follows={},
)
