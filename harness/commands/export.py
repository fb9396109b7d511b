"""`bench export` and `bench import`: runs to and from the formats of other tools."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from harness import SCHEMA_VERSION
from harness.export.benchmark import Exported
from harness.export.formats import READERS, WRITERS
from harness.export.imported import Imported
from harness.store import RunFolder, UnreadableRun, read_rows, read_run
from harness.types import (
    BenchError,
    Case,
    DeviceInfo,
    Environment,
    ImplementationCard,
    Measurement,
    Result,
    Run,
    Status,
)


def export_run(folder: Path, form: str, output: Path | None, console: Console) -> None:
    """Write a run in a format. Raises BenchError for an unknown format or a run without times."""
    exported = Exported.of(read_run(folder), list(read_rows(folder)))
    if not exported.benchmarks:
        raise BenchError(f"{folder}: no case has a time; there is nothing to export")
    text = WRITERS[_known(form, WRITERS)](exported)
    if output is None:
        sys.stdout.write(text)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, "utf-8")
    left = f"; {exported.left_out} without a time are left out" if exported.left_out else ""
    console.print(f"{output}: {len(exported.benchmarks)} cases{left}", soft_wrap=True)


def import_file(path: Path, form: str, out: Path, device: str, console: Console) -> None:
    """Write another tool's file as a run folder. Raises UnreadableRun, and BenchError where a run is."""
    if (out / "run.json").exists():
        raise BenchError(f"--out {out}: holds a run already; choose another folder")
    found = READERS[_known(form, READERS)](_json(path), str(path))
    if not found:
        raise UnreadableRun(f"{path}: holds no benchmark with a time")
    folder = RunFolder(out)
    folder.write_run(_run(path, form, device, found))
    for one in found:
        folder.append(_result(one, form, device))
    console.print(f"{out}: {len(found)} benchmarks of {path}", soft_wrap=True)


def _known(form: str, forms: Iterable[str]) -> str:
    names = sorted(forms)
    if form in names:
        return form
    nearest = difflib.get_close_matches(form, names, n=1, cutoff=0.4)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(names)}"
    raise BenchError(f"--format {form}: no such format; {hint}")


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UnreadableRun(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UnreadableRun(f"{path}: not JSON, or cut off: {error}") from None


def _run(path: Path, form: str, device: str, found: Iterable[Imported]) -> Run:
    """What is not known of the other tool's run is unknown, in words."""
    unknown = {"environment": f"imported from a file of {form}, which does not say"}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Run(
        schema=SCHEMA_VERSION,
        suite={"name": path.stem},
        question=f"Imported from {path.name}.",
        operation="imported",
        variables={},
        flop_convention="unknown",
        device="cpu",
        started=now,
        command=f"import --format {form} {path.name}",
        environment=Environment(DeviceInfo("cpu", device, {}, unknown), {}, {}, None, None),
        implementations=tuple(ImplementationCard(one.name, form, False, {}) for one in found),
        finished=now,
    )


def _result(one: Imported, form: str, device: str) -> Result:
    note = "median of the file's samples" if one.samples else "the file's value"
    measured = Measurement(one.seconds, "s", samples=one.samples, note=note)
    return Result(
        Case(one.name, "imported", "cpu", {}),
        Status.OK,
        metrics={"wall_time": measured},
        notes={"accuracy": f"unknown: {form} does not record it"},
        timing={"judged": "wall_time", "timer": form},
    )
