"""Reading a run folder for a gate: strict where the harness is lenient, and one row at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from harness import SCHEMA_VERSION
from harness.gate.findings import NOT_COMPARABLE
from harness.gate.policy import epoch
from harness.gate.samples import doubts
from harness.gate.side import Record, Series, Side
from harness.gate.units import UnknownUnit, stored
from harness.store import ROWS_FILE, RUN_FILE, UnreadableRun, read_run
from harness.types import BenchError, Run, Status

#: Times by how well they judge, for rows that do not say which of them does.
TIMES = ("gpu_time_cold", "gpu_time_hot", "cpu_time", "wall_time")
COMPILE = "first_warm_up_call_seconds"


class NotComparable(BenchError):
    """There is nothing to compare with."""

    exit_code = NOT_COMPARABLE


def run_side(folder: Path) -> Side:
    """A run folder as a side. Raises UnreadableRun for damage, NotComparable for another schema."""
    _check_schema(folder / RUN_FILE)
    run = read_run(folder)
    exact = {card.name: card.exact for card in run.implementations}
    when = epoch(run.environment)
    records = {
        record.key: replace(record, epoch=when)
        for row in rows(folder / ROWS_FILE)
        for record in [record_of(row, exact)]
    }
    if not records:
        raise UnreadableRun(f"{folder / ROWS_FILE}: holds no row; run the suite again")
    unfinished = () if run.finished else (f"{folder}: the run is unfinished; go on with bench run --resume",)
    commit = run.environment.git_commit
    return Side(
        name=str(folder),
        suite=str(run.suite.get("name", "")),
        definition={"operation": run.operation, "flop_convention": run.flop_convention},
        environment=run.environment,
        records=records,
        commits=(commit,) if commit else (),
        warnings=(*unfinished, *_dirty(run)),
    )


def _dirty(run: Run) -> Iterator[str]:
    if run.environment.git_dirty:
        yield "the measured code had changes that no commit holds"


def _check_schema(path: Path) -> None:
    """Raises NotComparable for a whole file of another schema; damage is read_run's to name."""
    try:
        schema = json.loads(path.read_text("utf-8")).get("schema")
    except (OSError, ValueError, AttributeError):
        return
    if schema != SCHEMA_VERSION:
        raise NotComparable(
            f"{path}: schema {schema} is not the schema {SCHEMA_VERSION} of this version; "
            "measure again, or compare with the version that wrote it"
        )


def merged(sides: Iterable[Side]) -> Side:
    """Several runs of one suite as one side with one value a process. Raises NotComparable."""
    first, *others = sides
    for other in others:
        if (other.suite, other.definition) != (first.suite, first.definition):
            raise NotComparable(f"{other.name} and {first.name} are runs of different suites")
        if epoch(other.environment) != epoch(first.environment):
            raise NotComparable(f"{other.name} and {first.name} are runs of different environments")
        records = {key: _joined(first.records.get(key), record) for key, record in other.records.items()}
        first = replace(first, records={**first.records, **records}, commits=first.commits + other.commits)
    return first


def _joined(before: Record | None, after: Record) -> Record:
    """One failure among several runs is a failure."""
    if before is None or after.status is not Status.OK:
        return after
    if before.status is not Status.OK:
        return before
    metrics = {
        name: Series(series.unit, before.metrics[name].values + series.values)
        if name in before.metrics
        else series
        for name, series in after.metrics.items()
    }
    return replace(after, metrics=metrics, flags=tuple(dict.fromkeys(before.flags + after.flags)))


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows as JSON objects; what is no finite number becomes None. Raises UnreadableRun."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise UnreadableRun(f"{path}: cannot be read ({error.strerror}); run the suite again") from None
    except UnicodeDecodeError:
        raise UnreadableRun(f"{path}: not text; run the suite again") from None
    if text and not text.endswith("\n"):
        raise UnreadableRun(
            f"{path}: cut off in line {text.count(chr(10)) + 1}; go on with bench run --resume, or run again"
        )
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            yield json.loads(line, parse_constant=lambda name: None)
        except ValueError as error:
            raise UnreadableRun(f"{path}:{number}: damaged row: {error}; run the suite again") from None


def record_of(row: Mapping[str, Any], exact: Mapping[str, bool]) -> Record:
    """A row as a record. Raises UnreadableRun when it is no row of this schema."""
    try:
        case, timing = row["case"], row.get("timing") or {}
        judged = _judged(row["metrics"], timing)
        metrics, missing = _metrics(row["metrics"], timing, judged)
        samples = [x for x in (row["metrics"].get(judged) or {}).get("samples") or () if x is not None]
        return Record(
            key=case_key(case),
            problem=case["problem"],
            implementation=case["implementation"],
            status=Status(row["status"]),
            reason=row.get("reason", ""),
            metrics=metrics,
            kernels=tuple(row.get("kernels") or ()),
            mode=_mode(judged, timing),
            exact=exact.get(case["implementation"].partition(":")[0], True),
            no_data=missing,
            flags=(*(row.get("flags") or ()), *doubts(samples)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableRun(f"a row is not of this schema: {type(error).__name__}: {error}") from None


def case_key(case: Mapping[str, Any]) -> str:
    """As `Case.key`, with the kind of device: the same GPU at another index is the same."""
    axes = ",".join(f"{axis}={case['problem'][axis]}" for axis in sorted(case["problem"]))
    return f"{case['operation']}/{case['implementation']}/{case['device'].partition(':')[0]}/{axes}"


def _judged(metrics: Mapping[str, Any], timing: Mapping[str, Any]) -> str:
    named = str(timing.get("judged"))
    return named if named in metrics else next((name for name in TIMES if name in metrics), "")


def _mode(judged: str, timing: Mapping[str, Any]) -> str:
    """Clock, quantity, threads, cache; for hot times whether from a graph."""
    cache = str(timing.get("cache", ""))
    graph = ("graph" if "CUDA graph of" in cache else "events") if judged == "gpu_time_hot" else ""
    kind = cache.partition(":")[0].partition(" ")[0]
    parts = (judged, timing.get("timer"), timing.get("threads"), kind, graph, timing.get("mode"))
    return " · ".join(str(part) for part in parts if part)


def _metrics(
    stored_metrics: Mapping[str, Any], timing: Mapping[str, Any], judged: str
) -> tuple[dict[str, Series], tuple[str, ...]]:
    """Finite values in units of storage, and the names of what has none."""
    found: dict[str, Series] = {}
    missing = []
    for name, measurement in stored_metrics.items():
        called = "time" if name == judged else name
        try:
            value, unit = stored(_number(measurement), str(measurement["unit"]))
        except (TypeError, KeyError, UnknownUnit):
            missing.append(called)
            continue
        found[called] = Series(unit, (value,))
    compiled = timing.get(COMPILE)
    if isinstance(compiled, int | float) and math.isfinite(compiled):
        found["compile_time"] = Series("s", (float(compiled),))
    return found, tuple(missing)


def _number(measurement: Mapping[str, Any]) -> float:
    """Raises TypeError for what is no finite number."""
    value = measurement["value"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(value)
    return float(value)


def typical(series: Series) -> float:
    """The median over the processes."""
    return median(series.values)
