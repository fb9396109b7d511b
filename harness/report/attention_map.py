"""What the attention weights were like on which errors were seen, where a suite asks for `attention_map`."""

from __future__ import annotations

from collections.abc import Iterator

from harness.report.grid import DASH, Cell, Grid, columns
from harness.report.records import Records, size_of
from harness.types import Result

#: Metric -> its column.
COLUMNS = {
    "attention_entropy": "entropy ÷ ln n",
    "attention_top_mass": "largest weight",
    "collapsed_heads": "heads collapsed",
}


def table(records: Records) -> Grid:
    """One row a problem: the weights are its inputs', the same for every implementation."""
    swept = [records.sweep] if records.sweep else []
    settings = any(facet.label for facet in records.facets(records.sweep))
    head = (*swept, *(["at"] if settings else []), *COLUMNS.values())
    return Grid(
        "Attention weights of the inputs, means over heads: entropy 1 is uniform, 0 one key for each query",
        head,
        tuple(_rows(records, settings)),
        columns(head, *swept, *COLUMNS.values()),
        row_heads=len(head) - len(COLUMNS),
    )


def _rows(records: Records, settings: bool) -> Iterator[tuple[Cell | str, ...]]:
    for facet in records.facets(records.sweep):
        by_size: dict[str, Result] = {}
        for result in facet.results:
            if "attention_entropy" in result.metrics:
                by_size.setdefault(_size(records, result), result)
        for size, result in by_size.items():
            named = ([size] if records.sweep else []) + ([facet.label] if settings else [])
            yield (*named, *(_cell(result, metric) for metric in COLUMNS))


def _size(records: Records, result: Result) -> str:
    size = size_of(result, records.sweep) if records.sweep else None
    return f"{size:g}" if size is not None else ""


def _cell(result: Result, metric: str) -> Cell:
    found = result.metrics.get(metric)
    return Cell(f"{found.value:.3g}") if found else DASH
