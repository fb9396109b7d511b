"""Tiles of the flash kernels: which are tried on which GPU. Plain data: needs neither Triton nor a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from implementations.attention._flash_extra_tiles import EXTRA_SHAPES, Shape

#: The forward kernel, the backward kernel that owns keys (dK, dV) and the one that owns queries (dQ).
Kind = Literal["forward", "keys", "queries"]
#: What a kernel does besides the causal rule; it decides how many registers are left for the tile.
Extra = Literal["none", "boolean", "additive", "window", "lengths"]
KINDS: tuple[Kind, ...] = ("forward", "keys", "queries")
#: The kernels' arguments that are read tile after tile, through pointers or descriptors.
STREAMED: dict[Kind, tuple[str, str]] = {
    "forward": ("K", "V"), "keys": ("Q", "D_OUT"), "queries": ("K", "V"),
}  # fmt: skip

#: Bytes of shared memory that one block may have, by compute capability.
SHARED_BYTES = {80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376,
                90: 232_448, 100: 232_448, 103: 232_448, 120: 101_376, 121: 101_376}  # fmt: skip
#: What every architecture since 8.0 offers at least.
LEAST_SHARED_BYTES = 101_376


@dataclass(frozen=True, slots=True)
class Tile:
    """One configuration: `m` queries × `n` keys per step, on `warps` warps, copying `stages` steps ahead.

    `descriptors` says that streamed tensors come through the copy engine (TMA) of Hopper and later. The
    forward kernel keeps each row's sum in `sums` parts, and multiplies in pairs when `packed`.
    """

    m: int
    n: int
    warps: int
    stages: int
    descriptors: bool = False
    sums: int = 1
    packed: bool = False

    def constants(self, kind: Kind) -> dict[str, int | bool]:
        """The kernel's constants that depend on the tile."""
        blocks: dict[str, int | bool] = {"BLOCK_M": self.m, "BLOCK_N": self.n}
        return {**blocks, "SUMS": self.sums, "PACKED": self.packed} if kind == "forward" else blocks

    def streamed_rows(self, kind: Kind) -> int:
        """Rows of the tiles that are read one after another."""
        return self.m if kind == "keys" else self.n


#: Triton's interpreter runs exactly this one.
INTERPRETED = Tile(64, 64, 4, 1)
#: Rows that one program of the kernel for rowsum(dO ∘ O) takes.
DELTA_ROWS = 64


def block_d(head_dim: int) -> int:
    """The head dimension as the kernels hold it: a power of two, at least 16."""
    return max(16, 1 << (head_dim - 1).bit_length())


def extra_of(mask: str, window: bool, lengths: bool) -> Extra:
    """The dearest of what a kernel does besides the causal rule."""
    if mask == "boolean":
        return "boolean"
    if mask == "additive":
        return "additive"
    return "window" if window else "lengths" if lengths else "none"


def decode_tile(rows: int, head_dim: int, itemsize: int) -> Tile:
    """That of the kernel that splits the keys, for so many rows of queries: reading the keys is all its work,
    and every GPU takes the same."""
    m = max(16, 1 << (rows - 1).bit_length())
    warps = 4 if m * block_d(head_dim) <= 4096 else 8
    found = (Tile(m, n, warps, stages) for n, stages in ((64, 3), (32, 2), (16, 1)))
    return next(
        tile for tile in found
        if shared_bytes("forward", tile, 80, head_dim, itemsize) <= LEAST_SHARED_BYTES or tile.n == 16
    )  # fmt: skip


def shared_limit(capability: int) -> int:
    """Shared memory per block, in bytes, of a compute capability such as 90."""
    return SHARED_BYTES.get(capability, LEAST_SHARED_BYTES)


def shared_bytes(
    kind: Kind, tile: Tile, capability: int, head_dim: int, itemsize: int, extra: Extra = "none"
) -> int:
    """Shared memory that a kernel needs, from above: what it holds, what is in flight, weights, masks."""
    held = {"forward": tile.m, "keys": 2 * tile.n, "queries": 2 * tile.m}[kind]
    # Asynchronous tensor-core instructions read their operands from shared memory a step longer.
    in_flight = 2 * max(1, tile.stages if capability in (90, 100, 103) else tile.stages - 1)
    weights = 0 if kind == "forward" else tile.m * tile.n
    elements = (held + in_flight * tile.streamed_rows(kind)) * block_d(head_dim) + weights
    mask = {"boolean": 1, "additive": 4}.get(extra, 0) * tile.m * tile.n * tile.stages
    return elements * itemsize + mask + 1024


def tiles(
    kind: Kind, capability: int, head_dim: int, itemsize: int, descriptors: bool, extra: Extra = "none"
) -> tuple[Tile, ...]:
    """The configurations worth trying, the one expected to be best first.

    The order comes from compiling ahead of time: no spills, then instructions per score.
    """
    width = block_d(head_dim)
    descriptors = descriptors and _descriptors_pay(kind, capability, width, itemsize)
    chosen = (_tile(kind, shape, capability, width, descriptors)
              for shape in _shapes(kind, capability, width, itemsize, extra))  # fmt: skip
    limit = shared_limit(capability)
    fitting = [
        tile for tile in chosen
        if shared_bytes(kind, tile, capability, head_dim, itemsize, extra) <= limit
    ]  # fmt: skip
    return tuple(fitting) or (Tile(16, 16, 4, 1, descriptors),)


def _descriptors_pay(kind: Kind, capability: int, width: int, itemsize: int) -> bool:
    """Whether the copy engine saves instructions: with the tensor cores that read shared memory it does.

    Compute capability 12.x reads operands into registers, where pointers cost less save for narrow heads;
    float32 products take all registers there are.
    """
    if itemsize == 4:
        return False
    if capability >= 120:
        return kind == "forward" and width <= 64
    return capability >= 90


def _tile(kind: Kind, shape: Shape, capability: int, width: int, descriptors: bool) -> Tile:
    """The shape, and how its rows are best summed and rescaled."""
    m, n, warps, stages = shape
    tensor_memory = capability in (100, 103)
    # In tensor memory a thread holds whole rows; below 9.0 wide heads leave no registers for eight sums.
    one_sum = tensor_memory or (capability < 90 and width > 64)
    return Tile(m, n, warps, stages, descriptors, 1 if one_sum else 8, packed=tensor_memory)


def _shapes(kind: Kind, capability: int, width: int, itemsize: int, extra: Extra) -> list[Shape]:
    if itemsize == 4:
        return _FP32_SHAPES[max(64, width)]
    width = max(64, width)
    family = {8: 80, 9: 90, 10: 100}.get(capability // 10, 120)
    plain, special = _SHAPES[kind, width], EXTRA_SHAPES.get((extra, kind, width), {})
    for shapes in (special, plain):
        for known in (capability, family):
            if known in shapes:
                return shapes[known]
    return plain[80]


#: (kernel, width of the head dimension) -> capability -> (m, n, warps, stages), those of 80 for all others.
_SHAPES: dict[tuple[Kind, int], dict[int, list[Shape]]] = {
    ("forward", 64): {
        80: [(128, 64, 4, 3), (128, 64, 8, 3), (128, 64, 4, 4), (64, 64, 4, 3), (128, 128, 8, 3)],
        86: [(128, 64, 8, 3), (128, 64, 4, 4), (64, 64, 4, 3), (128, 128, 8, 3)],
        89: [(128, 64, 8, 3), (128, 64, 4, 4), (64, 64, 4, 3), (128, 128, 8, 3)],
    },
    ("forward", 128): {
        80: [(128, 64, 8, 3), (128, 64, 8, 2), (128, 32, 8, 4), (128, 32, 8, 3)],
        90: [(128, 64, 8, 3), (128, 128, 8, 2), (128, 64, 8, 2), (64, 64, 4, 3)],
        100: [(128, 64, 8, 3), (128, 128, 8, 2), (128, 64, 8, 2), (64, 64, 4, 3)],
    },
    ("forward", 256): {
        80: [(64, 64, 8, 2), (64, 32, 8, 2), (64, 32, 8, 1)],
        90: [(128, 64, 8, 2), (64, 64, 8, 2), (64, 32, 4, 2)],
    },
    ("keys", 64): {
        80: [(32, 128, 8, 2), (32, 32, 4, 2)],
        90: [(64, 128, 8, 2), (64, 64, 4, 2), (64, 64, 4, 3)],
        100: [(64, 64, 8, 2), (32, 128, 8, 2), (32, 64, 4, 2)],
    },
    ("keys", 128): {
        80: [(16, 128, 8, 2), (64, 64, 8, 2), (32, 32, 4, 2)],
        90: [(32, 128, 8, 2), (64, 64, 8, 2), (64, 128, 8, 2)],
        100: [(32, 64, 8, 2), (64, 64, 8, 2)],
        86: [(32, 32, 4, 2), (16, 128, 8, 2)],
        89: [(32, 32, 4, 2), (16, 128, 8, 2)],
        120: [(32, 32, 4, 2), (16, 128, 8, 2)],
    },
    ("keys", 256): {80: [(32, 32, 8, 1), (16, 64, 8, 1)]},
    ("queries", 64): {
        80: [(128, 64, 8, 2), (128, 64, 8, 3), (64, 64, 4, 2), (128, 32, 8, 2)],
        90: [(128, 64, 8, 2), (64, 64, 4, 2), (64, 64, 4, 3), (128, 64, 8, 3)],
    },
    ("queries", 128): {
        80: [(128, 32, 8, 2), (64, 64, 4, 2), (64, 64, 8, 2)],
        90: [(128, 64, 8, 2), (64, 64, 4, 2), (64, 64, 8, 2)],
        100: [(128, 64, 8, 2), (64, 64, 8, 2)],
    },
    ("queries", 256): {80: [(64, 32, 8, 1), (64, 16, 4, 2)]},
}
#: Products of float32 without tensor cores: registers are the limit.
_FP32_SHAPES: dict[int, list[Shape]] = {
    64: [(32, 32, 8, 2), (16, 32, 4, 2), (16, 16, 4, 1)],
    128: [(16, 32, 4, 2), (32, 32, 8, 2), (16, 16, 4, 1)],
    256: [(16, 16, 8, 1)],
}
