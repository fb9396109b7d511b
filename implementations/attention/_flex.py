"""Compiling flex_attention, and the block masks it skips by."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from implementations.attention import _masks as masks
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Reason, Unsupported

#: Variants of one compiled function (dtypes, masks, on CUDA shapes) before torch refuses another.
MOST_VARIANTS = 256

Run = Callable[[Tensor, Tensor, Tensor, Any, bool], Tensor]


@functools.cache
def missing_for_cpu() -> Reason:
    """What the C++ backend lacks on this machine, or None."""
    _import_compiler()
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    if not torch.cpu._is_avx2_supported():
        return "flex_attention on the CPU needs AVX2"
    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return "torch.compile needs a C++ compiler: install g++ or set CXX"
    return None


def missing_for_gpu() -> Reason:
    """What the Triton backend lacks on this machine, or None."""
    return (
        None if importlib.util.find_spec("triton") else "torch.compile needs Triton, which is not installed"
    )


def _import_compiler() -> None:
    """Import torch's compiler without the deprecation warnings that its own modules give each other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("torch._inductor.compile_fx")


@functools.cache
def compiled(dynamic: bool) -> Run:
    """flex_attention compiled for any shape or for each; one variant too many is an error, never eager."""
    _import_compiler()
    import torch._dynamo
    from torch.nn.attention.flex_attention import flex_attention

    torch._dynamo.config.recompile_limit = MOST_VARIANTS

    def attend(q: Tensor, k: Tensor, v: Tensor, block_mask: Any, enable_gqa: bool) -> Tensor:
        output = flex_attention(q, k, v, block_mask=block_mask, enable_gqa=enable_gqa)
        assert isinstance(output, Tensor)
        return output

    run: Run = torch.compile(attend, dynamic=dynamic, fullgraph=True)
    return run


def refuse_fake(tensor: Tensor) -> None:
    """Fake tensors would run the uncompiled formula, n × n scores and all: not what this name stands for."""
    if isinstance(tensor, FakeTensor):
        raise Unsupported("compiled code cannot be followed on fake tensors")


def causal_blocks(problem: AttentionProblem, device: torch.device) -> Any:
    """The block mask of either causal alignment."""
    offset = problem.causal_offset

    def causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key <= query + offset

    return _block_mask(causal, None, None, problem, device)


def masked_blocks(problem: AttentionProblem, inputs: AttentionInputs) -> Any:
    """The block mask of the inputs' mask, together with the causal rule."""
    allowed = masks.allowed_pairs(problem, inputs)
    assert allowed is not None
    full = allowed.expand(problem.batch, problem.heads, problem.seq_len, problem.n_keys)

    def allows(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return full[batch, head, query, key]

    return _block_mask(allows, problem.batch, problem.heads, problem, inputs.q.device)


def _block_mask(
    rule: Callable[..., Tensor],
    batch: int | None,
    heads: int | None,
    problem: AttentionProblem,
    device: torch.device,
) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    return create_block_mask(rule, batch, heads, problem.seq_len, problem.n_keys, device=device.type)
