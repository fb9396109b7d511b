"""Numbers for people. Storage is in seconds, bytes and FLOPs; this is the edge where units are chosen."""

from __future__ import annotations

import math

_SECONDS = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_DECIMAL = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"), (1e18, "E"))


def significant(value: float, digits: int = 3) -> str:
    """The number to so many significant digits, without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")  # first, since 0.9997 becomes 1.00
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:.{decimals}f}"


def seconds(value: float) -> str:
    """1.23 ms, 45.6 s; from two minutes on 2 min 5 s, from two hours on 2 h 5 min."""
    if value >= 7200:
        return f"{value // 3600:.0f} h {value % 3600 // 60:.0f} min"
    if value >= 120:
        return f"{int(value // 60)} min {int(value % 60)} s"
    return _scaled(value, _SECONDS)


def quantity(value: float, unit: str) -> str:
    """A stored value with a decimal prefix: 1.23 GB, 45.6 GFLOP/s; ratios plain."""
    if unit == "s":
        return seconds(value)
    if unit == "1":
        return f"{value:.3g}"
    return _scaled(value, tuple((scale, prefix + unit) for scale, prefix in _DECIMAL))


def _scaled(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    # 999.7 of a unit rounds to 1000: it is 1 of the next.
    scale, unit = max(
        (s for s in scales if abs(value) >= s[0] * 0.9995), key=lambda s: s[0], default=scales[0]
    )
    return f"{significant(value / scale)} {unit}".rstrip()
