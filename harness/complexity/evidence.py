"""How well a batch of curves explains a sweep: fits and marginal likelihoods, for every tau at once.

Model: ln t_i ~ N(ln f(n_i), s_i^2 + tau^2), with s_i the standard error of repeats and tau the
size-to-size systematic error that repeats cannot remove.  Shapes: B structures, T values of tau,
m sizes, 3 coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.complexity.laws import LAWS, Array
from harness.complexity.structures import BAD_SIZE, PLATEAU, SUM, TAIL, Bools, Ints, Structures
from harness.complexity.summary import Summary

#: Grids of tau; counts are exact down to rounding.
TAUS_TIME: Array = 0.002 * np.power(2.0, np.arange(8))
TAUS_COUNT: Array = 1e-7 * np.power(4.0, np.arange(11))
TAU_SCALE, TAU_SCALE_COUNT = 0.02, 0.001
#: Prior variance of a term's largest share of the cost: that of a uniform share in [0, 1].
SHARE_VARIANCE = 1 / 12
#: Prior standard deviation of the log ratio of the cost per unit across a regime change.
REGIME_DEVIATION = 0.5
#: A plateau must hand over to the lead within this ratio of continuity.
PLATEAU_SLACK = 1.05
#: Variance of the log cost of a size that a curve says nothing about.
SILENT_VARIANCE = 1e12
#: A maximum of terms lies nowhere above the counts before its last regime, rounding aside.
ROUNDING = 1e-9
#: Lower-order terms of a count subtract at most this part of the lead, rounding aside.
MOST_SUBTRACTED = 0.5 * (1 + 1e-6)
#: Probability that a cost that changes regime keeps its leading term.
SAME_LEAD = 0.5
#: Relative fits are kept above this, so that a logarithm exists.
FLOOR = 1e-60
#: ... and one below this, which a rescaled floor does not reach, is no fit.
LEAST_FIT = 1e-40
#: Structures whose evidence after the linear fit is this far (in nats) below the best are dropped.
PRUNE = 10.0


@dataclass(frozen=True)
class Fitted:
    """Fits of B structures at T values of tau.

    coefficients (B, T, 3) in the cost's unit; log_weight (B, T) is log prior + log evidence, -inf
    where a coefficient has the wrong sign.
    """

    structures: Structures
    taus: Array
    coefficients: Array
    log_weight: Array


def tau_grid(kind: str) -> tuple[Array, Array]:
    """Values of tau (T,) and their log prior mass (T,).

    Times: half-Cauchy(.02) (Gelman 2006), mass = density * tau on a geometric grid.  Counts are
    exact or off by padding, on no scale: uniform in ln tau up to the per mille, and seldom more.
    """
    if kind == "count":
        mass = 1 / (1 + (TAUS_COUNT / TAU_SCALE_COUNT) ** 2)
        return TAUS_COUNT, np.log(mass / mass.sum())
    mass = TAUS_TIME / (1 + (TAUS_TIME / TAU_SCALE) ** 2)
    return TAUS_TIME, np.log(mass / mass.sum())


def fit_structures(structures: Structures, data: Summary, prune: float = PRUNE) -> Fitted:
    """Relative least squares, pruning of the hopeless, then two Gauss-Newton steps on log residuals."""
    taus, log_prior_tau = tau_grid(data.kind)
    columns, scale = _relative_columns(structures, data)
    keep = _promising(structures, data, columns, scale, prune)
    structures, columns, scale = structures.take(keep), columns[keep], scale[keep]
    variance = _variance(structures, data, taus)
    curves = _linear(columns, variance)
    for _ in range(2):
        curves = _gauss_newton(columns, variance, curves)
    log_weight = _log_likelihood(structures, data, variance, curves) + structures.log_prior[:, None]
    log_weight += _log_occam(structures, columns, variance, curves) + log_prior_tau
    log_weight[~_admissible(structures, data, columns, curves)] = -np.inf
    c = curves.c / scale[:, None, :]
    if data.kind == "count":
        log_weight += _log_before_tail(structures, data, c)
    log_weight[~_continuous(structures, data, c)] = -np.inf
    return Fitted(structures, taus, c, log_weight)


def _promising(structures: Structures, data: Summary, columns: Array, scale: Array, prune: float) -> Ints:
    """Rows whose likelihood after the linear fit, at some tau, is near the best.

    Fitted at a middle tau only: with equal errors of the sizes the fit is the same at each.
    """
    taus = tau_grid(data.kind)[0][::3]
    variance = _variance(structures, data, taus)
    curves = _linear(columns, variance[:, 1:2])
    rough = _log_likelihood(structures, data, variance, curves) + structures.log_prior[:, None]
    rough += _log_room(structures, taus)
    if data.kind == "count":
        rough += _log_before_tail(structures, data, curves.c / scale[:, None, :])
    best = np.where(_admissible(structures, data, columns, curves)[:, 0], rough.max(axis=1), -np.inf)
    # Bare laws stay: whatever the data, their fits are valid and leave a posterior to normalise.
    return np.flatnonzero((best > best.max() - prune) | ~structures.decorated)


def _relative_columns(structures: Structures, data: Summary) -> tuple[Array, Array]:
    """Columns over the cost, scaled to a maximum of one (B, m, 3), and the scales (B, 3).

    A regime's increment keeps the scale of its lead, so that 1 + c_2 / c_0 is the ratio of regimes.
    """
    raw = structures.columns(data.sizes) / np.exp(data.log_cost)[None, :, None]
    raw[structures.silent(data.sizes)] = 0.0
    scale = raw.max(axis=1)
    scale[:, 2] = np.where(structures.is_regime, scale[:, 0], scale[:, 2])
    scale = np.where(scale > 0, scale, 1.0)
    return raw / scale[:, None, :], scale


def _variance(structures: Structures, data: Summary, taus: Array) -> Array:
    """Total variance of each log cost, shape (B, T, m)."""
    common = data.standard_error[None, :] ** 2 + taus[:, None] ** 2
    extra = structures.extra_variance(data.sizes)
    extra[structures.silent(data.sizes)] = SILENT_VARIANCE
    return np.asarray(common[None] + extra[:, None, :])


def _solve(normal: Array, right: Array) -> Array:
    """Solve symmetric (..., 3, 3) systems by elimination, all at once.

    An absent column (zero) gets coefficient zero.  LAPACK, called once per system, takes ten times
    as long.
    """
    a, b, c = (_pivot(normal[..., k, k]) for k in range(3))
    ab, ac, bc = normal[..., 0, 1], normal[..., 0, 2], normal[..., 1, 2]
    x, y, z = (right[..., k] for k in range(3))
    ba, ca = ab / a, ac / a
    b2, bc2, c2 = b - ba * ab, bc - ba * ac, c - ca * ac
    y2 = y - ba * x
    cb = bc2 / b2
    z2 = (z - ca * x - cb * y2) / (c2 - cb * bc2)
    y3 = (y2 - bc2 * z2) / b2
    return np.stack([(x - ab * y3 - ac * z2) / a, y3, z2], axis=-1)


def _pivot(diagonal: Array) -> Array:
    """A diagonal with a trace of ridge, one where the column is absent."""
    return np.asarray(np.where(diagonal > 0, diagonal * (1 + 1e-13), 1.0))


def _log_det(matrix: Array) -> Array:
    """ln det of symmetric positive definite (..., 3, 3)."""
    a, b, c = (matrix[..., k, k] for k in range(3))
    ab, ac, bc = matrix[..., 0, 1], matrix[..., 0, 2], matrix[..., 1, 2]
    b2, bc2, c2 = b - ab * ab / a, bc - ab * ac / a, c - ac * ac / a
    return np.asarray(np.log(a) + np.log(b2) + np.log(np.maximum(c2 - bc2 * bc2 / b2, 1.0)))


class Curves(NamedTuple):
    """Coefficients (B, T, 3), f / t at every size (B, T, m), and its logarithm: the residuals."""

    c: Array
    fit: Array
    residual: Array


def _linear(columns: Array, variance: Array) -> Curves:
    """Weighted least squares of f / t to one, then rescaled."""
    products = columns[..., :, None] * columns[..., None, :]
    weights = 1 / variance
    normal = weights @ products.reshape(*products.shape[:2], 9)
    c = _solve(normal.reshape(*weights.shape[:2], 3, 3), weights @ columns)
    # The best common factor on log residuals is exact, which also makes one-term fits exact.
    curves = _evaluated(columns, c)
    mean = np.einsum("btm,btm->bt", weights, curves.residual) / weights.sum(axis=-1)
    factor = np.exp(-mean)[..., None]
    return Curves(c * factor, curves.fit * factor, curves.residual - mean[..., None])


def _evaluated(columns: Array, c: Array) -> Curves:
    """f / t is kept positive, so that its logarithm exists."""
    fit = np.maximum(c @ np.swapaxes(columns, 1, 2), FLOOR)
    return Curves(c, fit, np.log(fit))


def _log_likelihood(structures: Structures, data: Summary, variance: Array, curves: Curves) -> Array:
    """Of the residuals, shape (B, T). Most structures share the variances, and so their logarithms."""
    square = np.einsum("btm,btm->bt", curves.residual**2, 1 / variance)  # residuals of one tau do for all
    own = np.isin(structures.kind, (BAD_SIZE, TAIL))
    norm = np.empty(square.shape)
    norm[own] = np.log(2 * np.pi * variance[own]).sum(axis=-1)
    norm[~own] = np.log(2 * np.pi * variance[~own][:1]).sum(axis=-1)
    return np.asarray(-0.5 * (square + norm))


def _gauss_newton(columns: Array, variance: Array, curves: Curves) -> Curves:
    """One step on log residuals: d ln f / d c_k = g_k / f."""
    jacobian = columns[:, None] / curves.fit[..., None]
    weighted = np.swapaxes(jacobian / variance[..., None], 2, 3)
    step = _solve(weighted @ jacobian, -(weighted @ curves.residual[..., None])[..., 0])
    return _evaluated(columns, curves.c + step)


def _regime_ratio(c: Array) -> Array:
    """Cost per unit after the change over that before, shape (B, T)."""
    lead = np.where(c[..., 0] > 0, c[..., 0], 1.0)
    return np.asarray(np.maximum(1 + c[..., 2] / lead, FLOOR))


def _log_occam(structures: Structures, columns: Array, variance: Array, curves: Curves) -> Array:
    """Laplace's factor -ln det(I + L J' V^-1 J L) / 2 (MacKay 2003, ch. 28), shape (B, T).

    Linear terms are measured by their largest share of the cost, with the variance of a uniform
    share; a regime change by rho, the log ratio of the cost per unit, ~ N(0, .5^2).
    """
    c = curves.c
    regime = structures.is_regime[:, None]
    ratio = _regime_ratio(c)
    jacobian = columns[:, None] / curves.fit[..., None]
    increment = jacobian[..., 2].copy()
    relative = np.where(regime, c[..., 2] / np.where(c[..., 0] == 0, 1.0, c[..., 0]), 0.0)
    jacobian[..., 0] += relative[..., None] * increment  # moving c_0 at fixed ratio moves both
    peak = np.abs(jacobian).max(axis=2, keepdims=True)
    jacobian *= np.sqrt(SHARE_VARIANCE) / np.where(peak > 0, peak, 1.0)
    by_ratio = (ratio * c[..., 0])[..., None] * increment * REGIME_DEVIATION
    jacobian[..., 2] = np.where(regime[..., None], by_ratio, jacobian[..., 2])
    information = np.swapaxes(jacobian / variance[..., None], 2, 3) @ jacobian
    log_det = _log_det(information + np.eye(3))
    prior = np.where(regime, (np.log(ratio) / REGIME_DEVIATION) ** 2, 0.0)
    return np.asarray(-0.5 * (log_det + prior))


def _admissible(structures: Structures, data: Summary, columns: Array, curves: Curves) -> Bools:
    """Present terms have positive coefficients, regimes positive costs on both sides; shape (B, T).

    Counts may subtract lower-order terms, up to half the lead: a window of w pairs n*w - w^2/2 positions.
    """
    c = curves.c
    present = structures.present[:, None, :]
    regime = structures.is_regime[:, None]
    positive: Bools = np.asarray((c > 0) | ~present)
    if data.kind == "count":
        positive[..., 1:] |= np.isin(structures.kind, (SUM, TAIL))[:, None, None]
    positive[..., 2] |= regime & (c[..., 0] + c[..., 2] > 0)
    good = positive.all(axis=-1) & np.isfinite(c).all(axis=-1)
    heard = ~structures.silent(data.sizes)[:, None, :]
    good &= np.where(heard, curves.fit, 1.0).min(axis=-1) > LEAST_FIT
    if data.kind == "count":
        lowest = np.minimum(c, [np.inf, 0.0, 0.0]) * [1.0, *[1 / MOST_SUBTRACTED] * 2]
        lowest[..., 2] = np.where(regime, 0.0, lowest[..., 2])
        good &= np.where(heard, lowest @ np.swapaxes(columns, 1, 2), 1.0).min(axis=-1) > FLOOR
    return np.asarray(good)


def _log_before_tail(structures: Structures, data: Summary, c: Array) -> Array:
    """What replaces the density of a tail's silent sizes, shape (B, T); 0 for other structures.

    It is that of the earlier regimes that explain those sizes best, times the odds of this tail after
    them: its lead is that of the last regime before it with probability SAME_LEAD, and a maximum, which
    lies nowhere above them, leaves each of their coefficients half the room.
    """
    known = np.searchsorted(data.sizes, structures.at, side="right")
    regimes = data.regimes
    silent = structures.silent(data.sizes)
    undo = silent.sum(axis=1) * 0.5 * np.log(2 * np.pi * SILENT_VARIANCE)
    power = regimes.power[known]
    same = (structures.power == power) & (structures.log_power == 0) & (structures.law >= 0)
    lead = np.log(1 - SAME_LEAD + SAME_LEAD * same * len(LAWS))
    log = regimes.log_evidence[known] + undo + np.where(np.isnan(power), 0.0, lead)
    cost = c @ np.swapaxes(structures.columns(data.sizes), 1, 2)
    below = ((cost <= np.exp(data.log_cost) * (1 + ROUNDING)) | ~silent[:, None, :]).all(axis=-1)
    room = np.log(0.5 + 0.5 * below * np.exp2(regimes.coefficients[known])[:, None])
    return np.asarray(np.where((structures.kind == TAIL)[:, None], log[:, None] + room, 0.0))


def _log_room(structures: Structures, taus: Array) -> Array:
    """Roughly what each coefficient costs a curve that must meet the sizes to within tau, shape (B, T)."""
    each = np.minimum(np.log(taus / np.sqrt(SHARE_VARIANCE)), 0.0)
    return np.asarray(structures.present.sum(axis=1)[:, None] * each)


def _continuous(structures: Structures, data: Summary, c: Array) -> Bools:
    """A plateau is a maximum: the lead lies below it on its left and above it on its right."""
    plateau = structures.kind == PLATEAU
    left = np.clip(np.searchsorted(data.sizes, structures.at) - 1, 0, data.sizes.size - 2)
    lead = structures.lead(data.sizes)
    rows = np.arange(len(structures))
    before, after = (c[..., 0] * lead[rows, left + j][:, None] for j in (0, 1))
    good = (before <= c[..., 1] * PLATEAU_SLACK) & (after * PLATEAU_SLACK >= c[..., 1])
    return np.asarray(good | ~plateau[:, None])
