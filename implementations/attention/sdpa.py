"""torch.nn.functional.scaled_dot_product_attention, one name per backend.

Each name forces exactly one backend and says `unsupported` where torch would take another: a list of
backends is only a set torch may choose from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import ITEMSIZE, AttentionInputs, AttentionProblem
from implementations.registry import Reason, Target, Unsupported, implementation

if TYPE_CHECKING:
    from torch import Tensor

Attend = Callable[["AttentionInputs"], "Tensor"]
Check = Callable[[AttentionProblem, Target], Reason]

FUSED_LAWS = {"time": "batch*heads*n^2*d", "memory": "batch*heads*n*d"}
HALF = ("float16", "bfloat16")
NO_KERNEL = ("No available kernel", "No viable backend")


def _prepare(problem: AttentionProblem, backend: str) -> Attend:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    from implementations.attention import _masks as masks

    only = getattr(SDPBackend, backend)
    shared = problem.group_size > 1
    by_flag = problem.causal and problem.causal_offset == 0  # torch's own causal rule is top-left

    def attend(inputs: AttentionInputs) -> Tensor:
        _check_layout(inputs, backend)
        flag = by_flag and inputs.mask is None
        allowed = None if flag else masks.allowed_pairs(problem, inputs)
        blind = None
        if allowed is not None and masks.may_have_blind_rows(problem, inputs):
            allowed, blind = masks.open_blind_rows(allowed)
        try:
            with sdpa_kernel(only):
                output = scaled_dot_product_attention(
                    inputs.q, inputs.k, inputs.v, attn_mask=allowed, is_causal=flag, enable_gqa=shared
                )
        except RuntimeError as error:
            if str(error).startswith(NO_KERNEL):
                raise Unsupported(f"torch has no {backend} kernel for these tensors: {error}") from error
            raise
        return output if blind is None else output.masked_fill(blind, 0)

    return attend


def _check_layout(inputs: AttentionInputs, backend: str) -> None:
    """Raise Unsupported for tensors that no fused kernel takes, instead of letting torch look elsewhere."""
    if backend == "MATH":
        return
    q, k, v, mask = inputs.q, inputs.k, inputs.v, inputs.mask
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.stride(-1) != 1 and tensor.shape[-1] > 1:
            raise Unsupported(f"{backend}: {name} has an inner stride of {tensor.stride(-1)}, not 1")
    if v.shape[-1] != q.shape[-1] and backend == "FLASH_ATTENTION":
        raise Unsupported(f"{backend}: v has {v.shape[-1]} channels, q and k have {q.shape[-1]}")
    if mask is not None and mask.requires_grad:
        raise Unsupported(f"{backend}: no gradient by the mask")
    if mask is not None and backend == "FLASH_ATTENTION" and q.is_cuda:
        raise Unsupported(f"{backend}: takes no mask on CUDA")


def _cuda_only(backend: str, oldest: tuple[int, int]) -> Callable[[Target], Reason]:
    def available(target: Target) -> Reason:
        if target.device != "cuda":
            return f"torch has the {backend} backend on CUDA only"
        return _too_old(target, oldest)

    return available


def _too_old(target: Target, oldest: tuple[int, int]) -> Reason:
    if target.device == "cuda" and target.capability is not None and target.capability < oldest:
        return f"needs compute capability {oldest[0]}.{oldest[1]}, not {target.capability}"
    return None


def _alignment(problem: AttentionProblem) -> Reason:
    """torch's causal flag counts from the top-left corner; only `math` can do otherwise at no loss."""
    if problem.causal and problem.causal_offset not in (0, problem.n_keys - 1):
        return "its causal flag is aligned top-left; bottom-right differs when seq_len and kv_len do"
    return None


def _flash_supports(problem: AttentionProblem, target: Target) -> Reason:
    if target.device != "cuda":
        return _alignment(problem)
    if problem.dtype not in HALF:
        return "the flash kernels on CUDA take float16 and bfloat16"
    if problem.head_dim > 256:
        return f"head_dim {problem.head_dim} is more than the 256 that its kernels have"
    if problem.causal and problem.seq_len != problem.n_keys:
        return "on CUDA its causal flag needs seq_len equal to kv_len"
    return None


def _efficient_supports(problem: AttentionProblem, target: Target) -> Reason:
    if problem.dtype == "float64":
        return "its kernels take float16, bfloat16 and float32"
    if problem.dtype == "bfloat16" and _too_old(target, (8, 0)):
        return f"bfloat16 {_too_old(target, (8, 0))}"
    if problem.head_dim * ITEMSIZE[problem.dtype] % 16:
        return f"head_dim {problem.head_dim} in {problem.dtype} is not a multiple of 16 bytes"
    if problem.group_size > 1:
        return "takes no shared key/value heads"
    return _alignment(problem)


def _cudnn_supports(problem: AttentionProblem, target: Target) -> Reason:
    limit = 256 if (target.capability or (0, 0)) >= (9, 0) else 128
    if problem.dtype not in HALF:
        return "cuDNN attention takes float16 and bfloat16"
    if problem.head_dim > limit or problem.head_dim % 8:
        return f"cuDNN attention takes head_dim in multiples of 8 up to {limit}, not {problem.head_dim}"
    return _alignment(problem)


def _from_sm_80(target: Target) -> Reason:
    return _too_old(target, (8, 0))


@implementation(
    "sdpa_math",
    operation="attention",
    exact=True,
    laws={"time": "batch*heads*n^2*d", "memory": "batch*heads*n^2"},
)
def sdpa_math(problem: AttentionProblem) -> Attend:
    """PyTorch's unfused attention: separate products and a safe softmax."""
    return _prepare(problem, "MATH")


@implementation(
    "sdpa_flash",
    operation="attention",
    exact=True,
    laws=FUSED_LAWS,
    available=_from_sm_80,
    supports=_flash_supports,
)
def sdpa_flash(problem: AttentionProblem) -> Attend:
    """PyTorch's flash attention (Dao 2023 on CUDA, its own tiled kernel on CPU)."""
    return _prepare(problem, "FLASH_ATTENTION")


@implementation(
    "sdpa_efficient",
    operation="attention",
    exact=True,
    laws=FUSED_LAWS,
    available=_cuda_only("memory-efficient", (5, 0)),
    supports=_efficient_supports,
)
def sdpa_efficient(problem: AttentionProblem) -> Attend:
    """PyTorch's memory-efficient attention (Rabe & Staats 2021, CUTLASS kernels)."""
    return _prepare(problem, "EFFICIENT_ATTENTION")


@implementation(
    "sdpa_cudnn",
    operation="attention",
    exact=True,
    laws=FUSED_LAWS,
    available=_cuda_only("cuDNN", (8, 0)),
    supports=_cudnn_supports,
)
def sdpa_cudnn(problem: AttentionProblem) -> Attend:
    """NVIDIA cuDNN's fused attention through PyTorch."""
    return _prepare(problem, "CUDNN_ATTENTION")
