"""Confirming the breaches of `bench check`: fresh paired runs of the two commits."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from harness.gate.builds import CHECKOUT, Build, build, git
from harness.gate.busy import refuse_if_busy
from harness.gate.confirming import RUNS, Outcome, settled, suspects
from harness.gate.findings import Judgement
from harness.gate.paired import Pair
from harness.gate.session import Lot, session
from harness.gate.side import Record, Side
from harness.types import BenchError, Case

#: Seconds that one step of a case may take.
TIMEOUT = 120.0


def confirmed(judgement: Judgement, candidate: Side, baseline: Side, console: Console) -> Judgement:
    """The judgement with its breaches measured again; where that is not possible, a warning says why."""
    records = [candidate.records[finding.case] for finding in suspects(judgement)]
    try:
        kind = candidate.environment.device.kind
        device = _device(kind)
        refuse_if_busy(device, allow=False)
        with ExitStack() as stack:
            base = stack.enter_context(build(_commit(baseline, "baseline")))
            head = stack.enter_context(build(_head(candidate)))
            console.print(f"{len(records)} suspected: {RUNS} paired runs against {base.name}", soft_wrap=True)
            outcomes = _outcomes(base, head, device, records)
    except BenchError as reason:
        words = f"not confirmed: {reason}"
        return replace(judgement, warnings=(*judgement.warnings, words))
    return settled(judgement, outcomes)


def _device(kind: str) -> str:
    from harness.devices.select import resolve

    return resolve(kind)


def _commit(side: Side, what: str) -> str:
    """The newest commit of a side. Raises BenchError when it is unknown."""
    if not side.commits:
        raise BenchError(f"the commit of the {what} is unknown")
    return side.commits[-1]


def _head(candidate: Side) -> str | None:
    """The candidate's commit; the working tree where that is its commit, with what is not committed."""
    commit = _commit(candidate, "candidate")
    return None if commit == git(CHECKOUT, "rev-parse", "HEAD") else commit


def _outcomes(base: Build, head: Build, device: str, records: Sequence[Record]) -> dict[str, list[Outcome]]:
    """What each fresh session says; one whose controls fail says nothing."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    lots = _lots(records, device)
    operation = records[0].key.partition("/")[0]
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(RUNS):
            log = Path(scratch) / f"{number}.log"
            with session(base, head, device, operation, TIMEOUT, log) as running:
                if running.controls().fault:
                    continue
                for one in [compared for lot in lots for compared in running.run(lot, ())]:
                    if one.track and one.track.interval and not one.track.failure:
                        outcome = Outcome(one.track.decision, one.track.interval.centre)
                        found[one.pair.name].append(outcome)
    return {record.key: found[record.key] for record in records}


def _lots(records: Sequence[Record], device: str) -> list[Lot]:
    """The suspects by problem, as pairs of the same case."""
    grouped: dict[tuple[tuple[str, object], ...], list[Pair]] = defaultdict(list)
    for record in records:
        case = Case(record.implementation, record.key.partition("/")[0], device, record.problem)
        grouped[tuple(sorted(record.problem.items()))].append(Pair(record.key, case, case))
    return [Lot(tuple(pairs)) for pairs in grouped.values()]
