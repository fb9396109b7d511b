"""What the flash kernels are told besides q, k and v: rules, masks, lengths, strides. Needs no Triton."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from implementations.registry import Unsupported


@dataclass(frozen=True, slots=True)
class Lengths:
    """Sequences packed one after another: `starts` int32 on the device, their first tokens and the end (0,
    100, 137, …); `longest` of them."""

    starts: Tensor
    longest: int

    @property
    def count(self) -> int:
        """How many sequences."""
        return len(self.starts) - 1


@dataclass(frozen=True, slots=True)
class Attention:
    """What is computed besides the tensors.

    causal         query i looks at keys j ≤ i + causal_offset
    window_offset  and, unless None, at j ≥ i + window_offset; goes with `causal`
    lengths        packed sequences, each by itself; offsets then hold inside each
    precision      of float32 products: "ieee" or "tf32"
    tile           queries × keys of every kernel's tiles; None: those chosen for the GPU
    `scale` must be positive. Raises ValueError for a window without an upper end.
    """

    scale: float
    causal: bool = False
    causal_offset: int = 0
    precision: str = "ieee"
    window_offset: int | None = None
    lengths: Lengths | None = None
    tile: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.window_offset is not None and not self.causal:
            raise ValueError("window_offset: a window has an upper end too; set causal and causal_offset")

    @property
    def offsets(self) -> tuple[int, int]:
        """causal_offset and window_offset as the kernels take them."""
        return self.causal_offset, self.window_offset or 0

    @property
    def scale_log2(self) -> float:
        """The scale of scores in units of log₂."""
        return self.scale * math.log2(math.e)

    def keys_seen(self, q_len: int, kv_len: int) -> tuple[int, int]:
        """First key, and first beyond the last key, that any query looks at, by the rules alone."""
        first = max(0, self.window_offset or 0)
        end = min(kv_len, q_len + self.causal_offset) if self.causal else kv_len
        return min(first, max(0, end)), max(0, end)


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask as the kernels read it: `values` (batch, heads, seq_len, kv_len), strides 0 where it repeats.

    kind "none", "boolean" (any value but 0 shows the key) or "additive" (in the units of the scores).
    """

    kind: str = "none"
    values: Tensor | None = None

    @property
    def strides(self) -> tuple[int, int, int, int]:
        """In elements; zeros without a mask."""
        return (0, 0, 0, 0) if self.values is None else self.values.stride()  # type: ignore[return-value]

    @property
    def differs_by_row(self) -> bool:
        """Whether queries have masks of their own; a padding mask is one line for all of them."""
        return self.strides[2] != 0

    @classmethod
    def of(cls, mask: Tensor | None, q: Tensor, k: Tensor) -> Mask:
        """From a boolean tensor (True shows the key) or an additive one, broadcastable to (batch, heads,
        seq_len, kv_len). Raises Unsupported for a bias that wants a gradient, ValueError for other shapes."""
        if mask is None:
            return cls()
        if mask.requires_grad:
            raise Unsupported("triton_flash forms no gradient by the additive mask")
        shape = (*q.shape[:3], k.shape[2])
        try:
            values = mask.expand(shape)
        except RuntimeError:
            raise ValueError(f"a mask of shape {tuple(mask.shape)} does not broadcast to {shape}") from None
        if mask.dtype == torch.bool:
            return cls("boolean", values.view(torch.uint8))
        return cls("additive", values)


def strides_of(*tensors: Tensor) -> tuple[int, ...]:
    """All strides of (batch, heads, length, head_dim) tensors, in the order of the kernels' arguments."""
    return tuple(stride for tensor in tensors for stride in tensor.stride())


def addressing(tensors: Sequence[Tensor], mask: Mask | None = None) -> dict[str, bool]:
    """The kernels' constants on strides.

    WIDE: offsets inside one tile of 256 rows × 256 columns could pass 2^31. EIGHTS: every row begins on a
    boundary of eight elements and of 16 bytes.
    """
    strided = [tensor.stride() for tensor in tensors] + [(mask or Mask()).strides]
    wide = any(256 * (abs(strides[2]) + abs(strides[3])) >= 2**31 for strides in strided)
    eights = all(t.data_ptr() % 16 == 0 and all(s % 8 == 0 for s in t.stride()[:3]) for t in tensors)
    return {"WIDE": wide, "EIGHTS": eights}


def fits_descriptor(tensor: Tensor) -> bool:
    """Whether the copy engine can address it: unit inner stride, 16-byte aligned rows and start."""
    *outer, inner = tensor.stride()
    aligned = all(s > 0 and s * tensor.element_size() % 16 == 0 for s in outer)
    return inner == 1 and aligned and tensor.data_ptr() % 16 == 0
