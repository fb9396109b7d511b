"""Compiled flex_attention. A variant takes seconds to compile, so that few shapes share many questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from implementations.attention import _flex
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Target, Unsupported, load, lookup

Results = tuple[Tensor, tuple[Tensor, ...]]
Oracle = Callable[[AttentionProblem, AttentionInputs], Results]
Runner = Callable[[str, AttentionProblem, AttentionInputs], "Results | None"]
Distance = Callable[[Tensor, Tensor], float]

load("attention")
CPU, H200 = Target("cpu"), Target("cuda", (9, 0))

pytestmark = pytest.mark.skipif(_flex.missing_for_cpu() is not None, reason=str(_flex.missing_for_cpu()))


@pytest.mark.parametrize(
    ("axes", "bound"),
    [
        ({"seq_len": 65}, 2e-6),
        ({"seq_len": 17}, 2e-6),
        ({"seq_len": 65, "causal": True}, 2e-6),
        ({"seq_len": 2, "kv_len": 5, "causal": True}, 2e-6),
        ({"seq_len": 5, "kv_len": 2, "causal": True}, 2e-6),
        ({"seq_len": 5, "kv_len": 2, "causal": True, "alignment": "top_left"}, 2e-6),
        ({"lengths": "5+1+17", "heads": 4, "kv_heads": 2, "causal": True, "window": 3}, 2e-6),
        ({"seq_len": 40, "heads": 6, "kv_heads": 2, "dtype": "bfloat16"}, 1e-2),
    ],
    ids=str,
)
def test_is_right(
    axes: dict[str, Any], bound: float, oracle: Oracle, run: Runner, distance: Distance
) -> None:
    problem = AttentionProblem.from_axes({"heads": 2, "head_dim": 32} | axes)
    inputs = problem.inputs("cpu")
    results, truth = run("flex", problem, inside_nan(inputs)), oracle(problem, inputs)
    assert results is not None
    assert distance(results[0], truth[0]) < bound
    assert (results[0][truth[0] == 0] == 0).all()


def inside_nan(inputs: AttentionInputs) -> AttentionInputs:
    """The same values, slices of larger buffers of NaN."""

    def guard(tensor: Tensor) -> Tensor:
        batch, heads, length, width = tensor.shape
        buffer = torch.full((batch, heads, length + 9, width + 16), torch.nan, dtype=tensor.dtype)
        return buffer[:, :, 4 : 4 + length, 8 : 8 + width].copy_(tensor)

    return replace(inputs, q=guard(inputs.q), k=guard(inputs.k), v=guard(inputs.v))


def test_a_row_that_sees_nothing_is_zero(oracle: Oracle, run: Runner, distance: Distance) -> None:
    """With an additive mask besides, which its compiled scores are to hold."""
    problem = AttentionProblem(seq_len=6, kv_len=10, heads=2, head_dim=8, mask="additive")
    mask = torch.rand(1, 2, 6, 10, generator=torch.Generator().manual_seed(1)) > 0.3
    mask[:, :, 5] = False
    inputs = replace(problem.inputs("cpu"), mask=mask)
    results = run("flex", problem, inputs)
    assert results is not None
    assert distance(results[0], oracle(problem, inputs)[0]) < 2e-6
    assert (results[0][:, :, 5] == 0).all()


def test_block_masks_of_rules_are_kept_and_those_of_masks_are_not() -> None:
    """Other numbers may lie in the same mask at the next call; a rule stays what it is."""
    problem = AttentionProblem(seq_len=200, batch=2, window=9, mask="padding")
    inputs = problem.inputs("cpu")
    blocks = _flex.Masks(problem)
    assert inputs.mask is not None
    before = blocks.of(inputs).to_dense().clone()
    inputs.mask.fill_(False)
    assert before.any()
    assert not blocks.of(inputs).to_dense().any()
    ruled = replace(inputs, mask=None)
    assert blocks.of(ruled) is blocks.of(ruled)


@pytest.mark.parametrize(
    ("axes", "target", "words"),
    [
        ({"pass_": "forward_backward"}, CPU, "no backward on the CPU"),
        ({"dtype": "float64"}, CPU, "float16, bfloat16 and float32"),
        ({"head_dim": 8}, H200, "tensor-core tiles"),
        ({}, Target("cuda", (6, 1)), "7.0"),
    ],
)
def test_what_it_does_not_take(axes: dict[str, Any], target: Target, words: str) -> None:
    reason = lookup("flex").reason_against(AttentionProblem(**{"seq_len": 8} | axes), target)
    assert reason is not None
    assert words in reason


def test_no_compiler_is_a_reason() -> None:
    _flex.missing_for_cpu.cache_clear()
    try:
        # Its own patch: undoing a plain one leaves the setting unreadable for the tests that follow.
        with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)}):
            reason = _flex.missing_for_cpu()
    finally:
        _flex.missing_for_cpu.cache_clear()
    assert reason is not None
    assert "C++ compiler" in reason


def test_uncompiled_it_is_not_flex() -> None:
    """On fake tensors torch would run the plain formula, n × n matrix and all, under this name."""
    problem = AttentionProblem(seq_len=16)
    with FakeTensorMode(), pytest.raises(Unsupported, match="fake tensors"):
        lookup("flex").prepare(problem)(problem.inputs("cpu"))
