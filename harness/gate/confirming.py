"""Which breaches fresh paired runs are to confirm, and what their outcomes make of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.gate.compare import OTHER_KERNEL
from harness.gate.findings import Decision, Finding, Judgement, Verdict

#: Fresh paired runs of a breach.
RUNS = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one fresh paired run says: the decision, and the logarithm of the ratio."""

    decision: Decision
    centre: float


def suspects(judgement: Judgement) -> tuple[Finding, ...]:
    """Breaches of time; where another kernel runs, the case is flagged and not gated."""
    return tuple(
        finding
        for finding in judgement.findings
        if finding.metric == "time"
        and finding.verdict is Verdict.AMBIGUOUS
        and not any(flag.startswith(OTHER_KERNEL) for flag in finding.flags)
    )


def settled(judgement: Judgement, outcomes: Mapping[str, Sequence[Outcome]]) -> Judgement:
    """The judgement with the breaches that paired runs settled; outcomes by key of the case."""
    findings = tuple(
        _settled(finding, outcomes[finding.case])
        if finding.metric == "time" and finding.verdict is Verdict.AMBIGUOUS and finding.case in outcomes
        else finding
        for finding in judgement.findings
    )
    return replace(judgement, findings=findings)


def _settled(finding: Finding, outcomes: Sequence[Outcome]) -> Finding:
    """Slower when every run says so; the same when most say so and none says slower."""
    decisions = [outcome.decision for outcome in outcomes]
    change = math.expm1(sum(outcome.centre for outcome in outcomes) / len(outcomes)) if outcomes else None
    words = ", ".join(decisions)
    first = finding.words.partition(": not confirmed")[0]
    if len(decisions) >= RUNS and all(decision is Decision.SLOWER for decision in decisions):
        return replace(
            finding, verdict=Verdict.SLOWER, words=f"{first}; {len(outcomes)} paired runs: {change:+.1%}"
        )
    fine = sum(decision in (Decision.SAME, Decision.FASTER) for decision in decisions)
    if 2 * fine > len(decisions) and Decision.SLOWER not in decisions:
        said = f"{first}, and not in {fine} of {len(outcomes)} paired runs ({change:+.1%}): noise of the run"
        return replace(finding, verdict=Verdict.SAME, words=said)
    return replace(finding, words=f"{first}: paired runs do not agree ({words or 'none was possible'})")
