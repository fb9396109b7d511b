"""xformers' memory_efficient_attention."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Reason, Target, implementation

if TYPE_CHECKING:
    from torch import Tensor

#: head_dims for which the split-K operator has tiles.
SPLIT_K_HEAD_DIMS = (16, 32, 64, 128, 256, 512)


def available(target: Target) -> Reason:
    """Why xformers' kernels cannot run there, or None."""
    for package in ("xformers", "triton"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed"
    if target.device != "cuda":
        return _interpreter_missing(target)
    if target.capability is not None and target.capability < (8, 0):
        return "needs compute capability 8.0 or newer"
    return None


def _interpreter_missing(target: Target) -> Reason:
    if not target.interpreted:
        return f"its kernels are for GPUs; on a {target.device} its Triton operator runs interpreted only"
    import triton
    import triton.language

    if not hasattr(triton.language, "make_block_ptr"):
        return f"its split-K operator needs block pointers, which Triton {triton.__version__} no longer has"
    return None


def supports(problem: AttentionProblem, target: Target) -> Reason:
    """Why they cannot run that problem, or None."""
    if target.device == "cuda":
        return _cuda_supports(problem)
    if problem.needs_gradients:
        return "its Triton split-K operator has no backward"
    if problem.dtype not in ("float16", "bfloat16"):
        return "its Triton split-K operator takes float16 and bfloat16"
    if problem.head_dim not in SPLIT_K_HEAD_DIMS:
        return f"its Triton split-K operator has no tiles for head_dim {problem.head_dim}"
    return None


def _cuda_supports(problem: AttentionProblem) -> Reason:
    if problem.dtype == "float64":
        return "its operators take float16, bfloat16 and float32"
    if problem.head_dim % 8:
        return f"head_dim {problem.head_dim} is not a multiple of 8"
    from implementations.attention._xformers_biases import lacking

    return lacking(problem)


@implementation(
    "xformers",
    operation="attention",
    exact=True,
    laws={"time": "batch*heads*n^2*d", "memory": "batch*heads*n*d"},
    available=available,
    supports=supports,
    interpreted_on={"cpu"},
)
def xformers(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """memory_efficient_attention on CUDA; on a CPU its Triton split-K operator, interpreted.

    Lefaudeux et al. 2022. On CUDA xformers dispatches among its operators: the kernel names of the row say
    which ran. Causal rule, window and packed lengths are its structured biases there, a mask is a tensor
    bias; the split-K operator takes everything as an additive bias of seq_len × kv_len.
    """
    from implementations.attention import _xformers

    on_cuda = _xformers.MemoryEfficient(problem)

    def attend(inputs: AttentionInputs) -> Tensor:
        if inputs.q.is_cuda:
            return on_cuda(inputs)
        return _xformers.split_k(problem, inputs)

    return attend
