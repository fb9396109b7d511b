"""The flash-attn packages: FlashAttention-2, and FlashAttention-3 for Hopper. Neither is a dependency."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Reason, Target, implementation

if TYPE_CHECKING:
    import torch
    from torch import Tensor

HALF = ("float16", "bfloat16")
MAX_HEAD_DIM = 256
LAWS = {"time": "batch*heads*n^2*d", "memory": "batch*heads*n*d"}


@dataclass(frozen=True, slots=True)
class Package:
    """A package: the module that holds its functions, how people call it, and the GPUs it is compiled for."""

    module: str
    title: str
    oldest: tuple[int, int]
    newest: tuple[int, int] | None = None

    def available(self, target: Target) -> Reason:
        """Why it cannot run there, or None."""
        if importlib.util.find_spec(self.module) is None:
            return f"{self.title} is not installed: there is no module {self.module}"
        if target.device != "cuda":
            return f"{self.title} has kernels for CUDA only"
        capability = target.capability or self.oldest
        if capability < self.oldest or (self.newest is not None and capability > self.newest):
            return f"{self.title} needs compute capability {self._span()}, not {_dotted(capability)}"
        return None

    def _span(self) -> str:
        if self.newest is None:
            return f"{_dotted(self.oldest)} or newer"
        same = self.newest == self.oldest
        return _dotted(self.oldest) if same else f"{_dotted(self.oldest)} to {_dotted(self.newest)}"

    def prepare(self, problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
        """The function of the package for the problem: its plain, its packed or its cached form."""
        functions = importlib.import_module(self.module)
        options = {"softmax_scale": problem.scale, "causal": problem.causal, "window_size": window(problem)}
        if problem.lengths is not None:
            return _Packed(problem, functions.flash_attn_varlen_func, options)
        decoding = problem.pass_ == "decode"
        function = functions.flash_attn_with_kvcache if decoding else functions.flash_attn_func

        def attend(inputs: AttentionInputs) -> Tensor:
            q, k, v = (tensor.transpose(1, 2) for tensor in (inputs.q, inputs.k, inputs.v))
            return _output(function(q, k, v, **options)).transpose(1, 2)

        return attend


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def window(problem: AttentionProblem) -> tuple[int, int]:
    """Keys to the left and to the right of where a query stands that it attends; −1 for all of them."""
    if problem.window is None:
        return -1, -1
    beside = problem.window - 1
    return beside, 0 if problem.causal else beside


class _Packed:
    """Sequences of several lengths, one after another: (tokens, heads, head_dim)."""

    def __init__(
        self, problem: AttentionProblem, function: Callable[..., Any], options: dict[str, Any]
    ) -> None:
        self.starts, self.function, self.options = problem.cu_seqlens, function, options
        self.longest = max(band.queries for band in problem.sequences)
        self.kept: dict[torch.device, Tensor] = {}

    def __call__(self, inputs: AttentionInputs) -> Tensor:
        q, k, v = (tensor[0].transpose(0, 1) for tensor in (inputs.q, inputs.k, inputs.v))
        starts = self._starts(inputs.q.device)
        output = self.function(q, k, v, starts, starts, self.longest, self.longest, **self.options)
        return _output(output).transpose(0, 1)[None]

    def _starts(self, device: torch.device) -> Tensor:
        import torch

        if device not in self.kept:
            self.kept[device] = torch.tensor(self.starts, dtype=torch.int32, device=device)
        return self.kept[device]


def _output(answer: Any) -> Tensor:
    """The output; earlier releases of FlashAttention-3 answer (output, log-sum-exp)."""
    output: Tensor = answer[0] if isinstance(answer, tuple) else answer
    return output


def supports(problem: AttentionProblem, target: Target) -> Reason:
    """Why the kernels cannot run that problem, or None."""
    if problem.dtype not in HALF:
        return "its kernels take float16 and bfloat16"
    if problem.head_dim > MAX_HEAD_DIM:
        return f"head_dim {problem.head_dim} is more than the {MAX_HEAD_DIM} that its kernels have"
    aligned = problem.causal_offset == problem.n_keys - problem.seq_len
    if not aligned and (problem.causal or problem.window is not None):
        return "its causal rule and its window are aligned bottom-right"
    return problem.beyond("window", "lengths")


SECOND = Package("flash_attn", "FlashAttention-2", oldest=(8, 0))
THIRD = Package("flash_attn_interface", "FlashAttention-3", oldest=(9, 0), newest=(9, 0))


@implementation(
    "flash_attn",
    operation="attention",
    exact=True,
    laws=LAWS,
    available=SECOND.available,
    supports=supports,
)
def flash_attn(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """FlashAttention-2 (Dao 2023) of the flash-attn package, with its packed and cached forms."""
    return SECOND.prepare(problem)


@implementation(
    "flash_attn_3",
    operation="attention",
    exact=True,
    laws=LAWS,
    available=THIRD.available,
    supports=supports,
)
def flash_attn_3(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """FlashAttention-3 (Shah et al. 2024) for Hopper GPUs, with its packed and cached forms."""
    return THIRD.prepare(problem)
