"""A mixture of every curve that fits: what the data say of shares, laws and future costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr

from harness.complexity.evidence import Fitted
from harness.complexity.laws import LAWS, OTHER, Array
from harness.complexity.structures import Bools, Ints, Structures, concatenate
from harness.complexity.summary import Summary

#: A term is the law of a sweep if it makes up this share of the cost at the largest size.
CLASS_SHARE = 0.10
#: A count shows a term as soon as it is this many times what the curve misses the counts by, and
#: exactly known counts show one of a thousandth.
VISIBLE_TAUS, VISIBLE_SHARE = 10.0, 1e-3
#: Predictions are validated up to two octaves beyond the sweep; from there on, 5 % more error per
#: octave: the next cache level is not in the data.
VALIDATED_OCTAVES, DRIFT_PER_OCTAVE = 2.0, 0.05
NEGLIGIBLE = 1e-5
#: Free powers this close to a claimed one that is in no table count as that.
NEAR = 0.1
#: In comparing degrees a logarithm is more than nothing and less than any power.
LOG_DEGREE = 0.01
NAMES = (*LAWS, OTHER)


@dataclass(frozen=True)
class Mixture:
    """N weighted curves with Gaussian coefficients.

    coefficients (N, 3), covariance (N, 3, 3) in the cost's unit; shares (N, 3) of the cost at the
    largest size: lead, constant, lower term; visible (N,) is the share from which a term may be the law;
    law (N,) indexes NAMES.
    """

    structures: Structures
    tau: Array
    weight: Array
    coefficients: Array
    covariance: Array
    shares: Array
    visible: Array
    law: Ints

    def mean(self, values: Array | Bools) -> float:
        """Posterior mean of a property (N,) of the curves."""
        return float(self.weight @ values)

    def degrees(self) -> tuple[Array, Array]:
        """Degree of each column's term as one number (N, 3), and the shares (N, 3) that go with it."""
        lead = self.structures.power + LOG_DEGREE * self.structures.log_power
        return np.stack([lead, np.zeros_like(lead), self.structures.lower], axis=1), self.shares

    def share_above(self, degree: tuple[float, int], slack: float = 0.0) -> float:
        """Posterior mean share at the largest size of terms that grow faster than the degree.

        slack: how much faster a free power may be without counting.
        """
        degrees, shares = self.degrees()
        free = (self.structures.law < 0)[:, None] & (np.arange(3) == 0)[None, :]
        faster = degrees > degree[0] + LOG_DEGREE * degree[1] + np.where(free, slack, 0.0) + 1e-9
        return self.mean((shares * faster).sum(axis=1))

    def share_ceiling(self, degree: tuple[float, int], largest: Array) -> float:
        """95 % upper limit of the share at the largest size (1,) of terms of at least the degree.

        Over the curves that have such a term, however improbable they are together: what could
        hide, not what is expected.
        """
        degrees, shares = self.degrees()
        own = (degrees >= degree[0] + LOG_DEGREE * degree[1] - 1e-9) & (shares > 0)
        return self._ceiling(own, np.asarray(own.any(axis=1)), largest)

    def hidden_ceiling(self, degree: tuple[float, int], largest: Array) -> float:
        """95 % upper limit of the share at the largest size (1,) of terms that grow faster than the degree.

        Over the curves in which such terms are there, but too small to be the law.
        """
        degrees, shares = self.degrees()
        free = (self.structures.law < 0)[:, None] & (np.arange(3) == 0)[None, :]
        least = degree[0] + LOG_DEGREE * degree[1] + np.where(free, NEAR, 1e-9)
        own = (degrees > least) & (shares > 0)
        hidden = np.asarray(own.any(axis=1) & ((shares * own).sum(axis=1) < self.visible))
        return self._ceiling(own, hidden, largest)

    def _ceiling(self, own: Bools, having: Bools, largest: Array) -> float:
        """95 % upper limit of the share of some terms (N, 3) over some curves (N,)."""
        if not having.any():
            return 0.0
        shares = self.shares
        columns = self.structures.columns(largest)[:, 0]
        cost = np.abs(columns * self.coefficients).sum(axis=1)
        variance = (np.einsum("nkk->nk", self.covariance) * own * columns**2).sum(axis=1)
        deviation = np.sqrt(variance[having]) / cost[having] + 1e-12
        share, weight = (shares * own).sum(axis=1)[having], self.weight[having]
        limit = mixture_quantiles(share[:, None], deviation[:, None], weight / weight.sum(), (0.95,))
        return float(limit[0, 0])

    def share_of_degree(self, degree: tuple[float, int]) -> float:
        """Share at the largest size of the term of a degree, free powers within .1 included.

        The mean over the curves that have it as their law; 0 if none has.
        """
        degrees, shares = self.degrees()
        free = (self.structures.law < 0)[:, None] & (np.arange(3) == 0)[None, :]
        slack = np.where(free, NEAR, 1e-9)
        same = np.abs(degrees - degree[0] - LOG_DEGREE * degree[1]) <= slack
        share = (shares * same).sum(axis=1)
        having = self.weight * (share >= self.visible)
        return float(having @ share / having.sum()) if having.sum() > 0 else 0.0

    def share_of_law(self, law: int) -> float:
        """Mean share at the largest size of the term that makes the law (an index of NAMES)."""
        chosen = self.weight * (self.law == law)
        top = np.where(self.shares[:, 0] >= self.visible, self.shares[:, 0], self.shares[:, 2])
        top = np.where(top >= self.visible, top, self.shares[:, 1])
        return float(chosen @ top / chosen.sum()) if chosen.sum() > 0 else 0.0

    def probability_up_to(self, degree: tuple[float, int]) -> float:
        """Probability that the law grows no faster than the degree."""
        degrees, shares = self.degrees()
        least = degree[0] + LOG_DEGREE * degree[1] + 1e-9
        faster = ((degrees > least) & (shares >= self.visible[:, None])).any(axis=1)
        return 1.0 - self.mean(np.asarray(faster))

    def probability_near(self, power: float, slack: float) -> float:
        """Probability of a free power within ``slack``."""
        near = np.abs(self.structures.power - power) <= slack
        return self.mean(np.asarray(near & (self.law == len(LAWS))))

    def curves(self, sizes: Array) -> tuple[Array, Array]:
        """Mean and variance of ln f at the sizes (s,), both (N, s), without tau."""
        columns = self.structures.columns(sizes)
        cost = np.maximum(np.einsum("nsk,nk->ns", columns, self.coefficients), 1e-300)
        gradient = columns / cost[..., None]
        variance = np.einsum("nsk,nkl,nsl->ns", gradient, self.covariance, gradient)
        return np.log(cost), np.maximum(variance, 0.0)

    def at(self, sizes: Array, octaves: Array) -> Normals:
        """Ln cost at new sizes (s,), so many octaves (s,) outside the sweep, with tau and drift."""
        mean, variance = self.curves(sizes)
        drift = (DRIFT_PER_OCTAVE * np.maximum(octaves - VALIDATED_OCTAVES, 0.0)) ** 2
        return Normals(mean, np.sqrt(variance + self.tau[:, None] ** 2 + drift), self.weight)

    def count_at(self, sizes: Array, largest: float, change: Array) -> Normals:
        """Ln count at new sizes (s,), each with its probability of another regime, change (s,).

        A term of the same growth that is hidden below the count at the largest size may lift it to anything
        between the curve and pure growth of its lead from there on: a uniform range, taken as the
        normal of its mean and variance.
        """
        mean, variance = self.curves(np.append(sizes, largest))
        lead = np.log(self.structures.lead(np.append(sizes, largest)))
        pure = mean[:, -1:] + lead[:, :-1] - lead[:, -1:]
        mean, variance = mean[:, :-1], variance[:, :-1] + self.tau[:, None] ** 2
        if not change.any():
            return Normals(mean, np.sqrt(variance), self.weight)
        lifted, uncertain = (mean + pure) / 2, variance + (pure - mean) ** 2 / 12
        return Normals(
            np.concatenate([mean, lifted]),
            np.sqrt(np.concatenate([variance, uncertain])),
            np.concatenate([self.weight[:, None] * (1 - change), self.weight[:, None] * change]),
        )


@dataclass(frozen=True)
class Normals:
    """A mixture of normals at each of s places: mean and deviation (N, s), weight (N,) or (N, s)."""

    mean: Array
    deviation: Array
    weight: Array

    def below(self, values: ArrayLike) -> Array:
        """Probability (s,) of at most a value (s,)."""
        part = ndtr((np.asarray(values) - self.mean) / self.deviation)
        return np.asarray((self.weight.reshape(len(self.weight), -1) * part).sum(axis=0))

    def quantiles(self, levels: Sequence[float]) -> Array:
        """Quantiles (s, q)."""
        return mixture_quantiles(self.mean, self.deviation, self.weight, levels)


def mixture_quantiles(mean: Array, deviation: Array, weight: Array, levels: Sequence[float]) -> Array:
    """Quantiles (s, q) of mixtures of normals with means and deviations (N, s), by bisection.

    weight (N,), or (N, s) where it differs between sizes.
    """
    level = np.asarray(levels)[None, :]
    low = np.repeat((mean - 9 * deviation).min(axis=0)[:, None], level.size, axis=1)
    high = np.repeat((mean + 9 * deviation).max(axis=0)[:, None], level.size, axis=1)
    part = np.broadcast_to(weight.reshape(len(weight), -1), mean.shape)
    for _ in range(40):
        middle = (low + high) / 2
        z = (middle[None] - mean[..., None]) / deviation[..., None]
        below = np.einsum("ns,nsq->sq", part, ndtr(z)) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def term_shares(structures: Structures, c: Array, data: Summary) -> Array:
    """Shares (B, T, 3) of lead, constant and lower term (by size) in the cost at the largest size."""
    parts = structures.columns(data.sizes[-1:])[:, 0][:, None, :] * c
    regime = structures.is_regime[:, None]
    parts[..., 0] += np.where(regime, parts[..., 2], 0.0)
    parts[..., 2] = np.where(regime, 0.0, parts[..., 2])
    parts = np.abs(parts)
    total = parts.sum(axis=-1, keepdims=True)
    return np.asarray(parts / np.where(total > 0, total, 1.0))


def mix(fits: Sequence[Fitted], data: Summary) -> Mixture:
    """All curves of several fits with a weight that matters, weighted by prior times evidence."""
    weights = [fit.log_weight for fit in fits]
    total = logsumexp(np.concatenate([w.ravel() for w in weights]))
    parts = [_flatten(fit, total, data) for fit in fits]
    joined = {
        f.name: np.concatenate([getattr(p, f.name) for p in parts])
        for f in fields(Mixture)
        if f.name != "structures"
    }
    structures = concatenate(*(p.structures for p in parts))
    joined["weight"] /= joined["weight"].sum()
    return Mixture(structures=structures, **joined)


def _flatten(fit: Fitted, total: float, data: Summary) -> Mixture:
    weight = np.exp(fit.log_weight - total)
    rows, taus = np.nonzero(weight > NEGLIGIBLE)
    structures, c = fit.structures.take(rows), fit.coefficients[rows, taus]
    shares = term_shares(structures, c[:, None], data)[:, 0]
    visible = visible_share(fit.taus[taus], data.kind)
    return Mixture(
        structures=structures,
        tau=fit.taus[taus],
        weight=weight[rows, taus],
        coefficients=c,
        covariance=_covariance(structures, c, fit.taus[taus], data),
        shares=shares,
        visible=visible,
        law=_laws(structures, shares, visible),
    )


def visible_share(tau: Array, kind: str) -> Array:
    """Share of the cost from which a term may be the law, same shape as tau."""
    if kind != "count":
        return np.full(tau.shape, CLASS_SHARE)
    return np.clip(VISIBLE_TAUS * tau, VISIBLE_SHARE, CLASS_SHARE)


def _covariance(structures: Structures, c: Array, tau: Array, data: Summary) -> Array:
    """(J' V^-1 J + prior)^-1 of each curve's coefficients, shape (N, 3, 3)."""
    columns = structures.columns(data.sizes)
    columns[structures.silent(data.sizes)] = 0.0
    cost = np.einsum("nsk,nk->ns", columns, c)
    cost[structures.silent(data.sizes)] = 1.0
    jacobian = columns / cost[..., None]
    peak = np.abs(jacobian).max(axis=1)
    peak = np.where(peak > 0, peak, 1.0)
    variance = data.standard_error**2 + tau[:, None] ** 2 + structures.extra_variance(data.sizes)
    scaled = jacobian / peak[:, None, :]
    normal = np.swapaxes(scaled / variance[..., None], 1, 2) @ scaled
    inverse = np.linalg.inv(normal + 12 * np.eye(3))
    present = structures.present
    return np.asarray(inverse * (present / peak)[:, :, None] * (present / peak)[:, None, :])


def _laws(structures: Structures, shares: Array, visible: Array) -> Ints:
    """The highest term with a visible share of the cost at the largest size, as index of NAMES."""
    names = list(LAWS)
    lead = np.where(structures.law < 0, len(names), structures.law)
    lower = np.where(structures.lower == 1, names.index("n"), names.index("n^2"))
    below = np.where(shares[:, 2] >= visible, lower, names.index("1"))
    return np.asarray(np.where(shares[:, 0] >= visible, lead, below))
