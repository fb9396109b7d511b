"""The page shows what the inputs' weights were like once a problem, and nothing where no suite asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.report.attention_map import table
from harness.report.grid import Cell
from harness.report.records import arrange
from harness.types import Measurement, Result
from tests.harness.report import synthetic

AXES = {"seq_len": (64, 128, 256), "dtype": ("float32", "bfloat16")}


def mapped() -> Iterator[Result]:
    """Rows whose weights grow more uniform with the length."""
    for row in synthetic.rows(AXES, fail=False):
        entropy = 1 - 1 / float(str(row.case.problem["seq_len"]))
        found = {"attention_entropy": entropy, "attention_top_mass": 0.5, "collapsed_heads": 0.25}
        metrics = {name: Measurement(value, "1") for name, value in found.items()}
        yield replace(row, metrics={**row.metrics, **metrics})


def test_one_row_a_problem_whatever_computes_it() -> None:
    grid = table(arrange(synthetic.description(), mapped(), ()))
    assert len(grid.rows) == 3 * 2
    shown = {tuple(cell.text if isinstance(cell, Cell) else cell for cell in row) for row in grid.rows}
    assert ("64", "float32", "0.984", "0.5", "0.25") in shown


def test_nothing_where_it_was_not_asked_for() -> None:
    assert not table(arrange(synthetic.description(), synthetic.rows(AXES), ())).rows
