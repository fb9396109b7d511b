"""`bench table`: the complexity table of a run on the terminal, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness.format import quantity
from harness.report.tables import ComplexityRow, Exponent, complexity_table
from harness.store import read_certificates, read_rows, read_run
from harness.types import BenchError


class Refuted(BenchError):
    """A declared or claimed law is refuted (`--strict`)."""

    exit_code = 1


def show_table(run_folder: Path, console: Console, *, as_json: bool, strict: bool) -> None:
    """Print the table. Raises Refuted when asked to and a law is refuted."""
    certified = read_certificates(run_folder)
    table = complexity_table(read_run(run_folder), read_rows(run_folder), certified)
    if as_json:
        print(json.dumps([asdict(row) for row in table.rows], allow_nan=False, ensure_ascii=False))
    else:
        console.print(_drawn(table.rows))
        for words in (table.checked, *table.left_out):
            if words:
                console.print(words)
    if strict and (refuted := [row for row in table.rows if row.word == "refuted"]):
        raise Refuted("; ".join(_sentence(row) for row in refuted))


def _drawn(rows: Sequence[ComplexityRow]) -> Table:
    drawn = Table(
        "implementation", "quantity", "in", "claimed", "counted", "measured", "verdict", "at 4×", "why"
    )
    for row in rows:
        where = f"{row.variable}; {row.setting}" if row.setting else row.variable
        drawn.add_row(
            row.implementation,
            row.quantity,
            where,
            row.claim or "–",
            row.polynomial or _exponent(row.counted),
            _exponent(row.measured),
            row.word,
            _prediction(row),
            row.reason,
        )
    return drawn


def _exponent(exponent: Exponent | None) -> str:
    if exponent is None:
        return "–"
    return f"{exponent.value:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"


def _prediction(row: ComplexityRow) -> str:
    """The middle prediction at four times the largest size."""
    return quantity(row.predictions[-1][2], row.unit) if row.predictions else "–"


def _sentence(row: ComplexityRow) -> str:
    where = f"{row.variable} ({row.setting})" if row.setting else row.variable
    return f"{row.implementation}: {row.quantity} ~ {row.claim} in {where} is refuted: {row.reason}"
