"""Several runs on one page: those of one machine overlaid, those of different machines side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from harness.counting.certificates import CertifiedFamily
from harness.report import claims
from harness.report.impossible import marked
from harness.report.records import MACHINE, OWN_TIME, Records, arrange, labelled
from harness.store import read_certificates, read_rows, read_run
from harness.types import BenchError, Case, Result, Run, Scalar

#: A longer label would leave no room for the name of the implementation beside a figure.
LONGEST = 8


@dataclass(frozen=True)
class Source:
    """One run with its rows.

    label   what tells it from the others on the page, empty when it is alone
    folder  the name of its folder, where it was read from one
    claims  verdicts on the claims of the reference document, where they were checked beside it
    """

    label: str
    run: Run
    rows: tuple[Result, ...]
    certified: tuple[CertifiedFamily, ...] = ()
    folder: str = ""
    claims: tuple[claims.Record, ...] = ()

    @cached_property
    def records(self) -> Records:
        """Its rows arranged, those whose time cannot be marked."""
        return marked(arrange(self.run, self.rows, self.certified))

    @property
    def machine(self) -> tuple[Scalar, ...]:
        """What identifies the machine, as far as a run tells."""
        environment = self.run.environment
        host = (environment.host.get(name) for name in ("cpu", "cores", "memory_total_bytes"))
        device = environment.device
        return device.kind, device.name, device.facts.get("memory_bytes"), *host


def read(folders: Sequence[Path]) -> tuple[Source, ...]:
    """The runs of some folders. Raises UnreadableRun, and BenchError where one is named twice."""
    doubled = [f for f, count in Counter(folder.resolve() for folder in folders).items() if count > 1]
    if doubled:
        raise BenchError(f"{doubled[0]}: named twice; name each run once")
    names = [folder.resolve().name for folder in folders]
    return tuple(
        Source(
            label,
            read_run(folder),
            tuple(read_rows(folder)),
            tuple(read_certificates(folder)),
            name,
            claims.read_claims(folder),
        )
        for folder, name, label in zip(folders, names, _labels(names), strict=True)
    )


def _labels(names: Sequence[str]) -> list[str]:
    """What follows the parts that all folder names begin with; numbers where that is long."""
    if len(names) < 2:
        return [""] * len(names)
    parts = [re.split(r"(?<=[-_.])", name) for name in names]
    while all(len(own) > 1 for own in parts) and len({own[0] for own in parts}) == 1:
        parts = [own[1:] for own in parts]
    short = ["".join(own) for own in parts]
    if len(set(short)) == len(short) and max(map(len, short)) <= LONGEST:
        return short
    return [f"run {number}" for number in range(1, len(names) + 1)]


def combined(sources: Sequence[Source]) -> Records:
    """The rows of all runs: a run of a shared machine labels its implementations, machines become an axis."""
    if len(sources) == 1:
        return sources[0].records
    shared = Counter(source.machine for source in sources)
    machines = _machines(sources)
    tell = len(machines) > 1
    clocks = {source.records.time for source in sources if source.records.time}
    moved = [
        _Move(
            source.label if shared[source.machine] > 1 else "",
            machines[source.machine] if tell else "",
            source.records.time if len(clocks) > 1 else None,
        )
        for source in sources
    ]
    rows = [move.row(r) for move, s in zip(moved, sources, strict=True) for r in s.records.results]
    families = [move.family(f) for move, s in zip(moved, sources, strict=True) for f in s.certified]
    records = arrange(_run(sources, moved), rows, families)
    devices = {machines[s.machine]: s.run.environment.device for s in sources} if tell else {}
    return replace(records, machines=devices)


def _machines(sources: Sequence[Source]) -> Mapping[tuple[Scalar, ...], str]:
    """Machine → its name, numbered where two are called alike."""
    names: dict[tuple[Scalar, ...], str] = {}
    for source in sources:
        name = source.run.environment.device.name
        if source.machine not in names:
            alike = sum(used == name or used.startswith(f"{name} (") for used in names.values())
            names[source.machine] = f"{name} ({alike + 1})" if alike else name
    return names


@dataclass(frozen=True, slots=True)
class _Move:
    """How the rows of one run appear among those of others; clock: the time that is copied to `own_time`."""

    label: str
    machine: str
    clock: str | None

    def case(self, case: Case) -> Case:
        problem = {**case.problem, MACHINE: self.machine} if self.machine else case.problem
        return replace(case, implementation=labelled(case.implementation, self.label), problem=problem)

    def row(self, result: Result) -> Result:
        own = result.metrics.get(self.clock or "")
        metrics = {**result.metrics, OWN_TIME: own} if own else result.metrics
        return replace(result, case=self.case(result.case), metrics=metrics)

    def family(self, family: CertifiedFamily) -> CertifiedFamily:
        return replace(family, case=self.case(family.case))


def _run(sources: Sequence[Source], moved: Sequence[_Move]) -> Run:
    """One description of all runs; what belongs to one of them alone stands in the table of runs."""
    runs = [source.run for source in sources]
    cards = {
        labelled(card.name, move.label): replace(card, name=labelled(card.name, move.label))
        for move, run in zip(moved, runs, strict=True)
        for card in run.implementations
    }
    finished = [run.finished for run in runs]
    return replace(
        runs[0],
        suite={
            **runs[0].suite,
            "name": " and ".join(_each(str(run.suite.get("name", "run")) for run in runs)),
        },
        question=" ".join(_each(run.question for run in runs)),
        variables={symbol: axis for run in runs for symbol, axis in run.variables.items()},
        flop_convention="; ".join(_each(run.flop_convention for run in runs)),
        device=", ".join(_each(run.device for run in runs)),
        started=min(run.started for run in runs),
        finished=max(filter(None, finished)) if all(finished) else None,
        implementations=tuple(cards.values()),
    )


def _each(words: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word]
