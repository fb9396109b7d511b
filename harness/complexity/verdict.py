"""Confirmed, refuted or inconclusive: what may be said of a claimed law, and why.

The thresholds trade power for never confirming a wrong law; docs/complexity.md reports what they cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from harness.complexity.laws import LAWS, Law, law_of
from harness.complexity.mixture import NAMES
from harness.complexity.posterior import Posterior
from harness.complexity.summary import MIN_SIZES, Summary

CONFIRMED, REFUTED, INCONCLUSIVE = "confirmed", "refuted", "inconclusive"
#: Probability a confirmation needs; with few sizes or a probable regime change; likewise for a law
#: with a logarithm, which a bend of the cost imitates best.
CONFIRM_AT, CONFIRM_AT_STRICT, CONFIRM_LOG_AT_STRICT = 0.95, 0.975, 0.99
REFUTE_AT = 0.01
MANY_SIZES = 8
MAX_TAU = 0.08
MAX_WIDTH_CONFIRM, MAX_WIDTH_REFUTE = 0.4, 0.8
MIN_SHARE, HIDDEN_SHARE = 0.3, 0.02
#: Ratio by which the cost per unit of work may drift over a sweep without any change of law.
DRIFT = {"cpu_time": 10.0, "gpu_time": 4.0, "count": 1.05}


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claimed law as a growth ("=") and as an upper bound ("<=").

    word, bound: "confirmed", "refuted" or "inconclusive"; each with its reason in words.
    """

    law: str
    word: str
    reason: str
    bound: str
    bound_reason: str


@dataclass(frozen=True)
class Claim:
    """A claimed degree against the evidence, in numbers.

    growth is the claim's mean exponent over the sweep (a logarithm counts), interval that of the
    data's lead, slopes bound that of ln cost over half the sweep; above is the mean share
    at the largest size of terms that grow faster than the claim, ceiling the share that terms which
    grow at least as fast could have.
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
    best: str
    tau: float
    regime: float
    range: float
    sizes: int
    largest: float
    kind: str

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
        return float(np.log(DRIFT[self.kind]) / np.log(self.range))

    @property
    def overhead_only(self) -> bool:
        """Nothing but a constant is visible in a time: the sweep shows overhead, not growth."""
        return self.kind != "count" and self.best == "1"


def judge(law: str | Law, posterior: Posterior | None, data: Summary, logarithms: bool) -> Verdict:
    """The verdict on one law in one variable; logarithms: whether log factors may be confirmed."""
    claimed = law_of(law)
    if posterior is None:
        reason = f"insufficient data: {data.sizes.size} usable sizes, {MIN_SIZES} are needed"
        return Verdict(str(claimed), INCONCLUSIVE, reason, INCONCLUSIVE, reason)
    claim = _weigh(claimed, posterior, data)
    word, reason = _equal(claim, logarithms)
    bound, bound_reason = _upper(claim)
    return Verdict(claim.name, word, reason, bound, bound_reason)


def _weigh(claimed: Law, posterior: Posterior, data: Summary) -> Claim:
    variable = (*claimed.variables, "n")[0]
    power, log_power = claimed.degree(variable)
    ratio = data.sizes[-1] / data.sizes[0]
    ends = np.maximum(data.sizes[[0, -1]], 2.0)
    logs = log_power * np.log(np.log2(ends[1]) / np.log2(ends[0])) / np.log(ratio)
    mixture = posterior.mixture
    return Claim(
        name=claimed.name or str(claimed),
        probability=_probability(claimed, (power, log_power), posterior),
        probability_below=mixture.probability_up_to((power, log_power)),
        growth=float(power + logs),
        log_power=log_power,
        interval=posterior.interval,
        share=mixture.share_of_degree((power, log_power)),
        slopes=posterior.interval if data.kind == "count" else (_steepest(data),) * 2,
        above=mixture.share_above((power, log_power)),
        ceiling=mixture.share_ceiling((power, log_power), data.sizes[-1:]),
        best=max(NAMES, key=lambda name: posterior.probabilities[name]),
        tau=mixture.mean(mixture.tau),
        regime=mixture.mean(mixture.structures.is_regime),
        range=float(ratio),
        sizes=data.sizes.size,
        largest=float(data.sizes[-1]),
        kind=data.kind,
    )


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
    """Of a law in the table, or of a free power within .1 of one that is not."""
    if claimed.name in LAWS:
        return posterior.probabilities[str(claimed.name)]
    if degree[1]:
        return 0.0
    return posterior.mixture.probability_near(degree[0], 0.1)


def _equal(claim: Claim, logarithms: bool) -> tuple[str, str]:
    objections = list(_objections(claim, logarithms))
    if not objections:
        return CONFIRMED, (
            f"P = {claim.probability:.3f}, {_measured(claim)}, {claim.share:.0%} of the cost at "
            f"n = {claim.largest:g}, over this sweep"
        )
    contradiction = _contradiction(claim)
    if contradiction:
        return REFUTED, contradiction
    return INCONCLUSIVE, objections[0]


def _measured(claim: Claim) -> str:
    low, high = claim.interval
    return f"exponent {low:.2f} to {high:.2f}"


def _objections(claim: Claim, logarithms: bool) -> Iterator[str]:
    """Everything that stands against confirming, the most telling first."""
    low, high = claim.interval
    end = f"n = {claim.largest:g}"
    if claim.overhead_only and claim.growth > 0:
        yield f"overhead-bound up to {end}: extend the range"
    if claim.tau > MAX_TAU:
        yield f"sizes scatter by {claim.tau:.0%} beyond what repeats explain: measure again"
    if claim.probability < claim.threshold:
        share = f" (its terms are {claim.share:.0%} of the cost at {end})" if claim.share else ""
        yield (
            f"P = {claim.probability:.2f}, {claim.threshold:g} is needed{share}; most probable: {claim.best}"
        )
    if claim.share < MIN_SHARE:
        yield f"only {claim.share:.0%} of the cost at {end}: extend the range"
    if claim.growth == 0 and claim.above > HIDDEN_SHARE / 2:
        yield f"a growing term of about {claim.above:.1%} of the cost at {end} cannot be excluded"
    if low < claim.growth - claim.tolerance or high > claim.growth + claim.tolerance:
        yield f"{_measured(claim)} reaches beyond {claim.growth:.2f} ± {claim.tolerance:.2f}"
    if high - low > MAX_WIDTH_CONFIRM:
        yield f"{_measured(claim)} is too wide: more sizes or a wider range"
    if claim.log_power and not logarithms:
        yield "a time cannot certify a logarithmic factor: judge it by counts"


def _contradiction(claim: Claim) -> str | None:
    """Why the claim is impossible over this sweep, or None."""
    low, high = claim.interval
    doubtful = claim.tau > MAX_TAU or high - low > MAX_WIDTH_REFUTE or claim.overhead_only
    if doubtful or claim.probability > REFUTE_AT:
        return None
    if min(low, claim.slopes[0]) > claim.growth + claim.guard and claim.above >= MIN_SHARE:
        return f"grows faster: {_measured(claim)} against {claim.growth:.2f}, over this sweep"
    if max(high, claim.slopes[1]) < claim.growth - claim.guard and claim.ceiling < HIDDEN_SHARE:
        return (
            f"grows more slowly: {_measured(claim)} against {claim.growth:.2f}; such a term is at "
            f"most {claim.ceiling:.1%} of the cost at n = {claim.largest:g}, over this sweep"
        )
    return None


def _upper(claim: Claim) -> tuple[str, str]:
    low, high = claim.interval
    limit = claim.growth + claim.tolerance
    if claim.overhead_only and claim.growth > 0:
        return INCONCLUSIVE, f"overhead-bound up to n = {claim.largest:g}: extend the range"
    contradiction = _contradiction(claim)
    if contradiction and low > claim.growth:
        return REFUTED, contradiction
    if claim.tau > MAX_TAU:
        return INCONCLUSIVE, f"sizes scatter by {claim.tau:.0%} beyond what repeats explain"
    if claim.probability_below < claim.threshold or claim.above > HIDDEN_SHARE:
        return INCONCLUSIVE, f"P of growing no faster is {claim.probability_below:.2f}"
    if high > limit:
        return INCONCLUSIVE, f"{_measured(claim)} reaches above {limit:.2f}"
    return CONFIRMED, f"{_measured(claim)}, at most {limit:.2f}, over this sweep"
