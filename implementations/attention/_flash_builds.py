"""The flash kernels as ahead-of-time compilation needs them. Imports Triton, but no GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from implementations.attention._flash_launch import kernel_of
from implementations.attention._flash_tiles import KINDS, STREAMED, Kind, Tile, block_d, tiles
from implementations.registry import KernelBuild

#: Argument names that are strides: tensor, then dimension (batch, head, length, channel).
STRIDE = re.compile(r"d?[qkvo]_[bhnd]|do_[bhnd]")


def chosen_builds(capability: int, head_dims: tuple[int, ...] = (64, 128)) -> Iterator[KernelBuild]:
    """Every kernel in the configuration expected to be best on a GPU such as 90, in float16."""
    for kind in KINDS:
        for head_dim in head_dims:
            tile = tiles(kind, capability, head_dim, 2, descriptors=True)[0]
            for causal in (False, True):
                yield build(kind, tile, head_dim, causal)


def build(
    kind: Kind, tile: Tile, head_dim: int, causal: bool, dtype: str = "fp16", precision: str = "ieee"
) -> KernelBuild:
    """One kernel for contiguous tensors."""
    kernel = kernel_of(kind)
    names: list[str] = kernel.arg_names
    inner_strides = {name: 1 for name in names if STRIDE.fullmatch(name) and name.endswith("_d")}
    constexprs = {
        **inner_strides, "HEAD_DIM": head_dim, "BLOCK_D": block_d(head_dim),
        **tile.constants(kind), "CAUSAL": causal, "PRECISION": precision, "DESCRIPTORS": tile.descriptors,
        "WIDE": False, "EIGHTS": True,
    }  # fmt: skip
    signature = {name: _type(name, kind, tile, head_dim, constexprs, dtype) for name in names}
    return KernelBuild(
        name=f"{kernel.__name__}[head_dim={head_dim}, causal={causal}]",
        kernel=kernel,
        signature=signature,
        constexprs=constexprs,
        num_warps=tile.warps,
        num_stages=tile.stages,
        divisible_by_16=tuple(
            name
            for name, type_ in signature.items()
            if type_.startswith("*") or (type_ == "i32" and STRIDE.fullmatch(name))
        ),
    )


def _type(
    name: str, kind: Kind, tile: Tile, head_dim: int, constexprs: Mapping[str, object], dtype: str
) -> str:
    """The Triton type of an argument."""
    if name in constexprs:
        return "constexpr"
    if name in STREAMED[kind] and tile.descriptors:
        return f"tensordesc<{dtype}[1,1,{tile.streamed_rows(kind)},{block_d(head_dim)}]>"
    if name in ("LOG_SUM_EXP", "DELTA"):
        return "*fp32"
    if name.isupper():
        return f"*{dtype}"
    return "fp32" if name.startswith("scale") else "i32"
