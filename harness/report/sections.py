"""The tables of the page, from what the other modules found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.report import accuracy, choice, outcomes
from harness.report.charts import Chart, Gap, Point
from harness.report.grid import Cell, Grid, columns
from harness.report.records import Records, words
from harness.report.tables import ComplexityRow, ComplexityTable, Exponent
from harness.report.units import Scale, plain, pretty, scale_for, shown
from harness.report.units import name as name_of

VERDICT_LOOKS = {"confirmed": "good", "refuted": "bad", "inconclusive": "doubt", "insufficient data": "doubt"}
DASH = Cell("—", "muted")


def complexity(records: Records, table: ComplexityTable, quantities: Sequence[str]) -> Grid:
    """Declared, counted, measured, verdict, of some quantities."""
    rows = [row for quantity in quantities for row in table.rows if row.quantity == quantity]
    several = len({row.variable for row in table.rows}) > 1
    settings = len({row.setting for row in table.rows}) > 1
    head = ["implementation", "quantity", *(["in"] if several else []), *(["at"] if settings else [])]
    head += [
        "declared",
        "counted exponent",
        "measured exponent",
        "verdict",
        "why",
        "upper bound",
        "at 4× the size",
    ]
    axes = ", ".join(dict.fromkeys(records.words_for(row.axis) for row in rows))
    return Grid(
        f"How {' and '.join(quantities)} grow{'s' if len(quantities) == 1 else ''} in {axes}: declared law, "
        "exponents with their 95 % interval, and what may be said of the law over this sweep",
        tuple(head),
        tuple(tuple(_complexity_row(row, several, settings)) for row in rows),
        key=f"growth-{quantities[0]}",
    )


def _complexity_row(row: ComplexityRow, several: bool, settings: bool) -> Iterable[Cell | str]:
    yield _named(row.implementation, row.exact)
    yield row.quantity
    if several:
        yield row.variable
    if settings:
        yield row.setting
    yield Cell(pretty(row.claim), note=_whole(row)) if row.claim else DASH
    yield _exponent(row.counted)
    yield _exponent(row.measured)
    yield Cell(row.word, VERDICT_LOOKS.get(row.word, "muted"))
    yield Cell("", "why", _evidence(row))
    yield Cell(row.bound, VERDICT_LOOKS.get(row.bound, "muted")) if row.bound else DASH
    yield _predicted(row)


def _whole(row: ComplexityRow) -> str:
    """The whole declared law where it says more than its growth in this variable."""
    return pretty(row.declared) if row.declared != row.claim else ""


def _evidence(row: ComplexityRow) -> str:
    parts = [row.reason]
    if row.bound and row.bound != row.word:
        parts.append(f"as an upper bound {row.bound}: {row.bound_reason}")
    if row.overhead_to is not None:
        parts.append(f"overhead-bound up to {row.axis} {row.overhead_to:g}")
    if row.basis and row.probability is not None and row.word != "not claimed":
        parts.append(f"judged by {name_of(row.basis)}")
    return "; ".join(parts)


def _exponent(exponent: Exponent | None) -> Cell:
    if exponent is None:
        return DASH
    interval = f"{exponent.low:.2f} to {exponent.high:.2f}, " if exponent.high - exponent.low > 0.005 else ""
    return Cell(f"{exponent.value:.2f}", note=f"{interval}{name_of(exponent.metric)}")


def _predicted(row: ComplexityRow) -> Cell:
    if not row.predictions:
        return DASH
    _, low, middle, high = row.predictions[-1]
    alike = shown(low, row.unit) == shown(high, row.unit)
    return Cell(
        shown(middle, row.unit), note="" if alike else f"{shown(low, row.unit)} to {shown(high, row.unit)}"
    )


def _named(name: str, exact: bool) -> Cell:
    return Cell(name, note="" if exact else "approximation")


def fastest(records: Records, choices: Sequence[choice.Fastest]) -> Grid:
    """The fastest correct implementation per problem."""
    axes = _axes_last(records)
    time = name_of(records.time or "time")
    memory = name_of(records.memory or "memory")
    rows = tuple(tuple(_fastest_row(axes, item)) for item in choices)
    head = (
        *(axes or ["problem"]),
        "fastest exact",
        time,
        "next exact",
        "faster approximation",
        f"least {memory}",
    )
    caption = (
        f"The fastest exact implementation of each problem, by {time}; tied when their intervals overlap"
    )
    return Grid(caption, head, rows, columns(head, time), key="choose-table", row_heads=max(1, len(axes)))


def _axes_last(records: Records) -> list[str]:
    return [axis for axis in records.axes if axis != records.sweep] + [
        a for a in records.axes if a == records.sweep
    ]


def _fastest_row(axes: Sequence[str], item: choice.Fastest) -> Iterable[Cell | str]:
    fixed = dict(item.problem.fixed)
    yield from [_value(axis, fixed[axis]) for axis in axes] or ["the only one"]
    yield Cell(", ".join(t.name for t in item.tied), "good", "tied" if len(item.tied) > 1 else "")
    best = item.tied[0].time
    interval = (
        "" if best.low is None or best.high is None else f"{shown(best.low, 's')} to {shown(best.high, 's')}"
    )
    yield Cell(shown(best.value, "s"), note=interval)
    yield _slower(item.others[:1], best.value)
    yield _slower(item.approximations[:1], best.value)
    yield Cell(item.leanest[0], note=shown(item.leanest[1].value, "B")) if item.leanest else DASH


def _value(axis: str, value: object) -> str:
    return words(axis, value) if isinstance(value, bool) else str(value)


def _slower(others: Sequence[choice.Timed], best: float) -> Cell:
    if not others:
        return DASH
    other = others[0]
    return Cell(other.name, note=f"{shown(other.time.value, 's')}, {other.time.value / best:.3g} × the time")


def crossovers(records: Records, found: Sequence[choice.Crossover]) -> Grid:
    """Where one overtakes another."""
    axis = records.sweep or "size"
    setting = any(crossing.setting for crossing in found)
    head = (*(["at"] if setting else []), "faster below", "faster above", axis, "not told apart within")
    rows = tuple(tuple(_crossover(crossing, setting)) for crossing in found)
    caption = (
        f"Crossovers along {axis}: where the times meet, and the measured sizes on either side whose "
        "intervals do not overlap"
    )
    return Grid(caption, head, rows, columns(head, axis))


def _crossover(crossing: choice.Crossover, setting: bool) -> Iterable[str]:
    if setting:
        yield crossing.setting
    yield crossing.below
    yield crossing.above
    yield f"{crossing.size:.3g}" if crossing.size < 1000 else f"{crossing.size:.0f}"
    yield f"{crossing.low:g} to {crossing.high:g}"


def reaches(records: Records) -> Grid:
    """How far each implementation went, and what stopped it."""
    axis = records.sweep or "size"
    found = choice.reaches(records)
    setting = any(reach.setting for reach in found)
    head = (*(["at"] if setting else []), "implementation", f"largest {axis} measured", "beyond it")
    rows = tuple(tuple(_reach(reach, axis, setting)) for reach in found)
    return Grid(f"How far each implementation goes along {axis}", head, rows, columns(head, head[-2]))


def _reach(reach: choice.Reach, axis: str, setting: bool) -> Iterable[Cell | str]:
    if setting:
        yield reach.setting
    yield reach.implementation
    yield f"{reach.largest:g}"
    yield Cell(_beyond(reach, axis), "" if reach.beyond else "muted")


def _beyond(reach: choice.Reach, axis: str) -> str:
    if reach.beyond is None:
        return "the sweep ends here"
    size = reach.beyond.case.problem[axis]
    return f"{axis} {size} {outcomes.STATUS_WORDS[reach.beyond.status]}: {reach.beyond.reason}"


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
    return Grid(caption, head, body, columns(head, *sizes), key="accuracy-table")


def _error_row(row: accuracy.ErrorRow, setting: bool, tensors: bool) -> Iterable[Cell | str]:
    yield _named(row.implementation, row.exact)
    if setting:
        yield row.setting
    if tensors:
        yield row.what
    for cell, why in zip(row.cells, row.why, strict=True):
        yield _error(cell, why, row.exact)


def _error(cell: accuracy.ErrorCell | None, why: str, exact: bool) -> Cell:
    if cell is None:
        return Cell(why or "—", "muted")
    ratio = f"{plain(cell.ratio, 2)} × naive" if cell.ratio is not None else ""
    if exact:
        return Cell(f"{cell.error:.1e}", "bad" if why or (cell.ratio or 0) > 2 else "", why or ratio)
    floor = f"{plain(cell.floor, 2)} × uniform" if cell.floor is not None else ratio
    beaten = cell.floor is not None and cell.floor < 1
    return Cell(f"{cell.error:.1e}", "" if beaten else "doubt", floor)


def failures(records: Records) -> Grid:
    """Every case that is not ok, with its reason."""
    rows = tuple(
        (implementation, Cell(outcomes.STATUS_WORDS[status], _look(status)), str(len(found)), reason,
         outcomes.where(records, found))
        for status, implementation, reason, found in outcomes.not_ok(records)
    )  # fmt: skip
    head = ("implementation", "outcome", "cases", "reason", "where")
    return Grid("Every case without a measurement", head, rows, columns(head, "cases"), key="failures-table")


def _look(status: str) -> str:
    return "muted" if status in ("unsupported", "skipped") else "bad"


def omissions(records: Records) -> Grid:
    """What was not measured in cases that ended well, and why."""
    rows = tuple(
        (implementation, quantity, why, str(len(found)), outcomes.where(records, found))
        for implementation, quantity, why, found in outcomes.not_measured(records)
    )
    head = ("implementation", "quantity", "why not measured", "cases", "where")
    return Grid("Quantities left out of cases that ended well", head, rows, columns(head, "cases"))


def doubts(records: Records) -> Grid:
    """Every flag with the cases that carry it."""
    rows = tuple(
        (
            flag,
            str(len(found)),
            "; ".join(dict.fromkeys(r.case.implementation for r in found)),
            outcomes.where(records, found),
        )
        for flag, found in outcomes.flagged(records)
    )
    head = ("doubt", "cases", "implementations", "where")
    return Grid("Flags on measurements", head, rows, columns(head, "cases"))


def behind(chart: Chart) -> Grid:
    """The data of a figure: sizes down, implementations across, words where there is no number."""
    values = [p.y for s in chart.series for p in s.points]
    scale = scale_for(values, chart.unit)
    head = (chart.axis, *(s.name for s in chart.series))
    rows = tuple((f"{x:g}", *(_behind(s.at(x), scale) for s in chart.series)) for x in chart.xs)
    unit = f" in {scale.unit}" if scale.unit else ""
    return Grid(f"{chart.title}{unit}", head, rows, frozenset(range(len(head))))


def _behind(found: Point | Gap | None, scale: Scale) -> Cell | str:
    if isinstance(found, Point):
        return scale.show(found.y)
    return Cell(found.words.partition(":")[0] if found else "no row", "muted")
