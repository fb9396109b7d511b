# mypy: ignore-errors
# Triton's language is parsed by Triton, not run by Python. Imported on first use only.
"""What the flash kernels share: where tiles and masks lie in memory, and how they are read."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


def form_in_name(name: str):
    """A kernel's name on the device: it ends in how K and V, or Q and dO, were read."""

    def named(specialization) -> str:
        return f"{name}_{'tma' if specialization.constants['DESCRIPTORS'] else 'pointers'}"

    return named


@triton.jit
def element_offset(index, stride):
    """index·stride elements, in 64 bits: row 70,000 of stride 65,536 lies past 2^32."""
    return tl.cast(index, tl.int64) * stride


@triton.jit
def tile_offsets(rows, columns, row_stride, column_stride, WIDE: tl.constexpr, EIGHTS: tl.constexpr):
    """Offsets inside one tile; 32 bits do unless the strides are huge, and cost half the registers.

    EIGHTS promises row strides of whole eights: head dimensions such as 40 are then read 16 bytes at a time
    too (by itself Triton knows of multiples of 16 only).
    """
    if WIDE:
        rows, columns = rows.to(tl.int64), columns.to(tl.int64)
    row_offsets = rows[:, None] * row_stride
    if EIGHTS:
        row_offsets = tl.multiple_of(row_offsets, [8, 8])
    return row_offsets + columns[None, :] * column_stride


@triton.jit
def row_pointer(SOURCE, b, b_stride, h, h_stride, first, stride, EIGHTS: tl.constexpr):
    """Where row `first` of one head begins; on a boundary of 16 bytes if EIGHTS promises it."""
    offset = element_offset(b, b_stride) + element_offset(h, h_stride) + element_offset(first, stride)
    pointer = SOURCE + offset
    if EIGHTS:
        pointer = tl.multiple_of(pointer, 16)
    return pointer


@triton.jit
def first_tile(
    SOURCE, first, stride, column_stride,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, DESCRIPTORS: tl.constexpr, WIDE: tl.constexpr,
    EIGHTS: tl.constexpr,
):  # fmt: skip
    """Where the tile that begins at row `first` of one head is read from: pointers, or the descriptor."""
    source = SOURCE
    if not DESCRIPTORS:
        rows, columns = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
        source += element_offset(first, stride)
        if EIGHTS:
            source = tl.multiple_of(source, 16)
        source += tile_offsets(rows, columns, stride, column_stride, WIDE, EIGHTS)
    return source


@triton.jit
def load_tile(
    source, first, b, h, count,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    DESCRIPTORS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Rows first … first + BLOCK_N of one head, (BLOCK_N, BLOCK_D); zero outside the tensor."""
    columns = tl.arange(0, BLOCK_D)[None, :]
    if DESCRIPTORS:  # the copy engine fills with zeros by itself
        tile = source.load([b, h, first, 0]).reshape(BLOCK_N, BLOCK_D)
    elif MASKED:
        rows = first + tl.arange(0, BLOCK_N)[:, None]
        tile = tl.load(source, mask=(rows < count) & (columns < HEAD_DIM), other=0.0)
    elif HEAD_DIM < BLOCK_D:
        tile = tl.load(source, mask=columns < HEAD_DIM, other=0.0)
    else:
        tile = tl.load(source)
    return tile


@triton.jit
def sequence(STARTS, number):
    """First token and length of one of the packed sequences."""
    start = tl.load(STARTS + number)
    return start, tl.load(STARTS + number + 1) - start


@triton.jit
def masked_scores(scores, scale_log2, mask, MASK: tl.constexpr):
    """Scores in units of log₂ under a mask, of the scores' shape or broadcast to it: MASK is "boolean" (any
    value but 0 shows the key) or "additive"."""
    if MASK == "boolean":
        scores = tl.where(mask != 0, scores * scale_log2, float("-inf"))
    else:
        scores = scores * scale_log2 + mask.to(tl.float32) * LOG2_E
    return scores


@triton.jit
def mask_lines(
    MASK_VALUES, b, mask_b, h, mask_h, start, first, count, stride, other_stride,
    BLOCK: tl.constexpr, LINES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Where the mask of BLOCK queries (or keys) from `first` on begins, and which of them exist: both
    (BLOCK, 1), or (1, 1) where one line stands for all. `stride` leads to the next of them, `other_stride` to
    the next key (query); `start` is the first token of a packed sequence."""
    lines = tl.arange(0, BLOCK if LINES else 1)
    source = MASK_VALUES + element_offset(start, other_stride)
    base = row_pointer(source, b, mask_b, h, mask_h, start + first, stride, False)
    base += tile_offsets(lines, tl.arange(0, 1), stride, other_stride, WIDE, False)
    return base, (first + lines < count)[:, None]
