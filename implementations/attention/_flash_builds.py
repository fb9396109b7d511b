"""The flash kernels as ahead-of-time compilation needs them. Imports Triton, but no GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from implementations.attention._flash_decode import MERGED
from implementations.attention._flash_decode_kernels import flash_decode, flash_merge
from implementations.attention._flash_launch import kernel_of
from implementations.attention._flash_tiles import (
    KINDS,
    STREAMED,
    Extra,
    Kind,
    Tile,
    block_d,
    decode_tile,
    extra_of,
    tiles,
)
from implementations.registry import KernelBuild

#: Argument names that are strides: tensor, then dimension (batch, head, length, channel).
STRIDE = re.compile(r"(d?[qkvo]|do)_[bhnd]|mask_[bhmn]")


@dataclass(frozen=True, slots=True)
class Form:
    """What a kernel is compiled for besides its tile: rules, kind of mask, packed sequences."""

    causal: bool = False
    window: bool = False
    mask: str = "none"
    lengths: bool = False

    def __str__(self) -> str:
        return f"causal={self.causal}" + (f", {self.extra}" if self.extra != "none" else "")

    @property
    def extra(self) -> Extra:
        """What the tile must leave registers for."""
        return extra_of(self.mask, self.window, self.lengths)

    @property
    def constants(self) -> dict[str, Any]:
        """The kernels' constants."""
        return {"CAUSAL": self.causal, "WINDOW": self.window, "MASK": self.mask, "MASK_ROWS": True}


HEAD_DIMS = (64, 128)
PLAIN = (Form(), Form(causal=True))
#: Every switch on in one of them.
EXTENDED = (Form(mask="boolean"), Form(mask="additive"), Form(causal=True, window=True),
            Form(causal=True, lengths=True))  # fmt: skip


def chosen_builds(capability: int) -> Iterator[KernelBuild]:
    """Every kernel in the configuration expected to be best on a GPU such as 90, in float16.

    Masks, windows and packed lengths at the wider head dimension, where they leave the fewest registers.
    """
    yield from builds(capability, PLAIN, HEAD_DIMS)
    yield from builds(capability, EXTENDED, HEAD_DIMS[-1:])
    for head_dim in HEAD_DIMS:
        yield decode_build(decode_tile(1, head_dim, 2), head_dim, Form(causal=True))
    yield merge_build(max(HEAD_DIMS))


def builds(capability: int, forms: Sequence[Form], head_dims: Sequence[int]) -> Iterator[KernelBuild]:
    """The forward kernel and both backward ones in these forms."""
    for kind in KINDS:
        for head_dim in head_dims:
            for form in forms:
                tile = tiles(kind, capability, head_dim, 2, not form.lengths, form.extra)[0]
                yield build(kind, tile, head_dim, form)


def build(
    kind: Kind, tile: Tile, head_dim: int, form: Form, dtype: str = "fp16", precision: str = "ieee"
) -> KernelBuild:
    """One kernel for contiguous tensors."""
    streamed = STREAMED[kind] if tile.descriptors else ()
    descriptor = f"tensordesc<{dtype}[1,1,{tile.streamed_rows(kind)},{block_d(head_dim)}]>"
    constants = {
        **tile.constants(kind), **form.constants, "LENGTHS": form.lengths, "PRECISION": precision,
        "DESCRIPTORS": tile.descriptors, "WIDE": False, "EIGHTS": True,
    }  # fmt: skip
    return _build(
        kernel_of(kind), tile, head_dim, form, dtype, constants, dict.fromkeys(streamed, descriptor)
    )


def decode_build(tile: Tile, head_dim: int, form: Form, dtype: str = "fp16") -> KernelBuild:
    """The kernel that splits the keys."""
    constants = {**tile.constants("keys"), **form.constants, "PRECISION": "ieee", "WIDE": False,
                 "EIGHTS": True}  # fmt: skip
    return _build(flash_decode, tile, head_dim, form, dtype, constants)


def merge_build(head_dim: int, dtype: str = "fp16") -> KernelBuild:
    """The kernel that merges what the split keys gave."""
    return _build(flash_merge, Tile(1, 1, 4, 3), head_dim, Form(), dtype, {"BLOCK_S": MERGED})


def _build(
    kernel: Any, tile: Tile, head_dim: int, form: Form, dtype: str, constants: Mapping[str, Any],
    types: Mapping[str, str] | None = None,
) -> KernelBuild:  # fmt: skip
    """With `types` for the arguments whose names do not tell them."""
    names: list[str] = kernel.arg_names
    unit_strides = {name: 1 for name in names if re.fullmatch(r"(d?[qkvo]|do)_d|mask_n", name)}
    absent = {"MASK_VALUES": form.mask == "none", "STARTS": not form.lengths}
    constexprs = {
        **unit_strides, **{name: None for name, gone in absent.items() if gone and name in names},
        "HEAD_DIM": head_dim, "BLOCK_D": block_d(head_dim), **constants,
    }  # fmt: skip
    mask = {"MASK_VALUES": "*u8" if form.mask == "boolean" else f"*{dtype}"}
    signature = {
        name: "constexpr" if name in constexprs else {**mask, **(types or {})}.get(name) or _type(name, dtype)
        for name in names
    }
    return KernelBuild(
        name=f"{kernel.__name__}[head_dim={head_dim}, {form}]",
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


def _type(name: str, dtype: str) -> str:
    """The Triton type of an argument, by its name."""
    if name in ("LOG_SUM_EXP", "DELTA", "PARTS", "PART_SUMS"):
        return "*fp32"
    if name == "STARTS":
        return "*i32"
    if name.isupper():
        return f"*{dtype}"
    return "fp32" if name.startswith("scale") else "i32"
