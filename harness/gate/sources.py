"""Where a baseline comes from: a run folder, a folder of baselines, a file, or any of these in git."""

from __future__ import annotations

import datetime
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path, PurePosixPath

from harness.gate import baseline
from harness.gate.quarantine import FILE as QUARANTINE
from harness.gate.quarantine import Quarantine, read_quarantine
from harness.gate.reading import NotComparable, run_side
from harness.gate.side import Side
from harness.store import ROWS_FILE, RUN_FILE

#: Where baselines lie unless told otherwise.
FOLDER = Path("baselines")


def baseline_side(where: str, run: Side, today: datetime.date) -> tuple[Side, Quarantine]:
    """The side that a run is compared with, and its quarantine.

    where  a run folder, a folder of baselines, a baseline file, or git:REF[:PATH] of any of them
    Raises NotComparable when it does not exist, UnreadableRun when it is damaged.
    """
    if where.startswith("git:"):
        with tempfile.TemporaryDirectory() as scratch:
            path = _exported(where, Path(scratch))
            side, quarantine = _local(Path(scratch) / path, run, today, where)
            return replace(side, name=where), quarantine
    return _local(Path(where), run, today, where)


def _local(path: Path, run: Side, today: datetime.date, shown: str) -> tuple[Side, Quarantine]:
    if (path / RUN_FILE).exists() or (path / ROWS_FILE).exists():
        return run_side(path), _quarantine(path, today)
    if path.is_file():
        found = baseline.parse(path.read_bytes(), shown)
        return replace(found.side, name=shown), _quarantine(path.parent, today)
    if not path.is_dir():
        raise NotComparable(f"--baseline {shown}: no such run, baseline or folder")
    files = {file.name: file.read_bytes() for file in sorted(path.glob("*--*.json"))}
    found = baseline.named(files, run, shown)
    return replace(found.side, name=shown), _quarantine(path, today)


def _quarantine(folder: Path, today: datetime.date) -> Quarantine:
    path = folder / QUARANTINE
    return read_quarantine(path.read_text("utf-8") if path.exists() else None, path, today)


def _exported(where: str, into: Path) -> PurePosixPath:
    """Write the files of git:REF[:PATH] below a folder. Raises NotComparable."""
    _, _, rest = where.partition(":")
    ref, _, path = rest.partition(":")
    wanted = PurePosixPath(path or FOLDER.as_posix())
    if wanted.is_absolute() or ".." in wanted.parts or ref.startswith("-") or not ref:
        raise NotComparable(
            f"--baseline {where}: write git:REF or git:REF:PATH, the path inside the repository"
        )
    for name in _git(
        "ls-tree", "-r", "--name-only", "--full-tree", ref, "--", str(wanted), shown=where
    ).split(b"\n"):
        if name:
            target = into / name.decode()
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_git("show", f"{ref}:{name.decode()}", shown=where))
    if not (into / wanted).exists():
        raise NotComparable(f"--baseline {where}: {ref} holds no {wanted}")
    return wanted


def _git(*arguments: str, shown: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=True, timeout=60)
    except OSError as error:
        raise NotComparable(f"--baseline {shown}: git cannot be run ({error.strerror})") from None
    except subprocess.SubprocessError as error:
        said = (getattr(error, "stderr", b"") or b"").decode("utf-8", "replace").strip().splitlines()
        raise NotComparable(f"--baseline {shown}: git: {said[-1] if said else error}") from None
    return done.stdout
