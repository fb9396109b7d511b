"""The curves a leading term can be seen through: lower-order terms, regime changes, bad sizes.

Every structure is linear in at most three coefficients once its place ``at`` is fixed, so thousands
of them are fitted together as one batch of small least-squares problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.complexity.laws import LAWS, Array

SUM, JUMP, MARGINAL, GRADUAL, BAD_SIZE, PLATEAU, TAIL = range(7)
#: Prior probabilities of the kinds of structure.
PRIOR_SUM, PRIOR_REGIME, PRIOR_BAD_SIZE, PRIOR_PLATEAU = 0.72, 0.15, 0.05, 0.08
PRIOR_TAIL = 0.05
#: Lower-order terms beside the lead: (constant?, power or 0 for none) -> prior probability.
LOWER = {
    (False, 0.0): 0.3,
    (True, 0.0): 0.4,
    (False, 1.0): 0.1,
    (True, 1.0): 0.2,
    (False, 2.0): 0.1,
    (True, 2.0): 0.1,
}
#: Where between two sizes each kind of regime change is tried (fractions of the gap, in log).  A jump
#: fits the same anywhere in a gap; the others move with their place.
REGIMES = {JUMP: (0.5,), MARGINAL: (1 / 6, 0.5, 5 / 6), GRADUAL: (0.25, 0.75)}
#: Sizes after the change; the last one alone may jump, but tells nothing of another kind of change.
RIGHT = {JUMP: 1, MARGINAL: 2, GRADUAL: 2}
#: Regime changes and bad sizes are seen with or without a constant overhead.
OVERHEAD = {False: 0.7, True: 0.3}
PRIOR_TABLE, PRIOR_FREE = 0.85, 0.15
FREE_RANGE = (-0.5, 3.6)
#: A free power closer than this to a lower-order term is that term under another name.
FREE_GAP = 0.25
BAD_SIZE_DEVIATION = 0.5

Bools = NDArray[np.bool_]
Ints = NDArray[np.int_]


@dataclass(frozen=True)
class Leads:
    """Leading terms n^power (log2 n)^log_power; law is the row of the law table, -1 for a free power."""

    power: Array
    log_power: Ints
    law: Ints
    log_prior: Array


@dataclass(frozen=True)
class Structures:
    """A batch of B curves, one array (B,) per property; shape numbers what surrounds the lead."""

    shape: Ints
    power: Array
    log_power: Ints
    law: Ints
    constant: Bools
    lower: Array
    kind: Ints
    at: Array
    log_prior: Array

    def __len__(self) -> int:
        return len(self.power)

    def take(self, keep: NDArray[np.int_] | Bools) -> Structures:
        """The chosen structures."""
        return Structures(**{f.name: getattr(self, f.name)[keep] for f in fields(self)})

    @property
    def is_regime(self) -> Bools:
        """True where the third column is the increment of a regime change."""
        return np.asarray((self.kind >= JUMP) & (self.kind <= GRADUAL))

    @property
    def decorated(self) -> Bools:
        """True for anything but a bare leading term."""
        return np.asarray((self.kind != SUM) | self.constant | (self.lower > 0))

    @property
    def present(self) -> Bools:
        """Which of the three columns exist, shape (B, 3)."""
        constant = self.constant | (self.kind == PLATEAU)
        third = self.is_regime | (self.lower > 0)
        return np.stack([np.ones_like(constant), constant, third], axis=1)

    def lead(self, sizes: Array) -> Array:
        """The leading term at the sizes (s,), shape (B, s)."""
        powers = sizes[None, :] ** self.power[:, None]
        logs = np.where(self.log_power[:, None] > 0, np.log2(sizes)[None, :], 1.0)
        return np.asarray(powers * logs)

    def columns(self, sizes: Array) -> Array:
        """Lead, constant, and lower term or regime increment at the sizes (s,), shape (B, s, 3)."""
        lead, x, at = self.lead(sizes), sizes[None, :], self.at[:, None]
        kind, after = self.kind[:, None], sizes[None, :] > self.at[:, None]
        plateau = kind == PLATEAU
        out = np.swapaxes(np.empty((lead.shape[0], 3, sizes.size)), 1, 2)  # sizes contiguous
        out[..., 0] = np.where(plateau & ~after, 0.0, lead)
        out[..., 1] = np.where(plateau, ~after, self.constant[:, None])
        out[..., 2] = np.where(self.lower[:, None] > 0, x ** self.lower[:, None], 0.0)
        jump, marginal, gradual = kind == JUMP, kind == MARGINAL, kind == GRADUAL
        out[..., 2] += np.where(jump & after, lead, 0.0)
        reach = self._lead_at_place()[:, None]
        out[..., 2] += np.where(marginal, np.maximum(lead - reach, 0.0), 0.0)
        ratio = (x / at) ** 2
        out[..., 2] += np.where(gradual, lead * ratio / (1 + ratio), 0.0)
        return out

    def _lead_at_place(self) -> Array:
        logs = np.where(self.log_power > 0, np.log2(self.at), 1.0)
        return np.asarray(self.at**self.power * logs)

    def extra_variance(self, sizes: Array) -> Array:
        """A bad size is one whose log cost is off by a further N(0, .5^2), shape (B, s)."""
        kind, at = self.kind[:, None], self.at[:, None]
        bad = (kind == BAD_SIZE) & (at == sizes[None, :])
        return np.where(bad, BAD_SIZE_DEVIATION**2, 0.0)

    def silent(self, sizes: Array) -> Bools:
        """Sizes of which a curve says nothing, shape (B, s): those before the regime of its tail."""
        return np.asarray((self.kind == TAIL)[:, None] & (self.at[:, None] >= sizes[None, :]))


def table_leads() -> Leads:
    """The laws of the table, equally likely."""
    power, log_power = (np.array(column) for column in zip(*LAWS.values(), strict=True))
    prior = np.full(len(LAWS), np.log(PRIOR_TABLE / len(LAWS)))
    return Leads(power.astype(float), log_power, np.arange(len(LAWS)), prior)


def free_leads(powers: Array) -> Leads:
    """Free powers with their prior density, uniform over FREE_RANGE."""
    prior = np.full(powers.size, np.log(PRIOR_FREE / (FREE_RANGE[1] - FREE_RANGE[0])))
    zeros = np.zeros(powers.size, dtype=int)
    return Leads(powers, zeros, zeros - 1, prior)


@dataclass(frozen=True)
class Shape:
    """What surrounds a lead: lower-order terms, or one irregularity at a place."""

    kind: int
    prior: float
    constant: bool = False
    lower: float = 0.0
    at: float = 1.0

    @property
    def floor(self) -> float:
        """The lead must grow faster than n^floor; -inf: any lead will do."""
        grows = self.constant or self.kind in (MARGINAL, PLATEAU)
        return max(self.lower, 0.0) if grows or self.lower else -np.inf


@lru_cache(maxsize=64)
def _shapes(sizes: tuple[float, ...], exact: bool) -> dict[str, NDArray[Any]]:
    """Every shape over the sizes of a sweep, one array (shapes,) per property."""
    x = np.array(sizes)
    tails = _tails(x) if exact else ()
    shapes = (*_sums(), *_regimes(x), *_bad_sizes(x), *_plateaus(x), *tails)
    names = (*(f.name for f in fields(Shape)), "floor")
    return {name: np.array([getattr(shape, name) for shape in shapes]) for name in names}


def enumerate_structures(
    sizes: Array, leads: Leads, exact: bool = False, only: Ints | None = None
) -> Structures:
    """Every structure of every lead over the sizes (m,) of a sweep.

    exact: for counts; only: the numbers of the shapes wanted.
    """
    shapes = _shapes(tuple(sizes.tolist()), exact)
    allowed = _above(leads, shapes["floor"])
    log_prior = np.log(_normalised(shapes["prior"], shapes["kind"], allowed))
    if only is not None:
        allowed &= np.isin(np.arange(len(allowed)), only)[:, None]
    row, column = np.nonzero(allowed)
    by_shape = {name: shapes[name][row] for name in ("constant", "lower", "kind", "at")}
    return Structures(
        shape=row,
        power=leads.power[column],
        log_power=leads.log_power[column],
        law=leads.law[column],
        log_prior=leads.log_prior[column] + log_prior[row, column],
        **by_shape,
    )


def concatenate(*batches: Structures) -> Structures:
    """Several batches as one."""
    return Structures(
        **{f.name: np.concatenate([getattr(b, f.name) for b in batches]) for f in fields(Structures)}
    )


def _above(leads: Leads, floor: Array) -> Bools:
    """Leads that grow faster than n^floor, with a gap for free powers; shape (shapes, leads)."""
    gap = np.where(leads.law < 0, FREE_GAP, 0.0)
    exact = (leads.power == floor[:, None]) & (leads.log_power > 0)
    return np.asarray((leads.power - gap > floor[:, None]) | exact)


def _normalised(priors: Array, kinds: Array, allowed: Bools) -> Array:
    """Prior of each shape given the lead: what a lead cannot have goes to its other shapes of the kind."""
    weight = priors[:, None]
    prior = np.where(allowed, weight, 1.0)
    for kind in np.unique(kinds):
        rows = kinds == kind
        possible = (weight * allowed)[rows].sum(axis=0)
        prior[rows] *= weight[rows].sum() / np.where(possible > 0, possible, 1.0)
    return prior


def _places(sizes: Array, fractions: Sequence[float] = (0.5,), right: int = 2) -> Sequence[float]:
    """Between sizes (in log), with at least two on the left and so many on the right."""
    cells = [(sizes[j], sizes[j + 1] / sizes[j]) for j in range(1, sizes.size - right)]
    return [float(low * ratio**u) for low, ratio in cells for u in fractions]


def _sums() -> Iterator[Shape]:
    for (constant, lower), weight in LOWER.items():
        yield Shape(SUM, PRIOR_SUM * weight / sum(LOWER.values()), constant, lower)


def _regimes(sizes: Array) -> Iterator[Shape]:
    for kind, fractions in REGIMES.items():
        places = _places(sizes, fractions, RIGHT[kind])
        for at, (constant, weight) in product(places, OVERHEAD.items()):
            yield Shape(kind, PRIOR_REGIME / len(REGIMES) / len(places) * weight, constant, at=at)


def _bad_sizes(sizes: Array) -> Iterator[Shape]:
    for at, (constant, weight) in product(sizes.tolist(), OVERHEAD.items()):
        yield Shape(BAD_SIZE, PRIOR_BAD_SIZE / sizes.size * weight, constant, at=at)


def _plateaus(sizes: Array) -> Iterator[Shape]:
    places = _places(sizes, right=3)
    yield from (Shape(PLATEAU, PRIOR_PLATEAU / len(places), at=at) for at in places)


def _tails(sizes: Array) -> Iterator[Shape]:
    """Counts of padded, tiled or capped work, and maxima of terms, follow a law only from some size on.

    At least as many sizes as coefficients must be left.
    """
    for place, at in enumerate(sizes[:-1].tolist()):
        for (constant, lower), weight in LOWER.items():
            if 1 + constant + (lower > 0) <= sizes.size - 1 - place:
                prior = PRIOR_TAIL / (sizes.size - 1) * weight / sum(LOWER.values())
                yield Shape(TAIL, prior, constant, lower, at)
