"""Order statistics of timing samples: quantiles with distribution-free intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

Samples = NDArray[np.float64]


def effective_size(samples: Samples) -> float:
    """Number of independent samples worth the same: n·(1 − ρ₁)/(1 + ρ₁), at most n.

    ρ₁ is the lag-1 autocorrelation (AR(1) model; Law & Kelton, Simulation Modeling and Analysis, §4.4).
    """
    n = len(samples)
    centred = samples - samples.mean()
    power = float(centred @ centred)
    if n < 3 or power == 0:
        return float(n)
    rho = float(centred[:-1] @ centred[1:]) / power
    return n * min(1.0, (1 - rho) / (1 + rho)) if rho < 1 else 1.0


def quantile_interval(samples: Samples, q: float, confidence: float = 0.95) -> tuple[float, float, float]:
    """(quantile, low, high): the interval between two order statistics that holds the q-quantile.

    The ranks come from the binomial distribution of the number of samples below it, widened for
    autocorrelation by √(n / effective n) (Conover, Practical Nonparametric Statistics, §3.2). Where so
    few samples cannot hold it with that confidence, the interval is the whole range.
    """
    ordered = np.sort(samples)
    n = len(ordered)
    centre = float(np.quantile(ordered, q))
    tail = (1 - confidence) / 2
    widen = float(np.sqrt(n / effective_size(samples)))
    low_rank = _widened(float(binom.ppf(tail, n, q)), n * q, widen)
    high_rank = _widened(float(binom.ppf(1 - tail, n, q)) + 1, n * q, widen)
    low = ordered[int(np.clip(np.floor(low_rank) - 1, 0, n - 1))]
    high = ordered[int(np.clip(np.ceil(high_rank) - 1, 0, n - 1))]
    return centre, float(min(low, centre)), float(max(high, centre))


def _widened(rank: float, centre: float, factor: float) -> float:
    return centre + (rank - centre) * factor


def relative_width(samples: Samples, q: float) -> float:
    """Width of the 95 % interval of the q-quantile over the quantile; infinite below five samples."""
    if len(samples) < 5:
        return float("inf")
    centre, low, high = quantile_interval(samples, q)
    return (high - low) / centre if centre > 0 else float("inf")
