"""How many warps of a kernel fit on one multiprocessor at once, from its resources.

Limits from NVIDIA's CUDA C++ Programming Guide (technical specifications per compute capability) and AMD's
CDNA instruction-set manuals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """What one multiprocessor (compute unit) has.

    shared_bytes     shared memory (LDS) for all its blocks
    reserved_shared  bytes that the system takes of it for each block
    tensor_columns   columns of tensor memory; 0 where there is none
    """

    warps: int
    blocks: int
    shared_bytes: int
    warp_size: int = 32
    registers: int = 65_536
    register_unit: int = 256
    warp_unit: int = 4
    shared_unit: int = 128
    reserved_shared: int = 1024
    tensor_columns: int = 0


_AMD = Multiprocessor(warps=32, blocks=32, shared_bytes=65_536, warp_size=64, registers=4 * 512 * 64,
                      register_unit=8 * 64, warp_unit=4, shared_unit=512, reserved_shared=0)  # fmt: skip

#: Target -> its multiprocessor. The order is the one in which people list them.
MULTIPROCESSORS: Mapping[str, Multiprocessor] = {
    "sm_80": Multiprocessor(warps=64, blocks=32, shared_bytes=167_936),
    "sm_86": Multiprocessor(warps=48, blocks=16, shared_bytes=102_400),
    "sm_89": Multiprocessor(warps=48, blocks=24, shared_bytes=102_400),
    "sm_90": Multiprocessor(warps=64, blocks=32, shared_bytes=233_472),
    "sm_100": Multiprocessor(warps=64, blocks=32, shared_bytes=233_472, tensor_columns=512),
    "sm_103": Multiprocessor(warps=64, blocks=32, shared_bytes=233_472, tensor_columns=512),
    "sm_120": Multiprocessor(warps=48, blocks=24, shared_bytes=102_400),
    "gfx90a": _AMD,
    "gfx942": _AMD,
    "gfx950": Multiprocessor(warps=32, blocks=32, shared_bytes=163_840, warp_size=64, registers=4 * 512 * 64,
                             register_unit=8 * 64, shared_unit=1280, reserved_shared=0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident warps over the most there can be (0 when not even one block fits), and what limits them."""

    ratio: float
    blocks: int
    limited_by: str


def occupancy(
    chip: Multiprocessor, *, warps: int, registers: int, shared_bytes: int, tensor_columns: int = 0
) -> Occupancy:
    """Of a kernel with `warps` per block, `registers` per thread, and shared bytes and columns per block."""
    per_warp = _up(registers * chip.warp_size, chip.register_unit)
    by_registers = chip.registers // max(per_warp, 1) // chip.warp_unit * chip.warp_unit // warps
    shared = _up(shared_bytes + chip.reserved_shared, chip.shared_unit)
    limits = {
        "registers": by_registers,
        "shared memory": chip.shared_bytes // shared if shared else chip.blocks,
        "warps": chip.warps // warps,
        "blocks": chip.blocks,
    }
    if tensor_columns:
        limits["tensor memory"] = chip.tensor_columns // tensor_columns
    limit = min(limits, key=lambda name: limits[name])
    blocks = limits[limit]
    return Occupancy(blocks * warps / chip.warps, blocks, limit)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
