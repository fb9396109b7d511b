"""The paired engine on made-up machines: drift, noise, deaths; and what findings become of it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from harness.executor import WorkerDied
from harness.gate.findings import Verdict
from harness.gate.paired import Pair, Track, compare, low
from harness.gate.quads import LOOKS, Decision
from harness.gate.session import Compared, Controls
from harness.gate.verdicts import findings
from harness.protocol import Sampled
from harness.types import Case, Measurement, Result, Status


@dataclass
class Machine:
    """Time passes, the clock drifts, and two processes share it."""

    noise: float = 0.01
    drift: float = 0.0
    random: Random = field(default_factory=lambda: Random(4))
    calls: list[tuple[str, str, bool]] = field(default_factory=list)

    def seconds(self, true: float) -> float:
        slow = math.exp(self.drift * len(self.calls))
        return true * slow * math.exp(self.random.gauss(0, self.noise))


@dataclass
class Side:
    """One side of the machine: what its cases truly take."""

    name: str
    machine: Machine
    times: dict[str, float]
    dies_after: int = 10**9

    def sample(self, key: str, move: bool, turn: int) -> Sampled:
        if len(self.machine.calls) >= self.dies_after:
            raise WorkerDied(Status.CRASHED, "crashed with SIGSEGV")
        self.machine.calls.append((self.name, key, move))
        found = self.machine.seconds(self.times[key])
        return Sampled(found, 2 * found)


def case(name: str) -> Case:
    return Case(name, "attention", "cpu", {"seq_len": 64, "dtype": "float32"})


def pair(name: str, other: str | None = None) -> Pair:
    return Pair(name, case(name), case(other or name))


def run(
    machine: Machine, change: float, names: tuple[str, ...] = ("x",), dies_after: int = 10**9
) -> list[Track]:
    a = Side("A", machine, {case(n).key: 0.02 for n in names})
    b = Side("B", machine, {case(n).key: 0.02 * (1 + change) for n in names}, dies_after)
    return compare([pair(name) for name in names], a, b, (WorkerDied,), itertools.count().__next__)


def test_the_order_is_abba_then_baab_and_each_side_moves_once() -> None:
    machine = Machine()
    run(machine, 0.0)
    order = "".join(name for name, _, _ in machine.calls)
    assert order[:16] == "ABBAABBABAABBAAB"
    assert [move for _, _, move in machine.calls[:4]] == [True, True, False, False]


@pytest.mark.parametrize("drift", [0.0, 0.01])
@pytest.mark.parametrize(
    ("change", "decision"),
    [(0.0, Decision.SAME), (0.05, Decision.SLOWER), (0.10, Decision.SLOWER), (-0.1, Decision.FASTER)],
)
def test_decisions_survive_a_drift(change: float, decision: Decision, drift: float) -> None:
    (track,) = run(Machine(drift=drift), change)
    assert track.decision is decision
    assert len(track.differences) in LOOKS
    assert track.interval is not None
    assert track.interval.centre == pytest.approx(math.log1p(change), abs=0.02)


def test_noise_beyond_measuring_ends_undecided_at_the_last_look() -> None:
    (track,) = run(Machine(noise=0.5), 0.05)
    assert (track.decision, len(track.differences)) == (Decision.UNDECIDED, LOOKS[-1])
    assert (track.detectable or 0) > 0.1


def test_many_cases_are_interleaved_and_decided_each_for_itself() -> None:
    machine = Machine()
    a = Side("A", machine, {case("x").key: 0.02, case("y").key: 0.02})
    b = Side("B", machine, {case("x").key: 0.021, case("y").key: 0.02})
    slow, same = compare([pair("x"), pair("y")], a, b)
    assert (slow.decision, same.decision) == (Decision.SLOWER, Decision.SAME)
    assert len({key for _, key, _ in machine.calls[:8]}) == 2


def test_a_death_ends_what_is_open_and_names_the_guilty() -> None:
    tracks = run(Machine(), 0.0, ("x", "y"), dies_after=6)
    words = sorted(track.failure for track in tracks)
    assert words[0] == "crashed with SIGSEGV"
    assert words[1].endswith("ended the session: crashed with SIGSEGV")
    assert {track.decision for track in tracks} == {Decision.UNDECIDED}


def test_a_clock_that_stands_still_is_a_failure_in_words() -> None:
    (track,) = run(Machine(), -1.0)
    assert "positive times" in track.failure


def test_a_short_case_is_sampled_deeper() -> None:
    machine = Machine()
    side = Side("A", machine, {case("x").key: 0.004})
    (track,) = compare([pair("x")], side, side)
    assert track.depth == 5
    assert low([3.0, 1.0, 2.0, 9.0, 8.0]) == 2.0
    assert low([5.0]) == 5.0


def compared(track: Track, **after: object) -> Compared:
    metrics = {"peak_memory": Measurement(1e7, "B"), "error": Measurement(1e-7, "1")}
    timing = {"threads_in_use": 1, "usable_threads": 2}
    row = Result(case("x"), Status.OK, metrics=metrics, kernels=("flash",), timing=timing)
    return Compared(track.pair, row, replace(row, **after), track)  # type: ignore[arg-type]


def time_verdict(*sessions: Compared, fault: str = "", blind: str = "") -> Verdict:
    (found,) = (f for f in findings(sessions, fault, blind) if f.metric == "time")
    return found.verdict


def test_slower_needs_every_session() -> None:
    (slow,), (same,) = run(Machine(), 0.1), run(Machine(), 0.0)
    assert time_verdict(compared(slow)) is Verdict.SLOWER
    assert time_verdict(compared(slow), compared(slow)) is Verdict.SLOWER
    assert time_verdict(compared(slow), compared(same)) is Verdict.AMBIGUOUS
    assert time_verdict(compared(same)) is Verdict.SAME


def test_a_control_that_errs_takes_every_verdict_and_a_blind_one_those_of_the_same() -> None:
    (slow,), (same,) = run(Machine(), 0.1), run(Machine(), 0.0)
    assert time_verdict(compared(slow), fault="A against A is slower") is Verdict.AMBIGUOUS
    assert time_verdict(compared(same), fault="A against A is slower") is Verdict.AMBIGUOUS
    assert time_verdict(compared(same), blind="too noisy") is Verdict.AMBIGUOUS
    assert time_verdict(compared(slow), blind="too noisy") is Verdict.SLOWER


@pytest.mark.parametrize(
    ("negative", "positive", "fault", "blind"),
    [
        (0.0, 0.05, "", ""),
        (0.1, 0.05, "A against A came out slower, not same", ""),
        (0.0, 0.0, "5 % more work came out same, not slower", ""),
    ],
)
def test_controls(negative: float, positive: float, fault: str, blind: str) -> None:
    (first,), (second,) = run(Machine(), negative), run(Machine(), positive)
    controls = Controls(first, second)
    assert (controls.fault, controls.blind) == (f"the control {fault}" if fault else "", blind)


def test_an_undecided_control_makes_blind() -> None:
    (noisy,), (slow,) = run(Machine(noise=0.5), 0.0), run(Machine(), 0.05)
    assert Controls(noisy, slow).fault == ""
    assert "A against A" in Controls(noisy, slow).blind


def test_more_threads_than_cpus_are_never_the_same() -> None:
    (same,) = run(Machine(), 0.0)
    crowded = compared(same, timing={"threads_in_use": 8, "usable_threads": 2})
    (found,) = (f for f in findings([crowded], "") if f.metric == "time")
    assert found.verdict is Verdict.AMBIGUOUS
    assert "8 threads on 2 CPUs" in found.words


def test_memory_and_errors_are_judged_beside_the_time() -> None:
    (same,) = run(Machine(), 0.0)
    worse = {"peak_memory": Measurement(3e7, "B"), "error": Measurement(5e-2, "1")}
    found = {f.metric: f.verdict for f in findings([compared(same, metrics=worse)], "")}
    assert found == {
        "time": Verdict.SAME, "peak_memory": Verdict.SLOWER, "accuracy": Verdict.NEWLY_FAILED,
    }  # fmt: skip


def test_a_case_that_fails_on_one_side_has_no_time() -> None:
    failed = Result(case("x"), Status.INCORRECT, "the output is off by 1")
    row = replace(failed, status=Status.OK, reason="")
    (found,) = findings([Compared(pair("x"), row, failed, None)], "")
    assert (found.metric, found.verdict) == ("accuracy", Verdict.NEWLY_FAILED)
    (fixed,) = findings([Compared(pair("x"), failed, row, None)], "")
    assert fixed.verdict is Verdict.FIXED
