"""What every approximation keeps to: finite, causal to the last bit, alone in its batch, blind to padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.attention.reference import judge
from implementations.registry import Target, Unsupported, implementations, load, lookup

Results = tuple[Tensor, tuple[Tensor, ...]]
Runner = Callable[[str, AttentionProblem, AttentionInputs], "Results | None"]
Distance = Callable[[Tensor, Tensor], float]

load("attention")
APPROXIMATE = [found.name for found in implementations("attention") if not found.exact]
CPU = Target("cpu")


def takes(name: str, problem: AttentionProblem) -> bool:
    return lookup(name).reason_against(problem, CPU) is None


CAUSAL = [name for name in APPROXIMATE if takes(name, AttentionProblem(seq_len=8, causal=True))]
CASES = [(name, causal) for name in APPROXIMATE for causal in (False, True) if name in CAUSAL or not causal]


def test_only_what_averages_over_tokens_refuses_the_causal_rule() -> None:
    refused = {
        name: lookup(name).reason_against(AttentionProblem(seq_len=8, causal=True), CPU)
        for name in APPROXIMATE
        if name not in CAUSAL
    }
    assert set(refused) == {"nystrom", "linformer_mean"}
    assert all("later tokens" in str(reason) for reason in refused.values())


@pytest.mark.parametrize(("name", "causal"), CASES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_dtype_is_finite_forward_and_backward(name: str, causal: bool, dtype: str, run: Runner) -> None:
    problem = AttentionProblem(
        seq_len=130, heads=2, head_dim=16, dtype=dtype, causal=causal, pass_="forward_backward"
    )
    inputs = problem.inputs("cpu")
    results = run(name, problem, inputs)
    assert results is not None
    for errors in judge(problem, inputs, *results):
        assert errors.finite
    assert [str(tensor.dtype) for tensor in (results[0], *results[1])] == [f"torch.{dtype}"] * 4


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("row", [0, 5, 63, 64, 127, 190, 298])
def test_no_row_depends_on_later_tokens_to_the_last_bit(name: str, row: int, run: Runner) -> None:
    problem = AttentionProblem(seq_len=300, heads=2, head_dim=16, causal=True)
    inputs = problem.inputs("cpu")
    before = run(name, problem, inputs)
    for tensor in (inputs.q, inputs.k, inputs.v):
        tensor[:, :, row + 1 :] *= 8
        tensor[:, :, -1] *= 8
    after = run(name, problem, inputs)
    assert before is not None
    assert after is not None
    assert torch.equal(before[0][:, :, : row + 1], after[0][:, :, : row + 1])
    assert not torch.equal(before[0], after[0])


@pytest.mark.parametrize(("name", "causal"), CASES)
def test_items_of_a_batch_do_not_influence_each_other(
    name: str, causal: bool, run: Runner, distance: Distance
) -> None:
    pair = AttentionProblem(seq_len=130, batch=2, heads=2, head_dim=16, causal=causal)
    inputs = pair.inputs("cpu")
    inputs.k[1] *= 100
    alone = replace(inputs, q=inputs.q[:1], k=inputs.k[:1], v=inputs.v[:1])
    together = run(name, pair, inputs)
    single = run(name, replace(pair, batch=1), alone)
    assert together is not None
    assert single is not None
    assert together[0].isfinite().all()
    assert distance(together[0][:1], single[0]) < 1e-5


@pytest.mark.parametrize(("name", "causal"), CASES)
@pytest.mark.parametrize("factor", [0.0, 30.0, -30.0])
def test_extreme_keys_give_no_nan(name: str, causal: bool, factor: float, run: Runner) -> None:
    """Early keys ×30 (or all of them 0): output and gradients are finite."""
    problem = AttentionProblem(seq_len=200, heads=2, head_dim=64, causal=causal, pass_="forward_backward")
    inputs = problem.inputs("cpu")
    inputs.k[:, :, :20] *= factor
    results = run(name, problem, inputs)
    assert results is not None
    for tensor in (results[0], *results[1]):
        assert tensor.isfinite().all()


@pytest.mark.parametrize(("name", "causal"), CASES)
def test_left_padding_of_random_content_is_as_if_it_were_not_there(
    name: str, causal: bool, run: Runner, distance: Distance
) -> None:
    problem = AttentionProblem(seq_len=103, heads=2, head_dim=16, causal=causal)
    inputs = problem.inputs("cpu")
    padded = replace(inputs, mask=(torch.arange(103) >= 3).view(1, 1, 1, 103))
    unpadded = replace(inputs, q=inputs.q[:, :, 3:], k=inputs.k[:, :, 3:], v=inputs.v[:, :, 3:])
    with_padding = run(name, problem, padded)
    without = run(name, replace(problem, seq_len=100, kv_len=100), unpadded)
    assert with_padding is not None
    assert without is not None
    assert distance(with_padding[0][:, :, 3:], without[0]) < 1e-6
    if causal:
        assert (with_padding[0][:, :, :3] == 0).all()


@pytest.mark.parametrize("name", APPROXIMATE)
def test_everywhere_available(name: str) -> None:
    for target in (Target("cpu"), Target("cuda", (9, 0))):
        assert lookup(name).reason_against(AttentionProblem(seq_len=8), target) is None


@pytest.mark.parametrize(("name", "causal"), CASES)
def test_padding_everything_is_zero_with_finite_gradients(name: str, causal: bool, run: Runner) -> None:
    problem = AttentionProblem(seq_len=70, heads=2, head_dim=16, causal=causal, pass_="forward_backward")
    inputs = replace(problem.inputs("cpu"), mask=torch.zeros(1, 1, 1, 70, dtype=torch.bool))
    results = run(name, problem, inputs)
    assert results is not None
    assert (results[0] == 0).all()
    assert all(tensor.isfinite().all() for tensor in results[1])


@pytest.mark.parametrize(("name", "causal"), CASES)
def test_padding_of_one_item_does_not_reach_another(
    name: str, causal: bool, run: Runner, distance: Distance
) -> None:
    """Items of different lengths in one batch, as `mask: padding` draws them: each as if it were alone."""
    problem = AttentionProblem(
        seq_len=130, batch=3, heads=4, kv_heads=2, head_dim=16, causal=causal, mask="padding"
    )
    inputs = problem.inputs("cpu")
    assert inputs.mask is not None
    results = run(name, problem, inputs)
    assert results is not None
    for item in range(3):
        real = inputs.mask[item, 0, 0]
        q, k, v = (tensor[item : item + 1, :, real] for tensor in inputs.differentiable)
        alone = run(
            name,
            replace(problem, batch=1, mask="none", seq_len=q.shape[2], kv_len=q.shape[2]),
            AttentionInputs(q=q, k=k, v=v, grad_output=q),
        )
        assert alone is not None
        assert distance(results[0][item : item + 1, :, real], alone[0]) < 1e-5


@pytest.mark.parametrize(("name", "causal"), CASES)
def test_gradients_are_those_of_the_output(name: str, causal: bool, run: Runner) -> None:
    """In float64, against the difference quotient along a random direction of q, k and v together."""
    problem = AttentionProblem(
        seq_len=70, heads=2, head_dim=8, dtype="float64", causal=causal, pass_="forward_backward"
    )
    inputs = problem.inputs("cpu")
    results = run(name, problem, inputs)
    assert results is not None
    forward = replace(problem, pass_="forward")
    generator = torch.Generator().manual_seed(1)
    by = [torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in inputs.differentiable]
    step, sides = 1e-6, []
    for sign in (1, -1):
        q, k, v = (t.detach() + sign * step * d for t, d in zip(inputs.differentiable, by, strict=True))
        moved = run(name, forward, replace(inputs, q=q, k=k, v=v))
        assert moved is not None
        sides.append(float((moved[0] * inputs.grad_output).sum()))
    slope = sum(float((g * d).sum()) for g, d in zip(results[1], by, strict=True))
    assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", [name for name in APPROXIMATE if name != "uniform"])
def test_masks_that_are_not_padding_are_unsupported(name: str, run: Runner) -> None:
    """Said by the problem that draws one, and by the call that meets one."""
    problem = AttentionProblem(seq_len=8, heads=2, head_dim=16)
    inputs = replace(problem.inputs("cpu"), mask=torch.ones(8, 8, dtype=torch.bool))
    with pytest.raises(Unsupported, match="padding of keys"):
        run(name, problem, inputs)
    for mask in ("boolean", "additive"):
        reason = lookup(name).reason_against(replace(problem, mask=mask), CPU)
        assert reason is not None
        assert mask in reason


@pytest.mark.parametrize(("name", "causal"), [case for case in CASES if case[0] != "uniform"])
def test_channels_of_the_second_half_count(name: str, causal: bool, run: Runner) -> None:
    """head_dim 128 with q and k 0 but in channels 64–127 is not uniform attention."""
    problem = AttentionProblem(seq_len=700, heads=1, head_dim=128, causal=causal)
    inputs = problem.inputs("cpu")
    for tensor in (inputs.q, inputs.k):
        tensor[..., :64] = 0
    found, uniform = run(name, problem, inputs), run("uniform", problem, inputs)
    flat = replace(inputs, q=inputs.q * 0, k=inputs.k * 0)
    blind = run(name, problem, flat)
    assert found is not None
    assert uniform is not None
    assert blind is not None
    assert (found[0] - uniform[0]).norm() > 0.02 * uniform[0].norm()
    assert (found[0] - blind[0]).norm() > 0.02 * blind[0].norm()
