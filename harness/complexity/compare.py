"""Questions asked of fits: where two implementations cost the same, and what fits a budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from harness.complexity.fit import Fit
from harness.complexity.laws import Array
from harness.complexity.posterior import Posterior
from harness.complexity.structures import Ints

#: How far beyond the measured sizes a question may reach, as a ratio.
REACH = 4.0
POINTS = 400
LOW, HIGH = 0.025, 0.975
#: Probabilities of fitting at a frontier's ends and middle, and the sizes first tried.
LEVELS = np.array([HIGH, 0.5, LOW])
STEPS = 96
#: Curves per fit that enter a comparison.
MAIN_CURVES = 60
TINY = 1e-24


@dataclass(frozen=True)
class Crossover:
    """A size at which two costs are equal, with its 95 % interval.

    low, high  None where the interval is open within the sizes searched
    cheaper_beyond  0 or 1: which of the two fits is cheaper above it
    extrapolated  whether it lies outside the sizes that both have measured
    """

    size: float
    low: float | None
    high: float | None
    cheaper_beyond: int
    extrapolated: bool


@dataclass(frozen=True)
class Frontier:
    """The largest size within a budget, with its 95 % interval; extrapolated beyond the sweep or not."""

    low: float
    mid: float
    high: float
    extrapolated: bool


def crossovers(first: Fit, second: Fit, reach: float = REACH) -> tuple[Crossover, ...]:
    """Sizes at which the mixtures' predictions intersect, within ``reach`` times the common range.

    At each size the probability that the first costs less is computed from both posteriors (without
    the scatter of single sizes); a crossover is where it passes 1/2, its interval reaches from where
    it passes .025 to where it passes .975.  Empty if either fit has insufficient data.
    """
    if first.posterior is None or second.posterior is None:
        return ()
    sizes = _common_sizes(first, second, reach)
    if sizes.size < 2:
        return ()
    cheaper = probability_cheaper(first, second, sizes)
    passes = np.flatnonzero((cheaper[1:] > 0.5) != (cheaper[:-1] > 0.5))
    measured = _common_sizes(first, second, 1.0)
    return tuple(_at(sizes, cheaper, int(k), measured) for k in passes)


def probability_cheaper(first: Fit, second: Fit, sizes: Array) -> Array:
    """P(first costs less than second) at sizes (s,). Raises ValueError for insufficient data."""
    if first.posterior is None or second.posterior is None:
        raise ValueError("insufficient data: no curve to compare")
    mean_1, variance_1, weight_1 = _main_curves(first.posterior, sizes)
    mean_2, variance_2, weight_2 = _main_curves(second.posterior, sizes)
    deviation = np.sqrt(variance_1[:, None] + variance_2[None] + TINY)
    z = (mean_2[None] - mean_1[:, None]) / deviation
    return np.asarray(np.einsum("i,ijs,j->s", weight_1, ndtr(z), weight_2))


def frontier(fit: Fit, budget: float, largest: float = 2.0**40) -> Frontier | None:
    """Largest size whose predicted cost stays within a budget, in the unit of the samples.

    Meant for peak memory from counts: the largest n that fits a device.  low, mid and high are where
    the probability of fitting falls through .975, .5 and .025.  None if data are insufficient, if not
    even the smallest measured size fits, or if the cost does not reach the budget by size ``largest``.
    """
    if fit.posterior is None or budget <= 0:
        return None
    sizes = np.geomspace(fit.summary.sizes[0], largest, STEPS)
    ends = [_first_below(fit.probability_within(sizes, budget), level) for level in LEVELS]
    if ends[1] in (0, sizes.size):
        return None
    low, mid, high = _largest_within(fit, budget, sizes, np.array(ends))
    return Frontier(low, mid, high, bool(mid > fit.summary.sizes[-1]))


def _first_below(probability: Array, level: float) -> int:
    """Index of the first size that does not fit; their number if all do."""
    below = np.flatnonzero(probability < level)
    return int(below[0]) if below.size else probability.size


def _largest_within(fit: Fit, budget: float, sizes: Array, ends: Ints) -> list[float]:
    """Bisection, for all levels at once, between the last size that fits and the first that does not."""
    low, high = sizes[np.maximum(ends - 1, 0)], sizes[np.minimum(ends, sizes.size - 1)]
    high = np.where(ends == 0, low, high)
    while (high - low > np.maximum(0.5, 1e-9 * high)).any():
        middle = (low + high) / 2
        fits = fit.probability_within(middle, budget) >= LEVELS
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return [float(size) for size in low]


def _main_curves(posterior: Posterior, sizes: Array) -> tuple[Array, Array, Array]:
    """Mean and variance of ln f (N, s) and weight (N,) of the most probable curves."""
    mean, variance = posterior.mixture.curves(sizes)
    top = np.argsort(-posterior.mixture.weight, kind="stable")[:MAIN_CURVES]
    weight = posterior.mixture.weight[top]
    return mean[top], variance[top], weight / weight.sum()


def _common_sizes(first: Fit, second: Fit, reach: float) -> Array:
    low = max(first.summary.sizes[0], second.summary.sizes[0]) / reach
    high = min(first.summary.sizes[-1], second.summary.sizes[-1]) * reach
    return np.geomspace(max(low, 1.0), high, POINTS) if high > max(low, 1.0) else np.empty(0)


def _at(sizes: Array, cheaper: Array, k: int, measured: Array) -> Crossover:
    """The crossover between sizes k and k + 1, interpolated in ln n."""
    logs, rising = np.log(sizes), bool(cheaper[k + 1] > cheaper[k])
    size = _passing(logs, cheaper, k, 0.5)
    low_level, high_level = (LOW, HIGH) if rising else (HIGH, LOW)
    sign = 1 if rising else -1
    before = np.flatnonzero(sign * (cheaper[: k + 1] - low_level) <= 0)
    after = np.flatnonzero(sign * (cheaper[k + 1 :] - high_level) >= 0) + k
    return Crossover(
        size=size,
        low=_passing(logs, cheaper, int(before[-1]), low_level) if before.size else None,
        high=_passing(logs, cheaper, int(after[0]), high_level) if after.size else None,
        cheaper_beyond=0 if rising else 1,
        extrapolated=measured.size == 0 or not measured[0] <= size <= measured[-1],
    )


def _passing(logs: Array, cheaper: Array, k: int, level: float) -> float:
    step = cheaper[k + 1] - cheaper[k]
    part = (level - cheaper[k]) / step if step else 0.5
    return float(np.exp(logs[k] + np.clip(part, 0, 1) * (logs[k + 1] - logs[k])))
