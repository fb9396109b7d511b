"""Kernel methods against their own formula over the whole matrix in float64, and where float32 ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from implementations.attention._chunked import Sums, kernel_attention
from implementations.attention._favor import LOG2_E, Projection, orthogonal_gaussian
from implementations.attention._kernel_sums import LogSums, PlainSums
from implementations.attention.linear import elu_features
from implementations.attention.performer import FEATURES_PER_CHANNEL
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.attention.taylor import taylor_features
from implementations.registry import load

Results = tuple[Tensor, tuple[Tensor, ...]]
Runner = Callable[[str, AttentionProblem, AttentionInputs], "Results | None"]
Distance = Callable[[Tensor, Tensor], float]

load("attention")
KERNELS = ["linear_elu", "performer", "taylor"]

SHAPES: list[dict[str, Any]] = [
    {"seq_len": 300},
    {"seq_len": 300, "causal": True},
    {"seq_len": 1, "causal": True},
    {"seq_len": 64, "causal": True},
    {"seq_len": 65, "causal": True},
    {"seq_len": 70, "kv_len": 150, "heads": 6, "kv_heads": 2},
    {"seq_len": 70, "kv_len": 150, "heads": 6, "kv_heads": 2, "causal": True},
    {"seq_len": 150, "kv_len": 70, "heads": 6, "kv_heads": 2, "causal": True},
    {"seq_len": 150, "kv_len": 70, "causal": True, "alignment": "top_left"},
    {"seq_len": 70, "kv_len": 150, "causal": True, "alignment": "top_left"},
    {"seq_len": 5, "kv_len": 2, "causal": True},
    {"seq_len": 1, "kv_len": 7, "causal": True},
]


def quadratic(name: str, problem: AttentionProblem, inputs: AttentionInputs) -> Results:
    """The same formula in float64 over the whole seq_len × kv_len matrix, in logarithms."""
    leaves = [t.detach().double().requires_grad_(True) for t in (inputs.q, inputs.k, inputs.v)]
    q, k, v = leaves
    k, v = (tensor.repeat_interleave(problem.group_size, dim=1) for tensor in (k, v))
    logs = LOG_KERNELS[name](problem, q, k)
    allowed = torch.ones(problem.seq_len, problem.n_keys, dtype=torch.bool)
    if problem.causal:
        corner = problem.n_keys - problem.seq_len if problem.alignment == "bottom_right" else 0
        allowed = allowed.tril(corner)
    blind = ~allowed.any(-1, keepdim=True)
    weights = logs.masked_fill(~(allowed | blind), -torch.inf).softmax(-1)
    output = (weights @ v).masked_fill(blind, 0)
    gradients = torch.autograd.grad(output, leaves, inputs.grad_output.double(), materialize_grads=True)
    return output.detach(), gradients


def log_elu(problem: AttentionProblem, q: Tensor, k: Tensor) -> Tensor:
    def features(x: Tensor) -> Tensor:
        return torch.where(x > 0, x + 1, x.clamp(max=0).exp())

    return (features(q) @ features(k).mT).log()


def log_favor(problem: AttentionProblem, q: Tensor, k: Tensor) -> Tensor:
    weight = Projection(FEATURES_PER_CHANNEL * problem.head_dim, problem).weight
    keys = k @ weight - k.square().sum(-1, keepdim=True) / (2 * math.sqrt(problem.head_dim))
    return torch.logsumexp((q @ weight)[..., :, None, :] + keys[..., None, :, :], -1)


def log_taylor(problem: AttentionProblem, q: Tensor, k: Tensor) -> Tensor:
    s = q @ k.mT / math.sqrt(problem.head_dim)
    return (1 + s + s.square() / 2).log()


def log_uniform(problem: AttentionProblem, q: Tensor, k: Tensor) -> Tensor:
    return torch.zeros(problem.seq_len, problem.n_keys, dtype=torch.float64)


LOG_KERNELS = {
    "linear_elu": log_elu, "performer": log_favor, "taylor": log_taylor, "uniform": log_uniform
}  # fmt: skip


@pytest.mark.parametrize("name", LOG_KERNELS)
@pytest.mark.parametrize("axes", SHAPES, ids=str)
@pytest.mark.parametrize("size", [1, 4])
def test_equals_its_quadratic_form(
    name: str, axes: dict[str, Any], size: float, run: Runner, distance: Distance
) -> None:
    problem = AttentionProblem(head_dim=8, pass_="forward_backward", **({"heads": 2} | axes))
    inputs = problem.inputs("cpu")
    inputs = replace(inputs, q=inputs.q * size, k=inputs.k * size)
    results, truth = run(name, problem, inputs), quadratic(name, problem, inputs)
    assert results is not None
    assert distance(results[0], truth[0]) < 1e-6
    for found, true in zip(results[1], truth[1], strict=True):
        # Where the true gradient is 0, what cancels is of the size of q and k.
        scale = max(float(true.norm()), 1e-2 * size * float(inputs.grad_output.norm()))
        assert float((found.double() - true).norm()) < 3e-5 * scale


@pytest.mark.parametrize("factor", [5, 30])
def test_early_large_keys_leave_later_rows_right(factor: float, run: Runner, distance: Distance) -> None:
    problem = AttentionProblem(seq_len=150, heads=1, head_dim=16, causal=True, pass_="forward_backward")
    inputs = problem.inputs("cpu")
    inputs.k[:, :, :3] *= factor
    results = run("performer", problem, inputs)
    assert results is not None
    assert distance(results[0], quadratic("performer", problem, inputs)[0]) < 1e-5


@pytest.mark.parametrize("causal", [False, True])
def test_even_features_that_all_underflow_give_no_nan(causal: bool, run: Runner) -> None:
    """Beyond what any kernel can tell: queries and keys 30 times too large, or all far below zero."""
    problem = AttentionProblem(seq_len=150, heads=2, head_dim=64, causal=causal, pass_="forward_backward")
    inputs = problem.inputs("cpu")
    large = replace(inputs, q=inputs.q * 30, k=inputs.k * -30)
    below = replace(inputs, q=inputs.q * 0 - 200, k=inputs.k * 0 - 200)
    for name in KERNELS:
        for extreme in (large, below):
            fresh = replace(extreme, q=extreme.q.detach().clone(), k=extreme.k.detach().clone())
            results = run(name, problem, fresh)
            assert results is not None
            assert all(tensor.isfinite().all() for tensor in (results[0], *results[1]))


@pytest.mark.parametrize("causal", [False, True])
def test_float16_key_sums_do_not_overflow(causal: bool, run: Runner) -> None:
    """Features of 30 over 4,096 keys sum to 122,880, more than float16 holds."""
    problem = AttentionProblem(seq_len=4096, heads=1, head_dim=8, dtype="float16", causal=causal)
    inputs = problem.inputs("cpu")
    flat = replace(inputs, q=torch.full_like(inputs.q, 29), k=torch.full_like(inputs.k, 29))
    results = run("linear_elu", problem, flat)
    assert results is not None
    mean = inputs.v.double().mean(-2)
    assert (results[0][:, :, -1].double() - mean).abs().max() < 1e-3


def test_elu_features_do_not_cancel() -> None:
    x = torch.tensor([-80.0, -30.0, -17.5, -1.0, 0.0, 1.0, 50.0], requires_grad=True)
    features = elu_features(x)
    true = torch.where(x > 0, x.double() + 1, x.double().clamp(max=0).exp())
    assert torch.allclose(features.double(), true, rtol=4e-6, atol=0)  # the rounding of −80
    (gradient,) = torch.autograd.grad(features.sum(), x)
    assert torch.allclose(gradient, x.detach().clamp(max=0).exp(), rtol=4e-6)
    assert (torch.nn.functional.elu(torch.tensor(-17.5)) + 1 == 0).all()  # what is avoided


def sums_of(name: str, problem: AttentionProblem) -> Sums:
    if name == "linear_elu":
        return PlainSums(elu_features)
    if name == "taylor":
        return PlainSums(taylor_features)
    weight, half = Projection(64, problem).on(torch.empty(0)), LOG2_E / 8
    return LogSums(lambda q: q @ weight, lambda k: k @ weight - k.square().sum(-1, keepdim=True) * half)


@pytest.mark.parametrize("name", KERNELS)
def test_carried_sums_equal_the_whole(name: str, distance: Distance) -> None:
    """300 tokens as 150 and 150 with the state carried, and as one chunk."""
    problem = AttentionProblem(seq_len=300, heads=2, head_dim=16)
    inputs = problem.inputs("cpu")
    k, v = inputs.k[0], inputs.v[0]
    q = inputs.q[0].unsqueeze(1)
    whole = sums_of(name, problem).causal(q, k, v, None)
    carried = sums_of(name, problem)
    halves = [
        carried.causal(q[..., part, :], k[..., part, :], v[..., part, :], None)
        for part in (slice(0, 150), slice(150, 300))
    ]
    assert distance(torch.cat(halves, -2), whole) < 1e-5


@pytest.mark.parametrize("name", KERNELS)
def test_sums_in_place_are_the_same_sums_and_leave_the_inputs_alone(
    name: str, run: Runner, distance: Distance
) -> None:
    """Without a gradient the state is written over; here over chunks, after a prefix, with shared heads."""
    problem = AttentionProblem(seq_len=300, kv_len=650, heads=4, kv_heads=2, head_dim=16, causal=True)
    trained = replace(problem, pass_="forward_backward")
    inputs = problem.inputs("cpu")
    before = [tensor.clone() for tensor in inputs.differentiable]
    over, kept = run(name, problem, inputs), run(name, trained, trained.inputs("cpu"))
    assert over is not None
    assert kept is not None
    assert distance(over[0], kept[0]) < 1e-6
    assert all(torch.equal(one, other) for one, other in zip(before, inputs.differentiable, strict=True))


def test_projection_is_orthogonal_with_gaussian_lengths() -> None:
    drawn = orthogonal_gaussian(40, 16, torch.Generator().manual_seed(0))
    assert drawn.shape == (40, 16)
    for block in (drawn[:16], drawn[16:32], drawn[32:]):
        products = block @ block.mT
        assert (products - products.diagonal().diag()).abs().max() < 1e-12
    lengths = orthogonal_gaussian(4096, 16, torch.Generator().manual_seed(0)).square().sum(-1)
    assert float(lengths.mean()) == pytest.approx(16, rel=0.03)
    assert float(lengths.std()) == pytest.approx(math.sqrt(32), rel=0.06)


def test_taylor_features_are_the_second_order_of_the_exponential() -> None:
    """√½ on the diagonal: without it a channel's square would count twice."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(7, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    s = x @ y.mT
    assert taylor_features(x).shape == (7, 1 + 5 + 15)
    assert torch.allclose(taylor_features(x) @ taylor_features(y).mT, 1 + s + s**2 / 2, rtol=1e-12)
    one = torch.tensor([[1.0, 0.0]])
    assert float((taylor_features(one) @ taylor_features(one).mT).item()) == pytest.approx(2.5)


@pytest.mark.parametrize("causal", [False, True])
def test_relu_like_features_that_are_all_zero_are_no_division_by_zero(causal: bool) -> None:
    """Of any feature map: rows whose features all vanish are 0, with finite gradients."""
    problem = AttentionProblem(seq_len=130, heads=2, head_dim=8, causal=causal)
    inputs = problem.inputs("cpu")
    inputs.q[:, :, :40] = -inputs.q[:, :, :40].abs()
    for tensor in inputs.differentiable:
        tensor.requires_grad_(True)
    output = kernel_attention(problem, inputs, PlainSums(torch.relu))
    assert (output[:, :, :40] == 0).all()
    gradients = torch.autograd.grad(output, inputs.differentiable, inputs.grad_output)
    assert all(tensor.isfinite().all() for tensor in (output, *gradients))
