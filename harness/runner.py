"""Groups → Results: plan what fits the budget, then measure in random order, one row flushed at a time."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from harness.counting.certificates import Certificate, CertifiedFamily
from harness.executor import Executor
from harness.families import Family, families, sweeps_a_size
from harness.plan import (
    Estimate,
    measuring_seconds,
    nominal_seconds,
    predicted_call,
    remaining_seconds,
    skipped,
    too_costly_to_probe,
    within,
)
from harness.progress import Progress
from harness.protocol import Probed, Ready
from harness.store import RunFolder
from harness.suite import Group, Suite
from harness.types import Case, Result
from implementations.operation import operation
from implementations.registry import lookup

#: Metrics that call the implementation many times; without them a case costs a few calls.
TIMED = frozenset({"latency"})


@dataclass(slots=True)
class Runner:
    """Runs one suite on one executor into one folder.

    done  keys of the cases whose rows are already there (a resumed run)
    """

    suite: Suite
    device: str
    executor: Executor
    folder: RunFolder
    progress: Progress
    done: set[str] = field(default_factory=set)
    _estimates: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        """Plan, then measure. Every case of the suite ends as one row."""
        groups = self._open(self.suite.groups(self.device))
        self.progress.begin(sum(len(group.cases) for group in groups))
        chosen = self._plan(groups)
        self._estimates = {estimate.case.key: estimate.seconds for estimate in chosen}
        for lot, interpreted in self._lots(groups):
            rows = self.executor.measure(lot, interpreted, self.suite.metrics, self.progress.touch)
            for result in rows:
                self._keep(result)

    def certify(self, executor: Executor, certified: set[str]) -> None:
        """Find the exact polynomials of every family's counts, where growth is swept and counts are wanted.

        executor   works on the CPU, whatever the device of the run
        certified  keys of the cases whose families have their record already (a resumed run)
        """
        if "counts" not in self.suite.metrics:
            return
        growing = [part for part in self.suite.parts if sweeps_a_size(part)]
        for family in (family for part in growing for family in families(part)):
            if family.case.key not in certified:
                self.progress.certify(family.case)
                self.folder.append_certificates(certified_family(executor, family))

    def _open(self, groups: Iterable[Group]) -> list[Group]:
        """The groups without the cases that have their row already."""
        left = (
            replace(group, cases=tuple(c for c in group.cases if c.key not in self.done)) for group in groups
        )
        return [group for group in left if group.cases]

    def _keep(self, result: Result) -> None:
        self.folder.append(result)
        self.done.add(result.case.key)
        self.progress.row(result, remaining_seconds(self._estimates, self.done))

    def _plan(self, groups: list[Group]) -> list[Estimate]:
        """Probe every case in growing size; keep what fits the budget and write the other rows."""
        history: dict[tuple[str, object], list[tuple[int, float]]] = defaultdict(list)
        estimates: list[Estimate] = []
        for group in groups:
            for case in group.cases:
                if estimate := self._estimate(case, group.problem, history):
                    estimates.append(estimate)
        fits, rest = within(estimates, self.suite.budget)
        for estimate in rest:
            self._keep(skipped(estimate.case, estimate.seconds, self.suite.budget))
        return fits

    def _estimate(
        self,
        case: Case,
        problem: object,
        history: dict[tuple[str, object], list[tuple[int, float]]],
    ) -> Estimate | None:
        """The predicted cost of a case, or None when its row is written already."""
        interpreted = runs_interpreted(case)
        family = history[case.implementation, _family(case)]
        call = predicted_call(family, problem.flops())  # type: ignore[attr-defined]
        self.progress.probe(case)
        run = call is not None and not too_costly_to_probe(call, self.suite.budget)
        probed = self.executor.probe(case, interpreted, run)
        if call is None:  # nothing to extrapolate from: is a single call thinkable at all?
            call = nominal_seconds(probed, case.device.partition(":")[0])
            if probed.result is None and call <= self.suite.budget:
                probed = self.executor.probe(case, interpreted, run=True)
        if probed.result is not None:
            self._keep(probed.result)
            return None
        if probed.call is not None:
            call = probed.call
            family.append((problem.flops(), call))  # type: ignore[attr-defined]
        return Estimate(case, call, self._seconds(call, interpreted))

    def _seconds(self, call: float, interpreted: bool) -> float:
        ready = self.executor.ready(interpreted)
        timed = not interpreted and not TIMED.isdisjoint(self.suite.metrics)
        return measuring_seconds(call, ready.sampling, timed)

    def _lots(self, groups: list[Group]) -> Iterator[tuple[list[Case], bool]]:
        """What is measured together, in random order: drift over the run must not look like growth."""
        lots = []
        for group in groups:
            for interpreted in (False, True):
                lot = [
                    case
                    for case in group.cases
                    if case.key in self._estimates and runs_interpreted(case) is interpreted
                ]
                if lot:
                    lots.append((lot, interpreted))
        random.Random(0).shuffle(lots)
        yield from lots


def certified_family(executor: Executor, family: Family) -> CertifiedFamily:
    """Count one family of cases."""
    found = executor.certify(family.case, family.interpreted, family.sizes)
    certificates = tuple(Certificate.from_record(record) for record in found.certificates)
    return CertifiedFamily(family.case, family.pinned, certificates, found.uncertified)


def runs_interpreted(case: Case) -> bool:
    """Whether the case needs the worker in which Triton is interpreted."""
    return lookup(case.implementation).runs_interpreted(case.device.partition(":")[0])


def _family(case: Case) -> object:
    """What sizes are extrapolated within: everything but the axes that are swept over numbers."""
    sizes = set(operation(case.operation).variables.values())
    return tuple(sorted((a, v) for a, v in case.problem.items() if a not in sizes and not _is_size(a)))


def _is_size(axis: str) -> bool:
    return axis in ("kv_len", "kv_heads")


def dry_run(suite: Suite, device: str, executor: Executor) -> Iterator[Probed]:
    """Predict every case without running one."""
    for group in suite.groups(device):
        for case in group.cases:
            yield executor.probe(case, runs_interpreted(case), run=False)


def coverage(results: Iterable[Result]) -> Mapping[str, int]:
    """Cases by status, most frequent first."""
    counts: dict[str, int] = defaultdict(int)
    for result in results:
        counts[str(result.status)] += 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def lanes(suite: Suite, device: str) -> list[bool]:
    """The kinds of worker a suite needs: ordinary, interpreted, or both."""
    return sorted({runs_interpreted(case) for group in suite.groups(device) for case in group.cases})


def environment_of(executor: Executor, suite: Suite, device: str) -> Ready:
    """Start the first worker the suite needs and take its environment."""
    return executor.ready(lanes(suite, device)[0])
