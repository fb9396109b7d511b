"""`bench ab`: two builds side by side on one device."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from rich.console import Console

from harness.commands.choice import Choice
from harness.gate.builds import Build, build
from harness.gate.busy import refuse_if_busy
from harness.gate.delivery import Outputs
from harness.gate.findings import Finding, Judgement
from harness.gate.paired import Pair
from harness.gate.quads import Decision
from harness.gate.session import Compared, Controls, Lot, session
from harness.gate.verdicts import findings
from harness.runner import runs_interpreted
from harness.suite import Suite
from harness.types import BenchError

#: Metrics that are judged beside the time.
JUDGED = ("accuracy", "memory")


@dataclass(frozen=True, slots=True)
class AbRequest:
    """What a command line asks for; `head` None is the working tree."""

    base: str
    head: str | None
    suite: Path
    device: str
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    allow_busy: bool = False


def compare_builds(request: AbRequest, outputs: Outputs, console: Console) -> int:
    """Compare, deliver; the exit code. Raises BenchError and what is special of it: Busy, NotComparable."""
    choice = _choice(request)
    load = refuse_if_busy(choice.device, request.allow_busy)
    for words in load:
        console.print(f"note: {words}", soft_wrap=True)
    with ExitStack() as stack:
        base = stack.enter_context(build(request.base, request.plugins))
        head = stack.enter_context(build(request.head, request.plugins))
        judgement = ab(base, head, choice.suite, choice.device, console)
    return outputs.deliver(replace(judgement, warnings=(*load, *judgement.warnings)), console)


def _choice(request: AbRequest) -> Choice:
    """The suite; with plugin files, only what they register. Raises BenchError."""
    files = [what for what in (request.base, request.head or "") if what.endswith(".py")]
    if len(files) == 1:
        raise BenchError(f"{files[0]}: compare a plugin file with another: bench ab BASE.py HEAD.py")
    joined = [*request.plugins, *([Path(str(request.head))] if files else [])]
    choice = Choice.read(
        request.suite, request.device, only=() if files else request.only, skip=() if files else request.skip,
        settings=request.settings, plugins=joined,
    )  # fmt: skip
    if not files:
        return choice
    names = _registered(Path(str(request.head)))
    kept = tuple(name for name in choice.suite.implementations if name in names)
    return replace(choice, suite=replace(choice.suite, implementations=kept))


def _registered(path: Path) -> set[str]:
    """The names that a file, loaded already, registers."""
    from implementations.registry import implementations

    return {known.name for known in implementations() if Path(known.source).resolve() == path.resolve()}


def lots(suite: Suite, device: str) -> Iterator[Lot]:
    """Pairs of the same case in both builds, a lot for each problem and kind of worker."""
    for group in suite.groups(device):
        for interpreted in (False, True):
            pairs = tuple(
                Pair(case.key, case, case) for case in group.cases if runs_interpreted(case) is interpreted
            )
            if pairs:
                yield Lot(pairs, interpreted)


def ab(base: Build, head: Build, suite: Suite, device: str, console: Console) -> Judgement:
    """One session with every case; then, for those that are slower, another in fresh processes."""
    began = time.monotonic()
    found, controls = measured(base, head, suite, device, list(lots(suite, device)))
    words, fault = controls.words, controls.fault
    slower = {one.pair.name for one in found if one.track and one.track.decision is Decision.SLOWER}
    again: dict[str, Compared] = {}
    if slower and not fault:
        console.print(f"{len(slower)} slower: again in fresh processes", soft_wrap=True)
        few = [
            replace(lot, pairs=kept)
            for lot in lots(suite, device)
            if (kept := tuple(pair for pair in lot.pairs if pair.name in slower)) and not lot.interpreted
        ]
        confirmed, second = measured(base, head, suite, device, few)
        again = {one.pair.name: one for one in confirmed}
        words, fault = f"{words}; again: {second.words}", second.fault
    seconds = [one.track.seconds for one in found if one.track]
    facts: dict[str, float | str] = {"controls": words, "seconds": round(time.monotonic() - began, 1)}
    if seconds:
        facts["median seconds to a verdict"] = round(median(seconds), 3)
    return Judgement(head.name, base.name, tuple(_findings(found, again, fault, controls.blind)), facts=facts)


def _findings(
    found: Sequence[Compared], again: dict[str, Compared], fault: str, blind: str
) -> Iterator[Finding]:
    for one in found:
        sessions = [one, *([again[one.pair.name]] if one.pair.name in again else [])]
        yield from findings(sessions, fault, blind)


def measured(
    base: Build, head: Build, suite: Suite, device: str, todo: Sequence[Lot]
) -> tuple[list[Compared], Controls]:
    """One session: its controls, then every lot. Raises BenchError when a side cannot start."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "worker.log"
        with session(base, head, device, suite.operation.name, suite.timeout, log) as running:
            controls = running.controls()
            return [one for lot in todo for one in running.run(lot, JUDGED)], controls
