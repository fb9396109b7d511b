"""`bench run`: a suite into a run folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from harness import SCHEMA_VERSION
from harness.commands.choice import Choice
from harness.progress import progress_for
from harness.protocol import Ready
from harness.runner import Runner, coverage, environment_of
from harness.store import RunFolder, read_certificates, read_rows, read_run
from harness.types import BenchError, ImplementationCard, Run, Status
from implementations import registry

RESULTS = Path("results")


class Interrupted(BenchError):
    """Ctrl-C: the run folder is whole and can be resumed."""

    exit_code = 130


class NothingMeasured(BenchError):
    """No case ended ok."""

    exit_code = 1


def measure(choice: Choice, out: Path | None, resume: bool, console: Console) -> Path:
    """Run the suite; the folder it wrote. Raises Interrupted and NothingMeasured."""
    path = _folder(choice, out, resume)
    folder = RunFolder(path)
    with folder.held():
        _measure(choice, folder, resume, console)
    _summarise(path, console)
    return path


def _measure(choice: Choice, folder: RunFolder, resume: bool, console: Console) -> None:
    """Run what has no row yet. Raises Interrupted."""
    path = folder.path
    folder.drop_torn_lines()
    done = {result.case.key for result in read_rows(path)} if resume else set()
    executor = choice.executor(path / "worker.log")
    counter = executor if choice.device == "cpu" else choice.on("cpu").executor(path / "worker.log")
    progress = progress_for(console, choice.swept)
    try:
        ready = environment_of(executor, choice.suite, choice.device)
        run = describe(choice, ready)
        folder.write_run(run)
        runner = Runner(choice.suite, choice.device, executor, folder, progress, done)
        runner.run()
        runner.certify(counter, {family.case.key for family in read_certificates(path)})
        folder.write_run(replace(run, finished=_now()))
    except KeyboardInterrupt:
        progress.end()
        raise Interrupted(
            f"stopped; {len(list(read_rows(path)))} rows are kept in {path}: go on with --resume --out {path}"
        ) from None
    finally:
        progress.end()
        executor.close()
        counter.close()


def _summarise(path: Path, console: Console) -> None:
    counts = coverage(read_rows(path))
    words = ", ".join(f"{count} {status}" for status, count in counts.items())
    console.print(f"{sum(counts.values())} cases: {words}")
    console.print(f"results: {path}", soft_wrap=True)
    if str(Status.OK) not in counts:
        raise NothingMeasured(f"no case could be measured; the reasons are in {path / 'rows.jsonl'}")


def _folder(choice: Choice, out: Path | None, resume: bool) -> Path:
    """The run folder: a new one or, to resume, one that holds rows of the same run."""
    if not resume:
        if out is not None and (out / "run.json").exists():
            raise BenchError(f"--out {out}: holds a run already; add --resume, or choose another folder")
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        name = f"{choice.suite.name}-{choice.device.replace(':', '')}-{stamp}"
        return out or RESULTS / name
    path = out or newest_unfinished(choice)
    recorded = read_run(path)
    if recorded.suite != choice.suite.describe() or recorded.device != choice.device:
        raise BenchError(
            f"--resume {path}: was run with another suite, device or options; "
            "repeat the same command line, or start afresh without --resume"
        )
    return path


def newest_unfinished(choice: Choice) -> Path:
    """The newest unfinished run of the same suite and device. Raises BenchError when there is none."""
    for path in sorted(RESULTS.glob(f"{choice.suite.name}-*/run.json"), reverse=True):
        recorded = read_run(path.parent)
        same = recorded.suite["name"] == choice.suite.name and recorded.device == choice.device
        if recorded.finished is None and same:
            return path.parent
    raise BenchError(f"--resume: no unfinished run of {choice.suite.name} on {choice.device} in {RESULTS}/")


def describe(choice: Choice, ready: Ready) -> Run:
    """run.json of a run that starts now."""
    suite = choice.suite
    operations = {part.operation.name: part.operation for part in suite.parts}
    conventions = {f"{name}: {known.flop_convention}" for name, known in operations.items()}
    return Run(
        schema=SCHEMA_VERSION,
        suite=suite.describe(),
        question=suite.question,
        operation=suite.operation.name,
        variables={v: axis for known in operations.values() for v, axis in known.variables.items()},
        flop_convention="; ".join(sorted(conventions)) if suite.also else suite.operation.flop_convention,
        device=choice.device,
        started=_now(),
        command=" ".join(sys.argv[1:]),
        environment=ready.environment,
        implementations=tuple(
            _card(name, part.claims.get(name, {})) for part in suite.parts for name in part.implementations
        ),
    )


def _card(name: str, claims: Mapping[str, str]) -> ImplementationCard:
    """What a report must know; the suite's claims stand before what the implementation declares."""
    known = registry.lookup(name)
    return ImplementationCard(name, known.summary, known.exact, {**known.laws, **claims})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
