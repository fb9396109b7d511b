"""xformers' split-K operator against float64, in a process of its own whose Triton interprets kernels.

This file is both the tests and, run as a program, that process: it computes every case and prints JSON.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from implementations.attention import _xformers
from implementations.attention import _xformers_biases as biases
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Target, load, lookup

SpelledOut = Callable[[AttentionProblem, AttentionInputs, tuple[int, int, int]], list[int]]

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
    "window": {"seq_len": 33, "window": 5},
    "window, causal": {"seq_len": 9, "kv_len": 20, "window": 3, "causal": True},
    "packed": {"lengths": "5+1+17", "causal": True, "heads": 4, "kv_heads": 2},
    "additive": {"seq_len": 17, "batch": 2, "mask": "additive", "causal": True},
    "boolean": {"seq_len": 17, "batch": 2, "heads": 4, "kv_heads": 2, "mask": "boolean"},
    "padding": {"seq_len": 17, "batch": 3, "mask": "padding", "causal": True},
    "decode with padding": {"seq_len": 1, "kv_len": 33, "batch": 3, "mask": "padding", "pass": "decode"},
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
    if problem.window is not None:
        allowed = allowed.triu(problem.causal_offset - problem.window + 1)
        allowed = allowed.tril(problem.causal_offset + problem.window - 1)
    if problem.lengths is not None:
        squares = [torch.ones(int(n), int(n), dtype=torch.bool) for n in problem.lengths.split("+")]
        allowed = allowed & torch.block_diag(*squares)
    if inputs.mask is not None:
        allowed = allowed & inputs.mask
    if name == "masked row":
        allowed[5] = False
        inputs = replace(inputs, mask=allowed)
    if name == "v by channel":
        inputs = replace(inputs, v=inputs.v.mT.contiguous().mT)
    output = lookup("xformers").prepare(problem)(inputs).double()
    q, k, v = (tensor.double() for tensor in (inputs.q, inputs.k, inputs.v))
    k, v = (tensor.repeat_interleave(problem.group_size, 1) for tensor in (k, v))
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / problem.head_dim**0.5
    if inputs.bias is not None:
        scores = scores + inputs.bias.double()
    weights = scores.masked_fill(~allowed, -1e30).exp() * allowed
    total = weights.sum(-1, keepdim=True)
    truth = torch.einsum("bhij,bhjd->bhid", weights / total.clamp_min(1e-300), v)
    blind = (~allowed.any(-1)).expand(output.shape[:3])
    return {
        "error": float((output - truth).norm() / truth.norm()),
        "finite": bool(output.isfinite().all()),
        "zero": bool((output[blind] == 0).all()),
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
        timeout=600,
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
        ({"kv_len": 9, "window": 4, "alignment": "top_left"}, Target("cuda", (9, 0)), "bottom-right"),
        ({"seq_len": 7, "lengths": "3+4", "window": 2}, Target("cuda", (9, 0)), "not causal"),
    ],
)
def test_what_it_does_not_take(axes: dict[str, Any], target: Target, words: str) -> None:
    problem = AttentionProblem.from_axes({"seq_len": 8} | axes)
    reason = lookup("xformers").reason_against(problem, target)
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize(
    "axes",
    [
        {"seq_len": 9, "causal": True},
        {"seq_len": 9, "kv_len": 14, "causal": True},
        {"seq_len": 9, "kv_len": 14, "causal": True, "alignment": "top_left"},
        {"seq_len": 9, "kv_len": 14, "causal": True, "window": 3},
        {"seq_len": 9, "kv_len": 14, "window": 3},
        {"seq_len": 9, "window": 1},
        {"lengths": "5+1+7"},
        {"lengths": "5+1+7", "causal": True},
        {"lengths": "5+1+7", "causal": True, "window": 3},
    ],
    ids=str,
)
def test_biases_hide_what_the_problem_hides(axes: dict[str, Any], spelled_out: SpelledOut) -> None:
    """xformers' structured biases, spelled out by xformers: they run on CUDA only."""
    import torch

    problem = AttentionProblem.from_axes(axes)
    assert lookup("xformers").reason_against(problem, Target("cuda", (9, 0))) is None
    bias = biases.structured(problem, attn_bias(), torch.device("cpu"))
    hidden = bias.materialize((problem.seq_len, problem.n_keys)).isinf()
    inputs = problem.inputs("cpu")
    for row in range(problem.seq_len):
        assert torch.nonzero(~hidden[row]).flatten().tolist() == spelled_out(problem, inputs, (0, 0, row))


def attn_bias() -> Any:
    with _xformers._quiet_import():
        return importlib.import_module("xformers.ops.fmha.attn_bias")


def test_what_hides_nothing_has_no_bias() -> None:
    import torch

    problem = AttentionProblem(seq_len=1, kv_len=9, pass_="decode")
    assert biases.structured(problem, attn_bias(), torch.device("cpu")) is None


def test_a_tensor_bias_is_aligned_and_shared_by_the_heads_of_a_group() -> None:
    problem = AttentionProblem(seq_len=5, kv_len=13, heads=4, kv_heads=2, batch=2, mask="padding")
    bias, blind = biases.as_tensor(problem, problem.inputs("cpu"))
    assert bias is not None
    assert bias.shape == (2, 2, 2, 5, 13)
    assert all(stride % 8 == 0 for stride in bias.stride()[:-1])
    assert blind is not None
    assert not blind.any()


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
