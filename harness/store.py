"""A run folder: run.json beside rows.jsonl, one Result a line, and certificates.jsonl, one family a line."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from harness import SCHEMA_VERSION
from harness.counting.certificates import CertifiedFamily
from harness.types import BenchError, Result, Run

_RESULT = TypeAdapter(Result)
_RUN = TypeAdapter(Run)
Parsed = TypeVar("Parsed")

RUN_FILE, ROWS_FILE, CERTIFICATES_FILE = "run.json", "rows.jsonl", "certificates.jsonl"


class UnreadableRun(BenchError):
    """A run folder that cannot be read; the message names the file, the line and the fix."""


class UnwritableRun(BenchError):
    """A run folder that cannot be written; the message names the file and the way on."""


def encode(result: Result) -> str:
    """One strict-JSON line."""
    return _strict(_RESULT.dump_python(result, mode="json"))


def decode(line: str) -> Result:
    """The Result of one line. Raises pydantic.ValidationError."""
    return _RESULT.validate_json(line)


def _strict(data: Any, indent: int | None = None) -> str:
    return json.dumps(data, allow_nan=False, ensure_ascii=False, indent=indent)


class RunFolder:
    """Writes a run. Rows are appended and synced one at a time: a kill loses at most those in flight."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._writing():
            path.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A full disk or a folder that is none is a sentence, not a traceback."""
        try:
            yield
        except OSError as error:
            raise UnwritableRun(
                f"{error.filename or self.path}: cannot be written ({error.strerror}); "
                "mend that and go on with --resume, or choose another folder with --out"
            ) from None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs out. The system lets go with the process, however that ends."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            self._lock(handle)
            yield
        finally:
            os.close(handle)

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnwritableRun(f"{self.path}: another run is writing here; wait for it or stop it") from None

    def write_run(self, run: Run) -> None:
        """Write run.json whole or not at all."""
        partial = self.path / (RUN_FILE + ".partial")
        with self._writing():
            partial.write_text(_strict(_RUN.dump_python(run, mode="json"), indent=1) + "\n", "utf-8")
            os.replace(partial, self.path / RUN_FILE)

    def append(self, result: Result) -> None:
        """Append one row; it is on disk when this returns."""
        self._append(ROWS_FILE, encode(result))

    def append_certificates(self, family: CertifiedFamily) -> None:
        """Append what was certified of a family; it is on disk when this returns."""
        self._append(CERTIFICATES_FILE, _strict(family.to_record()))

    def _append(self, name: str, line: str) -> None:
        with self._writing(), open(self.path / name, "a", encoding="utf-8") as lines:
            lines.write(line + "\n")
            lines.flush()
            os.fsync(lines.fileno())

    def drop_torn_lines(self) -> None:
        """Cut a last line that a kill left unfinished, so that a resumed run appends whole lines."""
        for path in (self.path / ROWS_FILE, self.path / CERTIFICATES_FILE):
            if path.exists() and (data := path.read_bytes()) and not data.endswith(b"\n"):
                os.truncate(path, data.rfind(b"\n") + 1)


def read_run(folder: Path) -> Run:
    """run.json of a folder. Raises UnreadableRun."""
    path = folder / RUN_FILE
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise UnreadableRun(
            f"{path}: cannot be read ({error.strerror}); give a folder that `bench run` wrote"
        ) from None
    try:
        schema = json.loads(text).get("schema")
        if schema != SCHEMA_VERSION:
            raise UnreadableRun(
                f"{path}: schema {schema} is not the schema {SCHEMA_VERSION} of this version; "
                "run the suite again, or read it with the version that wrote it"
            )
        return _RUN.validate_json(text)
    except (ValueError, AttributeError) as error:
        raise UnreadableRun(f"{path}: not a run description: {_first(error)}") from None


def read_rows(folder: Path) -> Iterator[Result]:
    """The rows of a folder in order; an unfinished last line (a killed run) is left out.

    Raises UnreadableRun naming the line of a damaged row.
    """
    yield from _lines(folder / ROWS_FILE, decode)


def read_certificates(folder: Path) -> tuple[CertifiedFamily, ...]:
    """What was certified of the run's families; nothing where the run counted nothing.

    Raises UnreadableRun naming the line of a damaged record.
    """
    return tuple(
        _lines(folder / CERTIFICATES_FILE, lambda line: CertifiedFamily.from_record(json.loads(line)))
    )


def _lines(path: Path, parse: Callable[[str], Parsed]) -> Iterator[Parsed]:
    if not path.exists():
        return
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith("\n"):
                return
            try:
                yield parse(line)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise UnreadableRun(
                    f"{path}:{number}: damaged row: {_first(error)}; delete the line and "
                    "run again with --resume"
                ) from None


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
