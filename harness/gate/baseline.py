"""Baselines: files that keep process-level values of a suite on a machine, and who accepted them and why."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from harness.gate.policy import epoch
from harness.gate.reading import NotComparable, typical
from harness.gate.screening import ENOUGH, screen
from harness.gate.side import Record, Series, Side
from harness.store import UnreadableRun, UnwritableRun

#: Version of the files' format.
FORMAT = 1
#: Values kept of a quantity, the newest last.
KEPT = 20


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One acceptance: which run, of which commit, by whom, when and why."""

    run: str
    commit: str
    by: str
    at: str
    reason: str
    epoch: str
    moved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Baseline:
    """What one file holds."""

    format: int
    side: Side
    accepted: tuple[Acceptance, ...]


_FILE = TypeAdapter(Baseline)


def file_name(suite: str, device: str) -> str:
    """The file of a suite on a model of device: "smoke--amd-epyc.json"."""
    return f"{suite}--{re.sub(r'[^a-z0-9]+', '-', device.lower()).strip('-') or 'device'}.json"


def parse(text: str | bytes, name: str) -> Baseline:
    """The baseline of a file's text. Raises UnreadableRun naming it, NotComparable for another format."""
    try:
        found = _FILE.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise UnreadableRun(
            f"{name}: not a baseline: {'.'.join(map(str, first['loc']))}: {first['msg']}; "
            "restore it from version control, or accept a run afresh"
        ) from None
    if found.format != FORMAT:
        raise NotComparable(f"{name}: format {found.format} is not the format {FORMAT} of this version")
    return found


def write(path: Path, baseline: Baseline) -> None:
    """Write the file whole or not at all. Raises UnwritableRun."""
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(_FILE.dump_json(baseline, indent=1) + b"\n")
        os.replace(partial, path)
    except OSError as error:
        raise UnwritableRun(f"{path}: cannot be written ({error.strerror}); choose another --into") from None


def accept(before: Baseline | None, run: Side, entry: Acceptance) -> Baseline:
    """The baseline with one more process of each case of a run.

    A value that the screen would call a change is a new level, and a new epoch is another machine: their
    history begins anew. Cases that the run lacks stay as they are.
    """
    known = before.side.records if before else {}
    joined = {key: _grown(known.get(key), record) for key, record in run.records.items()}
    moved = tuple(key for key in joined if key in known and _fresh(known[key], joined[key]))
    entry = replace(entry, moved=moved)
    side = replace(
        run,
        name="",
        records={**known, **joined},
        commits=((before.side.commits if before else ()) + run.commits)[-KEPT:],
        warnings=(),
    )
    return Baseline(FORMAT, side, (*(before.accepted if before else ()), entry))


def _fresh(before: Record, after: Record) -> bool:
    """Whether a timed case's history began anew."""
    old, new = (record.metrics.get("time") for record in (before, after))
    return old is not None and new is not None and len(new.values) == 1


def _grown(before: Record | None, after: Record) -> Record:
    """The record with the history of its quantities."""
    after = replace(after, flags=())
    if before is None or before.epoch != after.epoch or before.mode != after.mode:
        return after
    metrics = {name: _series(before.metrics.get(name), series) for name, series in after.metrics.items()}
    return replace(after, metrics=metrics)


def _series(before: Series | None, after: Series) -> Series:
    if before is None or not before.values:
        return after
    positive = min(*before.values, *after.values) > 0
    if positive:
        found = screen(typical(after), before.values, floor=0.0)
        if found.breached or found.improved:
            return after
    return Series(after.unit, (before.values + after.values)[-KEPT:])


def pruned(baseline: Baseline, present: Sequence[str]) -> tuple[Baseline, tuple[str, ...]]:
    """The baseline without the cases that are not present, and their keys."""
    gone = tuple(key for key in baseline.side.records if key not in set(present))
    records = {key: record for key, record in baseline.side.records.items() if key not in set(gone)}
    return replace(baseline, side=replace(baseline.side, records=records)), gone


def summary(baseline: Baseline) -> Iterator[tuple[str, str]]:
    """What a reader wants to know of a baseline: label and words."""
    side = baseline.side
    counts = [len(r.metrics["time"].values) for r in side.records.values() if "time" in r.metrics]
    yield "suite", side.suite
    yield "device", side.environment.device.name
    yield "epoch", epoch(side.environment)
    yield "cases", f"{len(side.records)}, {len(counts)} of them timed"
    if counts:
        words = "" if min(counts) >= ENOUGH else f"; {ENOUGH} are needed for a spread"
        yield "processes", f"{min(counts)} to {max(counts)} a case{words}"
    for entry in baseline.accepted:
        moved = f"; {len(entry.moved)} cases at a new level" if entry.moved else ""
        yield entry.at, f"{entry.run} ({entry.commit[:12]}) by {entry.by}: {entry.reason}{moved}"


def named(files: Mapping[str, str | bytes], run: Side, where: str) -> Baseline:
    """The baseline of a run among the files of a folder. Raises NotComparable when there is none."""
    device = run.environment.device.name
    wanted = file_name(run.suite, device)
    if wanted in files:
        return parse(files[wanted], f"{where}/{wanted}")
    others = [name for name in files if name.startswith(f"{run.suite}--")]
    found = f"it holds {', '.join(sorted(others))}" if others else "it holds no baseline of this suite"
    raise NotComparable(
        f"{where}: no baseline of {run.suite} on {device} ({wanted}); {found}; "
        f'write one with bench baseline accept {run.name} --reason "…"'
    )
