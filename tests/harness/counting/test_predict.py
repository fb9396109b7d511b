"""Predictions for implementations: followed directly, or extrapolated by exact polynomials."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import passes
from harness.counting.eager import count
from harness.counting.grid import describe, resized
from harness.counting.predict import Untraceable, follow, predict, predicted_peak_bytes, trace
from implementations.attention.problem import AttentionProblem
from implementations.registry import Implementation, load, lookup


def named(name: str) -> Implementation:
    load("attention")
    return lookup(name)


def made(prepare: Any) -> Implementation:
    return Implementation(
        "made", "attention", "made", prepare, True, {}, lambda target: None, lambda problem, target: None
    )


def test_naive_at_a_million_tokens_takes_no_time() -> None:
    problem = AttentionProblem(seq_len=1 << 20, heads=2)
    predict(named("naive"), AttentionProblem(seq_len=8))  # first use of fake tensors imports things
    start = time.process_time()
    found = trace(named("naive"), problem)
    assert time.process_time() - start < 0.5
    assert found.counts.peak_bytes == 2 * 2 * (1 << 40) * 4 == 17_592_186_044_416  # 17.6 TB
    row = 2 * (1 << 20) * 64 * 4
    assert found.input_bytes == 4 * row
    assert predicted_peak_bytes(named("naive"), problem) == 4 * row + 17_592_186_044_416


@pytest.mark.parametrize("name", ["linear_elu", "performer"])
@pytest.mark.parametrize("causal", [False, True])
def test_extrapolation_equals_following(name: str, causal: bool) -> None:
    problem = AttentionProblem(seq_len=2048 if causal else 8192, heads=1, head_dim=16, causal=causal)
    implementation = named(name)
    followed = follow(implementation, problem)
    calls = sum(op.calls for op in followed.counts.ops)
    extrapolated = trace(implementation, problem, max_calls=calls * 3 // 4)
    assert "exact polynomial" in extrapolated.extrapolated
    assert extrapolated.input_bytes == followed.input_bytes
    for quantity in ("flops", "bytes_read", "bytes_written", "exponentials", "peak_bytes", "depth"):
        if quantity not in extrapolated.unconfirmed:
            exact = getattr(followed.counts, quantity)
            assert getattr(extrapolated.counts, quantity) == exact, quantity


def test_a_program_too_irregular_to_extrapolate_says_so() -> None:
    def prepare(problem: AttentionProblem) -> Any:
        def attend(inputs: Any) -> Tensor:
            out: Tensor = inputs.q
            for step in range(problem.seq_len // 8 + problem.seq_len % 7 * 3):
                out = out + step
            return out

        return attend

    with pytest.raises(Untraceable, match="cannot be extrapolated"):
        trace(made(prepare), AttentionProblem(seq_len=9000), max_calls=300)


def test_lengths_that_follow_are_resized_too() -> None:
    problem = AttentionProblem(seq_len=64, heads=64, head_dim=64)
    smaller = resized(problem, "seq_len", 16)
    assert (smaller.seq_len, smaller.n_keys, smaller.heads, smaller.head_dim) == (16, 16, 64, 64)
    cross = resized(AttentionProblem(seq_len=64, kv_len=32), "seq_len", 16)
    assert cross.n_keys == 32
    longer = resized(problem, "kv_len", 256)
    assert (longer.seq_len, longer.n_keys) == (64, 256)
    windowed = resized(AttentionProblem(seq_len=64, window=64, heads=4), "seq_len", 128)
    assert (windowed.n_keys, windowed.window) == (128, 64)
    assert (
        describe(problem, ["seq_len"])
        == "batch=1, heads=64, kv_heads=64, head_dim=64, float32, not causal, forward"
    )


def test_what_the_first_call_sets_up_is_not_counted() -> None:
    def prepare(problem: AttentionProblem) -> Any:
        kept: list[Tensor] = []

        def attend(inputs: Any) -> Tensor:
            if not kept:
                kept.append(torch.ones(1000, 1000) @ torch.ones(1000, 1000))
            return inputs.q + kept[0][0, 0]  # type: ignore[no-any-return]

        return attend

    found = trace(made(prepare), AttentionProblem(seq_len=8, heads=1, head_dim=16))
    assert found.flops == 0
    assert found.counts.peak_bytes == 8 * 16 * 4


@pytest.mark.parametrize("pass_", ["forward", "backward", "forward_backward"])
def test_every_implementation_is_followed_or_says_why(pass_: Any) -> None:
    from implementations.registry import implementations

    load("attention")
    problem = AttentionProblem(seq_len=64, heads=2, head_dim=16, pass_=pass_)
    reasons: list[str] = []
    for implementation in implementations("attention"):
        try:
            found = trace(implementation, problem)
        except Untraceable as reason:
            reasons.append(str(reason))
        else:
            assert found.counts.peak_bytes >= 2 * 64 * 16 * 4, implementation.name
            assert found.counts.bytes > 0
    assert all(len(reason) > 20 for reason in reasons)


@pytest.mark.parametrize("pass_", ["forward", "backward", "forward_backward"])
@pytest.mark.parametrize("name", ["naive", "sdpa_math", "sdpa_flash", "linear_elu", "performer", "uniform"])
def test_fake_and_real_tensors_count_the_same(name: str, pass_: Any) -> None:
    """One mode is pinned: fake CPU tensors, on which backward traffic is what the CPU does."""
    implementation = named(name)
    problem = AttentionProblem(seq_len=160, heads=2, head_dim=16, pass_=pass_, causal=True)
    inputs = problem.inputs("cpu")
    run = implementation.prepare(problem)
    passes.bind("forward", run, inputs).call()  # the first call may draw what later ones find
    bound = passes.bind(pass_, run, inputs)
    real = count(bound.call, inputs, first=bound.call if pass_ == "backward" else None)
    assert follow(implementation, problem).counts == real
