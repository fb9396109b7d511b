"""Launches the flash kernels on tensors: checks, strides, tiles and tuning. Imports Triton."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from implementations.attention import _flash_backward_kernels as backward_kernels
from implementations.attention import _flash_kernels as forward_kernels
from implementations.attention._flash_tiles import (
    DELTA_ROWS,
    INTERPRETED,
    STREAMED,
    Kind,
    Tile,
    block_d,
    tiles,
)
from implementations.registry import Unsupported

#: Programs that a grid's first axis may have.
MAX_PROGRAMS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Attention:
    """What is computed besides the tensors. Query i may look at keys j ≤ i + causal_offset when causal.

    `precision` is that of float32 products: "ieee" or "tf32". `scale` must be positive.
    """

    scale: float
    causal: bool = False
    causal_offset: int = 0
    precision: str = "ieee"


def forward(q: Tensor, k: Tensor, v: Tensor, attention: Attention) -> tuple[Tensor, Tensor]:
    """Output (batch, heads, seq_len, head_dim) and log₂-sum-exp (batch, heads, seq_len) in float32.

    A row that sees no key has output 0 and log-sum-exp +inf. Raises Unsupported for more programs than a
    grid holds.
    """
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    log_sum_exp = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    launch = Launch("forward", q, k, attention, streamed=(k, v))
    launch(
        launch.rows(q.shape[2], q.shape[1], "BLOCK_M"),
        q, launch.source("K"), launch.source("V"), out, log_sum_exp, *strides_of(q, k, v, out),
        q.shape[1], *launch.sizes, tensors=(q, k, v, out),
    )  # fmt: skip
    return out, log_sum_exp


def backward(
    d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, log_sum_exp: Tensor, attention: Attention
) -> tuple[Tensor, Tensor, Tensor]:
    """dQ, dK and dV, of the shapes and dtypes of q, k and v."""
    dq, dk, dv = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v))
    delta = _delta(out, d_out)
    tensors = (q, k, v, d_out, dq, dk, dv)
    keys = Launch("keys", q, k, attention, streamed=(q, d_out))
    keys(
        keys.rows(k.shape[2], k.shape[1], "BLOCK_N"),
        keys.source("Q"), k, v, keys.source("D_OUT"), log_sum_exp, delta, dk, dv,
        *strides_of(q, k, v, d_out, dk, dv), k.shape[1], *keys.sizes_with_scale, tensors=tensors,
    )  # fmt: skip
    queries = Launch("queries", q, k, attention, streamed=(k, v))
    queries(
        queries.rows(q.shape[2], q.shape[1], "BLOCK_M"),
        q, queries.source("K"), queries.source("V"), d_out, log_sum_exp, delta, dq,
        *strides_of(q, k, v, d_out, dq), q.shape[1], *queries.sizes_with_scale, tensors=tensors,
    )  # fmt: skip
    return dq, dk, dv


def _delta(out: Tensor, d_out: Tensor) -> Tensor:
    """rowsum(dO ∘ O), (batch, heads, seq_len) in float32."""
    batch, heads, q_len, head_dim = out.shape
    delta = torch.empty(out.shape[:3], dtype=torch.float32, device=out.device)
    grid = _within_limits(triton.cdiv(q_len, DELTA_ROWS) * batch * heads)
    with torch.cuda.device_of(out):
        backward_kernels.flash_delta[grid](
            out, d_out, delta, *strides_of(out, d_out), heads, q_len,
            HEAD_DIM=head_dim, BLOCK_D=block_d(head_dim), BLOCK_M=DELTA_ROWS,
            **addressing((out, d_out)),
        )  # fmt: skip
    return delta


class Launch:
    """One launch of a kernel: its tiles, and the tensors it streams as pointers or as descriptors."""

    def __init__(
        self, kind: Kind, q: Tensor, k: Tensor, attention: Attention, streamed: tuple[Tensor, Tensor]
    ) -> None:
        self.kind, self.q, self.k, self.attention = kind, q, k, attention
        self.streamed = dict(zip(STREAMED[kind], streamed, strict=True))
        self.tiles = _tiles_for(kind, q, streamed)

    @property
    def sizes(self) -> tuple[int | float, ...]:
        """group, q_len, kv_len, causal_offset, scale_log2: the kernels' scalars."""
        group, offset = self.q.shape[1] // self.k.shape[1], self.attention.causal_offset
        return group, self.q.shape[2], self.k.shape[2], offset, self.attention.scale * math.log2(math.e)

    @property
    def sizes_with_scale(self) -> tuple[int | float, ...]:
        """The same, with the scale itself before scale_log2."""
        *sizes, scale_log2 = self.sizes
        return *sizes, self.attention.scale, scale_log2

    def source(self, name: str) -> Any:
        """The streamed tensor, or a descriptor of its tiles. Whatever lies outside reads as zero."""
        tensor = self.streamed[name]
        if not self.tiles[0].descriptors:
            return tensor
        from triton.tools.tensor_descriptor import TensorDescriptor

        block = [1, 1, self.tiles[0].streamed_rows(self.kind), block_d(tensor.shape[3])]
        return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block)

    def rows(self, length: int, heads: int, block: str) -> Any:
        """The grid: tiles of the length × heads × batch, on the one axis that has no limit of 65,535."""
        return lambda meta: _within_limits(triton.cdiv(length, meta[block]) * heads * self.q.shape[0])

    def __call__(self, grid: Any, *arguments: Any, tensors: Sequence[Tensor]) -> None:
        head_dim = self.q.shape[3]
        lengths = (self.q.shape[2].bit_length(), self.k.shape[2].bit_length())
        alike = (self.q.dtype, head_dim, self.attention.causal, lengths)
        kernel = _tuned(self.kind, self.tiles, alike)
        with torch.cuda.device_of(self.q):
            kernel[grid](
                *arguments, HEAD_DIM=head_dim, BLOCK_D=block_d(head_dim), CAUSAL=self.attention.causal,
                PRECISION=self.attention.precision, DESCRIPTORS=self.tiles[0].descriptors,
                **addressing(tensors),
            )  # fmt: skip


def _within_limits(programs: int) -> tuple[int]:
    if programs > MAX_PROGRAMS:
        raise Unsupported(f"{programs:,} tiles are more than the {MAX_PROGRAMS:,} programs of a grid")
    return (programs,)


@functools.cache
def _tuned(kind: Kind, tiles: tuple[Tile, ...], alike: tuple[object, ...]) -> Any:
    """The kernel with a tuner of its own for each class of problems that are `alike`."""

    def shape_descriptors(arguments: dict[str, Any]) -> None:
        for name in STREAMED[kind]:
            arguments[name].block_shape[2] = arguments["BLOCK_M" if kind == "keys" else "BLOCK_N"]

    configs = [
        triton.Config(
            tile.constants(kind),
            num_warps=tile.warps,
            num_stages=tile.stages,
            pre_hook=shape_descriptors if tile.descriptors else None,
        )
        for tile in tiles
    ]
    return triton.autotune(configs=configs, key=[])(kernel_of(kind))


def kernel_of(kind: Kind) -> Any:
    """The Triton kernel of that kind."""
    return {
        "forward": forward_kernels.flash_forward,
        "keys": backward_kernels.flash_backward_keys,
        "queries": backward_kernels.flash_backward_queries,
    }[kind]


def _tiles_for(kind: Kind, q: Tensor, streamed: Sequence[Tensor]) -> tuple[Tile, ...]:
    """The configurations to tune over; exactly one under the interpreter."""
    if triton.knobs.runtime.interpret:
        return (INTERPRETED,)
    major, minor = torch.cuda.get_device_capability(q.device)
    descriptors = all(fits_descriptor(tensor) for tensor in streamed)
    return tiles(kind, 10 * major + minor, q.shape[3], q.element_size(), descriptors)


def strides_of(*tensors: Tensor) -> tuple[int, ...]:
    """All strides of (batch, heads, length, head_dim) tensors, in the order of the kernels' arguments."""
    return tuple(stride for tensor in tensors for stride in tensor.stride())


def addressing(tensors: Sequence[Tensor]) -> dict[str, bool]:
    """The kernels' constants on strides.

    WIDE: offsets inside one tile of 256 rows × 256 columns could pass 2^31. EIGHTS: every row begins on a
    boundary of eight elements and of 16 bytes.
    """
    wide = any(256 * (abs(t.stride(2)) + abs(t.stride(3))) >= 2**31 for t in tensors)
    eights = all(t.data_ptr() % 16 == 0 and all(s % 8 == 0 for s in t.stride()[:3]) for t in tensors)
    return {"WIDE": wide, "EIGHTS": eights}


def fits_descriptor(tensor: Tensor) -> bool:
    """Whether the copy engine can address it: unit inner stride, 16-byte aligned rows and start."""
    *outer, inner = tensor.stride()
    aligned = all(s > 0 and s * tensor.element_size() % 16 == 0 for s in outer)
    return inner == 1 and aligned and tensor.data_ptr() % 16 == 0
