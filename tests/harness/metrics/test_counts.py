"""The counts metric: figures by hand, notes where there are none, and inputs left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness import passes
from harness.metrics.counts import counts
from harness.metrics.trial import Trial
from harness.types import Case, Result, Status
from implementations.attention.problem import AttentionProblem
from implementations.operation import operation
from implementations.registry import Implementation, Target, Unsupported, load, lookup

ROOT = Path(__file__).parents[3]
CPU: Any = SimpleNamespace(kind="cpu")


def trial(name: str, problem: AttentionProblem, interpreted: bool = False, **changes: Any) -> Trial:
    load("attention")
    implementation: Implementation = replace(lookup(name), **changes)
    inputs = problem.inputs("cpu")
    case = Case(name, "attention", "cpu", problem.axes())
    bound = passes.bind(problem.pass_, implementation.prepare(problem), inputs)
    return Trial(
        case, operation("attention"), implementation, problem, interpreted, Result(case, Status.OK),
        inputs=inputs, call=bound.call, outputs=bound.outputs,
    )  # fmt: skip


def counted(one: Trial) -> dict[str, float]:
    counts([one], CPU)
    assert one.result.status is Status.OK, one.result.reason
    return {name: measurement.value for name, measurement in one.result.metrics.items()}


def test_naive_by_hand() -> None:
    n, d, heads, b = 128, 16, 3, 4
    u, row = heads * n * n * b, heads * n * d * b
    found = counted(trial("naive", AttentionProblem(seq_len=n, head_dim=d, heads=heads)))
    assert found == {
        "flops": 4 * heads * n * n * d,
        "bytes_touched": 4 * u + 6 * row,
        "exponentials": heads * n * n,
        "peak_live_bytes": 2 * u,
        "depth": 4,
    }


def test_cpu_flash_by_hand() -> None:
    found = counted(trial("sdpa_flash", AttentionProblem(seq_len=64, heads=12)))
    assert found["flops"] == 12_582_912
    assert found["peak_live_bytes"] == 12 * 64 * 64 * 4 + 12 * 64 * 4


def test_every_measurement_names_its_convention() -> None:
    one = trial("sdpa_flash", AttentionProblem(seq_len=64))
    counts([one], CPU)
    notes = {name: measurement.note for name, measurement in one.result.metrics.items()}
    assert "multiply-add is 2" in notes["flops"]
    assert "workspaces" in notes["peak_live_bytes"]


@pytest.mark.parametrize("pass_", ["forward", "forward_backward"])
def test_the_real_inputs_are_left_alone(pass_: Any) -> None:
    one = trial("naive", AttentionProblem(seq_len=32, pass_=pass_))
    calls: list[int] = []
    one.call = lambda: calls.append(1)
    before = [t.clone() for t in one.inputs.differentiable]
    flags = [t.requires_grad for t in one.inputs.differentiable]
    counted(one)
    assert not calls
    assert [t.requires_grad for t in one.inputs.differentiable] == flags
    assert all(torch.equal(a, b) for a, b in zip(before, one.inputs.differentiable, strict=True))
    assert all(t.grad is None for t in one.inputs.differentiable)


def unsupported(problem: object) -> Any:
    def attend(inputs: object) -> object:
        raise Unsupported("compiled code cannot be followed")

    return attend


def needs_values(problem: object) -> Any:
    return lambda inputs: inputs.q * float(inputs.q.sum())


@pytest.mark.parametrize(
    ("prepare", "words"),
    [(unsupported, "compiled code cannot be followed"), (needs_values, "does not run on fake tensors")],
)
def test_what_cannot_be_followed_gets_a_note_and_no_figure(prepare: Any, words: str) -> None:
    one = trial("naive", AttentionProblem(seq_len=8))
    one.implementation = replace(one.implementation, prepare=prepare)
    assert counted(one) == {}
    assert words in one.result.notes["counts"]


def test_triton_outside_the_interpreter_gets_a_note() -> None:
    one = trial("naive", AttentionProblem(seq_len=8), interpreted_on=frozenset({"cpu"}))
    assert counted(one) == {}
    assert "Triton" in one.result.notes["counts"]


def test_flash_in_the_interpreter() -> None:
    """Per head, n a multiple of the tiles: load n·d·b + 2·n²·d·b/BM, store n·d·b + 4n; FLOPs 4·n²·d."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.stdout.splitlines() == ["ok"], done.stderr


def _interpreted() -> None:
    from harness.counting.interpreter import install_repairs
    from implementations.attention._flash_tiles import INTERPRETED

    install_repairs()
    n, d, heads, b = 2 * INTERPRETED.m, 32, 2, 2
    one = trial("triton_flash", AttentionProblem(seq_len=n, head_dim=d, heads=heads, dtype="float16"), True)
    found = counted(one)
    tiles = heads * (n // INTERPRETED.m) * (n // INTERPRETED.n)
    loaded = n * d * b + 2 * n * n * d * b // INTERPRETED.m
    assert found == {
        "flops": heads * 4 * n * n * d,
        "bytes_requested": heads * (loaded + n * d * b + 4 * n),
        "exponentials": tiles * (INTERPRETED.m * INTERPRETED.n + INTERPRETED.m),
        "peak_live_bytes": heads * (n * d * b + 4 * n),  # output and log-sum-exp
    }, found
    assert one.result.kernels == ("flash_forward",)
    for pass_ in ("forward_backward", "backward"):
        backward = trial(
            "triton_flash", AttentionProblem(seq_len=n, head_dim=d, heads=heads, pass_=pass_), True
        )
        backward.call()  # builds the graph, as the worker does before any metric
        assert counted(backward)["flops"] > 0
    xformers = trial("xformers", AttentionProblem(seq_len=64, head_dim=32, heads=2, dtype="float16"), True)
    if xformers.implementation.available(Target("cpu", None, True)) is None:
        assert counted(xformers)["flops"] == 2 * 4 * 64 * 64 * 32
        assert xformers.result.kernels == ("_fwd_kernel_splitK",)
    print("ok")


if __name__ == "__main__":
    _interpreted()
