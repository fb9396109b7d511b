"""`bench table`: the complexity table of a run on the terminal, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

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
        _show(table.rows, console)
        for words in (*table.terms, table.checked, *table.left_out):
            if words:
                console.print(words)
    if strict and (refuted := [row for row in table.rows if row.word == "refuted"]):
        raise Refuted("; ".join(_sentence(row) for row in refuted))


def _show(rows: Iterable[ComplexityRow], console: Console) -> None:
    """One block for each implementation and setting: the quantities, then the reasons. It fits 80 columns."""
    for (implementation, where), found in groupby(rows, key=lambda row: (row.implementation, _where(row))):
        members = list(found)
        console.print(Text.assemble((implementation, "bold"), f"  {where}"), soft_wrap=True)
        console.print(_drawn(members))
        for row in members:
            console.print(Text(f" {row.quantity}: {row.reason}"), soft_wrap=True)
            if words := "; ".join(filter(None, (_foreseen(row), _likely(row)))):
                console.print(Text(f"   {words}", style="dim"), soft_wrap=True)
        console.print()


def _where(row: ComplexityRow) -> str:
    return f"in {row.variable}; {row.setting}" if row.setting else f"in {row.variable}"


def _drawn(rows: Iterable[ComplexityRow]) -> Table:
    drawn = Table(box=None)
    for head in ("quantity", "claimed", "counted", "measured", "verdict", "at 4×"):
        drawn.add_column(head, no_wrap=True)
    for row in rows:
        drawn.add_row(
            row.quantity,
            row.claim or "–",
            _power(row) if row.polynomial else _exponent(row.counted),
            _exponent(row.measured),
            row.word,
            _prediction(row),
        )
    return drawn


def _power(row: ComplexityRow) -> str:
    """The exact power; the polynomial stands among the reasons."""
    return f"{row.counted.value:g} exactly" if row.counted else "–"


def _exponent(exponent: Exponent | None) -> str:
    if exponent is None:
        return "–"
    if exponent.high - exponent.low < 0.005:
        return f"{exponent.value:.2f}"
    return f"{exponent.value:.2f} [{exponent.low:.2f}, {exponent.high:.2f}]"


def _prediction(row: ComplexityRow) -> str:
    """The middle prediction at four times the largest size."""
    return quantity(row.predictions[-1][2], row.unit) if row.predictions else "–"


def _foreseen(row: ComplexityRow) -> str:
    """The predictions at two and four times the largest size, with their intervals where they have one."""
    parts = []
    for size, low, middle, high in row.predictions:
        interval = f" [{quantity(low, row.unit)}, {quantity(high, row.unit)}]" if low < high else ""
        parts.append(f"{quantity(middle, row.unit)}{interval} at {row.variable} = {size:g}")
    return "expected: " + ", ".join(parts) if parts else ""


def _likely(row: ComplexityRow) -> str:
    """The probabilities of the laws."""
    parts = [f"{law} {value:.3f}" for law, value in row.probabilities.items()]
    return "probability: " + ", ".join(parts) if parts else ""


def _sentence(row: ComplexityRow) -> str:
    where = f"{row.variable} ({row.setting})" if row.setting else row.variable
    return f"{row.implementation}: {row.quantity} ~ {row.claim} in {where} is refuted: {row.reason}"
