"""From repeated samples to one log time and its standard error per size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from harness.complexity.laws import Array
from harness.complexity.regimes import Regimes, find_regimes

#: Contention only ever adds time, so a low quantile is nearer to the cost than the median; below
#: this one the standard error grows faster than the bias shrinks.
QUANTILE = 0.25
#: Fewer sizes leave no degree of freedom to doubt a curve of two terms.
MIN_SIZES = 4
KINDS = ("cpu_time", "gpu_time", "count")


@dataclass(frozen=True)
class Summary:
    """Distinct sizes in increasing order, with ln of the cost and its standard error."""

    sizes: Array
    log_cost: Array
    standard_error: Array
    kind: str
    notes: tuple[str, ...] = ()

    @property
    def octaves(self) -> float:
        """Doublings from the smallest to the largest size."""
        return float(np.log2(self.sizes[-1] / self.sizes[0])) if self.sizes.size else 0.0

    @cached_property
    def regimes(self) -> Regimes:
        """Stretches of sizes whose costs follow one polynomial exactly; of use for counts."""
        return find_regimes(self.sizes, self.log_cost)


def summarise(sizes: ArrayLike, samples: Sequence[ArrayLike], kind: str) -> Summary:
    """Pool repeated sizes, drop what has no logarithm, and reduce each size to (ln cost, error).

    sizes (m,); samples: one array of costs per size (seconds, bytes or operations).  Sizes below 1
    and costs that are not positive and finite are left out and named in ``notes``.
    Raises ValueError if the two differ in length or the kind is unknown.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not '{kind}'")
    x = np.atleast_1d(np.asarray(sizes, dtype=np.float64))
    if x.size != len(samples):
        raise ValueError(f"{x.size} sizes but {len(samples)} arrays of samples")
    pooled, notes = _pool(x, samples)
    log_samples = [np.log(pooled[n]) for n in sorted(pooled)]
    quantile = 0.5 if kind == "count" else QUANTILE
    return Summary(
        sizes=np.array(sorted(pooled)),
        log_cost=np.array([_quantile(s, quantile) for s in log_samples]),
        standard_error=_standard_errors(log_samples, quantile, kind),
        kind=kind,
        notes=notes,
    )


def _pool(x: Array, samples: Sequence[ArrayLike]) -> tuple[dict[float, Array], tuple[str, ...]]:
    pooled: dict[float, Array] = {}
    notes = []
    for n, values in zip(x.tolist(), samples, strict=True):
        costs = np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()
        usable = costs[np.isfinite(costs) & (costs > 0)]
        if not np.isfinite(n) or n < 1:
            notes.append(f"size {n:g} left out: laws are judged from size 1 up")
        elif usable.size == 0:
            notes.append(f"size {n:g} left out: no positive cost")
        else:
            pooled[n] = np.concatenate([pooled.get(n, np.empty(0)), usable])
    # Sorted, so that the order in which sizes and repeats arrive cannot change a bit of the result.
    return {n: np.sort(v) for n, v in pooled.items()}, tuple(notes)


def _quantile(log_samples: Array, quantile: float) -> float:
    """An estimate that is not biased by how many samples there are (Hyndman and Fan 1996, definition 8).

    Long calls leave time for few samples: between 10 and 60 of them the usual interpolation differs by half
    a percent at 5 % noise, and cutting all sizes down to the fewest samples loses more than it mends.
    """
    return float(np.quantile(log_samples, quantile, method="median_unbiased"))


def _standard_errors(log_samples: Sequence[Array], quantile: float, kind: str) -> Array:
    """Standard errors of the quantile, each shrunk halfway (in variance) to the common level.

    Order statistics: the rank of the q-quantile among k has standard deviation sqrt(k q (1 - q)), so
    half the distance between the quantiles one deviation either side estimates the standard error
    (Wilks 1948; David & Nagaraja, Order Statistics, sect. 7.1).  A single estimate from 30 samples
    is itself uncertain by about a third; hence the shrinkage.
    """
    own = np.array([_order_statistics_error(s, quantile) for s in log_samples])
    if kind == "count" or not own.size:
        return own
    return np.asarray(np.sqrt((own**2 + np.median(own) ** 2) / 2))


def _order_statistics_error(log_samples: Array, quantile: float) -> float:
    if log_samples.size < 2:
        return 0.0  # unknown; the size-to-size error tau stands in for it
    step = np.sqrt(quantile * (1 - quantile) / log_samples.size)
    low, high = np.quantile(log_samples, np.clip([quantile - step, quantile + step], 0, 1))
    return float(high - low) / 2
