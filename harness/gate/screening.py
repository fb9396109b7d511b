"""Screening a value against the history of a baseline. The process is the independent unit.

A breach is a suspicion, not a verdict: fresh paired runs confirm it. Pure functions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: A change is looked into from this share of the baseline, and from so many MADs of its history.
RELATIVE, MADS = 0.05, 4.0
#: Changes below this are never a breach: timers and schedulers are no better (seconds).
FLOOR_SECONDS = 2e-6
#: Process-level values from which a history has a spread.
ENOUGH = 5
#: 1.4826·MAD estimates a normal standard deviation; 1.645 of them are its one-sided 95 %.
SIGMA_PER_MAD, ONE_SIDED = 1.4826, 1.645


@dataclass(frozen=True, slots=True)
class Screen:
    """A value against its history.

    centre      median of the process-level values
    change      of the value, relative to the centre
    spread      MAD over the centre; None below `ENOUGH` values
    threshold   relative change that is a breach
    detectable  relative change that is found 95 times of 100; None without a spread
    """

    centre: float
    processes: int
    spread: float | None
    change: float
    threshold: float
    detectable: float | None

    @property
    def breached(self) -> bool:
        """Whether it is worse by more than noise explains."""
        return self.change > self.threshold

    @property
    def improved(self) -> bool:
        """Whether it is better by more than noise explains."""
        return self.change < -self.threshold


def screen(
    value: float, history: Sequence[float], relative: float = RELATIVE, floor: float = FLOOR_SECONDS
) -> Screen:
    """Screen a value, of which less is better, by max(relative, 4·MAD) and an absolute floor.

    value, history  in one unit; `history` holds one value a process
    Raises ValueError when the history is empty or a number is no positive finite one.
    """
    if not history or not all(math.isfinite(x) and x > 0 for x in (value, *history)):
        raise ValueError(f"screening needs positive numbers, got {value} against {list(history)}")
    centre = statistics.median(history)
    enough = len(history) >= ENOUGH
    spread = statistics.median(abs(x - centre) for x in history) / centre if enough else None
    threshold = max(relative, MADS * (spread or 0.0), floor / centre)
    detectable = None if spread is None else threshold + ONE_SIDED * SIGMA_PER_MAD * spread
    return Screen(centre, len(history), spread, value / centre - 1, threshold, detectable)
