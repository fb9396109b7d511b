"""Launches the flash kernels on tensors: checks, strides, tiles and tuning. Imports Triton."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from implementations.attention import _flash_kernels as kernels
from implementations.attention._flash_tiles import INTERPRETED, Tile, block_d, forward_tiles
from implementations.registry import Unsupported

#: Programs that a grid's first axis may have.
MAX_PROGRAMS = 2**31 - 1


def strides_of(*tensors: Tensor) -> tuple[int, ...]:
    """All strides of (batch, heads, length, head_dim) tensors, in the order of the kernels' arguments."""
    return tuple(stride for tensor in tensors for stride in tensor.stride())


def needs_wide_offsets(*tensors: Tensor) -> bool:
    """Whether offsets inside one tile of 256 rows × 256 columns could pass 2^31."""
    return any(256 * (abs(t.stride(2)) + abs(t.stride(3))) >= 2**31 for t in tensors)


def fits_descriptor(tensor: Tensor) -> bool:
    """Whether the copy engine can address it: unit inner stride, 16-byte aligned rows and start."""
    *outer, inner = tensor.stride()
    aligned = all(s > 0 and s * tensor.element_size() % 16 == 0 for s in outer)
    return inner == 1 and aligned and tensor.data_ptr() % 16 == 0


def descriptor(tensor: Tensor, rows: int) -> Any:
    """A descriptor of (rows, head_dim) tiles of one head. Whatever lies outside reads as zero."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    block = [1, 1, rows, block_d(tensor.shape[3])]
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block)


def interpreted() -> bool:
    """Whether this process runs Triton's kernels in its interpreter."""
    return bool(triton.knobs.runtime.interpret)


def capability_of(tensor: Tensor) -> int:
    """Compute capability of the tensor's device, such as 90."""
    major, minor = torch.cuda.get_device_capability(tensor.device)
    return 10 * major + minor


def tiles_for(q: Tensor, keys: Sequence[Tensor]) -> tuple[Tile, ...]:
    """The configurations to tune over; exactly one under the interpreter."""
    if interpreted():
        return (INTERPRETED,)
    descriptors = all(fits_descriptor(tensor) for tensor in keys)
    return forward_tiles(capability_of(q), q.shape[3], q.element_size(), descriptors)


@functools.cache
def tuned_forward(tiles: tuple[Tile, ...], problem: tuple[object, ...]) -> Any:
    """The forward kernel with a tuner of its own for each class of problems."""
    configs = [
        triton.Config(
            {"BLOCK_M": tile.m, "BLOCK_N": tile.n},
            num_warps=tile.warps,
            num_stages=tile.stages,
            pre_hook=_shape_descriptors if tile.descriptors else None,
        )
        for tile in tiles
    ]
    return triton.autotune(configs=configs, key=[])(kernels.flash_forward)


def _shape_descriptors(arguments: dict[str, Any]) -> None:
    for name in ("K", "V"):
        arguments[name].block_shape[2] = arguments["BLOCK_N"]


def forward(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool, causal_offset: int, scale: float, precision: str
) -> tuple[Tensor, Tensor]:
    """Output (batch, heads, seq_len, head_dim) and log₂-sum-exp (batch, heads, seq_len) in float32.

    A row that sees no key has output 0 and log-sum-exp +inf. Raises Unsupported for more programs than a
    grid holds.
    """
    batch, heads, q_len, head_dim = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    log_sum_exp = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    tiles = tiles_for(q, (k, v))
    smallest = min(tile.m for tile in tiles)
    if triton.cdiv(q_len, smallest) * batch * heads > MAX_PROGRAMS:
        raise Unsupported(
            f"batch·heads·seq_len/{smallest} is more than the {MAX_PROGRAMS:,} programs of a grid"
        )
    descriptors = tiles[0].descriptors
    keys, values = (descriptor(k, tiles[0].n), descriptor(v, tiles[0].n)) if descriptors else (k, v)
    bucket = (q.dtype, head_dim, causal, q_len.bit_length(), k.shape[2].bit_length())
    tuned_forward(tiles, bucket)[lambda meta: (triton.cdiv(q_len, meta["BLOCK_M"]) * batch * heads,)](
        q, keys, values, out, log_sum_exp, *strides_of(q, k, v, out),
        heads, heads // k.shape[1], q_len, k.shape[2], causal_offset, scale * math.log2(math.e),
        HEAD_DIM=head_dim, BLOCK_D=block_d(head_dim), CAUSAL=causal, PRECISION=precision,
        DESCRIPTORS=descriptors, WIDE=needs_wide_offsets(q, k, v, out),
    )  # fmt: skip
    return out, log_sum_exp
