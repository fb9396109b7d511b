"""Units are read and converted, never assumed."""

from __future__ import annotations

from harness.types import BenchError

#: unit -> (unit of storage, what to multiply by)
_SCALES = {
    "s": ("s", 1.0), "sec": ("s", 1.0), "ms": ("s", 1e-3), "us": ("s", 1e-6), "µs": ("s", 1e-6),
    "μs": ("s", 1e-6), "ns": ("s", 1e-9), "B": ("B", 1.0), "bytes": ("B", 1.0), "KB": ("B", 1e3),
    "kB": ("B", 1e3), "MB": ("B", 1e6), "GB": ("B", 1e9), "KiB": ("B", 2.0**10), "MiB": ("B", 2.0**20),
    "GiB": ("B", 2.0**30),
    "J": ("J", 1.0), "mJ": ("J", 1e-3), "FLOP": ("FLOP", 1.0), "FLOP/s": ("FLOP/s", 1.0),
    "GFLOP/s": ("FLOP/s", 1e9), "TFLOP/s": ("FLOP/s", 1e12), "B/s": ("B/s", 1.0), "GB/s": ("B/s", 1e9),
    "1": ("1", 1.0),
}  # fmt: skip


class UnknownUnit(BenchError):
    """A unit that cannot be converted."""


def stored(value: float, unit: str) -> tuple[float, str]:
    """The value in the unit of storage, and that unit. Raises UnknownUnit."""
    if unit not in _SCALES:
        raise UnknownUnit(f"unknown unit {unit!r}; known: {', '.join(_SCALES)}")
    base, scale = _SCALES[unit]
    return value * scale, base
