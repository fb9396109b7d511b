"""One session: two fresh processes, their controls, and the pairs that are compared in them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.executor import WorkerDied
from harness.gate.builds import Build, SideExecutor
from harness.gate.paired import Pair, Track, compare
from harness.gate.quads import Decision
from harness.types import Case, Result, Scalar, Status

#: Length of a head of the control, and the dtype: long enough to be seen by the device's timer.
CONTROL_PROBLEM: Mapping[str, Mapping[str, Scalar]] = {
    "cpu": {"seq_len": 128, "head_dim": 64, "dtype": "float32"},
    "cuda": {"seq_len": 4096, "head_dim": 64, "dtype": "float16"},
}
HEADS, MORE_HEADS = 20, 21


@dataclass(frozen=True, slots=True)
class Lot:
    """Pairs of one problem, held together; `interpreted` ones are judged and not timed."""

    pairs: tuple[Pair, ...]
    interpreted: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """One pair after a session: the rows of both sides, and its quads where it was timed."""

    pair: Pair
    before: Result
    after: Result
    track: Track | None


@dataclass(frozen=True, slots=True)
class Controls:
    """The controls of a session: A against A, and against 5 % more work."""

    negative: Track
    positive: Track

    @property
    def fault(self) -> str:
        """Why no time of the session can be believed, or ""."""
        for track, wanted, words in self._both:
            if track.failure:
                return f"the control {words} failed: {track.failure}"
            if track.decision not in (wanted, Decision.UNDECIDED):
                return f"the control {words} came out {track.decision}, not {wanted}"
        return ""

    @property
    def blind(self) -> str:
        """Why the session cannot say that anything stayed the same, or "": it did not see the controls."""
        unseen = [words for track, _, words in self._both if track.decision is Decision.UNDECIDED]
        return f"too noisy to decide the control {unseen[0]}" if unseen else ""

    @property
    def _both(self) -> tuple[tuple[Track, Decision, str], ...]:
        return (
            (self.negative, Decision.SAME, "A against A"),
            (self.positive, Decision.SLOWER, "5 % more work"),
        )

    @property
    def words(self) -> str:
        """Both, as a reader wants them."""
        return f"A against A {self.negative.decision}, +5 % {self.positive.decision}"


@dataclass(slots=True)
class Session:
    """Two fresh processes with their controls held."""

    a: SideExecutor
    b: SideExecutor
    device: str
    started: float

    def controls(self) -> Controls:
        """Run both controls. Their failure is in their tracks."""
        few, many = (_control(self.device, heads) for heads in (HEADS, MORE_HEADS))
        pairs = (Pair("control: A against A", few, few), Pair("control: 5 % more work", few, many))
        held = [
            result
            for side, cases in ((self.a, (few,)), (self.b, (few, many)))
            for case in cases
            for result in side.hold([case], False, (), False)
        ]
        if bad := [result for result in held if result.status is not Status.OK]:
            tracks = [Track(pair, failure=bad[0].reason) for pair in pairs]
        else:
            tracks = compare(pairs, self.a, self.b, (WorkerDied,))
        return Controls(*tracks)

    def run(self, lot: Lot, metrics: Sequence[str]) -> list[Compared]:
        """Judge the pairs of a problem on both sides, then compare those that are ok on both."""
        before = self._held(self.a, [pair.a for pair in lot.pairs], lot, metrics)
        after = self._held(self.b, [pair.b for pair in lot.pairs], lot, metrics)
        fine = [
            pair
            for pair in lot.pairs
            if before[pair.a.key].status is Status.OK and after[pair.b.key].status is Status.OK
        ]
        tracks = [] if lot.interpreted else compare(fine, self.a, self.b, (WorkerDied,))
        found = {track.pair.name: track for track in tracks}
        return [
            Compared(pair, before[pair.a.key], after[pair.b.key], found.get(pair.name)) for pair in lot.pairs
        ]

    def _held(
        self, side: SideExecutor, cases: Iterable[Case], lot: Lot, metrics: Sequence[str]
    ) -> dict[str, Result]:
        distinct = list({case.key: case for case in cases}.values())
        results = side.hold(distinct, lot.interpreted, metrics, release=True)
        return {result.case.key: result for result in results}


@contextmanager
def session(
    base: Build, head: Build, device: str, operation: str, timeout: float, log: Path
) -> Iterator[Session]:
    """Fresh processes of both builds; they end with the block. Raises BenchError when one cannot start."""
    sides = [build.executor(device, operation, timeout, log) for build in (base, head)]
    try:
        for side in sides:
            side.ready(False)
        yield Session(sides[0], sides[1], device, time.monotonic())
    finally:
        for side in sides:
            side.close()


def _control(device: str, heads: int) -> Case:
    """The control's case. The problem's other axes are those it has by default."""
    axes = {**CONTROL_PROBLEM[device.partition(":")[0]], "heads": heads}
    return Case("gate_control", "attention", device, axes)
