"""PyTorch's flex_attention, compiled and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Reason, Target, Unsupported, implementation

if TYPE_CHECKING:
    from torch import Tensor


def available(target: Target) -> Reason:
    """Why flex_attention cannot be compiled there, or None."""
    from implementations.attention import _flex

    if target.device == "cpu":
        return _flex.missing_for_cpu()
    if target.capability is not None and target.capability < (7, 0):
        return "Triton compiles for compute capability 7.0 and newer"
    return _flex.missing_for_gpu()


def supports_eager(problem: AttentionProblem, target: Target) -> Reason:
    """Why flex_attention cannot run that problem in any way, or None."""
    if target.device == "cpu" and problem.needs_gradients:
        return "flex_attention has no backward on the CPU"
    return None


def supports(problem: AttentionProblem, target: Target) -> Reason:
    """Why the compiled kernel cannot run that problem, or None."""
    if reason := supports_eager(problem, target):
        return reason
    if problem.dtype == "float64":
        return "flex_attention compiles for float16, bfloat16 and float32"
    if target.device == "cuda" and problem.head_dim < 16:
        return f"head_dim {problem.head_dim} is less than the 16 that its tensor-core tiles need"
    return None


@implementation(
    "flex",
    operation="attention",
    exact=True,
    laws={"time": "batch*heads*n^2*d", "memory": "batch*heads*n*d"},
    available=available,
    supports=supports,
)
def flex(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """flex_attention (Dong et al. 2024), compiled by torch.compile; masks skip whole blocks.

    Where a compilation costs seconds, on the CPU, it is compiled for any length, but with windows, lengths or
    masks, like everything on CUDA, for each shape. Causal rule, window and lengths are block masks built
    before the measurement; a boolean or padding mask is made a block mask within the call, and an additive
    one modifies the scores.
    """
    from implementations.attention import _flex

    blocks, plain = _flex.Masks(problem), not problem.beyond_causal()

    def attend(inputs: AttentionInputs) -> Tensor:
        _flex.refuse_fake(inputs.q)
        on_cpu = inputs.q.device.type == "cpu"
        if on_cpu and inputs.q.stride(-1) != 1:
            raise Unsupported("flex_attention: the inner stride is not 1")
        # For any length, the C++ that torch 2.13 generates for other masks does not always compile.
        any_length = on_cpu and plain and inputs.mask is None and inputs.bias is None
        run = _flex.compiled(dynamic=any_length)
        shared = problem.group_size > 1
        return run(inputs.q, inputs.k, inputs.v, blocks.of(inputs), _flex.score_rule(inputs), shared)

    return attend


@implementation(
    "flex_eager",
    operation="attention",
    exact=True,
    laws={"time": "batch*heads*n^2*d", "memory": "batch*heads*n^2"},
    supports=supports_eager,
)
def flex_eager(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """flex_attention without torch.compile: the formula with the whole matrix in float32, masks by block."""
    from implementations.attention import _flex

    run, blocks = _flex.uncompiled(), _flex.Masks(problem)

    def attend(inputs: AttentionInputs) -> Tensor:
        shared = problem.group_size > 1
        return run(inputs.q, inputs.k, inputs.v, blocks.of(inputs), _flex.score_rule(inputs), shared)

    return attend
