"""The posterior over laws and exponents: the table's laws against a free power, by evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from harness.complexity.evidence import Fitted, fit_structures
from harness.complexity.laws import Array
from harness.complexity.mixture import NAMES, Mixture, mix, term_shares, visible_share
from harness.complexity.structures import (
    FREE_RANGE,
    Bools,
    Ints,
    Leads,
    concatenate,
    enumerate_structures,
    free_leads,
    table_leads,
)
from harness.complexity.summary import Summary

#: Curves of a time whose lead has a smaller share say little about its exponent.
EXPONENT_SHARE = 0.30
#: The grid of free powers: first pass, and when a cell of it is fine enough.
COARSE_POWERS = np.linspace(*FREE_RANGE, 42)
MAX_CELL_MASS = 0.2
NEAR_PEAK, MAX_CELL_STEP = 4.0, 2.5
#: Shapes so far (in nats) below the best on a coarse grid are not tried on a finer one.
WORTH_REFINING = 24.0
SPLIT = (1 / 3, 2 / 3)
SUBCELLS = 16
DENSITY_FLOOR = 1e-30
#: Cells of the grid are not split below this, a thousandth of what is reported of a time.
MIN_CELL = {"cpu_time": 1e-4, "gpu_time": 1e-4, "count": 1e-9}
MAX_REFINEMENTS = 18


@dataclass(frozen=True)
class Posterior:
    """What the data say: law probabilities, the exponent's median and 95 % interval, the mixture."""

    probabilities: dict[str, float]
    exponent: float
    interval: tuple[float, float]
    mixture: Mixture


def infer_posterior(data: Summary) -> Posterior:
    """Fit the table's laws and a free power, and weigh them by evidence."""
    table = _fit_leads(table_leads(), data)
    free, grid = fit_free_power(data)
    mixture = mix((table, _as_mass(free, grid)), data)
    mass = np.bincount(mixture.law, weights=mixture.weight, minlength=len(NAMES))
    exponent, interval = _exponent(free, grid, data)
    probabilities = dict(zip(NAMES, (mass / mass.sum()).tolist(), strict=True))
    return Posterior(probabilities, exponent, interval, mixture)


def fit_free_power(data: Summary) -> tuple[Fitted, Array]:
    """Fits of n^p on a grid of p that is refined where the posterior mass is, and that grid."""
    grid = COARSE_POWERS
    fitted = _fit_leads(free_leads(grid), data)
    for _ in range(MAX_REFINEMENTS):
        new = _refinement(fitted, grid, data)
        if not new.size:
            break
        more = _fit_leads(free_leads(new), data, _worth_refining(fitted))
        fitted, grid = _join_fits(fitted, more), np.union1d(grid, new)
    return fitted, grid


def _as_mass(fitted: Fitted, grid: Array) -> Fitted:
    """Trapezoid weights turn the density in p into the mass of each point of the grid."""
    half = np.diff(grid) / 2
    width = np.append(half, 0.0) + np.append(0.0, half)
    row = np.searchsorted(grid, fitted.structures.power)
    return replace(fitted, log_weight=fitted.log_weight + np.log(width)[row, None])


def _fit_leads(leads: Leads, data: Summary, only: Ints | None = None) -> Fitted:
    exact = data.kind == "count"
    return fit_structures(enumerate_structures(data.sizes, leads, exact, only), data)


def _worth_refining(fitted: Fitted) -> Ints:
    """Numbers of the shapes that explain the sweep about as well as the best at some power so far."""
    best = fitted.log_weight.max(axis=1)
    good = (best > best.max() - WORTH_REFINING) | ~fitted.structures.decorated
    return np.unique(fitted.structures.shape[good])


def _join_fits(first: Fitted, second: Fitted) -> Fitted:
    return Fitted(
        concatenate(first.structures, second.structures),
        first.taus,
        np.concatenate([first.coefficients, second.coefficients]),
        np.concatenate([first.log_weight, second.log_weight]),
    )


def _refinement(fitted: Fitted, grid: Array, data: Summary) -> Array:
    """New powers that split every cell with much of the mass, or near the peak and steep."""
    new: list[Array] = []
    gap = np.diff(grid)
    for keep in (_leading(fitted, data), np.ones(fitted.log_weight.shape, dtype=bool)):
        density = _log_density(fitted, grid, keep)
        _, mass = _interpolated(grid, density)
        heavy = mass.reshape(gap.size, -1).sum(axis=1) > MAX_CELL_MASS
        # The chord of a concave ln density lies below it, the more so the steeper the cell.
        near = np.maximum(density[1:], density[:-1]) > -NEAR_PEAK
        steep = near & (np.abs(np.diff(density)) > MAX_CELL_STEP)
        split = np.flatnonzero((heavy | steep) & (gap > MIN_CELL[data.kind]))
        new += [grid[split] + gap[split] * u for u in SPLIT]
    return np.unique(np.concatenate(new))


def _interpolated(grid: Array, log_density: Array) -> tuple[Array, Array]:
    """Ends and masses of SUBCELLS parts of each cell, ln density being linear within a cell."""
    u = (np.arange(SUBCELLS) + 0.5) / SUBCELLS
    gap = np.diff(grid)[:, None]
    inside = log_density[:-1, None] + np.diff(log_density)[:, None] * u
    mass = np.exp(inside - inside.max()) * gap
    ends = grid[:-1, None] + gap * (u + 0.5 / SUBCELLS)
    return ends.ravel(), (mass / mass.sum()).ravel()


def _leading(fitted: Fitted, data: Summary) -> Bools:
    """Curves (B, T) whose lead has a visible share."""
    shares = term_shares(fitted.structures, fitted.coefficients, data)
    least = visible_share(fitted.taus, data.kind) if data.kind == "count" else EXPONENT_SHARE
    return np.asarray(shares[..., 0] >= least)


def _log_density(fitted: Fitted, grid: Array, keep: Bools) -> Array:
    """Ln density at each power of the grid, summed over structures and tau, the largest being 0."""
    weight = np.where(keep, fitted.log_weight, -np.inf)
    top = weight.max(initial=-np.inf)
    if not np.isfinite(top):
        return np.zeros(grid.size)
    row = np.searchsorted(grid, fitted.structures.power)
    density = np.bincount(row, weights=np.exp(weight - top).sum(axis=1), minlength=grid.size)
    return np.asarray(np.log(np.maximum(density / density.max(), DENSITY_FLOOR)))


def _exponent(free: Fitted, grid: Array, data: Summary) -> tuple[float, tuple[float, float]]:
    """Median and central 95 % of p over the curves whose lead has a visible share."""
    leading = _leading(free, data)
    visible = leading if np.isfinite(free.log_weight[leading]).any() else np.ones_like(leading)
    ends, mass = _interpolated(grid, _log_density(free, grid, visible))
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    edges = np.concatenate([grid[:1], ends])
    low, middle, high = np.interp([0.025, 0.5, 0.975], cumulative, edges).tolist()
    return middle, (low, high)
