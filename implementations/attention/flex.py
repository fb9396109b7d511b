"""PyTorch's flex_attention, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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


def supports(problem: AttentionProblem, target: Target) -> Reason:
    """Why the compiled kernel cannot run that problem, or None."""
    if target.device == "cpu" and problem.pass_ != "forward":
        return "flex_attention has no backward on the CPU"
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

    Compiled for any length on the CPU, where a compilation costs seconds, and for each shape on CUDA.
    """
    from implementations.attention import _flex
    from implementations.attention import _masks as masks

    causal = not masks.sees_everything(problem)
    blocks: dict[str, Any] = {}

    def attend(inputs: AttentionInputs) -> Tensor:
        _flex.refuse_fake(inputs.q)
        if inputs.q.device.type == "cpu" and inputs.q.stride(-1) != 1:
            raise Unsupported("flex_attention: the inner stride is not 1")
        device = inputs.q.device.type
        if device not in blocks and causal:
            blocks[device] = _flex.causal_blocks(problem, inputs.q.device)
        block_mask = blocks.get(device)
        if inputs.mask is not None:
            block_mask = _flex.masked_blocks(problem, inputs)
        # For any shape, the C++ generated for a mask that is a tensor does not compile (torch 2.13).
        run = _flex.compiled(dynamic=device == "cpu" and inputs.mask is None)
        return run(inputs.q, inputs.k, inputs.v, block_mask, problem.group_size > 1)

    return attend
