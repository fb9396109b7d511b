"""Proves the gate on this machine: nothing changed, known slowdowns, and faults that must turn it red."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.gate.builds import CHECKOUT, Build
from harness.gate.compare import judge
from harness.gate.findings import PASS, UNDECIDED, Finding, Judgement, Verdict
from harness.gate.paired import Pair, Track
from harness.gate.rates import Row, row
from harness.gate.reading import run_side
from harness.gate.session import Lot, Session, session
from harness.gate.verdicts import findings
from harness.types import Case, Scalar

KERNELS = Path(__file__).with_name("faulty_kernels.py")
HEADS = 20
#: Computing one or two of twenty heads twice is 5 or 10 % more work.
KINDS = (("A against A", 0.0, "work"), ("+5 %", 0.05, "work:slower_1"), ("+10 %", 0.10, "work:slower_2"))
#: Faults that no noise can hide.
FAULTS = ("wrong_mask", "dropped_scale", "constant_time", "leaked_memory")
REFERENCE = ("naive", "sdpa_math", "sdpa_flash")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is tried: fresh pairs of processes, and verdicts of each kind in every one of them."""

    sessions: int
    unchanged: int
    slowed: int


QUICK, FULL = Size(1, 10, 6), Size(10, 30, 10)


@dataclass(slots=True)
class SelfCheck:
    """What was found: rates by kind, what each fault was called, and what real kernels would show."""

    rows: list[Row] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    kernels: dict[str, Track] = field(default_factory=dict)
    controls: list[str] = field(default_factory=list)

    @property
    def failures(self) -> tuple[str, ...]:
        """Why the gate is not to be trusted here."""
        return (*(found.fault for found in self.rows if found.fault), *self.missed)


def self_check(device: str, size: Size, say: Callable[[str], None]) -> SelfCheck:
    """Run everything. Raises BenchError when the workers cannot start."""
    found = SelfCheck()
    tracks: dict[str, list[Track]] = {kind: [] for kind, _, _ in KINDS}
    build = Build("this checkout", CHECKOUT, (str(KERNELS),))
    for number in range(1, size.sessions + 1):
        with (
            tempfile.TemporaryDirectory() as scratch,
            session(build, build, device, "attention", 120.0, Path(scratch) / "log") as running,
        ):
            found.controls.append(running.controls().words)
            for kind, compared in _rates(running, device, size):
                tracks[kind].append(compared)
            if number == size.sessions:
                _faults(running, device, found)
                _kernels(running, device, found)
                _oversubscribed(running, device, found)
        say(f"session {number} of {size.sessions}")
    found.rows = [row(kind, change, tracks[kind]) for kind, change, _ in KINDS]
    return found


def _case(name: str, device: str, **axes: Scalar) -> Case:
    kind = device.partition(":")[0]
    usual: dict[str, Scalar] = {"seq_len": 128, "dtype": "float32"}
    if kind == "cuda":
        usual = {"seq_len": 4096, "dtype": "float16"}
    problem = {**usual, "heads": HEADS, "head_dim": 64, "causal": True, **axes}
    return Case(name, "attention", device, problem)


def _rates(running: Session, device: str, size: Size) -> Iterator[tuple[str, Track]]:
    """The verdicts of every kind, all of them interleaved."""
    pairs = [
        Pair(f"{kind} #{number}", _case("work", device), _case(name, device))
        for kind, change, name in KINDS
        for number in range(size.slowed if change else size.unchanged)
    ]
    for one in running.run(Lot(tuple(pairs)), ()):
        if one.track:
            yield one.pair.name.rpartition(" #")[0], one.track


def _faults(running: Session, device: str, found: SelfCheck) -> None:
    """Each fault must be found, and be called what it is."""
    pairs = tuple(Pair(fault, _case("work", device), _case(f"work:{fault}", device)) for fault in FAULTS)
    slower = Pair("10 % slowdown", _case("work", device), _case("work:slower_2", device))
    for one in running.run(Lot((*pairs, slower)), ("memory",)):
        judgement = Judgement("", "", tuple(findings([one], "")))
        found.faults[one.pair.name] = _outcome(judgement, one.pair.name, found)
    found.faults["missing case"] = _outcome(_missing(), "missing case", found)


def _outcome(judgement: Judgement, fault: str, found: SelfCheck) -> str:
    """What the gate says of a fault, noted where it does not turn red."""
    code = judgement.exit_codes(fail_on_undecided=True)[0]
    worst = judgement.ordered[0]
    words = f"exit {code}: {worst.verdict}: {worst.words}"
    if code == PASS:
        found.missed.append(f"{fault}: the gate stays green: {worst.words}")
    elif code == UNDECIDED:
        found.undecided.append(f"{fault}: {worst.words}")
    return words


def _missing() -> Judgement:
    """The reference run against itself with its last case gone."""
    run = run_side(CHECKOUT / "results" / "reference-seq_scaling-cpu")
    less = dict(list(run.records.items())[:-1])
    return judge(replace(run, records=less), run)


def _kernels(running: Session, device: str, found: SelfCheck) -> None:
    """Real kernels against themselves: the smallest change that each lets be found."""
    cases = [_case(name, device, seq_len=512, heads=4) for name in REFERENCE]
    for one in running.run(Lot(tuple(Pair(case.implementation, case, case) for case in cases)), ()):
        if one.track:
            found.kernels[one.pair.name] = one.track


def _oversubscribed(running: Session, device: str, found: SelfCheck) -> None:
    """Too many threads: whatever the clocks say, it must be undecided. Last, since it spoils its process."""
    if device.partition(":")[0] != "cpu":
        return
    pair = Pair("oversubscribed", _case("work", device), _case("work:oversubscribed", device))
    (one,) = running.run(Lot((pair,)), ())
    times: Sequence[Finding] = [f for f in findings([one], "") if f.metric == "time"]
    found.faults[pair.name] = "; ".join(f"{finding.verdict}: {finding.words}" for finding in times)
    if any(finding.verdict is not Verdict.AMBIGUOUS for finding in times) or not times:
        found.missed.append(f"oversubscribed: not undecided: {found.faults[pair.name]}")
