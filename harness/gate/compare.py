"""Two sides, case by case: every case of either ends as at least one finding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from statistics import median

from harness.gate import policy
from harness.gate.findings import Finding, Judgement, Verdict
from harness.gate.quantities import quantities
from harness.gate.quarantine import Quarantine
from harness.gate.reference import Ratios
from harness.gate.side import Record, Side
from harness.types import Status

#: A case of these statuses was not tried: it is no failure.
UNTRIED = frozenset({Status.UNSUPPORTED, Status.SKIPPED})
#: Begins the flag of a case that ran another kernel: its time is not gated.
OTHER_KERNEL = "another kernel runs"
#: Median change of all cases from which the machine is suspected rather than the code.
SHIFTED = 0.03


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may choose.

    only       patterns of implementations; none: all
    reference  implementation that the ratios are to; "": the first of the usual ones that is there
    """

    only: tuple[str, ...] = ()
    reference: str = ""

    def wants(self, record: Record) -> bool:
        """Whether the case is to be judged."""
        return not self.only or any(fnmatchcase(record.implementation, pattern) for pattern in self.only)


EVERYTHING, NOBODY = Options(), Quarantine()


def judge(
    candidate: Side, baseline: Side, options: Options = EVERYTHING, quarantine: Quarantine = NOBODY
) -> Judgement:
    """Compare a candidate with its baseline."""
    refused = (*_definitions(candidate, baseline), *_environments(candidate, baseline))
    before = {key: record for key, record in baseline.records.items() if options.wants(record)}
    after = {key: record for key, record in candidate.records.items() if options.wants(record)}
    if not refused and not before.keys() & after.keys():
        refused = ("no case of the candidate is in the baseline",)
    if refused:
        return Judgement(candidate.name, baseline.name, (), refused, candidate.warnings)
    ratios = Ratios.of(before, after, options.reference)
    found = [
        ratios.beside(finding)
        for key in dict.fromkeys([*before, *after])
        for finding in case_findings(before.get(key), after.get(key))
    ]
    judged = tuple(quarantine.applied(finding) for finding in found)
    return Judgement(
        candidate.name,
        baseline.name,
        judged,
        warnings=(*candidate.warnings, *_epochs(candidate, baseline), *_shift(judged)),
        expired=quarantine.expired(),
        advice=tuple(_advice(candidate, judged)),
    )


def _definitions(candidate: Side, baseline: Side) -> Iterator[str]:
    if candidate.suite != baseline.suite:
        yield f"the candidate is of the suite {candidate.suite}, the baseline of {baseline.suite}"
    for name, words in baseline.definition.items():
        now = candidate.definition.get(name)
        if now != words:
            yield f"{name.replace('_', ' ')} differs: {words!r} before, {now!r} now"


def _environments(candidate: Side, baseline: Side) -> tuple[str, ...]:
    return policy.refusals(baseline.environment, candidate.environment)


def _epochs(candidate: Side, baseline: Side) -> Iterator[str]:
    if changed := policy.changes(baseline.environment, candidate.environment):
        yield f"new epoch: {'; '.join(changed)}; accept a baseline of it with bench baseline accept"


def _shift(findings: tuple[Finding, ...]) -> Iterator[str]:
    changes = [f.change for f in findings if f.metric == "time" and f.change is not None]
    if len(changes) >= 5 and abs(shift := median(changes)) > SHIFTED:
        yield f"the median case moved by {shift:+.1%}: suspect the machine before the code"


def _advice(candidate: Side, findings: tuple[Finding, ...]) -> Iterator[str]:
    if any(f.verdict in (Verdict.FASTER, Verdict.NEW, Verdict.FIXED) for f in findings if not f.advisory):
        yield f'bench baseline accept {candidate.name} --reason "…"'


def case_findings(before: Record | None, after: Record | None) -> Iterator[Finding]:
    """What is found of one case of either side."""
    if after is None:
        assert before is not None
        yield Finding(before.key, "status", Verdict.MISSING, f"is missing; it was {before.status} before")
    elif before is None:
        yield _new(after)
    elif Status.OK in (before.status, after.status) and before.status is not after.status:
        yield _turned(before, after)
    elif after.status is Status.OK:
        flags = tuple(_flags(before, after))
        for finding in quantities(before, after):
            yield replace(finding, flags=flags) if flags else finding
    else:
        yield _still(before, after)


def _new(after: Record) -> Finding:
    if after.status is Status.OK or after.status in UNTRIED:
        return Finding(after.key, "status", Verdict.NEW, f"is new: {after.status}")
    return Finding(after.key, _what(after), Verdict.NEWLY_FAILED, f"is new and {_failure(after)}")


def _turned(before: Record, after: Record) -> Finding:
    if after.status is Status.OK:
        return Finding(after.key, "status", Verdict.FIXED, f"is ok; it was {before.status} before")
    return Finding(after.key, _what(after), Verdict.NEWLY_FAILED, f"was ok and is {_failure(after)}")


def _still(before: Record, after: Record) -> Finding:
    if after.status in UNTRIED:
        return Finding(after.key, "status", Verdict.SAME, f"is {after.status} and was {before.status}")
    if before.status in UNTRIED:
        return Finding(
            after.key, _what(after), Verdict.NEWLY_FAILED, f"was {before.status} and is {_failure(after)}"
        )
    return Finding(after.key, "status", Verdict.STILL_FAILED, f"was {before.status} and is {_failure(after)}")


def _what(after: Record) -> str:
    """An incorrect case fails by its accuracy, which no quarantine excuses."""
    return "accuracy" if after.status is Status.INCORRECT else "status"


def _failure(record: Record) -> str:
    return f"{record.status}: {record.reason}" if record.reason else str(record.status)


def _flags(before: Record, after: Record) -> Iterator[str]:
    yield from after.flags
    if before.kernels and after.kernels and before.kernels != after.kernels:
        old, new = (", ".join(side.kernels[:3]) for side in (before, after))
        yield f"{OTHER_KERNEL}: {old} before, {new} now"
