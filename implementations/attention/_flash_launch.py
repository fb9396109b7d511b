"""Launches the flash kernels on tensors: tiles, tuning and grids. Imports Triton."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import triton
from torch import Tensor

from implementations.attention import _flash_backward_kernels as keys_kernels
from implementations.attention import _flash_decode as decode
from implementations.attention import _flash_kernels as forward_kernels
from implementations.attention import _flash_query_kernels as query_kernels
from implementations.attention._flash_arguments import (
    Attention,
    Mask,
    addressing,
    fits_descriptor,
    strides_of,
)
from implementations.attention._flash_tiles import (
    DELTA_ROWS,
    INTERPRETED,
    STREAMED,
    Extra,
    Kind,
    Tile,
    block_d,
    extra_of,
    tiles,
)
from implementations.registry import Unsupported

#: Programs that a grid's first axis may have.
MAX_PROGRAMS = 2**31 - 1


def forward(
    q: Tensor, k: Tensor, v: Tensor, attention: Attention, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Output (batch, heads, seq_len, head_dim) and log₂-sum-exp (batch, heads, seq_len) in float32.

    A row that sees no key has output 0 and log-sum-exp +inf. Few queries to many keys are decoded with the
    keys split. Raises Unsupported for more programs than a grid holds.
    """
    shown = Mask.of(mask, q, k)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    log_sum_exp = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    if decode.pays(q, k, attention):
        decode.launch(q, k, v, out, log_sum_exp, attention, shown)
        return out, log_sum_exp
    launch = Launch("forward", q, k, attention, shown, streamed=(k, v))
    launch(
        launch.rows(launch.q_len, q.shape[1], "BLOCK_M"),
        q, launch.source("K"), launch.source("V"), out, log_sum_exp, *launch.references,
        *strides_of(q, k, v, out), *shown.strides, q.shape[1], *launch.sizes, tensors=(q, k, v, out),
    )  # fmt: skip
    return out, log_sum_exp


def backward(
    d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, log_sum_exp: Tensor, attention: Attention,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """dQ, dK and dV, of the shapes and dtypes of q, k and v."""
    shown = Mask.of(mask, q, k)
    dq, dk, dv = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v))
    delta = _delta(out, d_out)
    tensors = (q, k, v, d_out, dq, dk, dv)
    keys = Launch("keys", q, k, attention, shown, streamed=(q, d_out))
    keys(
        keys.rows(keys.kv_len, k.shape[1], "BLOCK_N"),
        keys.source("Q"), k, v, keys.source("D_OUT"), log_sum_exp, delta, dk, dv, *keys.references,
        *strides_of(q, k, v, d_out, dk, dv), *shown.strides, k.shape[1], *keys.sizes, tensors=tensors,
    )  # fmt: skip
    queries = Launch("queries", q, k, attention, shown, streamed=(k, v))
    queries(
        queries.rows(queries.q_len, q.shape[1], "BLOCK_M"),
        q, queries.source("K"), queries.source("V"), d_out, log_sum_exp, delta, dq, *queries.references,
        *strides_of(q, k, v, d_out, dq), *shown.strides, q.shape[1], *queries.sizes, tensors=tensors,
    )  # fmt: skip
    return dq, dk, dv


def _delta(out: Tensor, d_out: Tensor) -> Tensor:
    """rowsum(dO ∘ O), (batch, heads, seq_len) in float32."""
    batch, heads, q_len, head_dim = out.shape
    delta = torch.empty(out.shape[:3], dtype=torch.float32, device=out.device)
    grid = _within_limits(triton.cdiv(q_len, DELTA_ROWS) * batch * heads)
    with torch.cuda.device_of(out):
        keys_kernels.flash_delta[grid](
            out, d_out, delta, *strides_of(out, d_out), heads, q_len,
            HEAD_DIM=head_dim, BLOCK_D=block_d(head_dim), BLOCK_M=DELTA_ROWS,
            **addressing((out, d_out)),
        )  # fmt: skip
    return delta


class Launch:
    """One launch of a kernel: its tiles, and the tensors it streams as pointers or as descriptors."""

    def __init__(
        self, kind: Kind, q: Tensor, k: Tensor, attention: Attention, mask: Mask,
        streamed: tuple[Tensor, Tensor],
    ) -> None:  # fmt: skip
        self.kind, self.q, self.k, self.attention, self.mask = kind, q, k, attention, mask
        self.streamed = dict(zip(STREAMED[kind], streamed, strict=True))
        lengths = attention.lengths
        self.batch = lengths.count if lengths else q.shape[0]
        self.q_len = lengths.longest if lengths else q.shape[2]
        self.kv_len = lengths.longest if lengths else k.shape[2]
        # A tile of a packed sequence must not show its neighbour, which the copy engine does not know of.
        fits = lengths is None and all(fits_descriptor(tensor) for tensor in streamed)
        extra = extra_of(mask.kind, attention.window_offset is not None, lengths is not None)
        self.tiles = _shaped(_tiles_for(kind, q, fits, extra), attention.tile)

    @property
    def references(self) -> tuple[Tensor | None, Tensor | None]:
        """The kernels' arguments MASK_VALUES and STARTS."""
        lengths = self.attention.lengths
        return self.mask.values, lengths.starts if lengths else None

    @property
    def sizes(self) -> tuple[int | float, ...]:
        """group, q_len, kv_len, both offsets, the scales, tokens: the kernels' scalars."""
        group, attention = self.q.shape[1] // self.k.shape[1], self.attention
        scales = (
            (attention.scale_log2,) if self.kind == "forward" else (attention.scale, attention.scale_log2)
        )
        return group, self.q_len, self.kv_len, *attention.offsets, *scales, self.q.shape[2]

    @property
    def constants(self) -> dict[str, Any]:
        """The kernels' constants that depend on the problem and not on the tile."""
        head_dim, attention = self.q.shape[3], self.attention
        return {
            "HEAD_DIM": head_dim, "BLOCK_D": block_d(head_dim), "CAUSAL": attention.causal,
            "WINDOW": attention.window_offset is not None, "MASK": self.mask.kind,
            "MASK_ROWS": self.mask.differs_by_row, "LENGTHS": attention.lengths is not None,
            "PRECISION": attention.precision, "DESCRIPTORS": self.tiles[0].descriptors,
        }  # fmt: skip

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
        return lambda meta: _within_limits(triton.cdiv(length, meta[block]) * heads * self.batch)

    def __call__(self, grid: Any, *arguments: Any, tensors: Sequence[Tensor]) -> None:
        lengths = (self.q_len.bit_length(), self.kv_len.bit_length())
        constants = self.constants
        kernel = _tuned(self.kind, self.tiles, (self.q.dtype, lengths, *constants.values()))
        with torch.cuda.device_of(self.q):
            kernel[grid](*arguments, **constants, **addressing(tensors, self.mask))


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
        "keys": keys_kernels.flash_backward_keys,
        "queries": query_kernels.flash_backward_queries,
    }[kind]


def _shaped(chosen: tuple[Tile, ...], shape: tuple[int, int] | None) -> tuple[Tile, ...]:
    """The configurations with another tile, where one is asked for."""
    if shape is None:
        return chosen
    m, n = shape
    return tuple(dict.fromkeys(replace(tile, m=m, n=n) for tile in chosen))


def _tiles_for(kind: Kind, q: Tensor, descriptors: bool, extra: Extra) -> tuple[Tile, ...]:
    """The configurations to tune over; exactly one under the interpreter."""
    if triton.knobs.runtime.interpret:
        return (replace(INTERPRETED, descriptors=INTERPRETED.descriptors and descriptors),)
    major, minor = torch.cuda.get_device_capability(q.device)
    return tiles(kind, 10 * major + minor, q.shape[3], q.element_size(), descriptors, extra)
