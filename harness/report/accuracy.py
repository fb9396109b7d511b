"""Errors beside speeds: every implementation against the float64 truth, and against its yardsticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.report.records import Facet, Records, base_name, labelled, run_label, size_of
from harness.types import Result

#: The floor that an approximation must beat: the mean of V.
FLOOR = "uniform"
#: The field's rule: an exact implementation may err up to twice as much as the plain formula.
RULE = 2.0


def is_floor(implementation: str) -> bool:
    """Whether an implementation is the floor, under whichever label of several runs."""
    return base_name(implementation) == FLOOR


@dataclass(frozen=True, slots=True)
class ErrorCell:
    """error: relative to the truth; ratio: to naive's in the same dtype; floor: to `uniform`'s error."""

    error: float
    ratio: float | None
    floor: float | None


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One implementation's errors of one tensor at one setting.

    what   "output" or the name of a gradient
    cells  one per size, None where nothing is known
    why    size position → why the cell is empty
    """

    implementation: str
    exact: bool
    setting: str
    what: str
    cells: tuple[ErrorCell | None, ...]
    why: tuple[str, ...]

    @property
    def worst_ratio(self) -> float | None:
        """The largest ratio to the naive error."""
        return max((c.ratio for c in self.cells if c and c.ratio is not None), default=None)


def error_metrics(records: Records) -> dict[str, tuple[str, str]]:
    """Metric → (what it is the error of, the metric of its ratio to naive)."""
    found = {"error": ("output", "error_ratio")} if "error" in records.metrics else {}
    for metric in records.metrics:
        if metric.startswith("grad_") and metric.endswith("_error") and "max_abs" not in metric:
            tensor = metric.removeprefix("grad_").removesuffix("_error")
            found[metric] = (f"gradient of {tensor}", f"{metric}_ratio")
    return found


def sizes(records: Records) -> tuple[float | None, ...]:
    """The values of the swept axis; (None,) when nothing is swept."""
    return records.sizes or (None,)


def error_rows(records: Records) -> tuple[ErrorRow, ...]:
    """Every implementation × setting × tensor that has an error, or a reason for having none."""
    return tuple(
        row
        for facet in records.facets(records.sweep)
        for what in error_metrics(records).items()
        for name in records.cards
        if (row := _row(records, facet, name, what))
    )


def _row(records: Records, facet: Facet, name: str, what: tuple[str, tuple[str, str]]) -> ErrorRow | None:
    metric, (tensor, ratio) = what
    rows = _by_size(records, facet.of(name))
    floors = _by_size(records, facet.of(labelled(FLOOR, run_label(name))))
    cells = tuple(_cell(rows.get(s), metric, ratio, floors.get(s)) for s in sizes(records))
    if not any(cells):
        return None
    why = tuple(_why(rows.get(s)) for s in sizes(records))
    return ErrorRow(name, records.cards[name].exact, facet.label, tensor, cells, why)


def _by_size(records: Records, results: Iterable[Result]) -> dict[float | None, Result]:
    return {(size_of(r, records.sweep) if records.sweep else None): r for r in results}


def _cell(result: Result | None, metric: str, ratio: str, floor: Result | None) -> ErrorCell | None:
    error = _error(result, metric)
    if result is None or error is None:
        return None
    relative = result.metrics.get(ratio)
    return ErrorCell(error, relative.value if relative else None, _over_floor(result, metric, floor))


def _over_floor(result: Result, metric: str, floor: Result | None) -> float | None:
    """As the row has it; of rows that do not, by the floor's own row beside it."""
    recorded = result.metrics.get(f"{metric}_over_floor")
    if recorded:
        return recorded.value
    error, beside = _error(result, metric), _error(floor, metric)
    return error / beside if error is not None and beside else None


def _error(result: Result | None, metric: str) -> float | None:
    """The error, also of a row that is incorrect: that is when it matters most."""
    if result is None or result.status not in ("ok", "incorrect"):
        return None
    found = result.metrics.get(metric)
    return found.value if found else None


def _why(result: Result | None) -> str:
    if result is None:
        return "no row"
    return "" if result.status == "ok" else str(result.status)


def worst_exact(rows: Iterable[ErrorRow]) -> tuple[ErrorRow, float] | None:
    """The exact implementation with the largest ratio to naive, and that ratio."""
    exact = [row for row in rows if row.exact and base_name(row.implementation) != "naive"]
    rated = [(row, row.worst_ratio) for row in exact if row.worst_ratio is not None]
    best = max(rated, key=lambda pair: pair[1] or 0.0, default=None)
    return (best[0], best[1]) if best and best[1] is not None else None
