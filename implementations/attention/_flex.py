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

#: (q, k, v, block mask, score modification, whether heads are shared) -> output.
Run = Callable[[Tensor, Tensor, Tensor, Any, "Rule | None", bool], Tensor]
#: (batch, head, query, key) -> whether the pair is let through, or what is added to its score.
Read = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
#: (score, batch, head, query, key) -> score.
Rule = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


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


def _attend(q: Tensor, k: Tensor, v: Tensor, block_mask: Any, score: Rule | None, shared: bool) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    output = flex_attention(q, k, v, score_mod=score, block_mask=block_mask, enable_gqa=shared)
    assert isinstance(output, Tensor)
    return output


@functools.cache
def compiled(dynamic: bool) -> Run:
    """flex_attention compiled for any shape or for each; one variant too many is an error, never eager."""
    _allow_variants()
    run: Run = torch.compile(_attend, dynamic=dynamic, fullgraph=True)
    return run


@functools.cache
def uncompiled() -> Run:
    """flex_attention as it runs without torch.compile, without its advice to compile it."""
    _allow_variants()
    flex = importlib.import_module("torch.nn.attention.flex_attention")
    flex._WARNINGS_SHOWN.add("flex_attention_performance")
    return _attend


def _allow_variants() -> None:
    _import_compiler()
    import torch._dynamo

    torch._dynamo.config.recompile_limit = MOST_VARIANTS


def refuse_fake(tensor: Tensor) -> None:
    """Fake tensors would run the uncompiled formula, n × n scores and all: not what this name stands for."""
    if isinstance(tensor, FakeTensor):
        raise Unsupported("compiled code cannot be followed on fake tensors")


class Masks:
    """The block masks of a problem.

    That of the causal rule, the window and the lengths is built once, as users keep theirs from layer to
    layer; one that depends on a mask among the inputs is built, and measured, in every call.
    """

    def __init__(self, problem: AttentionProblem) -> None:
        self.problem = problem
        self.kept: dict[torch.device, Any] = {}

    def of(self, inputs: AttentionInputs) -> Any:
        """The block mask to call flex_attention with; None when every query sees every key."""
        device = inputs.q.device
        if inputs.mask is None:
            if device not in self.kept:
                self.kept[device] = _blocks(self.problem, device, None)
            return self.kept[device]
        return _blocks(self.problem, device, inputs.mask)


def _blocks(problem: AttentionProblem, device: torch.device, mask: Tensor | None) -> Any:
    from torch.nn.attention.flex_attention import and_masks, create_block_mask

    rules = _rules(problem, device)
    batch = heads = None
    if mask is not None:
        rules.append(_reader(mask))
        batch = problem.batch if mask.dim() > 3 and mask.shape[-4] > 1 else None
        heads = problem.heads if mask.dim() > 2 and mask.shape[-3] > 1 else None
    if not rules:
        return None
    return create_block_mask(
        and_masks(*rules), batch, heads, problem.seq_len, problem.n_keys, device=device.type
    )


def _rules(problem: AttentionProblem, device: torch.device) -> list[Read]:
    """Causal rule, window and lengths."""
    offset, window = problem.causal_offset, problem.window
    rules: list[Read] = []
    if masks.sees_everything(problem):
        return rules
    if problem.causal:
        rules.append(lambda batch, head, query, key: key <= query + offset)
    if window is not None:
        rules.append(lambda batch, head, query, key: key > query + (offset - window))
        if not problem.causal:
            rules.append(lambda batch, head, query, key: key < query + (offset + window))
    if problem.lengths is not None:
        numbers = masks.sequence_numbers(problem, device)
        rules.append(lambda batch, head, query, key: numbers[query] == numbers[key])
    return rules


def _reader(tensor: Tensor) -> Read:
    """Reads what is broadcastable to (batch, heads, seq_len, kv_len), along the dimensions that it has."""
    wide = [place for place, size in enumerate(tensor.shape, start=4 - tensor.dim()) if size > 1]
    values = tensor.squeeze()

    def read(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        indices = (batch, head, query, key)
        return values[tuple(indices[place] for place in wide)]

    return read


def score_rule(inputs: AttentionInputs) -> Rule | None:
    """Adds the inputs' bias to the scores; None without one."""
    if inputs.bias is None:
        return None
    read = _reader(inputs.bias)

    def add(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return score + read(batch, head, query, key)

    return add
