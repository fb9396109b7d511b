"""A summary for a CI step: Markdown of at most 1 MiB, the most severe first; what is left out is said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.report import accuracy, choice, choosing, headline, outcomes, sections
from harness.report.facts import compared
from harness.report.grid import Cell, Grid
from harness.report.runs import Source, combined
from harness.report.tables import ComplexityTable, tabulate

#: What GitHub takes as the summary of a step.
MOST_BYTES = 2**20
LEFT_OUT = "\n\n_{} more lines are left out: a step's summary holds 1 MiB. The page has everything._\n"


def summary(sources: Sequence[Source], regressions: Sequence[Grid] = ()) -> str:
    """The summary of some runs: the answer, then what is wrong, then how they compare."""
    records = combined(sources)
    growth = tabulate(records)
    choices = choice.fastest(records)
    said = headline.answer(records, growth, choices, accuracy.error_rows(records))
    devices = dict.fromkeys(source.run.environment.device.name for source in sources)
    title = f"# {escaped(str(records.run.suite.get('name', 'run')))} on {escaped(' and '.join(devices))}"
    parts = [
        title,
        *(escaped(sentence) for sentence in said),
        f"**Coverage:** {escaped(outcomes.coverage(records))}.",
        *_table(*regressions),
        *_table(choosing.impossible(records), sections.failures(records)),
        *_table(_refuted(sections.complexity(records, growth, _quantities(growth)))),
        *_list(outcomes.warnings(records, 0)),
        *_table(choosing.fastest(records, choices)),
        *(_table(compared(sources)) if len(sources) > 1 else ()),
    ]
    return fitted("\n\n".join(parts) + "\n")


def _quantities(growth: ComplexityTable) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.quantity for row in growth.rows)) or ("time",)


def _refuted(grid: Grid) -> Grid:
    """The rows of the complexity table whose law is refuted or whose time cannot be."""
    wrong = {"refuted", "impossible"}
    rows = tuple(row for row in grid.rows if any(isinstance(c, Cell) and c.text in wrong for c in row))
    return Grid("Laws that this run refutes", grid.head, rows)


def _list(lines: Sequence[str]) -> Iterable[str]:
    if lines:
        yield "\n".join(f"- {escaped(line)}" for line in lines)


def _table(*grids: Grid) -> Iterable[str]:
    """Each table that has rows, under its caption."""
    for grid in grids:
        if grid.rows:
            head = f"| {' | '.join(map(escaped, grid.head))} |\n|{'---|' * len(grid.head)}"
            body = "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in grid.rows)
            yield f"**{escaped(grid.caption)}**\n\n{head}\n{body}"


def _cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return escaped(cell)
    return escaped(f"{cell.text} ({cell.note})" if cell.text and cell.note else cell.text or cell.note)


def escaped(words: str) -> str:
    """Names and reasons are text in Markdown too, and stay on their line."""
    return re.sub(r"([\\\[\]<>*_`|#~$&])", r"\\\1", " ".join(words.split()))


def fitted(text: str, most: int = MOST_BYTES) -> str:
    """The text, or as many of its first lines as fit with a sentence on how many were left out."""
    if len(text.encode()) <= most:
        return text
    lines = text.split("\n")
    room = most - len(LEFT_OUT.format(len(lines)).encode())
    kept = 0
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept += 1
    return "\n".join(lines[:kept]) + LEFT_OUT.format(len(lines) - kept)
