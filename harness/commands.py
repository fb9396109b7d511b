"""What the commands of `bench` do, once torch may be imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from ruamel.yaml.error import YAMLError

from harness import SCHEMA_VERSION, format
from harness.devices.select import open_device, resolve
from harness.executor import WorkerExecutor
from harness.located_yaml import SuiteError, parse_value
from harness.plan import measuring_seconds, predicted_seconds
from harness.progress import label, progress_for
from harness.protocol import Probed, Ready
from harness.runner import Runner, coverage, dry_run, environment_of, runs_interpreted
from harness.store import RunFolder, read_rows, read_run
from harness.suite import Suite, read_suite
from harness.types import BenchError, ImplementationCard, Run, Status
from implementations import registry
from implementations.operation import operation_names

RESULTS = Path("results")


class Interrupted(BenchError):
    """Ctrl-C: the run folder is whole and can be resumed."""

    exit_code = 130


class NothingMeasured(BenchError):
    """No case ended ok."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Choice:
    """What a command line asks for: the suite as it will run, the device, and the plugins."""

    suite: Suite
    device: str
    plugins: tuple[str, ...]

    @classmethod
    def read(
        cls,
        path: Path,
        device: str,
        *,
        only: Sequence[str] = (),
        skip: Sequence[str] = (),
        settings: Sequence[str] = (),
        budget: float | None = None,
        plugins: Sequence[Path] = (),
    ) -> Choice:
        """Read and filter the suite. Raises BenchError before anything runs."""
        name = resolve(device)
        joining = load_plugins(plugins)
        suite = read_suite(path, name.partition(":")[0], parse_settings(settings))
        suite = join(suite, joining).select(only, skip)
        if budget is not None:
            if budget <= 0:
                raise SuiteError(f"--budget {budget:g}: must be more than 0 seconds")
            suite = replace(suite, budget=budget)
        return cls(suite, name, tuple(str(plugin.resolve()) for plugin in plugins))

    @property
    def swept(self) -> list[str]:
        """The axes with more than one value."""
        return [axis for axis, values in self.suite.axes.items() if len(values) > 1]

    def executor(self, log: Path) -> WorkerExecutor:
        """Workers for this suite."""
        return WorkerExecutor(self.device, self.suite.operation.name, self.suite.timeout, log, self.plugins)


def load_plugins(paths: Sequence[Path]) -> list[str]:
    """Import the user's files; the names they register. Raises BenchError naming the file."""
    before = {known.name for known in registry.implementations()}
    for path in paths:
        try:
            registry.load_plugin(path)
        except Exception as error:
            raise BenchError(f"--plugin {path}: {type(error).__name__}: {error}") from error
    names = [known.name for known in registry.implementations() if known.name not in before]
    if paths and not names:
        raise BenchError(f"--plugin {paths[0]}: registers no implementation; use @implementation(…)")
    return names


def join(suite: Suite, names: Sequence[str]) -> Suite:
    """The suite with the plugins' implementations of its operation."""
    fitting = [n for n in names if registry.lookup(n).operation == suite.operation.name]
    new = tuple(n for n in fitting if n not in suite.implementations)
    return replace(suite, implementations=suite.implementations + new)


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """`axis=1,2` → {"axis": [1, 2]}. Raises SuiteError."""
    parsed = {}
    for setting in settings:
        axis, equals, text = setting.partition("=")
        if not equals or not text:
            raise SuiteError(f"--set {setting}: write axis=value or axis=value,value")
        try:
            parsed[axis.strip()] = parse_value(f"[{text.strip().strip('[]')}]")
        except YAMLError:
            raise SuiteError(f"--set {setting}: {text!r} is no list of values") from None
    return parsed


def measure(choice: Choice, out: Path | None, resume: bool, console: Console) -> Path:
    """Run the suite; the folder it wrote. Raises Interrupted and NothingMeasured."""
    path, done = _folder(choice, out, resume)
    folder = RunFolder(path)
    folder.drop_torn_row()
    executor = choice.executor(path / "worker.log")
    progress = progress_for(console, choice.swept)
    try:
        ready = environment_of(executor, choice.suite, choice.device)
        run = describe(choice, ready)
        folder.write_run(run)
        Runner(choice.suite, choice.device, executor, folder, progress, done).run()
        folder.write_run(replace(run, finished=_now()))
    except KeyboardInterrupt:
        progress.end()
        raise Interrupted(
            f"stopped; {len(list(read_rows(path)))} rows are kept in {path}: go on with --resume --out {path}"
        ) from None
    finally:
        progress.end()
        executor.close()
    _summarise(path, console)
    return path


def _summarise(path: Path, console: Console) -> None:
    counts = coverage(read_rows(path))
    words = ", ".join(f"{count} {status}" for status, count in counts.items())
    console.print(f"{sum(counts.values())} cases: {words}", highlight=False)
    console.print(f"results: {path}", highlight=False, soft_wrap=True)
    if str(Status.OK) not in counts:
        raise NothingMeasured(f"no case could be measured; the reasons are in {path / 'rows.jsonl'}")


def _folder(choice: Choice, out: Path | None, resume: bool) -> tuple[Path, set[str]]:
    """The run folder and the keys of the rows that it holds already."""
    if not resume:
        if out is not None and (out / "run.json").exists():
            raise BenchError(f"--out {out}: holds a run already; add --resume, or choose another folder")
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        name = f"{choice.suite.name}-{choice.device.replace(':', '')}-{stamp}"
        return out or RESULTS / name, set()
    path = out or newest_unfinished(choice)
    recorded = read_run(path)
    if recorded.suite != choice.suite.describe() or recorded.device != choice.device:
        raise BenchError(
            f"--resume {path}: was run with another suite, device or options; "
            "repeat the same command line, or start afresh without --resume"
        )
    return path, {result.case.key for result in read_rows(path)}


def newest_unfinished(choice: Choice) -> Path:
    """The newest unfinished run of the same suite and device. Raises BenchError when there is none."""
    for path in sorted(RESULTS.glob(f"{choice.suite.name}-*/run.json"), reverse=True):
        recorded = read_run(path.parent)
        if recorded.finished is None and recorded.device == choice.device:
            return path.parent
    raise BenchError(f"--resume: no unfinished run of {choice.suite.name} on {choice.device} in {RESULTS}/")


def describe(choice: Choice, ready: Ready) -> Run:
    """run.json of a run that starts now."""
    suite = choice.suite
    return Run(
        schema=SCHEMA_VERSION,
        suite=suite.describe(),
        question=suite.question,
        operation=suite.operation.name,
        variables=suite.operation.variables,
        flop_convention=suite.operation.flop_convention,
        device=choice.device,
        started=_now(),
        command=" ".join(sys.argv[1:]),
        environment=ready.environment,
        implementations=tuple(_card(name) for name in suite.implementations),
    )


def _card(name: str) -> ImplementationCard:
    known = registry.lookup(name)
    return ImplementationCard(name, known.summary, known.exact, dict(known.laws))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def preview(choice: Choice, console: Console) -> None:
    """Show every case with its predicted memory and time; nothing is measured."""
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        executor = choice.executor(Path(scratch) / "worker.log")
        try:
            ready = environment_of(executor, choice.suite, choice.device)
            table = Table("case", "predicted memory", "predicted time", "note")
            for probed in dry_run(choice.suite, choice.device, executor):
                table.add_row(*_preview_row(choice, ready, probed))
        finally:
            executor.close()
    console.print(table)
    console.print(
        "Predicted memory: counted on fake tensors. Predicted time: counted work at nominal rates of "
        f"{format.quantity(NOMINAL_FLOPS[_kind(choice)], 'FLOP/s')}; a run predicts from real calls.",
        highlight=False,
    )


#: Rates for predictions before anything ran; deliberately modest. FLOP/s and B/s by kind of device.
NOMINAL_FLOPS = {"cpu": 2e10, "cuda": 1e13}
NOMINAL_BYTES = {"cpu": 5e9, "cuda": 5e11}


def _kind(choice: Choice) -> str:
    return choice.device.partition(":")[0]


def _preview_row(choice: Choice, ready: Ready, probed: Probed) -> tuple[str, str, str, str]:
    name = label(probed.case.implementation, dict(probed.case.problem), choice.swept)
    memory = format.quantity(probed.peak_bytes, "B") if probed.peak_bytes is not None else "unknown"
    if probed.result is not None:
        return name, memory, "–", f"{probed.result.status}: {probed.result.reason}"
    if runs_interpreted(probed.case):
        return name, memory, "unknown", "not timed: interpreted"
    kind = _kind(choice)
    call = predicted_seconds(probed, NOMINAL_FLOPS[kind], NOMINAL_BYTES[kind])
    spent = measuring_seconds(call, ready.samples, ready.sample_seconds, timed=True)
    return name, memory, format.seconds(spent), ""


def list_implementations(device: str, plugins: Sequence[Path], console: Console) -> None:
    """A table of every implementation and where it runs."""
    for name in operation_names():
        registry.load(name)
    load_plugins(plugins)
    opened = open_device(resolve(device))
    table = Table("implementation", "operation", "kind", f"on {opened.name}", "what it is")
    for known in registry.implementations():
        interpreted = known.runs_interpreted(opened.kind)
        reason = known.available(opened.target(interpreted))
        runs = "runs interpreted, not timed" if interpreted else "runs"
        table.add_row(
            known.name,
            known.operation,
            "exact" if known.exact else "approximation",
            f"no: {reason}" if reason else runs,
            known.summary,
        )
    console.print(table)


def show_environment(device: str, console: Console) -> None:
    """The environment as a table."""
    from harness import environment

    captured = environment.capture(open_device(resolve(device)))
    table = Table("fact", "value")
    table.add_row("device", captured.device.name)
    for facts in (captured.device.facts, captured.host, captured.packages):
        for fact, value in facts.items():
            table.add_row(fact, str(value))
    for fact, reason in captured.device.unknown.items():
        table.add_row(fact, f"unknown: {reason}")
    dirty = {True: " with uncommitted changes", False: "", None: ""}[captured.git_dirty]
    table.add_row("commit", (captured.git_commit or "unknown: not a git checkout") + dirty)
    console.print(table)
