"""What a figure shows, as data: series with gaps where nothing was measured, and words for each gap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.report.accuracy import RULE
from harness.report.curves import FAR, describes, fitted
from harness.report.impossible import why_impossible
from harness.report.outcomes import STATUS_WORDS, told_once
from harness.report.records import MEMORIES, TIMES, Facet, Records, measured, size_of
from harness.report.sweeps import overhead_limit
from harness.report.units import name as name_of
from harness.report.units import shown
from harness.types import Measurement, Result, Status

MAX_CHARTS = 12
#: One letter per outcome, for the strip under a figure; the words are in its caption.
LETTERS = {
    Status.OOM: "M",
    Status.SKIPPED: "S",
    Status.TIMEOUT: "T",
    Status.UNSUPPORTED: "U",
    Status.INCORRECT: "X",
    Status.CRASHED: "C",
    Status.ERROR: "E",
    Status.UNSTABLE: "~",
}
#: Metrics of error: their figures stand beside the errors.
ERRORS = ("error", "error_ratio")
NO_ROW, NO_VALUE, ZERO = "·", "–", "0"
_OTHER_WORDS = {NO_ROW: "no row", NO_VALUE: "not measured", ZERO: "exactly 0"}


@dataclass(frozen=True, slots=True)
class Point:
    """One measured point.

    overhead    whether fixed overhead hides the growth here
    impossible  whether the time cannot be
    """

    x: float
    measurement: Measurement
    overhead: bool
    title: str
    impossible: bool = False

    @property
    def y(self) -> float:
        """The value."""
        return self.measurement.value

    @property
    def hollow(self) -> bool:
        """Whether the marker is not filled."""
        return self.overhead


@dataclass(frozen=True, slots=True)
class Gap:
    """Nothing is drawn at x: a letter for the strip, and the reason in words."""

    x: float
    letter: str
    words: str


@dataclass(frozen=True, slots=True)
class Series:
    """One implementation in one figure.

    index    its fixed place in the palette
    curve    (x, low, middle, high) of the fitted law with its 95 % interval; empty without a fit
    unlike   whether a law was fitted but does not describe the points, so that it is not drawn
    """

    name: str
    index: int
    points: tuple[Point, ...]
    gaps: tuple[Gap, ...]
    curve: tuple[tuple[float, float, float, float], ...] = ()
    unlike: bool = False

    @property
    def plateau(self) -> tuple[float, float, float, float] | None:
        """(x from, x to, y from, y to) of its overhead-bound points, or None."""
        bound = [p for p in self.points if p.overhead]
        if not bound:
            return None
        ys = [p.y for p in bound]
        return bound[0].x, bound[-1].x, min(ys), max(ys)

    @property
    def out_of_memory(self) -> float | None:
        """The smallest size beyond its last point at which memory ran out, or None."""
        beyond = (g.x for g in self.gaps if g.letter == LETTERS[Status.OOM] and g.x > self.points[-1].x)
        return min(beyond, default=None) if self.points else None

    def at(self, x: float) -> Point | Gap | None:
        """What is known at x."""
        known: tuple[Point | Gap, ...] = (*self.points, *self.gaps)
        return next((item for item in known if item.x == x), None)


def coincide(one: Series, other: Series) -> bool:
    """Whether two series lie on each other: within 3 % at most of the sizes that they share."""
    ys = {p.x: p.y for p in other.points}
    ratios = [p.y / ys[p.x] for p in one.points if p.x in ys]
    near = sum(1 / 1.03 < ratio < 1.03 for ratio in ratios)
    return bool(ratios) and near > len(ratios) / 2


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure: a quantity against the swept axis at one setting.

    absent  (implementation, why) of those that have no point here
    limit   a value that must not be exceeded, with its name, or None
    missing (names, why in a word or two) of those same ones, those alike together
    """

    key: str
    metric: str
    unit: str
    axis: str
    x_label: str
    setting: str
    xs: tuple[float, ...]
    series: tuple[Series, ...]
    absent: tuple[tuple[str, str], ...]
    limit: tuple[float, str] | None = None
    missing: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        """What is drawn against what, and where."""
        name = name_of(self.metric)
        place = f", {self.setting}" if self.setting else ""
        return f"{name[0].upper()}{name[1:]} against {self.x_label}{place}"

    @property
    def coincident(self) -> str:
        """Which series lie on each other, in words, or the empty string."""
        groups: list[list[Series]] = []
        for series in self.series:
            home = next((group for group in groups if coincide(group[0], series)), None)
            groups.append([series]) if home is None else home.append(series)
        return "; ".join(", ".join(s.name for s in group) for group in groups if len(group) > 1)

    @property
    def description(self) -> str:
        """The figure in words, for those who cannot see it."""
        ends = (f"{s.name} {shown(s.points[-1].y, self.unit)} at {s.points[-1].x:g}" for s in self.series)
        return f"Logarithmic axes. At the largest size of each: {'; '.join(ends)}."

    @property
    def key_words(self) -> str:
        """What the letters of the strip and the hollow points mean here."""
        letters = dict.fromkeys(gap.letter for s in self.series for gap in s.gaps)
        words = [f"{letter} {letter_words(letter)}" for letter in letters]
        if any(p.overhead for s in self.series for p in s.points):
            words.append("hollow in grey: overhead-bound")
        if any(s.curve for s in self.series):
            words.append("tinted: 95 % interval of the fitted law")
        if unlike := [s.name for s in self.series if s.unlike]:
            words.append(f"without: {', '.join(unlike)}, whose law misses a point by more than {FAR:g} ×")
        if walls := [s.name for s in self.series if s.out_of_memory is not None]:
            words.append(f"dotted upwards: {', '.join(walls)} out of memory")
        if self.limit and self.metric in MEMORIES:
            words.append(self.limit[1])
        if names := [s.name for s in self.series if any(p.impossible for p in s.points)]:
            words.append(f"impossible, not fast: {', '.join(names)}")
        return "; ".join(words)


def letter_words(letter: str) -> str:
    """A letter of the strip in words."""
    by_letter = {mark: STATUS_WORDS[status] for status, mark in LETTERS.items()}
    return (by_letter | _OTHER_WORDS)[letter]


def charts(records: Records) -> tuple[tuple[Chart, ...], str]:
    """The figures of a page, and in words what there was no room for."""
    if records.sweep is None:
        return (), "No numeric axis is swept, so there is nothing to draw against."
    metrics = quantities(records)
    facets = records.facets(records.sweep)
    room = MAX_CHARTS // len(metrics) if metrics else 0
    drawn = [
        chart for facet in facets[:room] for metric in metrics if (chart := _chart(records, facet, metric))
    ]
    left = len(facets) - room
    note = f"{left} further settings are not drawn; their numbers are in the full data." if left > 0 else ""
    return tuple(drawn), note


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
    curve = fitted(records, facet, name, metric) if points else ()
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
