"""Calling xformers' operators: layouts, biases, and an import without its noise."""

from __future__ import annotations

import functools
import importlib
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from implementations.attention import _xformers_biases as biases
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Unsupported


class MemoryEfficient:
    """xformers' own dispatch among its CUDA operators. Raises Unsupported where none takes the problem.

    A bias that depends on no input is built once; one from a mask among the inputs in every call.
    """

    def __init__(self, problem: AttentionProblem) -> None:
        self.problem = problem
        self.kept: dict[torch.device, Any] = {}

    def __call__(self, inputs: AttentionInputs) -> Tensor:
        fmha = importlib.import_module("xformers.ops.fmha")
        bias, blind = self._bias(inputs, fmha.attn_bias)
        q, k, v = _xformers_layout(self.problem, inputs)
        try:
            output = fmha.memory_efficient_attention(q, k, v, attn_bias=bias)
        except NotImplementedError as error:
            raise Unsupported(f"none of xformers' operators takes this problem: {error}") from error
        output = _suite_layout(self.problem, output)
        return output if blind is None else output.masked_fill(blind, 0)

    def _bias(self, inputs: AttentionInputs, attn_bias: Any) -> tuple[Any, Tensor | None]:
        if inputs.mask is not None or inputs.bias is not None:
            return biases.as_tensor(self.problem, inputs)
        device = inputs.q.device
        if device not in self.kept:
            self.kept[device] = biases.structured(self.problem, attn_bias, device)
        return self.kept[device], None


def split_k(problem: AttentionProblem, inputs: AttentionInputs) -> Tensor:
    """The Triton split-K operator on CPU tensors, below the check that wants a CUDA device."""
    operator, arguments = _split_k_operator()
    bias, blind = biases.as_tensor(problem, inputs)
    q, k, v = _xformers_layout(problem, inputs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "tl.make_block_ptr is deprecated")
        output, _ = operator.apply(arguments(query=q, key=k, value=v, attn_bias=bias), needs_gradient=False)
    output = _suite_layout(problem, output)
    return output if blind is None else output.masked_fill(blind, 0)


def _xformers_layout(problem: AttentionProblem, inputs: AttentionInputs) -> tuple[Tensor, Tensor, Tensor]:
    """(batch, length, heads, head_dim), or (batch, length, kv_heads, group, head_dim): views."""
    q, k, v = (tensor.transpose(1, 2) for tensor in (inputs.q, inputs.k, inputs.v))
    if problem.group_size == 1:
        return q, k, v
    shared = (-1, -1, -1, problem.group_size, -1)
    q = q.unflatten(2, (problem.n_kv_heads, problem.group_size))
    return q, k.unsqueeze(3).expand(shared), v.unsqueeze(3).expand(shared)


def _suite_layout(problem: AttentionProblem, output: Tensor) -> Tensor:
    heads_last = output if problem.group_size == 1 else output.flatten(2, 3)
    return heads_last.transpose(1, 2)


@functools.cache
def _split_k_operator() -> tuple[Any, Any]:
    """The operator and its argument record. Its tiles are the defaults: to choose, it asks for a GPU."""
    with _quiet_import():
        triton_splitk = importlib.import_module("xformers.ops.fmha.triton_splitk")
        common = importlib.import_module("xformers.ops.fmha.common")

    def default_tiles(cls: type[Any], /, **shapes: Any) -> dict[str, int]:
        return {
            "BLOCK_M": cls.BLOCK_M,
            "BLOCK_N": cls.BLOCK_N,
            "num_warps": cls.NUM_WARPS,
            "num_stages": cls.NUM_STAGES,
        }

    on_cpu = type("SplitKOnCpu", (triton_splitk.FwOp,), {"get_extra_args": classmethod(default_tiles)})
    return on_cpu, common.Inputs


@contextmanager
def _quiet_import() -> Iterator[None]:
    """Import xformers for its Triton kernels: without a GPU it has to be told that there is Triton, and it
    reports that its CUDA extensions do not load, which are not wanted here."""
    variable, before = "XFORMERS_ENABLE_TRITON", os.environ.get("XFORMERS_ENABLE_TRITON")
    logger = logging.getLogger("xformers")
    logger.addFilter(_not_about_extensions)
    os.environ[variable] = "1"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # xformers' and Triton's, of each other
            yield
    finally:
        logger.removeFilter(_not_about_extensions)
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def _not_about_extensions(record: logging.LogRecord) -> bool:
    return "C++" not in record.getMessage()
