"""Statistics of paired measurements: quads of samples, a robust interval, and looks that may stop early.

Two builds are sampled A B B A (then B A A B), so that a drift that is linear over a quad cancels. A quad
gives one difference, d = ½ (Σ ln B − Σ ln A): the logarithm of how many times as long B takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from harness.gate.findings import Decision as Decision

#: Numbers of quads at which a verdict may fall; each look spends an equal share of `ALPHA` (Bonferroni).
LOOKS = (4, 6, 8, 12, 16, 24, 32, 40)
ALPHA = 0.01
TRIM = 0.2
#: Slower when surely beyond the first, the same when surely below the second; logarithms of ratios.
SLOWER, SAME = math.log1p(0.01), math.log1p(0.04)
#: The share of real changes that are to be found, where a smallest detectable change is stated.
POWER = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A trimmed mean of logarithms of ratios, its interval, and its standard error."""

    centre: float
    low: float
    high: float
    error: float


def difference(a: Sequence[float], b: Sequence[float]) -> float:
    """The difference of one quad, from two samples of each side, in seconds.

    Raises ValueError unless there are two of each and all are positive and finite.
    """
    if len(a) != 2 or len(b) != 2 or not all(math.isfinite(x) and x > 0 for x in (*a, *b)):
        raise ValueError(f"a quad needs two positive times of each side, got {list(a)} and {list(b)}")
    return 0.5 * (math.log(b[0]) + math.log(b[1]) - math.log(a[0]) - math.log(a[1]))


def interval(differences: Sequence[float], level: float = 1 - ALPHA / len(LOOKS)) -> Interval:
    """The 20 % trimmed mean with its two-sided t interval of Yuen (1974, Biometrika 61, 165).

    With h values left after trimming and s²w the winsorised variance, the squared standard error is
    (n − 1)·s²w / (h·(h − 1)), with h − 1 degrees of freedom. Raises ValueError below two values.
    """
    n = len(differences)
    if n < 2:
        raise ValueError("an interval needs at least two quads")
    ordered = np.sort(np.asarray(differences, dtype=float))
    cut = math.floor(TRIM * n)
    kept = n - 2 * cut
    winsorised = np.clip(ordered, ordered[cut], ordered[n - 1 - cut])
    error = math.sqrt((n - 1) * float(np.var(winsorised, ddof=1)) / (kept * (kept - 1)))
    centre = float(np.mean(ordered[cut : n - cut]))
    reach = float(stdtrit(kept - 1, 0.5 + level / 2)) * error
    return Interval(centre, centre - reach, centre + reach, error)


def decide(differences: Sequence[float]) -> Decision:
    """The verdict at a look: at any other number of quads it is undecided, lest it be looked at too often."""
    if len(differences) not in LOOKS:
        return Decision.UNDECIDED
    found = interval(differences)
    if found.low > SLOWER:
        return Decision.SLOWER
    if found.high < -SLOWER:
        return Decision.FASTER
    last = len(differences) == LOOKS[-1]
    same = found.high < SAME and (found.low > -SAME or last)  # perhaps faster: look on
    return Decision.SAME if same else Decision.UNDECIDED


def detectable(differences: Sequence[float]) -> float | None:
    """The smallest relative slowdown that `LOOKS[-1]` quads as noisy as these find with probability `POWER`.

    The lower bound must pass `SLOWER`: δ = SLOWER + (t(1 − α/16) + t(POWER))·error at the last look.
    None below four quads, which tell nothing of the noise.
    """
    if len(differences) < LOOKS[0]:
        return None
    error = interval(differences).error * math.sqrt(len(differences) / LOOKS[-1])
    freedom = LOOKS[-1] - 2 * math.floor(TRIM * LOOKS[-1]) - 1
    reach = float(stdtrit(freedom, 1 - ALPHA / len(LOOKS) / 2) + stdtrit(freedom, POWER))
    return math.expm1(SLOWER + reach * error)
