"""Flash attention written in Triton for this suite.

Online softmax (Milakov & Gimelshein 2018) over tiles (Dao 2022, 2023), and split keys where the queries are
few (flash-decoding, Dao et al. 2023). Triton is imported on first use.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import KernelBuild, Reason, Target, Unsupported, implementation

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from implementations.attention._flash_arguments import Attention

#: How float32 products are formed: "ieee" without tensor cores, "tf32" with 10 bits of the mantissa.
FP32_PRECISION = "ieee"
MAX_HEAD_DIM = 256


def available(target: Target) -> Reason:
    """Why the kernels cannot run there, or None."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    if target.interpreted:
        return None
    if target.device != "cuda":
        return f"Triton compiles for GPUs; on a {target.device} its kernels run in the interpreter only"
    if target.capability is not None and target.capability < (8, 0):
        return "needs compute capability 8.0 or newer"
    return None


def supports(problem: AttentionProblem, target: Target) -> Reason:
    """Why they cannot run that problem, or None."""
    if problem.dtype == "float64":
        return "the kernels take float16, bfloat16 and float32"
    if problem.head_dim > MAX_HEAD_DIM:
        return f"head_dim {problem.head_dim} is more than the {MAX_HEAD_DIM} whose tiles fit the chip"
    return None


def kernel_builds(capability: int) -> Iterable[KernelBuild]:
    """Its kernels, forward and backward, as configured for a GPU such as 90, in float16."""
    from implementations.attention._flash_builds import chosen_builds

    return chosen_builds(capability)


def _prepare(
    problem: AttentionProblem, tile: tuple[int, int] | None = None
) -> Callable[[AttentionInputs], Tensor]:
    attention_on = functools.cache(functools.partial(_attention, problem, tile))

    def attend(inputs: AttentionInputs) -> Tensor:
        from implementations.attention._flash_autograd import flash_attention

        if inputs.mask is not None and inputs.bias is not None:
            raise Unsupported("triton_flash takes a boolean mask or an additive one, not both at once")
        mask = inputs.bias if inputs.mask is None else inputs.mask
        return flash_attention(inputs.q, inputs.k, inputs.v, attention_on(inputs.q.device), mask)

    return attend


#: `triton_flash:64x32` holds 64 queries and streams 32 keys a step, whatever the GPU would take best.
TILES = {f"{m}x{n}": (m, n) for m in (16, 32, 64, 128) for n in (16, 32, 64, 128)}


@implementation(
    "triton_flash",
    operation="attention",
    exact=True,
    laws={
        "time": "batch*heads*n^2*d",
        "memory": "batch*heads*n*d",
        "bytes": "batch*heads*n^2*d",  # requests: K and V once a tile of queries
    },
    available=available,
    supports=supports,
    interpreted_on={"cpu"},
    kernel_builds=kernel_builds,
    variants={name: functools.partial(_prepare, tile=tile) for name, tile in TILES.items()},
)
def triton_flash(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """Flash attention in Triton, this suite's own kernels."""
    return _prepare(problem)


def _attention(problem: AttentionProblem, tile: tuple[int, int] | None, device: torch.device) -> Attention:
    """The rules of a problem as the kernels take them; the starts of packed sequences lie on the device.

    A window of w keys is one more bound: place − w < j, and without causality also j < place + w.
    """
    import torch

    from implementations.attention._flash_arguments import Attention, Lengths

    last = problem.causal_offset
    first = None if problem.window is None else last - problem.window + 1
    if problem.window is not None and not problem.causal:
        last += problem.window - 1
    lengths = None
    if problem.cu_seqlens is not None:
        starts = torch.tensor(problem.cu_seqlens, dtype=torch.int32, device=device)
        lengths = Lengths(starts, max(band.queries for band in problem.sequences))
    causal = problem.causal or first is not None
    return Attention(problem.scale, causal, last, FP32_PRECISION, first, lengths, tile)
