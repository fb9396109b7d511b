"""The texts beside the page: a Markdown summary and the rows as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.report.alldata import csv
from harness.report.markdown import summary
from harness.report.runs import combined, read
from harness.types import BenchError


def markdown_to(run_folders: Sequence[Path], output: Path) -> None:
    """Write the summary of some runs. Raises UnreadableRun, and BenchError where it cannot be written."""
    _write(output, summary(read(run_folders)))


def csv_to(run_folders: Sequence[Path], output: Path) -> None:
    """Write every stored number but the raw samples, one row per case. Raises as `markdown_to`."""
    _write(output, csv(combined(read(run_folders))))


def _write(output: Path, text: str) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, "utf-8")
    except OSError as error:
        raise BenchError(
            f"{output}: cannot be written ({error.strerror or error}); choose another file"
        ) from None
