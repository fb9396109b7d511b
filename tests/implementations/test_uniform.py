"""The mean of V over what each query sees, against a loop over every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import load, lookup

load("attention")
SpelledOut = Callable[[AttentionProblem, AttentionInputs, tuple[int, int, int]], list[int]]


@pytest.mark.parametrize(
    "axes",
    [
        {"seq_len": 9},
        {"seq_len": 9, "kv_len": 14, "causal": True},
        {"seq_len": 9, "kv_len": 4, "causal": True},
        {"seq_len": 9, "kv_len": 4, "window": 2, "alignment": "top_left"},
        {"seq_len": 17, "window": 3, "causal": True},
        {"lengths": "5+1+7", "window": 2},
        {"lengths": "5+1+7", "causal": True},
        {"seq_len": 9, "batch": 2, "mask": "boolean", "causal": True},
        {"seq_len": 9, "batch": 3, "mask": "padding"},
        {"seq_len": 9, "batch": 2, "mask": "additive"},
        {"seq_len": 2, "kv_len": 9, "pass": "decode"},
    ],
    ids=str,
)
def test_is_the_mean_of_what_is_seen(axes: dict[str, Any], spelled_out: SpelledOut) -> None:
    problem = AttentionProblem.from_axes({"heads": 2, "head_dim": 4} | axes)
    inputs = problem.inputs("cpu")
    output = lookup("uniform").prepare(problem)(inputs)
    for item in range(problem.batch):
        for row in range(problem.seq_len):
            keys = spelled_out(problem, inputs, (item, 0, row))
            mean = inputs.v[item][:, keys].double().mean(1) if keys else torch.zeros(2, 4)
            assert (output[item, :, row].double() - mean).abs().max() < 1e-6
