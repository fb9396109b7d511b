"""`bench baseline`: accept runs, list baselines, prune cases that are gone."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from harness.gate import baseline
from harness.gate.baseline import Acceptance, Baseline, accept, file_name, parse, pruned, summary
from harness.gate.policy import epoch, refusals
from harness.gate.quarantine import FILE, read_quarantine
from harness.gate.reading import NotComparable, run_side
from harness.gate.side import Side
from harness.types import BenchError, Status


def accept_runs(run_folders: Sequence[Path], reason: str, into: Path, by: str, console: Console) -> None:
    """Add each run as one process. Raises BenchError, and NotComparable for another machine."""
    if not reason.strip():
        raise BenchError("--reason: say why these values are right")
    for folder in run_folders:
        run = run_side(folder)
        path = into / file_name(run.suite, run.environment.device.name)
        before = _known(path, run)
        entry = Acceptance(
            run=folder.resolve().name,
            commit=run.commits[-1] if run.commits else "unknown",
            by=by or _user(),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            reason=reason.strip(),
            epoch=epoch(run.environment),
        )
        after = accept(before, run, entry)
        baseline.write(path, after)
        _say(path, run, after, console)


def _known(path: Path, run: Side) -> Baseline | None:
    if not path.exists():
        return None
    found = parse(path.read_bytes(), str(path))
    if words := refusals(found.side.environment, run.environment):
        raise NotComparable(
            f"{path}: {'; '.join(words)}; keep baselines of another machine in another folder"
        )
    return found


def _say(path: Path, run: Side, after: Baseline, console: Console) -> None:
    bad = [record for record in run.records.values() if record.status is Status.INCORRECT]
    for record in bad:
        console.print(f"accepted although it is incorrect: {record.key}: {record.reason}", soft_wrap=True)
    for key in after.accepted[-1].moved:
        console.print(f"new level, its history begins anew: {key}", soft_wrap=True)
    console.print(f"{path}: {len(run.records)} cases of {run.name}", soft_wrap=True)


def _user() -> str:
    try:
        done = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return getpass.getuser()
    return done.stdout.strip() or getpass.getuser()


def show_baselines(into: Path, console: Console) -> None:
    """Print what each file holds, and the quarantine. Raises NotComparable when there is none."""
    files = sorted(into.glob("*--*.json"))
    if not files:
        raise NotComparable(f"{into}: no baselines; write one with bench baseline accept")
    for path in files:
        console.print(str(path), soft_wrap=True)
        for label, words in summary(parse(path.read_bytes(), str(path))):
            console.print(f"  {label}: {words}", soft_wrap=True)
    path = into / FILE
    text = path.read_text("utf-8") if path.exists() else None
    for entry in read_quarantine(text, path, datetime.now(UTC).date()).entries:
        words = f"{entry.case} until {entry.expires} ({entry.owner}): {entry.reason}"
        console.print(f"  quarantine: {words}", soft_wrap=True)


def prune_baseline(run_folder: Path, into: Path, dry_run: bool, console: Console) -> None:
    """Drop what the run no longer has. Raises NotComparable when there is no such baseline."""
    run = run_side(run_folder)
    path = into / file_name(run.suite, run.environment.device.name)
    if not path.exists():
        raise NotComparable(f"{path}: no such baseline")
    kept, gone = pruned(parse(path.read_bytes(), str(path)), tuple(run.records))
    for key in gone:
        console.print(f"{'would drop' if dry_run else 'dropped'} {key}", soft_wrap=True)
    if gone and not dry_run:
        baseline.write(path, kept)
    console.print(f"{path}: {len(kept.side.records)} cases are left", soft_wrap=True)
