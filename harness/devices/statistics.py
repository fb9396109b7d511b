"""Order statistics of timing samples: quantiles with distribution-free intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from harness.types import Measurement

Samples = NDArray[np.float64]


def effective_size(samples: Samples) -> float:
    """Number of independent samples worth the same: n·(1 − ρ₁)/(1 + ρ₁), from 1 to n.

    ρ₁ is the lag-1 autocorrelation (AR(1) model; Law & Kelton, Simulation Modeling and Analysis, §4.4).
    A negative one would make n larger than it is and counts as none.
    """
    n = len(samples)
    centred = samples - samples.mean()
    power = float(centred @ centred)
    if n < 3 or power == 0:
        return float(n)
    rho = float(centred[:-1] @ centred[1:]) / power
    return float(np.clip(n * (1 - rho) / (1 + rho), 1.0, n))


def quantile_interval(samples: Samples, q: float, confidence: float = 0.95) -> tuple[float, float, float]:
    """(quantile, low, high): the interval between two order statistics that holds the q-quantile.

    The ranks come from the binomial distribution of the number of samples below it (Conover, Practical
    Nonparametric Statistics, §3.2), and move apart by √(n / effective n) for autocorrelation. Where so few
    samples cannot hold it with that confidence, the interval is the whole range: below 6 samples for the
    median, below 17 for the 0.2 quantile.
    """
    ordered = np.sort(samples)
    n = len(ordered)
    tail = (1 - confidence) / 2
    ranks = np.array([binom.ppf(tail, n, q), binom.ppf(1 - tail, n, q) + 1])
    widened = n * q + (ranks - n * q) * np.sqrt(n / effective_size(samples))
    low, high = np.clip([np.floor(widened[0]), np.ceil(widened[1])], 1, n).astype(int) - 1
    centre = float(np.quantile(ordered, q))
    return centre, float(min(ordered[low], centre)), float(max(ordered[high], centre))


def relative_width(samples: Samples, q: float) -> float:
    """Width of the 95 % interval of the q-quantile over the quantile; infinite below five samples."""
    if len(samples) < 5:
        return float("inf")
    centre, low, high = quantile_interval(samples, q)
    return (high - low) / centre if centre > 0 else float("inf")


def seconds(samples: tuple[float, ...], q: float) -> Measurement:
    """The q-quantile of timing samples with its interval, and words that say so."""
    value, low, high = quantile_interval(np.array(samples), q)
    name = "median" if q == 0.5 else f"{q:g} quantile"
    note = f"{name} of {len(samples)} samples; 95 % interval between order statistics"
    return Measurement(value, "s", "lower", low, high, samples, note)
