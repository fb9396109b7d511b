"""Results that cannot be: flat while the work grows, or faster than the device can compute or move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from harness.complexity.laws import Array

#: "Flat": over this ratio of sizes the time changes by less than this factor ...
FLAT_RANGE, FLAT_RATIO = 16.0, 1.1
#: ... while the arithmetic grows by at least this one.
WORK_RATIO = 4.0
#: Launching eager kernels can take this long (s) whatever the size; a flat time below it is overhead.
LAUNCH_OVERHEAD = 1e-3
#: Peak figures are rounded and clocks boost; only what beats them by more than this is impossible.
PEAK_SLACK = 1.05


@dataclass(frozen=True)
class Impossibility:
    """One impossible finding: the sizes that it rests on, and the reason in words."""

    sizes: tuple[float, ...]
    reason: str


def roofline_seconds(
    flops: ArrayLike,
    bytes_moved: ArrayLike,
    peak_flops: float | None,
    peak_bandwidth: float | None,
) -> Array:
    """Least time (s) for work of flops (FLOP) and compulsory traffic bytes_moved (B).

    peak_flops in FLOP/s and peak_bandwidth in B/s; None where unknown.  The roofline of Williams,
    Waterman & Patterson (2009): arithmetic and traffic overlap at best, so the longer one counts.
    """
    work, traffic = np.asarray(flops, dtype=np.float64), np.asarray(bytes_moved, dtype=np.float64)
    computing = work / peak_flops if peak_flops else np.zeros(work.shape)
    moving = traffic / peak_bandwidth if peak_bandwidth else np.zeros(traffic.shape)
    return np.asarray(np.maximum(computing, moving))


def faster_than_the_device(
    sizes: ArrayLike,
    seconds: ArrayLike,
    flops: ArrayLike,
    bytes_moved: ArrayLike = 0.0,
    peak_flops: float | None = None,
    peak_bandwidth: float | None = None,
) -> Impossibility | None:
    """Times (m,) below the roofline's, or None. Units as in ``roofline_seconds``."""
    x, t = np.asarray(sizes, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
    least = np.broadcast_to(roofline_seconds(flops, bytes_moved, peak_flops, peak_bandwidth), t.shape)
    below = (t > 0) & (t * PEAK_SLACK < least)
    if not below.any():
        return None
    worst = int(np.argmax(np.where(below, least / np.where(t > 0, t, 1.0), 0.0)))
    return Impossibility(
        tuple(x[below].tolist()),
        f"impossible: at n = {x[worst]:g} the time is {t[worst]:.3g} s, but this device needs at "
        f"least {least[worst]:.3g} s for the arithmetic and traffic claimed",
    )


def flat_while_work_grows(
    sizes: ArrayLike,
    seconds: ArrayLike,
    flops: ArrayLike,
    overhead: float = LAUNCH_OVERHEAD,
) -> Impossibility | None:
    """Times (m,) in s that stay flat over >= 16x in n while the FLOPs grow >= 4x, or None.

    A flat time below ``overhead`` (s) is launch overhead and proves nothing.
    """
    order = np.argsort(np.asarray(sizes, dtype=np.float64), kind="stable")
    x, t, work = (np.asarray(a, dtype=np.float64)[order] for a in (sizes, seconds, flops))
    for first in range(x.size):
        for last in range(x.size - 1, first, -1):
            span = t[first : last + 1]
            wide = x[last] >= FLAT_RANGE * x[first]
            flat = span.min() > overhead and span.max() <= FLAT_RATIO * span.min()
            if wide and flat and work[last] >= WORK_RATIO * work[first]:
                return Impossibility(
                    tuple(x[first : last + 1].tolist()),
                    f"impossible: {span.min():.3g} s to {span.max():.3g} s from n = {x[first]:g} to "
                    f"{x[last]:g}, while the arithmetic grows {work[last] / work[first]:.3g} times",
                )
    return None


def impossibilities(
    sizes: ArrayLike,
    seconds: ArrayLike,
    flops: ArrayLike,
    bytes_moved: ArrayLike = 0.0,
    peak_flops: float | None = None,
    peak_bandwidth: float | None = None,
) -> tuple[Impossibility, ...]:
    """Everything impossible about a sweep; empty if nothing is."""
    found = (
        flat_while_work_grows(sizes, seconds, flops),
        faster_than_the_device(sizes, seconds, flops, bytes_moved, peak_flops, peak_bandwidth),
    )
    return tuple(finding for finding in found if finding is not None)
