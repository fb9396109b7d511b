"""torch.nn.functional.scaled_dot_product_attention, one name per backend.

Each name forces exactly one backend and says `unsupported` where torch would take another: a list of
backends is only a set torch may choose from. A window and packed lengths are given to torch as a boolean
mask of seq_len × kv_len, of which no block is skipped: that is what torch offers for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from implementations.attention.problem import ITEMSIZE, AttentionInputs, AttentionProblem
from implementations.registry import Reason, Target, Unsupported, implementation

if TYPE_CHECKING:
    from torch import Tensor

Attend = Callable[["AttentionInputs"], "Tensor"]
Check = Callable[[AttentionProblem, Target], Reason]

HALF = ("float16", "bfloat16")
NO_KERNEL = ("No available kernel", "No viable backend")


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend of torch, the name it is measured under, and what it cannot do.

    storage  the law of its peak and of what its operators read and write
    """

    name: str
    constant: str
    summary: str
    storage: str
    available: Callable[[Target], Reason]
    supports: Check

    def register(self) -> None:
        """Make it known as an implementation."""

        def prepare(problem: AttentionProblem) -> Attend:
            return _prepare(problem, self.constant)

        prepare.__doc__ = self.summary
        implementation(
            self.name,
            operation="attention",
            exact=True,
            laws={"time": "batch*heads*n^2*d", "memory": self.storage, "bytes": self.storage},
            available=self.available,
            supports=self.supports,
        )(prepare)


def _prepare(problem: AttentionProblem, backend: str) -> Attend:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    from implementations.attention import _masks as masks

    only = getattr(SDPBackend, backend)
    shared = problem.group_size > 1
    plain = problem.window is None and problem.lengths is None
    by_flag = problem.causal and problem.causal_offset == 0 and plain  # torch's own causal rule is top-left

    def attend(inputs: AttentionInputs) -> Tensor:
        _check_layout(inputs, backend)
        flag = by_flag and inputs.mask is None and inputs.bias is None
        given = masks.opened if inputs.bias is None else masks.additive
        mask, blind = (None, None) if flag else given(problem, inputs)
        try:
            with sdpa_kernel(only):
                output = scaled_dot_product_attention(
                    inputs.q, inputs.k, inputs.v, attn_mask=mask, is_causal=flag, enable_gqa=shared
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
    q, k, v, mask = inputs.q, inputs.k, inputs.v, inputs.mask if inputs.bias is None else inputs.bias
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
    """torch's causal flag counts from the top-left corner; only `math` can do otherwise at no loss.

    Where a mask is passed anyway, it holds the causal rule as well.
    """
    if (
        not problem.beyond_causal()
        and problem.causal
        and problem.causal_offset not in (0, problem.n_keys - 1)
    ):
        return "its causal flag is aligned top-left; bottom-right differs when seq_len and kv_len do"
    return None


def _flash_supports(problem: AttentionProblem, target: Target) -> Reason:
    if target.device != "cuda":
        return _alignment(problem)
    if problem.dtype not in HALF:
        return "the flash kernels on CUDA take float16 and bfloat16"
    if problem.head_dim > 256:
        return f"head_dim {problem.head_dim} is more than the 256 that its kernels have"
    if reason := problem.beyond():
        return f"on CUDA {reason}"
    sees_all = problem.causal_offset == problem.n_keys - 1
    if problem.causal and problem.seq_len != problem.n_keys and not sees_all:
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


def _no_objection(*_: object) -> Reason:
    return None


BACKENDS = (
    Backend(
        "sdpa_math",
        "MATH",
        "PyTorch's unfused attention: separate products and a safe softmax.",
        storage="batch*heads*n^2 + batch*heads*n*d",
        available=_no_objection,
        supports=_no_objection,
    ),
    Backend(
        "sdpa_flash",
        "FLASH_ATTENTION",
        "PyTorch's flash attention (Dao 2023 on CUDA, its own tiled kernel on CPU).",
        storage="batch*heads*n*d",
        available=_from_sm_80,
        supports=_flash_supports,
    ),
    Backend(
        "sdpa_efficient",
        "EFFICIENT_ATTENTION",
        "PyTorch's memory-efficient attention (Rabe & Staats 2021, CUTLASS kernels).",
        storage="batch*heads*n*d",
        available=_cuda_only("memory-efficient", (5, 0)),
        supports=_efficient_supports,
    ),
    Backend(
        "sdpa_cudnn",
        "CUDNN_ATTENTION",
        "NVIDIA cuDNN's fused attention through PyTorch.",
        storage="batch*heads*n*d",
        available=_cuda_only("cuDNN", (8, 0)),
        supports=_cudnn_supports,
    ),
)
for _backend in BACKENDS:
    _backend.register()
