"""From what a session measured to findings: the quads of each case, and its rows on both sides."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.format import quantity
from harness.gate.compare import case_findings
from harness.gate.findings import Finding, Verdict
from harness.gate.paired import Track
from harness.gate.quads import Decision
from harness.gate.reading import record_of
from harness.gate.session import Compared
from harness.store import encode
from harness.types import Result

VERDICTS = {
    Decision.SLOWER: Verdict.SLOWER,
    Decision.FASTER: Verdict.FASTER,
    Decision.SAME: Verdict.SAME,
    Decision.UNDECIDED: Verdict.AMBIGUOUS,
}


def findings(sessions: Sequence[Compared], fault: str, blind: str = "") -> Iterator[Finding]:
    """The findings of one pair that was compared in one session or, where it was slower, in several.

    fault  why no time can be believed, or ""
    blind  why no time can be called the same, or ""
    """
    first = sessions[0]
    before, after = (record_of(json.loads(encode(row)), {}) for row in (first.before, first.after))
    for finding in case_findings(before, replace(after, key=before.key)):
        timeless = finding.metric == "status" and finding.verdict is Verdict.SAME
        if not (timeless and first.track):
            yield replace(finding, case=first.pair.name)
    if first.track:
        tracks = [one.track for one in sessions if one.track]
        if first.track.decision in (Decision.SAME, Decision.FASTER):
            fault = fault or blind
        yield _time(tracks, _doubt(sessions, fault), first.pair.name)


def _doubt(sessions: Sequence[Compared], fault: str) -> str:
    return fault or next(
        (words for one in sessions for row in (one.before, one.after) if (words := oversubscribed(row))), ""
    )


def oversubscribed(row: Result) -> str:
    """More threads than CPUs fight each other: neither clock says what the work costs."""
    threads, usable = row.timing.get("threads_in_use"), row.timing.get("usable_threads")
    if isinstance(threads, int) and isinstance(usable, int) and threads > usable:
        return f"{threads} threads on {usable} CPUs"
    return ""


def _time(tracks: Sequence[Track], doubt: str, name: str) -> Finding:
    """Slower only where every session says so, and undecided where the session itself is in doubt."""
    first = tracks[0]
    decision = first.decision
    if decision is Decision.SLOWER and any(track.decision is not Decision.SLOWER for track in tracks):
        decision, doubt = Decision.UNDECIDED, doubt or "fresh processes do not confirm it"
    failure = next((track.failure for track in tracks if track.failure), "")
    if failure:
        return Finding(name, "time", Verdict.NEWLY_FAILED, f"could not be sampled: {failure}", "s")
    bounds = first.interval
    assert bounds is not None
    assert first.medians is not None
    change, low, high = (math.expm1(x) for x in (bounds.centre, bounds.low, bounds.high))
    sides = f"{quantity(first.medians[0], 's')} → {quantity(first.medians[1], 's')}"
    words = f"{change:+.1%} [{low:+.1%}, {high:+.1%}] after {len(first.differences)} quads ({sides})"
    if doubt:
        decision, words = Decision.UNDECIDED, f"undecided: {doubt}; {words}"
    elif decision is Decision.UNDECIDED:
        words = f"undecided: {words}"
    return Finding(
        name, "time", VERDICTS[decision], words + _wall(first), "s", *first.medians, change, low, high,
        detectable=first.detectable, processes=len(tracks),
    )  # fmt: skip


def _wall(track: Track) -> str:
    """What the wall clock says, beside the CPU time that decides."""
    if len(track.wall) < 2:
        return ""
    middle = sorted(track.wall)[len(track.wall) // 2]
    return f"; by the wall {math.expm1(middle):+.1%}"
