"""Diagnoses of attention weights, against weights that are known by hand or come from PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from implementations.attention.diagnosis import diagnose, diagnose_problem
from implementations.attention.problem import AttentionProblem


def test_weights_by_hand() -> None:
    uniform = torch.full((2, 1, 3, 4), 0.25)
    one_key = torch.zeros(2, 1, 3, 4).index_fill_(-1, torch.tensor([2]), 1.0)
    own_key = torch.eye(4)[None, None].expand(2, 1, 4, 4)
    (flat,), (collapsed,), (diagonal,) = diagnose(uniform), diagnose(one_key), diagnose(own_key)
    assert flat.entropy == pytest.approx(1)
    assert (flat.top_mass, flat.collapsed) == (0.25, False)
    assert (collapsed.entropy, collapsed.most_attended, collapsed.collapsed) == (0, 2, True)
    assert (diagonal.entropy, diagonal.top_mass, diagonal.mass_on_it, diagonal.collapsed) == (
        0,
        1,
        0.25,
        False,
    )


def test_a_row_counts_as_often_as_it_stands_for() -> None:
    weights = torch.tensor([[1.0, 0.0], [0.5, 0.5]])[None, None]
    (found,) = diagnose(weights, [3.0, 1.0])
    assert found.entropy == pytest.approx(0.25)
    assert found.top_mass == pytest.approx(0.875)
    assert found.most_attended == 0
    assert found.mass_on_it == pytest.approx(0.875)


def test_one_key_is_no_choice() -> None:
    with pytest.raises(ValueError, match="two or more"):
        diagnose(torch.ones(1, 1, 3, 1))


@pytest.mark.parametrize(
    "axes",
    [
        {},
        {"causal": True},
        {"kv_heads": 2},
        {"mask": "boolean"},
        {"batch": 2, "window": 5},
        {"dtype": "bfloat16"},
    ],
    ids=str,
)
def test_weights_of_a_problem_are_those_that_pytorch_gives(axes: dict[str, Any]) -> None:
    """Identity values read the weights out of scaled_dot_product_attention."""
    n = 24
    problem = AttentionProblem.from_axes({"seq_len": n, "heads": 4, "head_dim": n, "dtype": "float32"} | axes)
    inputs = problem.inputs("cpu")
    allowed = torch.ones(n, n, dtype=torch.bool)
    if problem.causal:
        allowed = allowed.tril()
    if problem.window is not None:
        allowed &= (torch.arange(n)[:, None] - torch.arange(n)).abs() < problem.window
    if inputs.mask is not None:
        allowed = allowed & inputs.mask
    q, k = inputs.q.double(), inputs.k.double().repeat_interleave(4 // problem.n_kv_heads, 1)
    eye = torch.eye(n, dtype=torch.float64).expand(problem.batch, 4, n, n)
    weights = torch.nn.functional.scaled_dot_product_attention(q, k, eye, allowed)
    entropy = -(weights * weights.clamp_min(1e-300).log()).sum(-1).mean((0, 2)) / math.log(n)
    found = diagnose_problem(problem, inputs)
    assert [one.entropy for one in found] == pytest.approx(entropy.tolist(), rel=1e-9)
    assert [one.top_mass for one in found] == pytest.approx(weights.amax(-1).mean((0, 2)).tolist(), rel=1e-9)
