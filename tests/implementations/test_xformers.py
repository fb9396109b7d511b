"""xformers' split-K operator against float64, in a process of its own whose Triton interprets kernels.

This file is both the tests and, run as a program, that process: it computes every case and prints JSON.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from implementations.attention.problem import AttentionProblem
from implementations.registry import Target, load, lookup

ROOT = Path(__file__).parents[2]
INTERPRETED = Target("cpu", interpreted=True)

CASES: dict[str, dict[str, Any]] = {
    "one": {"seq_len": 1},
    "odd": {"seq_len": 15},
    "beyond a tile": {"seq_len": 65, "heads": 1},
    "causal": {"seq_len": 33, "causal": True},
    "top-left": {"seq_len": 2, "kv_len": 5, "causal": True, "alignment": "top_left"},
    "bottom-right": {"seq_len": 2, "kv_len": 5, "causal": True},
    "rows that see nothing": {"seq_len": 5, "kv_len": 2, "causal": True},
    "decode": {"seq_len": 1, "kv_len": 70, "causal": True},
    "shared heads": {"seq_len": 9, "heads": 6, "kv_heads": 2, "batch": 2},
    "shared heads, causal": {"seq_len": 9, "heads": 6, "kv_heads": 2, "batch": 2, "causal": True},
    "head_dim 128": {"seq_len": 17, "head_dim": 128, "heads": 1},
    "masked row": {"seq_len": 6, "kv_len": 10},
    "v by channel": {"seq_len": 17},
}
BOUND = {"float16": 1e-3, "bfloat16": 6e-3}


def measure(name: str, dtype: str) -> dict[str, Any]:
    """The error of one case, and whether rows that see nothing are exactly 0."""
    from dataclasses import replace

    import torch

    problem = AttentionProblem.from_axes({"heads": 2, "head_dim": 16, "dtype": dtype} | CASES[name])
    inputs = problem.inputs("cpu")
    allowed = torch.ones(problem.seq_len, problem.n_keys, dtype=torch.bool)
    if problem.causal:
        allowed = allowed.tril(problem.causal_offset)
    if name == "masked row":
        allowed[5] = False
        inputs = replace(inputs, mask=allowed)
    if name == "v by channel":
        inputs = replace(inputs, v=inputs.v.mT.contiguous().mT)
    output = lookup("xformers").prepare(problem)(inputs).double()
    q, k, v = (tensor.double() for tensor in (inputs.q, inputs.k, inputs.v))
    k, v = (tensor.repeat_interleave(problem.group_size, 1) for tensor in (k, v))
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / problem.head_dim**0.5
    weights = scores.masked_fill(~allowed, -1e30).exp() * allowed
    total = weights.sum(-1, keepdim=True)
    truth = torch.einsum("bhij,bhjd->bhid", weights / total.clamp_min(1e-300), v)
    blind = ~allowed.any(-1)
    return {
        "error": float((output - truth).norm() / truth.norm()),
        "finite": bool(output.isfinite().all()),
        "zero": bool((output[:, :, blind] == 0).all()),
    }


def main() -> None:
    """Compute every case with warnings as errors, and print what was found as JSON."""
    import torch

    from harness.counting.interpreter import install_repairs

    warnings.simplefilter("error")
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    install_repairs()
    load("attention")
    print(json.dumps({f"{name}/{dtype}": measure(name, dtype) for name in CASES for dtype in BOUND}))


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, "xformers' import is noisy"
    result: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return result


load("attention")
MISSING = lookup("xformers").available(INTERPRETED)


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("name", CASES)
def test_is_right(name: str, dtype: str, found: dict[str, dict[str, Any]]) -> None:
    case = found[f"{name}/{dtype}"]
    assert case["finite"]
    assert case["zero"]
    assert case["error"] < BOUND[dtype]


@pytest.mark.parametrize(
    ("axes", "target", "words"),
    [
        ({}, Target("cpu"), "interpreted"),
        ({"dtype": "float32"}, INTERPRETED, "float16 and bfloat16"),
        ({"dtype": "float16", "head_dim": 40}, INTERPRETED, "head_dim 40"),
        ({"dtype": "float16", "pass": "forward_backward"}, INTERPRETED, "no backward"),
        ({}, Target("cuda", (7, 5)), "8.0"),
        ({"dtype": "float64"}, Target("cuda", (9, 0)), "float16, bfloat16 and float32"),
        ({"head_dim": 20}, Target("cuda", (9, 0)), "multiple of 8"),
        ({"kv_len": 4, "causal": True}, Target("cuda", (9, 0)), "no key"),
    ],
)
def test_what_it_does_not_take(axes: dict[str, Any], target: Target, words: str) -> None:
    problem = AttentionProblem.from_axes({"seq_len": 8} | axes)
    reason = lookup("xformers").reason_against(problem, target)
    assert reason is not None
    assert words in reason


def test_a_triton_without_block_pointers_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    import triton.language

    monkeypatch.delattr(triton.language, "make_block_ptr", raising=False)
    reason = lookup("xformers").available(INTERPRETED)
    assert reason is not None
    assert "block pointers" in reason


def test_cuda_runs_what_can_run_there() -> None:
    found = lookup("xformers")
    for axes in ({"dtype": "float16"}, {"causal": True}, {"pass": "forward_backward", "dtype": "bfloat16"}):
        problem = AttentionProblem.from_axes({"seq_len": 64, **axes})
        assert found.reason_against(problem, Target("cuda", (9, 0))) is None


if __name__ == "__main__":
    main()
