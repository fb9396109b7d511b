"""What a quantity is called, and the one unit in which a column or an axis shows it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from harness import format

NAMES = {
    "cpu_time": "CPU time",
    "wall_time": "wall time",
    "own_time": "time (own clock)",
    "gpu_time_cold": "GPU time, cold cache",
    "gpu_time_hot": "GPU time, hot cache",
    "peak_memory": "peak memory",
    "peak_reserved": "peak reserved memory",
    "peak_live_bytes": "counted peak of live bytes",
    "flops": "FLOPs",
    "bytes_touched": "bytes touched",
    "bytes_requested": "bytes requested",
    "error": "relative error",
    "max_abs_error": "largest absolute error",
    "error_ratio": "error ÷ naive error",
    "error_over_floor": "error ÷ error of the mean of V",
    "flop_rate": "useful FLOP rate",
    "byte_rate": "useful byte rate",
    "energy": "energy",
}
_TIMES = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_PREFIXES = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit for a whole column: shown value = stored value / factor."""

    factor: float
    unit: str

    def show(self, value: float) -> str:
        """Four significant digits in this unit."""
        return plain(value / self.factor)

    def head(self, name: str) -> str:
        """A column head: `CPU time (ms)`."""
        return f"{name} ({self.unit})" if self.unit else name


def name(metric: str) -> str:
    """A metric in words; one that is not known here by its own name."""
    if metric in NAMES:
        return NAMES[metric]
    if metric.startswith("grad_"):
        return metric.removeprefix("grad_").replace("_", " ").replace("error", "gradient error")
    return metric.replace("_", " ")


def plain(value: float, digits: int = 4) -> str:
    """A number without a unit; an exponent only where zeros would hide the digits."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e7:
        return format.significant(value, digits)
    return f"{value:.{digits - 1}e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def scale_for(values: Iterable[float], unit: str) -> Scale:
    """The unit that suits the geometric middle of the values."""
    positive = sorted(v for v in values if v > 0)
    middle = math.sqrt(positive[0] * positive[-1]) if positive else 1.0
    if unit == "1":
        return Scale(1.0, "")
    if unit == "s":
        return Scale(*_largest(_TIMES, middle))
    factor, prefix = _largest(_PREFIXES, middle)
    return Scale(factor, prefix + unit)


def _largest(scales: Iterable[tuple[float, str]], value: float) -> tuple[float, str]:
    fitting = [scale for scale in scales if scale[0] <= value]
    return fitting[-1] if fitting else next(iter(scales))


def shown(value: float, unit: str) -> str:
    """One value on its own: `1.23 ms`, `45.6 GFLOP/s`; small ratios with an exponent."""
    if unit == "1":
        return plain(value, 3)
    return format.quantity(value, unit)


def tick(value: float, unit: str) -> str:
    """A number on an axis: `10 µs`, `1 GB`, `0.5`, `1e-3`."""
    if unit == "1":
        return f"{value:g}" if 0.1 <= value < 1000 else brief(value).replace(".0e", "e")
    text = format.quantity(value, unit)
    number, _, rest = text.partition(" ")
    return f"{float(number):g} {rest}" if rest else text


def brief(value: float) -> str:
    """An error: two digits and a plain exponent, 3.4e-3."""
    digits, _, exponent = f"{value:.1e}".partition("e")
    return f"{digits}e{int(exponent)}"


def pretty(law: str) -> str:
    """A law as people write it: n²·d for n^2*d."""
    return law.replace("^2", "²").replace("^3", "³").replace("*", "·")
