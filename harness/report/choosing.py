"""The tables that help to choose: fastest, crossovers, and how far each implementation goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.report import choice, outcomes
from harness.report.crossing import Crossings, Crossover
from harness.report.grid import DASH, Cell, Grid, columns
from harness.report.impossible import why_impossible
from harness.report.records import Records, words
from harness.report.units import brief, shown
from harness.report.units import name as name_of
from harness.types import Result

#: A relative error from which on an approximation is no stand-in for attention.
FAR = 0.1


def impossible(records: Records) -> Grid:
    """Rows whose time cannot be: none of them is a candidate."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in records.results:
        if why := why_impossible(result):
            groups.setdefault((result.case.implementation, outcomes.without_numbers(why)), []).append(result)
    rows = tuple(
        (name, Cell("impossible", "bad"), outcomes.told_once(map(why_impossible, found)), where)
        for (name, _), found in groups.items()
        if (where := outcomes.where(records, found))
    )
    head = ("implementation", "verdict", "why", "where")
    return Grid("Times that cannot be, left out of every comparison of speed", head, rows)


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
    return Grid(
        caption,
        head,
        rows,
        columns(head, time),
        "choose-table",
        max(1, len(axes)),
        columns(head, *axes, "fastest exact"),
    )


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
    yield _approximate(item)
    yield Cell(item.leanest[0], note=shown(item.leanest[1].value, "B")) if item.leanest else DASH


def _value(axis: str, value: object) -> str:
    return words(axis, value) if isinstance(value, bool) else str(value)


def _slower(others: Sequence[choice.Timed], best: float) -> Cell:
    if not others:
        return DASH
    other = others[0]
    return Cell(other.name, note=f"{shown(other.time.value, 's')}, {other.time.value / best:.3g} × the time")


def _approximate(item: choice.Fastest) -> Cell:
    """The fastest approximation, with the error that it costs; none is recommended that is only fast."""
    idle = f"{', '.join(item.idle)}: no nearer than the mean of V" if item.idle else ""
    if not item.approximations:
        return Cell("—", "muted", idle)
    best = item.approximations[0]
    cell, error = _slower(item.approximations[:1], item.tied[0].time.value), best.result.metrics.get("error")
    if error is None:
        return Cell(cell.text, note=f"{cell.note}; its error was not measured")
    far = error.value >= FAR
    cost = f"error {error.value:.0%}: far from attention" if far else f"error {brief(error.value)}"
    return Cell(cell.text, "doubt" if far else "", f"{cell.note}; {cost}")


def crossovers(records: Records, crossings: Crossings) -> Grid:
    """Where one overtakes another."""
    axis = records.sweep or "size"
    setting = any(crossing.setting for crossing in _exact_first(records, crossings))
    head = (*(["at"] if setting else []), "faster below", "faster above", axis, "95 % interval")
    rows = tuple(
        tuple(_crossover(records, crossing, setting)) for crossing in _exact_first(records, crossings)
    )
    left = f"; {crossings.left_out} more pairs were not compared" if crossings.left_out else ""
    caption = f"Crossovers along {axis}: where the fitted times of two implementations meet{left}"
    return Grid(caption, head, rows, columns(head, axis), picks=columns(head, "at"))


def _exact_first(records: Records, crossings: Crossings) -> list[Crossover]:
    """Those between exact implementations come first: both compute the same."""
    cards = records.cards
    return sorted(crossings.found, key=lambda c: not (cards[c.below].exact and cards[c.above].exact))


def _crossover(records: Records, crossing: Crossover, setting: bool) -> Iterable[Cell | str]:
    if setting:
        yield crossing.setting
    for name in (crossing.below, crossing.above):
        yield Cell(name, note="" if records.cards[name].exact else "approximation")
    yield Cell(_size(crossing.size), note="beyond what both measured" if crossing.extrapolated else "")
    yield f"{_size(crossing.low)} to {_size(crossing.high)}"


def _size(size: float) -> str:
    """Three digits, and no exponent."""
    return f"{float(f'{size:.2e}'):,g}" if size < 1000 else f"{float(f'{size:.2e}'):,.0f}"


def reaches(records: Records) -> Grid:
    """How far each implementation went, and what stopped it."""
    axis = records.sweep or "size"
    found = choice.reaches(records)
    setting = any(reach.setting for reach in found)
    head = (*(["at"] if setting else []), "implementation", f"largest {axis} measured", "beyond it")
    limit = None if records.machines else records.memory_of({})
    predicted = f"fits {shown(limit, 'B')} up to" if limit and any(reach.fits for reach in found) else ""
    head += (predicted,) if predicted else ()
    rows = tuple(tuple(_reach(reach, axis, setting, bool(predicted))) for reach in found)
    caption = f"How far each implementation goes along {axis}"
    caption += (
        ", and the size up to which its peak memory beyond the inputs is predicted to fit the device"
        if predicted
        else ""
    )
    return Grid(caption, head, rows, columns(head, f"largest {axis} measured", predicted))


def _reach(reach: choice.Reach, axis: str, setting: bool, predicted: bool) -> Iterable[Cell | str]:
    if setting:
        yield reach.setting
    yield reach.implementation
    yield f"{reach.largest:g}"
    yield Cell(_beyond(reach, axis), "" if reach.beyond else "muted")
    if predicted:
        yield _fits(reach)


def _fits(reach: choice.Reach) -> Cell:
    if reach.fits is None:
        return DASH
    low, middle, high = map(_rounded, (reach.fits.low, reach.fits.mid, reach.fits.high))
    if reach.open:
        return Cell(f"more than {middle}")
    if reach.exact:
        return Cell(f"{reach.fits.mid:,.0f}", note="by exact count")
    return Cell(f"about {middle}", note="" if low == high else f"{low} to {high}")


def _rounded(size: float) -> str:
    """Two digits: an extrapolation has no more."""
    return f"{float(f'{size:.1e}'):,.0f}"


def _beyond(reach: choice.Reach, axis: str) -> str:
    if reach.beyond is None:
        return "the sweep ends here"
    size = reach.beyond.case.problem[axis]
    return f"{axis} {size} {outcomes.STATUS_WORDS[reach.beyond.status]}: {reach.beyond.reason}"
