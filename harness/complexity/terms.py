"""Known forms in several variables: the cost is a sum of given columns; their coefficients with doubt.

For n^2*d_model + n*d_model^2 the columns are the values of those two terms at each measured problem;
``crossover`` then says where they are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls
from scipy.special import logsumexp, ndtr

from harness.complexity.evidence import SHARE_VARIANCE, tau_grid
from harness.complexity.laws import Array
from harness.complexity.mixture import CLASS_SHARE, mixture_quantiles
from harness.complexity.summary import Summary, summarise
from harness.complexity.verdict import CONFIRMED, HIDDEN_SHARE, INCONCLUSIVE, MAX_TAU, REFUTED

LEVELS = (0.025, 0.5, 0.975)
#: Prior probability that a constant overhead stands beside the given columns.
PRIOR_OVERHEAD = 0.5
GAUSS_NEWTON_STEPS = 4
#: Of ln time, from real sweeps of layers, products and attention with their two largest sizes held out.
DRIFT_PER_DOUBLING = 0.03
#: Ratios beyond e^30 of the expected one count as unbounded.
SPAN = 30.0


class Estimate(NamedTuple):
    """A value with its central 95 % interval."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True)
class Seen:
    """Whether a term of the form is seen: "confirmed", "refuted" or "inconclusive", and why."""

    word: str
    reason: str


@dataclass(frozen=True, eq=False)
class Terms:
    """The posterior of a sum of K given terms: N weighted Gaussians over non-negative coefficients.

    coefficients  an Estimate per column, in the samples' unit per unit of the column
    shares        an Estimate per column: of the cost, at the problem where this term counts most
    scatter       problem-to-problem error that repeats do not explain (log units)
    reach         the largest measured value of each column (K,)
    drift         standard deviation of ln cost per doubling of a column beyond its reach
    weight, tau (N,), mean (N, K + 1), covariance (N, K + 1, K + 1): the Gaussians, a constant overhead
    being the last term, for further questions
    """

    coefficients: tuple[Estimate, ...]
    shares: tuple[Estimate, ...]
    scatter: float
    reach: Array
    drift: float
    weight: Array
    tau: Array
    mean: Array
    covariance: Array

    @property
    def intervals(self) -> tuple[tuple[float, float], ...]:
        """The 95 % intervals of the coefficients."""
        return tuple((c.low, c.high) for c in self.coefficients)

    def verdict(self, i: int) -> Seen:
        """Whether term i, of a form that is taken as given, is part of the cost of the measured problems."""
        low, _, high = self.shares[i]
        if self.scatter > MAX_TAU:
            return Seen(
                INCONCLUSIVE, f"the form misses the costs by {self.scatter:.0%}: another term is needed"
            )
        if low >= CLASS_SHARE:
            return Seen(CONFIRMED, f"{low:.0%} to {high:.0%} of the cost where it counts most")
        if high <= HIDDEN_SHARE:
            return Seen(REFUTED, f"at most {high:.1%} of the cost of any problem measured")
        return Seen(
            INCONCLUSIVE,
            f"{low:.0%} to {high:.0%} of the cost where it counts most: measure where it is larger",
        )

    def predict(self, columns: Sequence[ArrayLike] | Mapping[str, ArrayLike]) -> Array:
        """Low, mid and high (95 %) of the cost of k new problems, (k, 3), given their K columns (k,).

        A form has no regime changes: what caches and tiles may yet do is a drift beyond the columns measured.
        """
        parts = columns.values() if isinstance(columns, Mapping) else columns
        table = np.stack([np.atleast_1d(np.asarray(p, dtype=np.float64)) for p in parts], axis=1)
        design = np.column_stack([table, np.ones(len(table))])
        cost = np.maximum(self.mean @ design.T, 1e-300)
        variance = np.einsum("kc,ncd,kd->nk", design, self.covariance, design) / cost**2
        beyond = np.log2(np.maximum(table / self.reach, 1.0)).max(axis=1)
        deviation = np.sqrt(np.maximum(variance, 0.0) + self.tau[:, None] ** 2 + (self.drift * beyond) ** 2)
        return np.exp(mixture_quantiles(np.log(cost), deviation, self.weight, LEVELS))

    def crossover(self, i: int, j: int) -> Estimate:
        """The ratio x_i / x_j of the columns at which both terms cost the same, which is c_j / c_i.

        For columns n^2*d and n*d^2 that is n/d.  An end that the data do not bound is 0 or inf.
        Derivation: c_j - r c_i is Gaussian for fixed r, so P(ratio <= r) is its lower tail
        (Fieller 1954), averaged over the mixture.
        """
        level = np.array(LEVELS)
        low, high = (np.full(3, np.log(self._scale(i, j)) + side) for side in (-SPAN, SPAN))
        for _ in range(64):
            middle = (low + high) / 2
            below = self._ratio_below(i, j, np.exp(middle)) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        top = np.log(self._scale(i, j)) + SPAN
        bounds = np.where(high >= top - 1e-9, np.inf, np.exp((low + high) / 2))
        bounds = np.where(low <= top - 2 * SPAN + 1e-9, 0.0, bounds)
        return Estimate(*bounds.tolist())

    def _ratio_below(self, i: int, j: int, ratio: Array) -> Array:
        """P(c_j / c_i <= ratio) for ratios (r,)."""
        cov = self.covariance
        r = ratio[:, None]
        variance = cov[:, j, j] - 2 * r * cov[:, i, j] + r**2 * cov[:, i, i]
        z = (r * self.mean[:, i] - self.mean[:, j]) / np.sqrt(np.maximum(variance, 1e-300))
        return np.asarray(ndtr(z) @ self.weight)

    def _scale(self, i: int, j: int) -> float:
        """A ratio of the right order of magnitude, to centre the search."""
        i_size, j_size = (max(self.coefficients[k].high, 1e-300) for k in (i, j))
        return j_size / i_size


@dataclass(frozen=True, eq=False)
class _Component:
    """One Gaussian: fit at one tau, with or without overhead, which is the last coefficient."""

    log_weight: float
    tau: float
    mean: Array
    covariance: Array

    def padded(self, count: int) -> _Component:
        """With zeros for an overhead that it has not."""
        missing = count - self.mean.size
        mean = np.pad(self.mean, (0, missing))
        return replace(self, mean=mean, covariance=np.pad(self.covariance, (0, missing)))


def infer_terms(
    columns: Sequence[ArrayLike] | Mapping[str, ArrayLike] | Array,
    samples: Sequence[ArrayLike],
    kind: str = "cpu_time",
) -> Terms:
    """Fit cost = sum_k c_k columns_k, c_k >= 0, over N problems.

    columns: K arrays (N,), a mapping of them, or one array (N, K); samples: one array of costs per
    problem.  A constant overhead is weighed beside them unless one of the columns is constant.
    The model of the error is that of ``infer``.  Raises ValueError if shapes disagree or fewer
    usable problems than columns are left.
    """
    table, data = _usable(_as_table(columns, len(samples)), samples, kind)
    scale = np.append(np.abs(table).max(axis=0), 1.0)
    components = list(_components(table / scale[:-1], data))
    log_weights = np.array([c.log_weight for c in components])
    weight = np.exp(log_weights - logsumexp(log_weights))
    mean = np.array([c.mean for c in components]) / scale
    covariance = np.array([c.covariance for c in components]) / (scale[:, None] * scale[None, :])
    deviation = np.sqrt(np.maximum(np.einsum("nkk->nk", covariance), 1e-300))
    quantiles = np.maximum(mixture_quantiles(mean, deviation, weight, LEVELS), 0.0)[:-1]
    largest = (table / np.exp(data.log_cost)[:, None]).max(axis=0)
    tau = np.array([c.tau for c in components])
    return Terms(
        coefficients=tuple(Estimate(*row) for row in quantiles.tolist()),
        shares=tuple(Estimate(*row) for row in np.minimum(quantiles * largest[:, None], 1.0).tolist()),
        scatter=float(weight @ tau),
        reach=np.where(scale[:-1] > 0, scale[:-1], 1.0),
        drift=0.0 if kind == "count" else DRIFT_PER_DOUBLING,
        weight=weight,
        tau=tau,
        mean=mean,
        covariance=covariance,
    )


def _as_table(columns: Sequence[ArrayLike] | Mapping[str, ArrayLike] | Array, problems: int) -> Array:
    if isinstance(columns, np.ndarray) and columns.ndim == 2 and columns.shape[0] == problems:
        return np.asarray(columns, dtype=np.float64)
    parts = list(columns.values()) if isinstance(columns, Mapping) else list(columns)
    arrays = [np.broadcast_to(np.asarray(p, dtype=np.float64), (problems,)) for p in parts]
    return np.stack(arrays, axis=1)


def _usable(table: Array, samples: Sequence[ArrayLike], kind: str) -> tuple[Array, Summary]:
    """Rows with a positive cost and finite columns, reduced as a sweep's sizes are."""
    data = summarise(np.arange(1, len(samples) + 1), samples, kind)
    row = data.sizes.astype(int) - 1
    good = np.isfinite(table[row]).all(axis=1) & (table[row] > 0).any(axis=1)
    data = replace(
        data,
        sizes=data.sizes[good],
        log_cost=data.log_cost[good],
        standard_error=data.standard_error[good],
    )
    if data.sizes.size < table.shape[1] + 1:
        raise ValueError(f"insufficient data: {data.sizes.size} usable problems for {table.shape[1]} terms")
    return table[row][good], data


def _components(table: Array, data: Summary) -> list[_Component]:
    taus, log_prior = tau_grid(data.kind)
    has_constant = bool((np.ptp(table, axis=0) == 0).any())
    with_overhead = np.column_stack([table, np.ones(len(table))])
    designs = (
        {0.0: table}
        if has_constant
        else {
            np.log(1 - PRIOR_OVERHEAD): table,
            np.log(PRIOR_OVERHEAD): with_overhead,
        }
    )
    return [
        _component(design, data, tau, log_tau + log_design).padded(with_overhead.shape[1])
        for log_design, design in designs.items()
        for tau, log_tau in zip(taus.tolist(), log_prior.tolist(), strict=True)
    ]


def _component(design: Array, data: Summary, tau: float, log_prior: float) -> _Component:
    """Non-negative relative least squares, then Gauss-Newton on log residuals; Laplace evidence."""
    relative = design / np.exp(data.log_cost)[:, None]
    variance = data.standard_error**2 + tau**2
    c = _fit(relative, 1 / np.sqrt(variance))
    fit = np.maximum(relative @ c, 1e-9)
    jacobian = relative / fit[:, None]
    peak = jacobian.max(axis=0)
    peak = np.where(peak > 0, peak, 1.0)
    scaled = jacobian / peak
    information = (scaled / variance[:, None]).T @ scaled
    identity = np.eye(c.size)
    _, log_det = np.linalg.slogdet(SHARE_VARIANCE * information + identity)
    likelihood = -0.5 * (np.log(fit) ** 2 / variance + np.log(2 * np.pi * variance)).sum()
    covariance = np.linalg.inv(information + identity / SHARE_VARIANCE) / np.outer(peak, peak)
    return _Component(float(log_prior + likelihood - log_det / 2), tau, c, covariance)


def _fit(relative: Array, weight: Array) -> Array:
    peak = relative.max(axis=0)
    peak = np.where(peak > 0, peak, 1.0)
    scaled = relative / peak
    c, _ = nnls(scaled * weight[:, None], weight)
    active = c > 0
    for _ in range(GAUSS_NEWTON_STEPS):
        fit = np.maximum(scaled @ c, 1e-9)
        jacobian = scaled[:, active] / fit[:, None]
        step = np.linalg.lstsq(jacobian * weight[:, None], -np.log(fit) * weight, rcond=None)[0]
        c[active] = np.maximum(c[active] + step, 0.0)
    return np.asarray(c / peak)
