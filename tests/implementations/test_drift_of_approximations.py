"""How far approximations drift: what theory and the papers say, reproduced."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from torch import Tensor

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.attention.reference import judge
from implementations.registry import load

Results = tuple[Tensor, tuple[Tensor, ...]]
Runner = Callable[[str, AttentionProblem, AttentionInputs], "Results | None"]

load("attention")


def error_of(name: str, problem: AttentionProblem, run: Runner) -> float:
    """The relative error of the output against float64."""
    inputs = problem.inputs("cpu")
    results = run(name, problem, inputs)
    assert results is not None
    (errors,) = judge(problem, inputs, results[0])
    assert errors.relative is not None
    return errors.relative


@pytest.mark.parametrize(("size", "error"), [(0.3, 0.090), (1.0, 0.795), (3.0, 1.0)])
def test_uniform_is_as_far_off_as_theory_says(size: float, error: float, run: Runner) -> None:
    """On independent input √(1 − e^(−s⁴)), whatever the dtype."""
    problem = AttentionProblem(seq_len=4096, heads=2, head_dim=64, input_scale=size)
    assert math.sqrt(1 - math.exp(-(size**4))) == pytest.approx(error, abs=1e-3)
    assert error_of("uniform", problem, run) == pytest.approx(error, rel=0.05)


@pytest.mark.parametrize(
    ("size", "error", "within"), [(0.3, 5e-4, 0.3), (1.0, 0.38, 0.15), (3.0, 0.995, 0.01)]
)
def test_taylor_is_right_for_small_scores_alone(
    size: float, error: float, within: float, run: Runner
) -> None:
    problem = AttentionProblem(seq_len=4096, heads=1, head_dim=64, input_scale=size)
    assert error_of("taylor", problem, run) == pytest.approx(error, rel=within)


@pytest.mark.parametrize(("size", "gain"), [(0.3, 4.0), (1.0, 1.6)])
def test_performer_converges_where_it_can(
    size: float, gain: float, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 times the features: at s = 0.3 the error falls as their root, at s = 1 it hardly does."""
    problem = AttentionProblem(seq_len=512, heads=4, head_dim=32, input_scale=size)
    errors = []
    for per_channel in (2, 32):
        monkeypatch.setattr("implementations.attention.performer.FEATURES_PER_CHANNEL", per_channel)
        errors.append(error_of("performer", problem, run))
    fell = errors[0] / errors[1]
    assert fell == pytest.approx(4, rel=0.3) if size < 1 else fell < 2.5


def test_neighbours_that_are_alike_favour_a_window(run: Runner) -> None:
    """On ar1 input a query attends to its neighbourhood: a window beats the mean; not on randn."""
    alike = AttentionProblem(seq_len=2048, heads=1, head_dim=64, distribution="ar1")
    apart = AttentionProblem(seq_len=2048, heads=1, head_dim=64)
    assert error_of("sliding_window", alike, run) < 0.5 * error_of("uniform", alike, run)
    assert error_of("sliding_window", apart, run) > error_of("uniform", apart, run)
