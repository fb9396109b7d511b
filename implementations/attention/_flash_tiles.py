"""Tiles of the flash kernels: which are tried on which GPU. Plain data: needs neither Triton nor a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: Bytes of shared memory that one block may have, by compute capability.
SHARED_BYTES = {80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376,
                90: 232_448, 100: 232_448, 103: 232_448, 120: 101_376, 121: 101_376}  # fmt: skip
#: What every architecture since 8.0 offers at least.
LEAST_SHARED_BYTES = 101_376


@dataclass(frozen=True, slots=True)
class Tile:
    """One configuration: `m` queries × `n` keys per step, on `warps` warps, copying `stages` steps ahead.

    `descriptors` says that K and V come through the copy engine (TMA) of Hopper and later.
    """

    m: int
    n: int
    warps: int
    stages: int
    descriptors: bool = False

    def shared_bytes(self, block_d: int, itemsize: int) -> int:
        """Shared memory of the forward kernel: the query tile, and K and V tiles in flight."""
        in_flight = 2 * max(1, self.stages - 1)
        return (self.m + in_flight * self.n) * block_d * itemsize + 2048


#: Triton's interpreter runs exactly this one.
INTERPRETED = Tile(64, 64, 4, 1)


def block_d(head_dim: int) -> int:
    """The head dimension as the kernels hold it: a power of two, at least 16."""
    return max(16, 1 << (head_dim - 1).bit_length())


def shared_limit(capability: int) -> int:
    """Shared memory per block, in bytes, of a compute capability such as 90."""
    return SHARED_BYTES.get(capability, LEAST_SHARED_BYTES)


def forward_tiles(capability: int, head_dim: int, itemsize: int, descriptors: bool) -> tuple[Tile, ...]:
    """The forward configurations worth trying, the one expected to be best first."""
    limit, width = shared_limit(capability), block_d(head_dim)
    fitting = [
        tile
        for tile in _candidates(capability, width, itemsize, descriptors and capability >= 90)
        if tile.shared_bytes(width, itemsize) <= limit
    ]
    return tuple(fitting) or (Tile(16, 16, 4, 1),)


def _candidates(capability: int, width: int, itemsize: int, descriptors: bool) -> Iterator[Tile]:
    if itemsize == 4:  # products without tensor cores: registers are the limit
        yield from (Tile(32, 32, 4, 2, descriptors), Tile(32, 32, 8, 2, descriptors))
        yield from (Tile(16, 32, 4, 2, descriptors), Tile(16, 16, 4, 1, descriptors))
        return
    for m, n, warps in ((128, 64, 4), (128, 64, 8), (64, 64, 4), (128, 128, 8), (128, 32, 4), (64, 32, 4)):
        if m * width > 128 * 64 * (warps // 4):  # the accumulator would spill
            continue
        for stages in (3, 4, 2):
            yield Tile(m, n, warps, stages, descriptors)
