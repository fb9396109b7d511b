"""Every attention that runs natively here, side by side on one thread, as pytest-benchmark cases.

    make bench                      # the table, grouped by problem; ratios are to the fastest of the group
    make bench ARGS="-k causal"

In `make test` each case runs once, without timing. For rows with error, memory and verdicts use `bench run`.
"""

from __future__ import annotations

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from harness.passes import bind
from implementations.attention.problem import AttentionProblem
from implementations.registry import Target, implementations, load

load("attention")
HERE = Target("cpu")
NATIVE = [known.name for known in implementations("attention") if not known.interpreted_on]
PROBLEMS = {
    "full": AttentionProblem(seq_len=1024, heads=8),
    "causal": AttentionProblem(seq_len=1024, heads=8, causal=True),
    "decode": AttentionProblem(seq_len=1, kv_len=4096, heads=8, causal=True),
}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", NATIVE)
def test_forward(benchmark: BenchmarkFixture, name: str, problem: str) -> None:
    """One forward pass."""
    known = next(i for i in implementations("attention") if i.name == name)
    if reason := known.reason_against(PROBLEMS[problem], HERE):
        pytest.skip(reason)
    torch.set_num_threads(1)
    inputs = PROBLEMS[problem].inputs("cpu")
    call = bind("forward", known.prepare(PROBLEMS[problem]), inputs).call
    benchmark.group = f"{problem}: n=1024, 8 heads" if problem != "decode" else "decode: 1 × 4096, 8 heads"
    benchmark(call)
