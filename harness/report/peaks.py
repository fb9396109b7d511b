"""Peak arithmetic and memory bandwidth of well-known NVIDIA GPUs, by the name that the driver tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.types import DeviceInfo, Scalar

_HALF = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Peak:
    """What one device can do at most, without sparsity.

    pattern    what its name holds; of several rows the first that matches counts
    half, tf32, float32, float64   FLOP/s of matrix products: tensor cores where there are any
    bandwidth  B/s of device memory
    boost_mhz  the clock at which the arithmetic is stated
    source     where the figures are from
    """

    pattern: str
    half: float
    tf32: float
    float32: float
    float64: float
    bandwidth: float
    boost_mhz: float
    source: str


def _row(
    pattern: str, tera: tuple[float, float, float, float], bandwidth_tb: float, boost: float, source: str
) -> Peak:
    """TFLOP/s (half, tf32, float32, float64), TB/s and MHz in the units of `Peak`."""
    half, tf32, single, double = (1e12 * rate for rate in tera)
    return Peak(pattern, half, tf32, single, double, 1e12 * bandwidth_tb, boost, f"NVIDIA {source}")


#: Dense rates.  Data sheets state tensor-core rates of Ada and later with sparsity: halved here.  GeForce:
#: with float16 accumulation, the faster of the two.  No TF32 before Ampere: float32 stands in its place.
PEAKS = (
    _row("B200", (2250, 1125, 75, 37), 8.0, 1855, "Blackwell datasheet (HGX B200)"),
    _row("GH200", (989.4, 494.7, 66.9, 66.9), 4.9, 1830, "GH200 Grace Hopper datasheet"),
    _row("H200 NVL", (835.5, 417.5, 60, 60), 4.8, 1545, "H200 datasheet"),
    _row("H200", (989.4, 494.7, 66.9, 66.9), 4.8, 1830, "H200 datasheet; H100 architecture whitepaper"),
    _row("H100 NVL", (835.5, 417.5, 60, 60), 3.9, 1545, "H100 datasheet"),
    _row("H100 PCIe", (756, 378, 51.2, 51.2), 2.04, 1620, "H100 datasheet; H100 architecture whitepaper"),
    _row("H100", (989.4, 494.7, 66.9, 66.9), 3.35, 1830, "H100 datasheet; H100 architecture whitepaper"),
    _row("A100.*80GB", (312, 156, 19.5, 19.5), 2.04, 1410, "A100 datasheet"),
    _row("A100", (312, 156, 19.5, 19.5), 1.56, 1410, "A100 datasheet"),
    _row("A10$", (125, 62.5, 31.2, 0.98), 0.6, 1695, "A10 datasheet"),
    _row("A40$", (149.7, 74.8, 37.4, 0.58), 0.696, 1740, "A40 datasheet"),
    _row("RTX A6000", (154.8, 77.4, 38.7, 0.6), 0.768, 1800, "RTX A6000 datasheet; GA102 whitepaper"),
    _row("L40S", (366, 183, 91.6, 1.43), 0.864, 2520, "L40S datasheet"),
    _row("L4$", (121, 60, 30.3, 0.49), 0.3, 2040, "L4 datasheet"),
    _row("V100", (125, 15.7, 15.7, 7.8), 0.9, 1530, "V100 datasheet"),
    _row("T4$", (65, 8.1, 8.1, 0.25), 0.32, 1590, "T4 datasheet"),
    _row("RTX 5090$", (419, 104.8, 104.8, 1.64), 1.792, 2407, "RTX Blackwell GPU architecture whitepaper"),
    _row("RTX 4090$", (330.3, 82.6, 82.6, 1.3), 1.008, 2520, "Ada GPU architecture whitepaper"),
    _row("RTX 3090$", (142, 35.6, 35.6, 0.56), 0.936, 1695, "GA102 GPU architecture whitepaper"),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device can do at most for one dtype: FLOP/s and B/s, and in words whose figures they are."""

    flops: float
    bandwidth: float
    words: str


def peak_of(device: DeviceInfo) -> Peak | None:
    """The row of a device, or None where no peak is known."""
    if device.kind != "cuda":
        return None
    return next((peak for peak in PEAKS if re.search(rf"\b{peak.pattern}", device.name)), None)


def limits(device: DeviceInfo, dtype: Scalar) -> Limits | None:
    """The limits of a device for a dtype, or None where no peak is known.

    float32 is held against TF32, which third parties' kernels may use whatever was asked for; an unknown
    dtype against the fastest. Arithmetic is scaled up where the device's highest clock exceeds the stated.
    """
    peak = peak_of(device)
    if peak is None:
        return None
    rates: Mapping[Scalar, tuple[float, str]] = {
        "float32": (max(peak.tf32, peak.float32), "TF32 or float32"),
        "float64": (peak.float64, "float64"),
        **dict.fromkeys(_HALF, (peak.half, "dense half precision")),
    }
    rate, words = rates.get(dtype, (peak.half, "dense half precision"))
    rate *= _clock(device, peak)
    return Limits(
        rate,
        peak.bandwidth,
        f"{rate / 1e12:.4g} TFLOP/s {words} and {peak.bandwidth / 1e12:.3g} TB/s ({peak.source})",
    )


def _clock(device: DeviceInfo, peak: Peak) -> float:
    """How much faster than at the stated clock the device can run; at least 1."""
    highest = device.facts.get("sm_clock_max_mhz")
    return max(1.0, highest / peak.boost_mhz) if isinstance(highest, int | float) else 1.0
