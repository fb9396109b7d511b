"""Times over that of a reference implementation of the same run: what a slow machine cannot change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

from harness.gate.findings import Finding
from harness.gate.side import Record

#: The first of these that both sides timed.
USUAL = ("sdpa_flash", "sdpa_cudnn", "sdpa_math", "naive")


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratio of each case to the reference of its problem, before and after."""

    name: str
    before: Mapping[str, float]
    after: Mapping[str, float]

    @classmethod
    def of(cls, before: Mapping[str, Record], after: Mapping[str, Record], asked: str) -> Ratios:
        """Find the reference and form the ratios; empty where there is none."""
        timed = [{r.implementation for r in side.values() if "time" in r.metrics} for side in (before, after)]
        both = timed[0] & timed[1]
        name = asked or next((usual for usual in USUAL if usual in both), "")
        return cls(name, _ratios(before, name), _ratios(after, name))

    def beside(self, finding: Finding) -> Finding:
        """The finding of a time with its ratios."""
        if finding.metric != "time" or not self.name:
            return finding
        found = (self.before.get(finding.case), self.after.get(finding.case))
        return replace(finding, reference=self.name, ratio_before=found[0], ratio_after=found[1])


def _ratios(records: Mapping[str, Record], name: str) -> dict[str, float]:
    times = {
        key: median(record.metrics["time"].values)
        for key, record in records.items()
        if "time" in record.metrics and median(record.metrics["time"].values) > 0
    }
    references = {_problem(records[k]): times[k] for k in times if records[k].implementation == name}
    return {
        key: seconds / references[problem]
        for key, seconds in times.items()
        if (problem := _problem(records[key])) in references
    }


def _problem(record: Record) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(record.problem.items()))
