"""At which size one implementation overtakes another: the complexity engine's crossovers along the sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from harness import complexity
from harness.complexity import Fit
from harness.report.accuracy import is_floor
from harness.report.impossible import why_impossible
from harness.report.records import Facet, Records
from harness.report.sweeps import Sweep, fit_of, ordered

#: A comparison takes some 40 ms: so many are made at most, those whose times cross in the sweep first.
MAX_PAIRS = 40
#: With more settings than this, only the first are compared.
MAX_SETTINGS = 6
#: Times further apart than this factor wherever both are measured are not compared.
NEAR = 4.0


@dataclass(frozen=True, slots=True)
class Crossover:
    """Below `size` the first is faster, above it the second.

    low, high     the 95 % interval of the size, from the posteriors of both fits
    extrapolated  whether it lies outside the sizes that both have measured
    """

    setting: str
    below: str
    above: str
    size: float
    low: float
    high: float
    extrapolated: bool


@dataclass(frozen=True, slots=True)
class Crossings:
    """The crossovers, and how many comparisons there was no time for."""

    found: tuple[Crossover, ...]
    left_out: int = 0


@dataclass(frozen=True)
class _Curve:
    setting: str
    name: str
    fit: Fit

    @property
    def logs(self) -> dict[float, float]:
        """Size → ln of the time."""
        summary = self.fit.summary
        return dict(zip(summary.sizes.tolist(), summary.log_cost.tolist(), strict=True))


def crossovers(records: Records) -> Crossings:
    """Where one implementation overtakes another along the swept axis, each with a closed interval.

    Within four times the sizes that both have measured, and only where the fits decide who is faster on
    either side. Needs four usable sizes of both; the floor and impossible times are no candidates.
    """
    if records.sweep is None:
        return Crossings(())
    facets = records.facets(records.sweep)[:MAX_SETTINGS]
    pairs = [pair for facet in facets for pair in combinations(_curves(records, facet), 2)]
    apart = [_apart(*pair) for pair in pairs]
    near = sorted((k for k in range(len(pairs)) if apart[k] <= math.log(NEAR)), key=lambda k: (apart[k], k))
    chosen = sorted(near[:MAX_PAIRS])
    found = tuple(crossing for k in chosen for crossing in _between(*pairs[k]))
    return Crossings(found, max(0, len(near) - MAX_PAIRS))


def _curves(records: Records, facet: Facet) -> Iterable[_Curve]:
    """The candidates of one setting that have a fit."""
    axis = records.sweep or ""
    for name in records.cards:
        results = ordered(facet, name, axis)
        sweep = Sweep(records, name, axis, axis, facet.label, results)
        if not is_floor(name) and not why_impossible(*results) and (fit := fit_of(sweep, records.time or "")):
            yield _Curve(facet.label, name, fit)


def _apart(one: _Curve, other: _Curve) -> float:
    """How far apart two times stay (ln of the ratio) where both are measured; 0 when they cross there."""
    theirs = other.logs
    ratios = [log - theirs[size] for size, log in one.logs.items() if size in theirs]
    if not ratios or min(ratios) <= 0 <= max(ratios):
        return 0.0 if ratios else math.inf
    return min(map(abs, ratios))


def _between(one: _Curve, other: _Curve) -> Iterable[Crossover]:
    seen: set[tuple[float, float]] = set()
    for crossing in complexity.crossovers(one.fit, other.fit):
        low, high = crossing.low, crossing.high
        # An open interval decides nothing; a wiggle around 1/2 is the same crossover again.
        if low is None or high is None or (low, high) in seen:
            continue
        seen.add((low, high))
        above, below = (one, other) if crossing.cheaper_beyond == 0 else (other, one)
        yield Crossover(one.setting, below.name, above.name, crossing.size, low, high, crossing.extrapolated)
