"""Regimes of counted costs: stretches of sizes that follow one polynomial exactly.

A peak is a maximum over the program's points, and chunks, tiles and windows are capped, so that a count is
often one polynomial up to some size and another from there on.  Counts have no noise: a stretch with more
sizes than coefficients that is met to rounding is no coincidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.complexity.laws import Array

#: A stretch is met exactly if every relative residual is below this.
ROUNDING = 1e-7
#: Forms of a stretch: the powers of its terms, the lead first.
FORMS: tuple[tuple[float, ...], ...] = (
    *((p,) for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)),
    *((p, 0.0) for p in (0.5, 1.0, 1.5, 2.0, 3.0)),
    *((p, 1.0) for p in (1.5, 2.0, 3.0)),
    *((p, 1.0, 0.0) for p in (1.5, 2.0, 3.0)),
    (3.0, 2.0),
    (3.0, 2.0, 0.0),
)
#: The law seen last is never less probable to go on than to give way.
MAX_CHANGE = 0.45
#: Log density of a size that is met to rounding: a normal with the deviation ROUNDING at its centre.
EXACT = -float(np.log(ROUNDING * np.sqrt(2 * np.pi)))
#: Log density of a size that nothing explains: uniform over a range of e^10 in cost.
UNEXPLAINED = -float(np.log(10.0))


@dataclass(frozen=True)
class Regimes:
    """The fewest coefficients that explain the first k sizes exactly, k = 0 ... m, as stretches.

    coefficients (m + 1,) counts them; start (m + 1,) is the index of the first size of the last stretch
    of those k sizes; power (m + 1,) the leading power of the last stretch that a form explains, NaN
    if there is none.
    """

    sizes: Array
    coefficients: Array
    start: Array
    power: Array

    @property
    def log_evidence(self) -> Array:
        """Log density of the first k sizes (m + 1,); each coefficient takes one size to find."""
        known = np.arange(self.coefficients.size)
        return np.asarray((known - self.coefficients) * EXACT + self.coefficients * UNEXPLAINED)

    @property
    def stretches(self) -> tuple[tuple[float, float], ...]:
        """First and last size of each stretch, in increasing order; lone sizes are stretches of one."""
        found, end = [], self.sizes.size
        while end > 0:
            first = int(self.start[end])
            found.append((float(self.sizes[first]), float(self.sizes[end - 1])))
            end = first
        return tuple(reversed(found))

    @property
    def changes(self) -> tuple[tuple[float, float], ...]:
        """Between which neighbouring sizes the cost goes over to another stretch.

        Sizes that no stretch explains are not regimes: a cost that is irregular throughout has none.
        """
        pairs = pairwise(self.stretches)
        return tuple((one[1], two[0]) for one, two in pairs if one[0] < one[1] or two[0] < two[1])

    def probability_of_change(self, octaves: Array) -> Array:
        """Probability of one more change within octaves (s,) beyond the sweep; 0 if it shows none.

        Changes per octave by Laplace's rule of succession, (seen + 1) / (octaves + 2).
        """
        changes = len(self.changes)
        if not changes:
            return np.zeros(octaves.size)
        rate = min((changes + 1) / (float(np.log2(self.sizes[-1] / self.sizes[0])) + 2), 1.0)
        return np.asarray(np.minimum(1 - (1 - rate) ** octaves, MAX_CHANGE))


def find_regimes(sizes: Array, log_cost: Array) -> Regimes:
    """Stretches of sizes (m,) that follow one form exactly, by dynamic programming over their ends.

    Exact means: the form through the first sizes of a stretch meets all further ones to rounding.
    """
    m = sizes.size
    coefficients, start = np.zeros(m + 1), np.zeros(m + 1, dtype=int)
    power = np.full(m + 1, np.nan)
    coefficients[1:] = np.inf
    reach = {first: _reach(sizes[first:], log_cost[first:]) for first in range(m)}
    for end in range(1, m + 1):
        for first in range(end):
            length = end - first
            lone = [((np.nan,), 1)] if length == 1 else []
            form = next((f for f, far in [*reach[first], *lone] if far >= length), None)
            if form is None:
                continue
            total = coefficients[first] + len(form)
            if total < coefficients[end]:
                lead = power[first] if np.isnan(form[0]) else form[0]
                coefficients[end], start[end], power[end] = total, first, lead
    return Regimes(sizes, coefficients, start, power)


def _reach(sizes: Array, log_cost: Array) -> list[tuple[tuple[float, ...], int]]:
    """Forms that meet more sizes, from the first on, than they have coefficients, and how many.

    Those with the fewest coefficients come first.
    """
    relative = np.exp(log_cost - log_cost[0])
    found = []
    for form in FORMS:
        if len(form) >= sizes.size:
            continue
        columns = (sizes[:, None] / sizes[0]) ** np.array(form) / relative[:, None]
        c = np.linalg.solve(columns[: len(form)], np.ones(len(form)))
        met = np.abs(columns @ c - 1) < ROUNDING
        far = int(np.argmin(met)) if not met.all() else sizes.size
        if far > len(form) and c[0] > 0:
            found.append((form, far))
    return sorted(found, key=lambda item: len(item[0]))
