"""How often verdicts came out, with exact binomial intervals. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scipy.special import betaincinv

from harness.gate.paired import Track
from harness.gate.quads import Decision


@dataclass(frozen=True, slots=True)
class Rate:
    """So many of so many, with the 95 % interval of Clopper and Pearson (1934, Biometrika 26, 404)."""

    count: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """Of the probability; (0, 1) of none."""
        low = betaincinv(self.count, self.of - self.count + 1, 0.025) if self.count else 0.0
        high = betaincinv(self.count + 1, self.of - self.count, 0.975) if self.count < self.of else 1.0
        return float(low), float(high)

    def __str__(self) -> str:
        if not self.of:
            return "–"
        low, high = self.interval
        return f"{self.count}/{self.of} = {self.count / self.of:.1%} [{low:.1%}, {high:.1%}]"


@dataclass(frozen=True, slots=True)
class Row:
    """What became of the tracks of one kind.

    change      relative change that was injected     detectable  median of the smallest detectable change
    seconds     median seconds to a verdict            quads       median number of quads
    """

    kind: str
    change: float
    slower: Rate
    same: Rate
    faster: Rate
    undecided: Rate
    seconds: float
    quads: float
    measured: float
    detectable: float | None

    @property
    def wrong(self) -> Rate:
        """False alarms where nothing changed; where something did, its being called the same or faster."""
        if self.change == 0:
            return self.slower
        return Rate(self.same.count + self.faster.count, self.same.of)

    @property
    def fault(self) -> str:
        """Why the gate cannot be trusted with this kind, or "": it errs more often than it may."""
        return f"{self.kind}: wrong in {self.wrong}" if self.wrong.interval[0] > ALLOWED else ""


#: Share of verdicts that may be wrong: what the statistics promise.
ALLOWED = 0.01


def row(kind: str, change: float, tracks: Sequence[Track]) -> Row:
    """Summarise the tracks of one kind. Raises ValueError when there is none that was sampled."""
    sampled = [track for track in tracks if not track.failure and track.interval]
    if not sampled:
        raise ValueError(f"{kind}: nothing was sampled: {tracks[0].failure if tracks else 'no tracks'}")
    rates = [Rate(sum(t.decision is decision for t in sampled), len(sampled)) for decision in _ORDER]
    found = [track.detectable for track in sampled if track.detectable is not None]
    return Row(
        kind,
        change,
        slower=rates[0],
        same=rates[1],
        faster=rates[2],
        undecided=rates[3],
        seconds=median(track.seconds for track in sampled),
        quads=median(len(track.differences) for track in sampled),
        measured=median(track.interval.centre for track in sampled if track.interval),
        detectable=median(found) if found else None,
    )


_ORDER = (Decision.SLOWER, Decision.SAME, Decision.FASTER, Decision.UNDECIDED)
