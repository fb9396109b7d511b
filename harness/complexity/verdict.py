"""Confirmed, refuted or inconclusive: what may be said of a claimed law, and why.

The thresholds trade power for never confirming a wrong law; docs/complexity.md reports what they cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.complexity.claim import Claim, weigh
from harness.complexity.laws import Law, law_of
from harness.complexity.posterior import Posterior
from harness.complexity.summary import MIN_SIZES, Summary

CONFIRMED, REFUTED, INCONCLUSIVE = "confirmed", "refuted", "inconclusive"
REFUTE_AT = 0.01
MAX_TAU = 0.08
MAX_WIDTH_CONFIRM, MAX_WIDTH_REFUTE = 0.4, 0.8
MIN_SHARE, HIDDEN_SHARE = 0.3, 0.02
#: Share at the largest size that terms of faster growth may have under a confirmed law of a time.
MOST_ABOVE, MOST_ABOVE_CONSTANT = 0.03, 0.01
#: A count's faster terms must be so many times below what would be visible.
VISIBLE_ABOVE = 10.0
#: Smaller shares that may hide are not told.
WORTH_TELLING = 0.005
#: A regime that any curve would fit may not be this probable.
MAX_UNPROVEN = 0.02
#: What a reader is to do.
WIDEN, ADD = "extend the range", "add sizes or extend the range"
WHOLE = "take sizes that tiles and chunks divide, or extend the range"


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


def judge(law: str | Law, posterior: Posterior | None, data: Summary, logarithms: bool) -> Verdict:
    """The verdict on one law in one variable; logarithms: whether log factors may be confirmed."""
    claimed = law_of(law)
    if posterior is None:
        reason = f"insufficient data: {data.sizes.size} usable sizes, {MIN_SIZES} are needed"
        return Verdict(str(claimed), INCONCLUSIVE, reason, INCONCLUSIVE, reason)
    claim = weigh(claimed, posterior, data)
    word, reason = _equal(claim, logarithms)
    bound, bound_reason = _upper(claim)
    return Verdict(claim.name, word, reason, bound, bound_reason)


def _equal(claim: Claim, logarithms: bool) -> tuple[str, str]:
    objections = list(_objections(claim, logarithms))
    if not objections:
        return CONFIRMED, (
            f"P = {claim.probability:.3f}, {_measured(claim)}, {claim.share:.0%} of the cost at "
            f"n = {claim.largest:g}, {_over(claim)}{_step(claim)}{_may_hide(claim)}"
        )
    contradiction = _contradiction(claim)
    if contradiction:
        return REFUTED, contradiction
    return INCONCLUSIVE, objections[0]


def _measured(claim: Claim) -> str:
    low, high = claim.interval
    return f"exponent {low:.2f} to {high:.2f}"


def _step(claim: Claim) -> str:
    if claim.change is None:
        return ""
    low, high, ratio = claim.change
    return f"; a unit of work costs {ratio:.2g} times as much from between n = {low:g} and {high:g} on"


def _may_hide(claim: Claim) -> str:
    """What a confirmed law of a time leaves open: a term that is too small to be seen yet."""
    if claim.hidden < WORTH_TELLING:
        return ""
    kind = "growing term" if claim.growth == 0 else "faster growing term"
    return f"; a {kind} of up to {claim.hidden:.0%} of it would not be seen"


def _over(claim: Claim) -> str:
    """What a verdict is about: the sweep, or the last regime of a count."""
    return f"over this sweep from n = {claim.start:g} on" if claim.start else "over this sweep"


def _doubts(claim: Claim) -> Iterator[str]:
    """What forbids to say anything of the growth: not even of an upper bound."""
    end = f"n = {claim.largest:g}"
    if claim.overhead_only and claim.growth > 0:
        yield f"overhead-bound up to {end}: {WIDEN}"
    if claim.unproven > MAX_UNPROVEN:
        yield f"too few sizes follow the last change of regime{_changes(claim)}: {WIDEN}"
    if claim.tau > MAX_TAU and claim.kind == "count":
        yield f"the counts lie {claim.tau:.0%} off every smooth law{_changes(claim)}: {_more(claim)}"
    elif claim.tau > MAX_TAU:
        yield (
            f"the sizes lie {claim.tau:.0%} off every smooth law, more than their repeats explain: "
            "measure again on a quiet machine"
        )


def _more(claim: Claim) -> str:
    """What would decide: of a count that is off every law, sizes without padding."""
    return WHOLE if claim.irregular else ADD


def _changes(claim: Claim) -> str:
    """The last two changes of regime in words, or nothing."""
    places = [f"between n = {low:g} and {high:g}" for low, high in claim.changes[-2:]]
    return f" (the growth changes {' and '.join(places)})" if places else ""


def _objections(claim: Claim, logarithms: bool) -> Iterator[str]:
    """Everything that stands against confirming, the most telling first."""
    low, high = claim.interval
    end = f"n = {claim.largest:g}"
    yield from _doubts(claim)
    if claim.probability < claim.threshold:
        yield (
            f"{claim.name} has probability {claim.probability:.2f}, {claim.threshold:g} is needed; the "
            f"most probable other law is {claim.rival} ({claim.rival_probability:.2f}): {_more(claim)}"
        )
    if claim.share < _least_share(claim):
        yield f"this term is only {claim.share:.0%} of the cost at {end}: {WIDEN}"
    if claim.above > _most_above(claim):
        faster = "a growing" if claim.growth == 0 else "a faster growing"
        yield f"{faster} term of about {claim.above:.1%} of the cost at {end} cannot be excluded: {WIDEN}"
    if claim.kind == "count" and claim.log_power:
        return  # no free power meets a logarithm: the exponents are those of curves that are ruled out
    if low < claim.growth - claim.tolerance or high > claim.growth + claim.tolerance:
        beyond = f"exponent {low:.3f} to {high:.3f} reaches beyond"
        yield f"{beyond} {claim.growth:.2f} ± {claim.tolerance:.3f}: {_more(claim)}"
    if high - low > MAX_WIDTH_CONFIRM:
        yield f"{_measured(claim)} is too wide an interval: {_more(claim)}"
    if claim.log_power and not logarithms:
        yield "a time cannot tell a logarithmic factor from drift: judge it by counts"


def _least_share(claim: Claim) -> float:
    """Share of the cost at the largest size that a law must have; counts show smaller ones."""
    return claim.visible if claim.kind == "count" else MIN_SHARE


def _most_above(claim: Claim) -> float:
    """Share that terms of faster growth may have under a confirmed law.

    A time's constant is confirmed only if hardly anything grows: launch overhead is not O(1).  Of a
    count every term is known as well as the count itself.
    """
    if claim.kind == "count":
        return claim.visible / VISIBLE_ABOVE
    return MOST_ABOVE_CONSTANT if claim.growth == 0 else MOST_ABOVE


def _contradiction(claim: Claim) -> str | None:
    """Why the claim is impossible over this sweep, or None."""
    low, high = claim.interval
    doubtful = any(_doubts(claim)) or high - low > MAX_WIDTH_REFUTE or claim.overhead_only
    if doubtful or claim.probability > REFUTE_AT:
        return None
    if min(low, claim.slopes[0]) > claim.growth + claim.guard and claim.above >= _least_share(claim):
        return f"grows faster: {_measured(claim)} against {claim.growth:.2f}, {_over(claim)}"
    if max(high, claim.slopes[1]) < claim.growth - claim.guard and claim.ceiling < HIDDEN_SHARE:
        return (
            f"grows more slowly: {_measured(claim)} against {claim.growth:.2f}; such a term is at "
            f"most {claim.ceiling:.1%} of the cost at n = {claim.largest:g}, {_over(claim)}"
        )
    return None


def _upper(claim: Claim) -> tuple[str, str]:
    low, high = claim.interval
    limit = claim.growth + claim.tolerance
    contradiction = _contradiction(claim)
    if contradiction and low > claim.growth:
        return REFUTED, contradiction
    for doubt in _doubts(claim):
        return INCONCLUSIVE, doubt
    if claim.probability_below < claim.threshold:
        faster = 1 - claim.probability_below
        return (
            INCONCLUSIVE,
            f"it grows faster than {claim.name} with probability {faster:.2f}: {_more(claim)}",
        )
    if claim.above > min(HIDDEN_SHARE, _most_above(claim)):
        hidden = f"terms that grow faster than {claim.name} may be {claim.above:.1%} of the cost"
        return INCONCLUSIVE, f"{hidden} at n = {claim.largest:g}: {WIDEN}"
    if high > limit:
        return INCONCLUSIVE, f"{_measured(claim)} reaches above {limit:.2f}: {_more(claim)}"
    return CONFIRMED, f"{_measured(claim)}, at most {limit:.2f}, {_over(claim)}"
