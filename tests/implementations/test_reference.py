"""The judge: right against the oracle, exact where it samples, and ranking what it should rank."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.counting.eager import count
from implementations.attention import reference
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.attention.reference import judge, judged_inputs, sampled_rows
from implementations.operation import Errors, operation

Results = tuple[Tensor, tuple[Tensor, ...]]
Oracle = Callable[[AttentionProblem, AttentionInputs], Results]
Runner = Callable[[str, AttentionProblem, AttentionInputs], "Results | None"]


def relative(errors: Errors) -> float:
    assert errors.finite
    assert errors.relative is not None
    return errors.relative


def of_naive(errors: Errors) -> float:
    assert errors.naive is not None
    return errors.naive


SHAPES: list[dict[str, Any]] = [
    {"seq_len": 33, "heads": 2},
    {"seq_len": 33, "heads": 2, "causal": True},
    {"seq_len": 5, "kv_len": 2, "heads": 2, "causal": True},
    {"seq_len": 5, "kv_len": 2, "heads": 2, "causal": True, "alignment": "top_left"},
    {"seq_len": 9, "kv_len": 14, "batch": 2, "heads": 6, "kv_heads": 2, "causal": True},
    {"seq_len": 9, "kv_len": 4, "window": 3, "heads": 2, "alignment": "top_left"},
    {"seq_len": 33, "window": 5, "causal": True, "batch": 2, "mask": "padding"},
    {"seq_len": 9, "kv_len": 14, "batch": 2, "heads": 6, "kv_heads": 2, "mask": "additive"},
    {"lengths": "4+17+1", "heads": 4, "kv_heads": 2, "causal": True},
    {"lengths": "4+17+1", "heads": 2, "window": 3},
]


@pytest.mark.parametrize("axes", SHAPES, ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_the_truth_is_the_oracle(axes: dict[str, Any], masked: bool, oracle: Oracle) -> None:
    """The oracle's float64 results are judged to be without error."""
    problem = AttentionProblem.from_axes(
        axes | {"head_dim": 16, "dtype": "float64", "pass": "forward_backward"}
    )
    inputs = problem.inputs("cpu")
    if masked:
        mask = torch.rand(problem.heads, problem.seq_len, problem.n_keys) > 0.4
        mask[:, 3 % problem.seq_len] = False
        inputs = replace(inputs, mask=mask)
    found = judge(problem, inputs, *oracle(problem, inputs))
    assert [errors.name for errors in found] == ["output", "q", "k", "v"]
    for errors in found:
        assert relative(errors) < 1e-13
        assert errors.naive is None


@pytest.mark.parametrize("causal", [False, True])
def test_samples_are_exact_and_stand_for_the_whole(
    causal: bool, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sampled errors are near those over all rows; gradients come from the sampled rows alone."""
    problem = AttentionProblem(
        seq_len=700, heads=2, head_dim=16, causal=causal, dtype="bfloat16", pass_="forward_backward"
    )
    inputs = problem.inputs("cpu")
    whole = judged(problem, inputs, run)
    monkeypatch.setitem(reference.PAIRS_BUDGET, "cpu", 2 * 700 * 200)
    rows, weights = sampled_rows(problem, "cpu")
    assert len(rows) == 200
    assert sum(weights) == pytest.approx(700)
    assert {0, 1, 15, 16, 63, 64, 127, 128, 639, 640, 698, 699} <= set(rows)
    sampled = judged(problem, inputs, run)
    for name in ("output", "q", "k", "v"):
        assert relative(sampled[name]) == pytest.approx(relative(whole[name]), rel=0.25)
        assert of_naive(sampled[name]) == pytest.approx(of_naive(whole[name]), rel=0.25)


def test_edges_of_windows_and_packed_sequences_are_always_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reference.PAIRS_BUDGET, "cpu", 1)
    packed = AttentionProblem.from_axes({"lengths": "333+500+200", "heads": 1})
    assert {332, 333, 832, 833} <= set(sampled_rows(packed, "cpu")[0])
    windowed = AttentionProblem(seq_len=1000, kv_len=1100, window=400)
    rows = sampled_rows(windowed, "cpu")[0]
    assert {299, 300} <= set(rows)  # at key 399 the window still holds key 0, at key 400 no longer


def judged(problem: AttentionProblem, inputs: AttentionInputs, run: Runner) -> dict[str, Errors]:
    chosen = judged_inputs(problem, inputs)
    results = run("sdpa_flash", problem, chosen)
    assert results is not None
    return {errors.name: errors for errors in judge(problem, chosen, *results)}


def test_gradients_that_cannot_be_judged_are_not(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reference.PAIRS_BUDGET, "cpu", 1)
    problem = AttentionProblem(seq_len=400, heads=1, head_dim=8, pass_="forward_backward")
    inputs = problem.inputs("cpu")
    results = run("naive", problem, inputs)
    assert results is not None
    assert [errors.name for errors in judge(problem, inputs, *results)] == ["output", "q"]
    assert judged_inputs(problem, inputs).grad_output.ne(0).any(-1).sum() < 400
    assert operation("attention").judged_inputs(problem, inputs).grad_output.ne(0).any(-1).sum() < 400


def test_bfloat16_ranks_the_plain_formula_behind_sdpa(run: Runner) -> None:
    """From the rounded inputs SDPA is off by 1e-3 at most and naive by 3.4e-3; from the unrounded, alike."""
    problem = AttentionProblem(seq_len=1024, heads=4, head_dim=64, dtype="bfloat16")
    inputs = problem.inputs("cpu")
    unrounded = replace(problem, dtype="float32").inputs("cpu")
    errors: dict[str, Errors] = {}
    from_unrounded: dict[str, Errors] = {}
    for name in ("sdpa_flash", "naive"):
        results = run(name, problem, inputs)
        assert results is not None
        errors[name] = judge(problem, inputs, results[0])[0]
        from_unrounded[name] = judge(replace(problem, dtype="float32"), unrounded, results[0])[0]
    naive, flash = errors["naive"], errors["sdpa_flash"]
    assert relative(naive) == pytest.approx(of_naive(naive), rel=1e-2)
    assert relative(naive) > 1.8 * relative(flash)
    assert flash.max_abs == pytest.approx(1e-3, rel=0.4)
    assert naive.max_abs == pytest.approx(3.4e-3, rel=0.4)
    assert relative(from_unrounded["naive"]) < 1.5 * relative(from_unrounded["sdpa_flash"])


def test_not_finite_anywhere_is_not_finite() -> None:
    problem = AttentionProblem(seq_len=16, heads=1, head_dim=8)
    inputs = problem.inputs("cpu")
    for wrong in (torch.nan, torch.inf):
        output = torch.zeros_like(inputs.q)
        output[0, 0, 7, 3] = wrong
        (errors,) = judge(problem, inputs, output)
        assert not errors.finite
        assert errors.relative is None
        assert errors.max_abs is None
        assert errors.naive is not None


def test_a_wrong_shape_is_an_error() -> None:
    problem = AttentionProblem(seq_len=16, heads=2, head_dim=8)
    inputs = problem.inputs("cpu")
    with pytest.raises(ValueError, match="output has shape"):
        judge(problem, inputs, inputs.q.transpose(1, 2))


def test_one_key_leaves_no_choice_and_no_gradient() -> None:
    """Where the truth is 0, rounding is not an infinite error, and a wrong answer still is one."""
    problem = AttentionProblem(seq_len=1, heads=2, head_dim=8, pass_="forward_backward")
    inputs = problem.inputs("cpu")
    rounding = torch.full_like(inputs.q, 1e-8)
    _, by_q, _, _ = judge(problem, inputs, inputs.v, (rounding, rounding, rounding, inputs.grad_output))
    assert relative(by_q) < 1e-6
    _, by_q, _, _ = judge(problem, inputs, inputs.v, (inputs.q, rounding, rounding, inputs.grad_output))
    assert relative(by_q) > 0.1


def test_long_sequences_are_judged_in_bounded_time_and_memory() -> None:
    problem = AttentionProblem(seq_len=16384, heads=4, head_dim=64, pass_="forward_backward")
    inputs = judged_inputs(problem, problem.inputs("cpu"))
    zeros = tuple(torch.zeros_like(tensor) for tensor in inputs.differentiable)
    found: list[Errors] = []
    start = time.process_time()
    counts = count(lambda: found.extend(judge(problem, inputs, zeros[0], zeros)), (inputs, zeros))
    assert time.process_time() - start < 5
    assert counts.peak_bytes < 200e6
    assert [errors.relative for errors in found] == [pytest.approx(1.0)] * 4
