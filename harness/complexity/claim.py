"""A claimed law held against the evidence: everything a verdict asks for, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.complexity.laws import LAWS, Law
from harness.complexity.mixture import NAMES, NEAR
from harness.complexity.posterior import Posterior
from harness.complexity.structures import TAIL
from harness.complexity.summary import Summary

#: Probability a confirmation needs; with few sizes or a probable regime change; likewise for a law
#: with a logarithm, which a bend of the cost imitates best.
CONFIRM_AT, CONFIRM_AT_STRICT, CONFIRM_LOG_AT_STRICT = 0.95, 0.975, 0.99
MANY_SIZES = 8
#: Ratio by which the cost per unit of work may drift over a sweep without any change of law.
DRIFT = {"cpu_time": 10.0, "gpu_time": 4.0, "count": 1.05}
#: Counts that no law meets this closely (log units) are irregular, and may drift as CPU times do.
REGULAR_TAU = 1e-3


class Change(NamedTuple):
    """Between two sizes the cost of a unit of work changes by a ratio: a cache level, a block of threads."""

    low: float
    high: float
    ratio: float


@dataclass(frozen=True)
class Claim:
    """A claimed degree against the evidence, in numbers.

    growth is the claim's mean exponent over the sweep (a logarithm counts), interval that of the
    data's lead, slopes bound that of ln cost over half the sweep; above is the mean share
    at the largest size of terms that grow faster than the claim, ceiling the share that terms which
    grow at least as fast could have, hidden that of faster terms too small to be the law (of a probable
    claim about a time, else 0); visible is the share from which a term may be the law. rival is
    the most probable other law. Of a count: changes says between which sizes it takes on another
    regime, start is the first size of its last regime (None if it has one regime), unproven the
    probability that this one has no size more than coefficients. change is a time's probable change of
    the cost per unit, or None.
    """

    name: str
    probability: float
    probability_below: float
    growth: float
    log_power: int
    interval: tuple[float, float]
    share: float
    slopes: tuple[float, float]
    above: float
    ceiling: float
    hidden: float
    best: str
    rival: str
    rival_probability: float
    tau: float
    regime: float
    range: float
    sizes: int
    largest: float
    kind: str
    visible: float
    changes: tuple[tuple[float, float], ...]
    start: float | None
    unproven: float
    change: Change | None

    @property
    def threshold(self) -> float:
        """Probability a confirmation needs."""
        strict = self.sizes < MANY_SIZES or self.regime > 0.5
        if not strict:
            return CONFIRM_AT
        return CONFIRM_LOG_AT_STRICT if self.log_power else CONFIRM_AT_STRICT

    @property
    def tolerance(self) -> float:
        """Half-width of the exponents that count as the claim's."""
        return float(max(0.1, np.log(1.5) / np.log(self.range)))

    @property
    def guard(self) -> float:
        """What drift of the cost per unit could add to or take from the exponent."""
        drift = DRIFT["cpu_time" if self.irregular else self.kind]
        return float(np.log(drift) / np.log(self.range))

    @property
    def irregular(self) -> bool:
        """A count that no law meets closely: padded, or between regimes."""
        return self.kind == "count" and self.tau > REGULAR_TAU

    @property
    def overhead_only(self) -> bool:
        """Nothing but a constant is visible in a time: the sweep shows overhead, not growth."""
        return self.kind != "count" and self.best == "1"


def weigh(claimed: Law, posterior: Posterior, data: Summary) -> Claim:
    """The numbers of one claim in one variable over one sweep."""
    probabilities = posterior.probabilities
    variable = (*claimed.variables, "n")[0]
    power, log_power = claimed.degree(variable)
    ratio = data.sizes[-1] / data.sizes[0]
    ends = np.maximum(data.sizes[[0, -1]], 2.0)
    logs = log_power * np.log(np.log2(ends[1]) / np.log2(ends[0])) / np.log(ratio)
    mixture = posterior.mixture
    rival = max((n for n in NAMES if n != claimed.name), key=lambda name: probabilities[name])
    probability = _probability(claimed, (power, log_power), posterior)
    return Claim(
        name=claimed.name or str(claimed),
        probability=probability,
        probability_below=mixture.probability_up_to((power, log_power)),
        growth=float(power + logs),
        log_power=log_power,
        interval=posterior.interval,
        share=mixture.share_of_degree((power, log_power)),
        slopes=posterior.interval if data.kind == "count" else (_steepest(data),) * 2,
        above=mixture.share_above((power, log_power), 0.0 if claimed.name else NEAR),
        ceiling=mixture.share_ceiling((power, log_power), data.sizes[-1:]),
        hidden=_hidden(posterior, (power, log_power), data) if probability >= CONFIRM_AT else 0.0,
        best=max(NAMES, key=lambda name: probabilities[name]),
        rival=rival,
        rival_probability=probabilities[rival],
        tau=mixture.mean(mixture.tau),
        regime=mixture.mean(mixture.structures.is_regime),
        range=float(ratio),
        sizes=data.sizes.size,
        largest=float(data.sizes[-1]),
        kind=data.kind,
        visible=mixture.mean(mixture.visible),
        changes=data.regimes.changes if data.kind == "count" else (),
        start=last_regime(posterior, data),
        unproven=_unproven(posterior, data),
        change=unit_change(posterior, data),
    )


def _hidden(posterior: Posterior, degree: tuple[float, int], data: Summary) -> float:
    """Share that terms of faster growth may have unseen; counts show theirs."""
    return posterior.mixture.hidden_ceiling(degree, data.sizes[-1:]) if data.kind != "count" else 0.0


def last_regime(posterior: Posterior, data: Summary) -> float | None:
    """First size of a count's last regime, of its most probable curve; None if there was none before it."""
    mixture = posterior.mixture
    tail = mixture.structures.kind == TAIL
    if mixture.mean(tail) < 0.5:
        return None
    at = mixture.structures.at[int(np.argmax(mixture.weight * tail))]
    return float(data.sizes[data.sizes > at][0])


def unit_change(posterior: Posterior, data: Summary) -> Change | None:
    """Where the cost per unit of a time changes, in its most probable curve; None if it hardly does."""
    mixture = posterior.mixture
    regime = mixture.structures.is_regime
    if data.kind == "count" or mixture.mean(regime) < 0.5:
        return None
    best = int(np.argmax(mixture.weight * regime))
    at, c = mixture.structures.at[best], mixture.coefficients[best]
    after = int(np.searchsorted(data.sizes, at, side="right"))
    return Change(float(data.sizes[after - 1]), float(data.sizes[after]), float(1 + c[2] / c[0]))


def _unproven(posterior: Posterior, data: Summary) -> float:
    """Probability of a last regime that any curve would fit: as many coefficients as sizes."""
    structures = posterior.mixture.structures
    heard = (~structures.silent(data.sizes)).sum(axis=1)
    return posterior.mixture.mean(np.asarray(heard <= structures.present.sum(axis=1)))


def _steepest(data: Summary) -> float:
    """Largest slope of ln cost against ln n between sizes at least half the sweep apart (in log n).

    Drift of the cost per unit is bounded over the sweep, so what it can add to a slope is bounded
    only over a long way: a step between neighbours proves nothing.  Counts do not drift.
    """
    x, y = np.log(data.sizes), data.log_cost
    run, rise = x[None, :] - x[:, None], y[None, :] - y[:, None]
    far = run >= (x[-1] - x[0]) / 2 * (1 - 1e-9)
    return float((rise[far] / run[far]).max())


def _probability(claimed: Law, degree: tuple[float, int], posterior: Posterior) -> float:
    """Of a law in the table, or of a free power NEAR one that is not."""
    if claimed.name in LAWS:
        return posterior.probabilities[str(claimed.name)]
    if degree[1]:
        return 0.0
    return posterior.mixture.probability_near(degree[0], NEAR)
