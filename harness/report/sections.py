"""The tables of the page, from what the other modules found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.report import accuracy, outcomes
from harness.report.charts import Chart, Gap, Point
from harness.report.grid import DASH, Cell, Grid, columns
from harness.report.planes import Plane
from harness.report.records import Records
from harness.report.tables import ComplexityRow, ComplexityTable, Exponent
from harness.report.units import Scale, brief, pretty, scale_for, shown
from harness.report.units import name as name_of
from harness.types import Result

VERDICT_LOOKS = {
    "confirmed": "good",
    "refuted": "bad",
    "impossible": "bad",
    "inconclusive": "doubt",
    "insufficient data": "doubt",
}


def complexity(records: Records, table: ComplexityTable, quantities: Sequence[str]) -> Grid:
    """Declared, counted, measured, verdict, of some quantities."""
    rows = [row for quantity in quantities for row in table.rows if row.quantity == quantity]
    several = len({row.variable for row in table.rows}) > 1
    settings = len({row.setting for row in table.rows}) > 1
    head = ["implementation", "quantity", *(["in"] if several else []), *(["at"] if settings else [])]
    numbers = ("counted exponent", "measured exponent", "at 4× the size")
    head += ["declared", *numbers[:2], "verdict", "why", numbers[2]]
    axes = ", ".join(dict.fromkeys(records.words_for(row.axis) for row in rows))
    return Grid(
        f"How {' and '.join(quantities)} grow{'s' if len(quantities) == 1 else ''} in {axes}: declared law, "
        "exponents with their 95 % interval, and what may be said of the law over this sweep",
        tuple(head),
        tuple(tuple(_complexity_row(row, several, settings)) for row in rows),
        columns(head, *numbers),
        key=f"growth-{quantities[0].partition(' ')[0]}",
        picks=columns(head, "implementation", "quantity", "in", "at", "verdict"),
    )


def _complexity_row(row: ComplexityRow, several: bool, settings: bool) -> Iterable[Cell | str]:
    yield named(row.implementation, row.exact)
    yield row.quantity
    if several:
        yield row.variable
    if settings:
        yield row.setting
    yield Cell(pretty(row.claim), note=_whole(row)) if row.claim else DASH
    yield _counted(row)
    yield _exponent(row.measured)
    bound = f"≤ {row.bound}" if row.bound and row.bound != row.word else ""
    yield Cell(row.word, VERDICT_LOOKS.get(row.word, "muted"), bound)
    yield Cell("", "why", _evidence(row))
    yield _predicted(row)


def _whole(row: ComplexityRow) -> str:
    """The whole declared law where it says more than its growth in this variable."""
    return pretty(row.declared) if row.declared != row.claim else ""


def _evidence(row: ComplexityRow) -> str:
    parts = [pretty(row.reason)]
    if row.bound and row.bound != row.word:
        parts.append(f"as an upper bound {row.bound}: {row.bound_reason}")
    if row.overhead_to is not None:
        parts.append(f"overhead-bound up to {row.axis} {row.overhead_to:g}")
    if row.basis and row.probability is not None and row.word != "not claimed":
        parts.append(f"judged by {name_of(row.basis)}")
    return "; ".join(parts)


def _counted(row: ComplexityRow) -> Cell:
    """The exact power with its polynomial, which opens the evidence; else the fitted one and why."""
    if not row.polynomial:
        shown_ = _exponent(row.counted)
        return replace(shown_, note=shown_.note or "fitted", more=row.evidence) if row.evidence else shown_
    power = row.counted.value if row.counted else 0.0
    return Cell(f"{power:g}", note=row.polynomial, more=row.evidence)


def _exponent(exponent: Exponent | None) -> Cell:
    if exponent is None:
        return DASH
    exact = exponent.high - exponent.low < 0.005
    return Cell(f"{exponent.value:.2f}", note="" if exact else f"{exponent.low:.2f} to {exponent.high:.2f}")


def _predicted(row: ComplexityRow) -> Cell:
    if not row.predictions:
        return DASH
    _, low, middle, high = row.predictions[-1]
    alike = shown(low, row.unit) == shown(high, row.unit)
    return Cell(
        shown(middle, row.unit), note="" if alike else f"{shown(low, row.unit)} to {shown(high, row.unit)}"
    )


def named(name: str, exact: bool) -> Cell:
    """An implementation, marked when it approximates."""
    return Cell(name, note="" if exact else "approximation")


def errors(records: Records, rows: Sequence[accuracy.ErrorRow]) -> Grid:
    """Errors by implementation, setting and size, each with its ratio to naive."""
    setting, tensors = any(row.setting for row in rows), any(row.what != "output" for row in rows)
    sizes = [f"{records.sweep} {size:g}" if size is not None else "error" for size in accuracy.sizes(records)]
    head = ("implementation", *(["at"] if setting else []), *(["of"] if tensors else []), *sizes)
    body = tuple(tuple(_error_row(row, setting, tensors)) for row in rows)
    caption = (
        "Error against float64, ‖out − ref‖ ÷ ‖ref‖, and how many times the error of the plain formula "
        "in the same dtype that is"
    )
    return Grid(
        caption,
        head,
        body,
        columns(head, *sizes),
        "accuracy-table",
        picks=columns(head, "implementation", "at", "of"),
    )


def _error_row(row: accuracy.ErrorRow, setting: bool, tensors: bool) -> Iterable[Cell | str]:
    yield named(row.implementation, row.exact)
    if setting:
        yield row.setting
    if tensors:
        yield row.what
    for cell, why in zip(row.cells, row.why, strict=True):
        yield _error(row, cell, why)


def _error(row: accuracy.ErrorRow, cell: accuracy.ErrorCell | None, why: str) -> Cell:
    if cell is None:
        return Cell(why or "—", "bad" if why == "incorrect" else "muted")
    ratio = f"{cell.ratio:.2g} × naive" if cell.ratio is not None else ""
    if row.exact:
        return Cell(
            brief(cell.error), "bad" if why or (cell.ratio or 0) > accuracy.RULE else "", why or ratio
        )
    if row.implementation == accuracy.FLOOR:
        return Cell(brief(cell.error), note="the floor")
    beaten = cell.floor is not None and cell.floor < 1
    floor = f"{cell.floor:.2g} × uniform" if cell.floor is not None else ""
    return Cell(brief(cell.error), "" if beaten or cell.floor is None else "doubt", floor)


def failures(records: Records) -> Grid:
    """Every case that is not ok, with its reason."""
    rows = tuple(
        (implementation, Cell(outcomes.STATUS_WORDS[status], _look(status)), str(len(found)), reason,
         outcomes.where(records, found))
        for status, implementation, reason, found in outcomes.not_ok(records)
    )  # fmt: skip
    head = ("implementation", "outcome", "cases", "reason", "where")
    return Grid(
        "Every case without a measurement",
        head,
        rows,
        columns(head, "cases"),
        "failures-table",
        picks=columns(head, "implementation", "outcome"),
    )


def _look(status: str) -> str:
    return "muted" if status in ("unsupported", "skipped") else "bad"


def omissions(records: Records) -> Grid:
    """What was left out of cases that ended well, and what else is to be known of them."""
    rows = tuple(
        (implementation, quantity, why, str(len(found)), outcomes.where(records, found))
        for implementation, quantity, why, found in outcomes.remarks(records)
    )
    head = ("implementation", "quantity", "remark", "cases", "where")
    caption = "What was left out of cases that ended well, and what else to know of them"
    return Grid(caption, head, rows, columns(head, "cases"))


def doubts(records: Records) -> Grid:
    """Every kind of flag with the cases that carry it."""
    head = ("doubt", "in words", "cases", "implementations", "where")
    rows = tuple(
        (kind, "; ".join(details), str(len(found)), _implementations(found), outcomes.where(records, found))
        for kind, details, found in outcomes.flagged(records)
    )
    return Grid("Flags on measurements", head, rows, columns(head, "cases"))


def _implementations(found: Iterable[Result]) -> str:
    return ", ".join(dict.fromkeys(r.case.implementation for r in found))


def behind(chart: Chart) -> Grid:
    """The data of a figure: sizes down, implementations across, words where there is no number."""
    values = [p.y for s in chart.series for p in s.points]
    scale = scale_for(values, chart.unit)
    head = (chart.axis, *(s.name for s in chart.series))
    rows = tuple((f"{x:g}", *(_behind(s.at(x), scale) for s in chart.series)) for x in chart.xs)
    unit = f" in {scale.unit}" if scale.unit else ""
    return Grid(f"{chart.title}{unit}", head, rows, frozenset(range(len(head))))


def behind_plane(plane: Plane) -> Grid:
    """The data of a figure of two quantities: one row per point."""
    spots = [(group, spot) for group in plane.series for spot in group.points]
    x, y = (scale_for((getattr(spot, end) for _, spot in spots), quantity.unit)
            for end, quantity in (("x", plane.x), ("y", plane.y)))  # fmt: skip
    at, words = any(spot.at for _, spot in spots), bool(plane.x.names)
    across = () if words else (x.head(plane.x.label),)
    head = ("implementation", *(("at",) if at else ()), *across, y.head(plane.y.label))
    head += ("nothing is better in both",) if plane.front else ()
    rows = tuple(
        (group.name, *((spot.at,) if at else ()), *(() if words else (x.show(spot.x),)), y.show(spot.y),
         *((("yes" if group.best else "no"),) if plane.front else ()))
        for group, spot in spots
    )  # fmt: skip
    return Grid(plane.title, head, rows, columns(head, *across, y.head(plane.y.label)))


def _behind(found: Point | Gap | None, scale: Scale) -> Cell | str:
    if isinstance(found, Point):
        return scale.show(found.y)
    return Cell(found.words.partition(":")[0] if found else "no row", "muted")
