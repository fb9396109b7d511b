"""What a gate finds, and which exit code that is. Plain data: outputs are written from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """What is said of one quantity of one case, the most severe first."""

    NEWLY_FAILED = "newly-failed"
    MISSING = "missing"
    SLOWER = "slower"
    INCOMPARABLE = "incomparable"
    AMBIGUOUS = "ambiguous"
    QUARANTINED = "quarantined"
    STILL_FAILED = "still-failed"
    NEW = "new"
    FIXED = "fixed"
    FASTER = "faster"
    SAME = "same"


#: What is left out where only changes are shown.
QUIET = frozenset({Verdict.SAME, Verdict.STILL_FAILED})


class Decision(StrEnum):
    """What the quads so far say of B against A."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"


SEVERITY = {verdict: rank for rank, verdict in enumerate(Verdict)}

PASS, REGRESSION, UNREADABLE, FAILURE, NOT_COMPARABLE, UNDECIDED = range(6)
#: Which code wins where several apply.
PRECEDENCE = (UNREADABLE, NOT_COMPARABLE, FAILURE, REGRESSION, UNDECIDED)
_CODES = {
    Verdict.SLOWER: REGRESSION,
    Verdict.NEWLY_FAILED: FAILURE,
    Verdict.MISSING: FAILURE,
    Verdict.INCOMPARABLE: NOT_COMPARABLE,
    Verdict.AMBIGUOUS: UNDECIDED,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One quantity of one case against its baseline.

    case        key of the case, its device without an index
    metric      "time" (what the timer judges by), "peak_memory", "error", "status", …
    before      median of the baseline's process-level values    after  of the candidate's
    change      relative; low, high  its interval where there is one
    threshold   relative change that is looked into
    detectable  smallest relative change that the procedure finds 95 times of 100; None where unknown
    spread      MAD of the baseline over its median; None below five processes
    ratio_*     time over that of the reference implementation of the same run, before and after
    advisory    said, and never a reason to fail
    """

    case: str
    metric: str
    verdict: Verdict
    words: str
    unit: str = ""
    before: float | None = None
    after: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float | None = None
    detectable: float | None = None
    spread: float | None = None
    processes: int = 0
    reference: str = ""
    ratio_before: float | None = None
    ratio_after: float | None = None
    flags: tuple[str, ...] = ()
    advisory: bool = False

    @property
    def severity(self) -> tuple[int, float]:
        """Sorts the most severe first."""
        rank = len(SEVERITY) if self.advisory else SEVERITY[self.verdict]
        return rank, -abs(self.change or 0.0)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Everything that one gate found.

    refusals  why the two cannot be compared at all     warnings  what a reader must know
    expired   quarantine entries that are over          advice    what to do next, as commands
    facts     of the procedure: seconds, controls, load
    """

    candidate: str
    baseline: str
    findings: tuple[Finding, ...]
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    facts: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def ordered(self) -> tuple[Finding, ...]:
        """The findings, the most severe first."""
        return tuple(sorted(self.findings, key=lambda finding: (*finding.severity, finding.case)))

    @property
    def changed(self) -> tuple[Finding, ...]:
        """What a reader must see, the most severe first."""
        return tuple(finding for finding in self.ordered if finding.verdict not in QUIET)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know: the warnings, and how much of what stayed the same is in doubt."""
        doubted = [one for one in self.findings if one.verdict in QUIET and one.flags]
        kinds = Counter(flag.partition(":")[0] for one in doubted for flag in one.flags)
        if not doubted:
            return self.warnings
        seen = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common())
        return (*self.warnings, f"in doubt among what stayed the same: {seen}; --all shows which")

    @property
    def counts(self) -> Mapping[str, int]:
        """Cases by the most severe verdict of their quantities; advisory ones are not counted."""
        worst: dict[str, Verdict] = {}
        for finding in self.findings:
            if not finding.advisory:
                known = worst.get(finding.case, Verdict.SAME)
                worst[finding.case] = min(known, finding.verdict, key=SEVERITY.__getitem__)
        found = Counter(worst.values())
        return {str(verdict): found[verdict] for verdict in Verdict if found[verdict]}

    def exit_codes(self, fail_on_undecided: bool = False) -> tuple[int, ...]:
        """Every code that applies, the one that wins first; (0,) when none does."""
        codes = {_CODES.get(one.verdict, PASS) for one in self.findings if not one.advisory}
        if self.refusals:
            codes.add(NOT_COMPARABLE)
        if self.expired:
            codes.add(REGRESSION)
        if not fail_on_undecided:
            codes.discard(UNDECIDED)
        return tuple(code for code in PRECEDENCE if code in codes) or (PASS,)
