"""Records → charts: which figures a run has, and for every point that is missing the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.report.accuracy import RULE
from harness.report.charts import (
    ERRORS,
    LETTERS,
    NO_ROW,
    NO_VALUE,
    ZERO,
    Chart,
    Gap,
    Point,
    Series,
    letter_words,
)
from harness.report.curves import describes, fitted, runs_of
from harness.report.impossible import why_impossible
from harness.report.outcomes import STATUS_WORDS, told_once
from harness.report.records import MACHINE, MEMORIES, TIMES, Facet, Records, measured, size_of
from harness.report.sweeps import overhead_limit
from harness.report.units import name as name_of
from harness.report.units import shown
from harness.types import Measurement, Result, Scalar, Status

MAX_CHARTS = 12


def charts(records: Records) -> tuple[tuple[Chart, ...], str]:
    """The figures of a page, and in words what there was no room for."""
    if records.sweep is None:
        return (), "No numeric axis is swept, so there is nothing to draw against."
    metrics = quantities(records)
    facets = records.facets(records.sweep)
    room = MAX_CHARTS // len(metrics) if metrics else 0
    found = [(f, chart) for f in facets[:room] for m in metrics if (chart := _chart(records, f, m))]
    drawn = [_alike(chart, facet, found) for facet, chart in found]
    left = len(facets) - room
    note = f"{left} further settings are not drawn; their numbers are in the full data." if left > 0 else ""
    return tuple(drawn), note


def _alike(chart: Chart, facet: Facet, found: Sequence[tuple[Facet, Chart]]) -> Chart:
    """The chart with the heights of the same one on other machines, so that both have one scale."""
    elsewhere = [other for f, other in found if other.metric == chart.metric and _place(f) == _place(facet)]
    return replace(chart, among=tuple(p.y for other in elsewhere for s in other.series for p in s.points))


def _place(facet: Facet) -> tuple[tuple[str, Scalar], ...]:
    """What is held fixed, whichever the machine."""
    return tuple((axis, value) for axis, value in facet.fixed if axis != MACHINE)


def quantities(records: Records) -> list[str]:
    """The metrics worth a figure: time (cold and hot apart), memory, error and its ratio to naive's."""
    hot = "gpu_time_hot" if records.time != "gpu_time_hot" and "gpu_time_hot" in records.metrics else None
    errors = [metric for metric in ERRORS if metric in records.metrics]
    return [metric for metric in (records.time, hot, records.memory, *errors) if metric]


def _chart(records: Records, facet: Facet, metric: str) -> Chart | None:
    assert records.sweep is not None
    xs = tuple(sorted({size_of(r, records.sweep) for r in facet.results}))
    # Approximations are held against the mean of V, not against rounding.
    names = [n for n in records.places if records.cards[n].exact or metric != "error_ratio"]
    found = [_series(records, facet, name, metric, xs) for name in names]
    drawn = tuple(s for s in found if s.points)
    if not drawn:
        return None
    return Chart(
        key=f"{metric}-{'-'.join(str(value) for _, value in facet.fixed)}".strip("-"),
        metric=metric,
        unit=drawn[0].points[0].measurement.unit,
        axis=records.sweep,
        x_label=records.words_for(records.sweep),
        setting=facet.label,
        xs=xs,
        series=drawn,
        absent=tuple((s.name, told_once(gap.words for gap in s.gaps)) for s in found if not s.points),
        limit=_limit(records, facet, metric),
        missing=_missing(found),
    )


def _missing(found: Iterable[Series]) -> tuple[tuple[str, str], ...]:
    """Who has no point, by the words for it."""
    alike: dict[str, list[str]] = {}
    for series in found:
        if not series.points:
            why = ", ".join(dict.fromkeys(_shortly(gap) for gap in series.gaps))
            alike.setdefault(why, []).append(series.name)
    return tuple((", ".join(names), why) for why, names in alike.items())


def _shortly(gap: Gap) -> str:
    """The letter in words, or the note itself where it is short."""
    return gap.words if gap.letter == NO_VALUE and len(gap.words) <= 30 else letter_words(gap.letter)


def _limit(records: Records, facet: Facet, metric: str) -> tuple[float, str] | None:
    """What the values of a metric must not exceed, with its name."""
    if metric == "error_ratio":
        return RULE, f"{RULE:g} × naive, the usual bound"
    memory = records.memory_of(facet.results[0].case.problem) if metric in MEMORIES else None
    return (memory, f"device memory, {shown(memory, 'B')}") if memory else None


def _series(records: Records, facet: Facet, name: str, metric: str, xs: tuple[float, ...]) -> Series:
    axis = records.sweep or ""
    rows = {size_of(r, axis): r for r in facet.of(name)}
    limit = None
    if metric == records.time:
        limit = overhead_limit(tuple(rows[x] for x in sorted(rows)), axis, metric)
    points, gaps = [], []
    for x in xs:
        result = rows.get(x)
        found = measured(result, metric) if result else None
        if found and found.value > 0:
            why = why_impossible(result) if result and metric in TIMES else ""
            bound = limit is not None and x <= limit and not why
            points.append(Point(x, found, bound, _title(name, axis, x, found, bound, why), bool(why)))
        else:
            gaps.append(Gap(x, *_gap(result, found, metric)))
    curve = fitted(records, facet, name, metric, runs_of(xs, (p.x for p in points)))
    unlike = not describes(curve, [(p.x, p.y) for p in points])
    place = records.places[name]
    return Series(name, place, tuple(points), tuple(gaps), () if unlike else curve, unlike)


def _title(name: str, axis: str, x: float, m: Measurement, overhead: bool, why: str) -> str:
    interval = ""
    if m.low is not None and m.high is not None:
        interval = f" [{shown(m.low, m.unit)}, {shown(m.high, m.unit)}]"
    tail = (", overhead-bound" if overhead else "") + (f", impossible: {why}" if why else "")
    return f"{name}, {axis} {x:g}: {shown(m.value, m.unit)}{interval}{tail}"


def _gap(result: Result | None, found: Measurement | None, metric: str) -> tuple[str, str]:
    if result is None:
        return NO_ROW, "no row"
    if result.status is not Status.OK:
        return LETTERS[result.status], f"{STATUS_WORDS[result.status]}: {result.reason}"
    if found is not None:
        return ZERO, "exactly 0" if found.value == 0 else f"{found.value:g}, which has no logarithm"
    return NO_VALUE, _note_for(result, metric)


def _note_for(result: Result, metric: str) -> str:
    """The note that explains why a metric is missing, or a plain statement that it is."""
    if metric in result.notes:
        return result.notes[metric]
    kinds = {"time": ("latency", "time"), "memory": ("memory",), "error": ("accuracy", "error")}
    names = next((names for part, names in kinds.items() if part in metric), ())
    return next((result.notes[n] for n in names if n in result.notes), f"no {name_of(metric)} was recorded")
