"""Flash attention written in Triton for this suite.

Online softmax (Milakov & Gimelshein 2018) over tiles (Dao 2022, 2023). Triton is imported on first use.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from implementations.attention._flash_tiles import Tile, block_d, forward_tiles
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import KernelBuild, Reason, Target, Unsupported, implementation

if TYPE_CHECKING:
    from torch import Tensor

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
    if problem.pass_ != "forward":
        return "the backward kernels are not written yet"
    return None


def kernel_builds(capability: int) -> Iterator[KernelBuild]:
    """The kernels as they are configured for a GPU such as 90, in float16."""
    for head_dim in (64, 128):
        tile = forward_tiles(capability, head_dim, 2, descriptors=True)[0]
        for causal in (False, True):
            yield forward_build(tile, head_dim, causal)


def forward_build(tile: Tile, head_dim: int, causal: bool, dtype: str = "fp16") -> KernelBuild:
    """One forward kernel for contiguous tensors, as ahead-of-time compilation needs it."""
    from implementations.attention import _flash_kernels as kernels

    width = block_d(head_dim)
    constexprs = {
        "q_d": 1, "k_d": 1, "v_d": 1, "o_d": 1, "HEAD_DIM": head_dim, "BLOCK_D": width,
        "BLOCK_M": tile.m, "BLOCK_N": tile.n, "CAUSAL": causal, "PRECISION": FP32_PRECISION,
        "DESCRIPTORS": tile.descriptors, "WIDE": False,
    }  # fmt: skip
    keys = f"tensordesc<{dtype}[1,1,{tile.n},{width}]>" if tile.descriptors else f"*{dtype}"
    types = {"Q": f"*{dtype}", "K": keys, "V": keys, "OUT": f"*{dtype}", "LOG_SUM_EXP": "*fp32",
             "scale_log2": "fp32", **dict.fromkeys(constexprs, "constexpr")}  # fmt: skip
    names = kernels.flash_forward.arg_names
    pointers = [name for name in names if types.get(name, "").startswith("*")]
    strides = [name for name in names if name[1:2] == "_" and name not in constexprs]
    return KernelBuild(
        name=f"flash_forward[head_dim={head_dim},causal={causal}]",
        kernel=kernels.flash_forward,
        signature={name: types.get(name, "i32") for name in names},
        constexprs=constexprs,
        num_warps=tile.warps,
        num_stages=tile.stages,
        divisible_by_16=(*pointers, *strides),
    )


@implementation(
    "triton_flash",
    operation="attention",
    exact=True,
    laws={"time": "batch*heads*n^2*d", "memory": "batch*heads*n*d"},
    available=available,
    supports=supports,
    interpreted_on={"cpu"},
    kernel_builds=kernel_builds,
)
def triton_flash(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """Flash attention in Triton, this suite's own kernels."""

    def attend(inputs: AttentionInputs) -> Tensor:
        from implementations.attention import _flash_launch as launch

        if inputs.mask is not None:
            raise Unsupported("triton_flash takes no mask but the causal one")
        out, _ = launch.forward(
            inputs.q, inputs.k, inputs.v, causal=problem.causal, causal_offset=problem.causal_offset,
            scale=problem.scale, precision=FP32_PRECISION,
        )  # fmt: skip
        return out

    return attend
