"""Every exact implementation that runs on a CPU, newcomers included, against float64 row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.passes import bind
from implementations.attention.problem import Alignment, AttentionInputs, AttentionProblem
from implementations.registry import Implementation, Target, Unsupported, implementations, load, lookup

Results = tuple[Tensor, tuple[Tensor, ...]]
Oracle = Callable[[AttentionProblem, AttentionInputs], Results]
Runner = Callable[[str, AttentionProblem, AttentionInputs], "Results | None"]
Distance = Callable[[Tensor, Tensor], float]

load("attention")
ALL = [found for found in implementations("attention") if found.exact]
#: The interpreted ones are tested in a process of their own, what compiles in test_flex.py.
EXACT = [found.name for found in ALL if not found.interpreted_on and found.name != "flex"]

#: Every mask, window and packing, square and not, with rows that see nothing among them.
MASKED: list[dict[str, Any]] = [
    {"seq_len": 33, "window": 5},
    {"seq_len": 33, "window": 5, "causal": True},
    {"seq_len": 9, "kv_len": 20, "window": 3, "causal": True},
    {"seq_len": 20, "kv_len": 9, "window": 3},
    {"seq_len": 20, "kv_len": 9, "window": 3, "alignment": "top_left", "causal": True},
    {"seq_len": 17, "batch": 2, "mask": "boolean"},
    {"seq_len": 17, "batch": 2, "mask": "boolean", "causal": True},
    {"seq_len": 9, "kv_len": 20, "batch": 2, "mask": "additive"},
    {"seq_len": 17, "batch": 2, "mask": "additive", "causal": True, "window": 4},
    {"seq_len": 17, "batch": 3, "mask": "padding"},
    {"seq_len": 17, "batch": 3, "mask": "padding", "causal": True},
    {"lengths": "5+1+17"},
    {"lengths": "5+1+17", "causal": True},
    {"lengths": "5+1+17", "causal": True, "window": 3},
]
BOUND = {"float64": 1e-14, "float32": 2e-6, "float16": 1.5e-3, "bfloat16": 1e-2}


def compare(problem: AttentionProblem, results: Results | None, truth: Results, distance: Distance) -> None:
    """Output and gradients are near the truth; there is nothing to compare where a reason was given."""
    if results is None:
        return
    for found, true in zip((results[0], *results[1]), (truth[0], *truth[1]), strict=False):
        assert found.isfinite().all()
        assert found.shape == true.shape
        # A gradient that is 0 in truth (one key: nothing to choose) is 0 up to rounding.
        nothing = true.norm() < 1e-9
        assert found.norm() < 1e-6 if nothing else distance(found, true) < BOUND[problem.dtype]


def as_far_as(name: str, problem: AttentionProblem) -> AttentionProblem:
    """The problem forward and backward, or forward alone where there is no backward."""
    backward_too = lookup(name).supports(problem, Target("cpu")) is None
    return problem if backward_too else replace(problem, pass_="forward")


def test_some_implementation_of_each_kind_is_tested() -> None:
    assert {"naive", "sdpa_math", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn"} <= set(EXACT)


@pytest.mark.parametrize("found", [f for f in ALL if f.interpreted_on], ids=lambda f: f.name)
def test_triton_kernels_say_why_they_do_not_run_here(found: Implementation) -> None:
    reason = found.reason_against(AttentionProblem(seq_len=8), Target("cpu"))
    assert reason is not None
    assert "interpret" in reason


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 15, 17, 63, 65, 129])
def test_any_length_inside_buffers_of_nan(
    name: str, n: int, causal: bool, oracle: Oracle, run: Runner, distance: Distance
) -> None:
    problem = AttentionProblem(seq_len=n, heads=2, head_dim=32, causal=causal, pass_="forward_backward")
    problem = as_far_as(name, problem)
    inputs = problem.inputs("cpu")
    guarded = replace(inputs, **{name: guard(getattr(inputs, name)) for name in ("q", "k", "v")})
    compare(problem, run(name, problem, guarded), oracle(problem, inputs), distance)


def guard(tensor: Tensor) -> Tensor:
    """The same values, a slice of a larger buffer of NaN."""
    batch, heads, length, width = tensor.shape
    buffer = torch.full((batch, heads + 1, length + 9, width + 16), torch.nan, dtype=tensor.dtype)
    inside = buffer[:, :heads, 4 : 4 + length, 8 : 8 + width]
    return inside.copy_(tensor)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("alignment", ["top_left", "bottom_right"])
@pytest.mark.parametrize(("n", "m"), [(2, 5), (5, 2), (1, 7)])
def test_causal_alignments(
    name: str, n: int, m: int, alignment: Alignment, oracle: Oracle, run: Runner, distance: Distance
) -> None:
    problem = AttentionProblem(
        seq_len=n, kv_len=m, causal=True, alignment=alignment, heads=2, head_dim=8, pass_="forward_backward"
    )
    problem = as_far_as(name, problem)
    inputs = problem.inputs("cpu")
    results, truth = run(name, problem, inputs), oracle(problem, inputs)
    compare(problem, results, truth, distance)
    if results is not None and n > m and alignment == "bottom_right":
        assert (results[0][:, :, : n - m] == 0).all()


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(
    ("axes", "dtype"),
    [(axes, "float32") for axes in MASKED] + [(axes, "bfloat16") for axes in MASKED[1::3]],
    ids=str,
)
def test_every_mask(
    name: str, axes: dict[str, Any], dtype: str, oracle: Oracle, run: Runner, distance: Distance
) -> None:
    """Right in output and gradients or unsupported in words; rows that see nothing are exactly 0."""
    problem = AttentionProblem.from_axes(
        {"heads": 4, "kv_heads": 2, "head_dim": 16, "pass": "forward_backward", "dtype": dtype} | axes
    )
    problem = as_far_as(name, problem)
    inputs = problem.inputs("cpu")
    results, truth = run(name, problem, inputs), oracle(problem, inputs)
    compare(problem, results, truth, distance)
    if results is not None:
        assert (results[0][truth[0] == 0] == 0).all()


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(
    "axes",
    [
        {"seq_len": 1, "kv_len": 33},
        {"seq_len": 3, "kv_len": 33},
        {"seq_len": 1, "kv_len": 33, "window": 7},
        {"seq_len": 1, "kv_len": 33, "batch": 3, "mask": "padding"},
    ],
    ids=str,
)
def test_decoding_appends_and_attends(
    name: str, axes: dict[str, Any], oracle: Oracle, run: Runner, distance: Distance
) -> None:
    """The cache's end is overwritten, and only then looked at."""
    problem = AttentionProblem.from_axes(axes | {"heads": 4, "kv_heads": 2, "head_dim": 16, "pass": "decode"})
    inputs = problem.inputs("cpu")
    truth = oracle(problem, inputs)
    if lookup(name).reason_against(problem, Target("cpu")):
        assert run(name, problem, inputs) is None
        return
    inputs.k[:, :, -problem.seq_len :] = torch.nan
    output, gradients = bind("decode", lookup(name).prepare(problem), inputs).outputs()
    assert gradients == ()
    compare(problem, (output, ()), truth, distance)


def test_what_takes_every_mask() -> None:
    """No refusal hides a gap: these compute every mask there is, forward and backward."""
    for name in ("naive", "sdpa_math", "sdpa_flash"):
        for axes in MASKED:
            problem = AttentionProblem.from_axes(axes | {"pass": "forward_backward"})
            assert lookup(name).reason_against(problem, Target("cpu")) is None


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("causal", [False, True])
def test_shared_heads_repeat_interleaved(
    name: str, causal: bool, oracle: Oracle, run: Runner, distance: Distance
) -> None:
    problem = AttentionProblem(
        seq_len=9, batch=2, heads=6, kv_heads=2, head_dim=16, causal=causal, pass_="forward_backward"
    )
    problem = as_far_as(name, problem)
    inputs = problem.inputs("cpu")
    compare(problem, run(name, problem, inputs), oracle(problem, inputs), distance)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads_of_mask", [1, 2])
def test_a_row_that_sees_nothing_is_zero_with_finite_gradients(
    name: str, causal: bool, heads_of_mask: int, oracle: Oracle, run: Runner, distance: Distance
) -> None:
    problem = AttentionProblem(
        seq_len=6, kv_len=10, heads=2, head_dim=8, causal=causal, pass_="forward_backward"
    )
    problem = as_far_as(name, problem)
    mask = torch.rand(1, heads_of_mask, 6, 10, generator=torch.Generator().manual_seed(1)) > 0.3
    mask[:, :, 5] = False
    inputs = replace(problem.inputs("cpu"), mask=mask)
    results = run(name, problem, inputs)
    compare(problem, results, oracle(problem, inputs), distance)
    if results is not None:
        assert (results[0][:, :, 5] == 0).all()


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_dtype(name: str, dtype: str, oracle: Oracle, run: Runner, distance: Distance) -> None:
    problem = AttentionProblem(
        seq_len=65, heads=2, head_dim=32, dtype=dtype, causal=True, pass_="forward_backward"
    )
    problem = as_far_as(name, problem)
    inputs = problem.inputs("cpu")
    compare(problem, run(name, problem, inputs), oracle(problem, inputs), distance)


@pytest.mark.parametrize("name", EXACT)
def test_values_stored_by_channel(name: str, oracle: Oracle, run: Runner, distance: Distance) -> None:
    """V as a transposed view is right or unsupported, in words."""
    problem = AttentionProblem(seq_len=17, heads=2, head_dim=16)
    inputs = problem.inputs("cpu")
    by_channel = replace(inputs, v=inputs.v.mT.contiguous().mT)
    if name == "sdpa_flash":
        with pytest.raises(Unsupported, match="v has an inner stride of 17"):
            run(name, problem, by_channel)
    else:
        compare(problem, run(name, problem, by_channel), oracle(problem, inputs), distance)


@pytest.mark.parametrize("name", EXACT)
def test_heads_stored_after_length(name: str, oracle: Oracle, run: Runner, distance: Distance) -> None:
    """(batch, length, heads, channels) in memory, as projections leave it."""
    problem = AttentionProblem(seq_len=17, batch=2, heads=3, head_dim=16)
    inputs = problem.inputs("cpu")
    q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in inputs.differentiable)
    compare(problem, run(name, problem, replace(inputs, q=q, k=k, v=v)), oracle(problem, inputs), distance)


@pytest.mark.parametrize("name", EXACT)
def test_large_scores_do_not_overflow_float16(name: str, run: Runner) -> None:
    """128 channels of 40 · 40 are 204,800; divided by √128 they are 18,102 and fit. All alike: mean(V)."""
    problem = AttentionProblem(seq_len=16, heads=1, head_dim=128, dtype="float16")
    inputs = problem.inputs("cpu")
    alike = replace(inputs, q=torch.full_like(inputs.q, 40), k=torch.full_like(inputs.k, 40))
    if results := run(name, problem, alike):
        mean = inputs.v.double().mean(-2, keepdim=True)
        assert (results[0].double() - mean).abs().max() < 2e-3


@pytest.mark.parametrize("name", EXACT)
def test_only_high_channels(name: str, oracle: Oracle, run: Runner, distance: Distance) -> None:
    """q and k that are 0 below channel 64 are not uniform attention: every channel is read."""
    problem = AttentionProblem(seq_len=16, heads=1, head_dim=128)
    inputs = problem.inputs("cpu")
    for tensor in (inputs.q, inputs.k):
        tensor[..., :64] = 0
        tensor *= 3
    compare(problem, run(name, problem, inputs), oracle(problem, inputs), distance)
