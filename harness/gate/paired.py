"""The engine of paired runs: quads A B B A of many cases in turn, until each is decided. Imports no torch."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from harness.gate.quads import LOOKS, Decision, Interval, decide, detectable, difference, interval
from harness.protocol import Sampled
from harness.types import Case

#: Short cases go round the four places of a quad several times, so that both sides share what disturbs them:
#: as often as fills this time in each place, at most so often.
SAMPLE_SECONDS, DEEPEST = 20e-3, 8


class Sampler(Protocol):
    """One side, its cases held warm."""

    def sample(self, key: str, move: bool, turn: int) -> Sampled:
        """A sample of a case, in other memory if it is to `move`, on the CPU of the turn. May raise."""


def low(times: Sequence[float]) -> float:
    """The lower quintile of a few times; the least of up to four."""
    return sorted(times)[len(times) // 5]


@dataclass(frozen=True, slots=True)
class Pair:
    """What is compared: a case of side A with a case of side B."""

    name: str
    a: Case
    b: Case


@dataclass(slots=True)
class Track:
    """One pair while it is compared.

    failure  why it could not be sampled any more     seconds  that its quads took
    """

    pair: Pair
    differences: list[float] = field(default_factory=list)
    a: list[float] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    decision: Decision = Decision.UNDECIDED
    failure: str = ""
    seconds: float = 0.0
    depth: int = 1

    @property
    def open(self) -> bool:
        """Whether more quads may decide it."""
        undecided = self.decision is Decision.UNDECIDED and not self.failure
        return undecided and len(self.differences) < LOOKS[-1]

    @property
    def interval(self) -> Interval | None:
        """Of the logarithm of the ratio, at the confidence of a look; None below two quads."""
        return interval(self.differences) if len(self.differences) > 1 else None

    @property
    def detectable(self) -> float | None:
        """The smallest relative slowdown that this noise lets be found."""
        return detectable(self.differences)

    @property
    def medians(self) -> tuple[float, float] | None:
        """Of the samples of A and of B, in seconds."""
        return (median(self.a), median(self.b)) if self.a and self.b else None

    def quad(self, a: Sampler, b: Sampler, clock: Callable[[], float]) -> None:
        """One quad, A B B A twice, then B A A B twice (each on every one of two CPUs); at a look, decide."""
        began = clock()
        swapped = len(self.differences) // 2 % 2 == 1
        sides = ((b, self.pair.b.key), (a, self.pair.a.key))
        (outer, outer_key), (inner, inner_key) = sides if swapped else sides[::-1]
        turn = len(self.differences)
        rounds = [
            (
                outer.sample(outer_key, number == 0, turn),
                inner.sample(inner_key, number == 0, turn),
                inner.sample(inner_key, False, turn),
                outer.sample(outer_key, False, turn),
            )
            for number in range(self.depth)
        ]
        first, second, third, last = zip(*rounds, strict=True)
        ends, middle = (first, last), (second, third)
        self._add(*((middle, ends) if swapped else (ends, middle)))
        self.seconds += clock() - began
        self.decision = decide(self.differences)

    def _add(self, a: Sequence[Sequence[Sampled]], b: Sequence[Sequence[Sampled]]) -> None:
        """The quad of these places, each the low quantile of its samples: contention only adds time."""
        of_a, of_b = ([low([sample.judged for sample in place]) for place in side] for side in (a, b))
        self.differences.append(difference(of_a, of_b))
        self.a += of_a
        self.b += of_b
        walls_a, walls_b = (
            [low([sample.wall for sample in place if sample.wall is not None] or [0.0]) for place in side]
            for side in (a, b)
        )
        if min(*walls_a, *walls_b) > 0:
            self.wall.append(difference(walls_a, walls_b))
        if len(self.differences) == 1:
            self.depth = max(1, min(DEEPEST, round(SAMPLE_SECONDS / min(of_a + of_b))))


def compare(
    pairs: Iterable[Pair],
    a: Sampler,
    b: Sampler,
    failures: tuple[type[Exception], ...] = (),
    clock: Callable[[], float] = time.monotonic,
) -> list[Track]:
    """Quads of every pair in turn, in an order shuffled anew each round, until all are decided.

    failures  exceptions of a sampler that end everything that is still open: its cases are lost
    """
    tracks = [Track(pair) for pair in pairs]
    shuffle = random.Random(0).shuffle
    while turn := [track for track in tracks if track.open]:
        shuffle(turn)
        for track in turn:
            try:
                track.quad(a, b, clock)
            except ValueError as error:  # the clock saw no time pass
                track.failure = str(error)
            except failures as error:
                _end(tracks, track, str(error))
                return tracks
    return tracks


def _end(tracks: Sequence[Track], guilty: Track, reason: str) -> None:
    for track in tracks:
        if track.open:
            track.failure = reason if track is guilty else f"{guilty.pair.name} ended the session: {reason}"
