"""Two quantities against each other, as data: Pareto plots, rooflines, errors against an axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.report.accuracy import FLOOR, is_floor
from harness.report.impossible import why_impossible
from harness.report.records import Facet, Records, measured, size_of, words
from harness.report.units import name as name_of
from harness.report.units import shown
from harness.types import Result

#: So many settings get Pareto plots; the tables have the others.
MAX_SETTINGS = 2


@dataclass(frozen=True, slots=True)
class Spot:
    """One point: its place, what it is in words, and where along a joined line it stands."""

    x: float
    y: float
    title: str
    hollow: bool = False
    at: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """The points of one implementation; index: its fixed place in the palette; best: it is on the front."""

    name: str
    index: int
    points: tuple[Spot, ...]
    best: bool = False


@dataclass(frozen=True, slots=True)
class Quantity:
    """An axis: its label and unit; names: of its places 0, 1, … where it holds words instead of numbers."""

    label: str
    unit: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Roof:
    """What a device can do at most: FLOP/s and B/s, and in words whose figures they are."""

    flops: float
    bandwidth: float
    words: str

    def at(self, intensity: float) -> float:
        """Attainable FLOP/s at so many FLOP/B (Williams, Waterman & Patterson 2009)."""
        return min(self.flops, self.bandwidth * intensity)


@dataclass(frozen=True, slots=True)
class Plane:
    """One figure of two quantities.

    words   what a reader must know beside the title
    front   the points that nothing beats in both quantities, from left to right
    limit   a height with its name, drawn as a line
    joined  whether the points of a group are joined, in their order
    missing, coincident  as of a chart: who is not drawn and why, and which lie on each other
    """

    key: str
    title: str
    words: str
    x: Quantity
    y: Quantity
    series: tuple[Group, ...]
    front: tuple[tuple[float, float], ...] = ()
    roof: Roof | None = None
    limit: tuple[float, str] | None = None
    joined: bool = False
    missing: tuple[tuple[str, str], ...] = ()
    coincident: str = ""

    @property
    def key_words(self) -> str:
        """What a reader must know beside the title."""
        return self.words

    @property
    def description(self) -> str:
        """The figure in words, for those who cannot see it."""
        best = [group.name for group in self.series if group.best]
        told = f" Nothing is better in both than {', '.join(best)}." if best else ""
        return f"{self.y.label} against {self.x.label}. {self.words}{told}"


def pareto(records: Records) -> tuple[Plane, ...]:
    """Time against memory and time against error, at the largest size that most were timed at."""
    facets = records.facets(records.sweep)[:MAX_SETTINGS]
    pairs = [(records.time, records.memory), (records.time, "error")]
    found = (
        _pareto(records, facet, x, y)
        for facet in facets
        for x, y in pairs
        if x and y and y in records.metrics
    )
    return tuple(plane for plane in found if plane)


def _pareto(records: Records, facet: Facet, x: str, y: str) -> Plane | None:
    rows, size = _densest(records, facet, x, y)
    if len(rows) < 2:
        return None
    memory = y == records.memory
    front = _front(_candidates(records, rows, exact_only=memory), x, y)
    names = {r.case.implementation for r in front}
    groups = tuple(_spot(records, r, x, y, r.case.implementation in names) for r in rows)
    floor = next((r.metrics[y].value for r in rows if is_floor(r.case.implementation)), None)
    place = ", ".join(filter(None, [f"{records.sweep} {size:g}" if size else "", facet.label]))
    return Plane(
        key="-".join(["pareto", y, *(str(value) for _, value in facet.fixed)]),
        title=f"{capital(name_of(y))} against {name_of(x)}{f' at {place}' if place else ''}",
        words=_pareto_words(memory),
        x=Quantity(name_of(x), "s"),
        y=Quantity(name_of(y), "B" if memory else "1"),
        series=groups,
        front=tuple((r.metrics[x].value, r.metrics[y].value) for r in front),
        limit=(floor, f"{FLOOR}, the mean of V") if floor and not memory else None,
    )


def _pareto_words(memory: bool) -> str:
    best = "The line joins those that nothing beats in both; lower left is better"
    if memory:
        return f"{best}. Hollow: approximations, which compute something else and are not on the line."
    return (
        f"{best}; {FLOOR} stands for itself and is not on it. Hollow: approximations; above the dotted line "
        "they are worse than the mean of V."
    )


def _densest(records: Records, facet: Facet, x: str, y: str) -> tuple[list[Result], float | None]:
    """The rows with both quantities at the size where most have them, the larger of two; with that size."""
    by_size: dict[float | None, list[Result]] = {}
    for result in facet.results:
        size = size_of(result, records.sweep) if records.sweep else None
        if positive(result, x) and positive(result, y) and not why_impossible(result):
            by_size.setdefault(size, []).append(result)
    size = max(by_size, key=lambda s: (len(by_size[s]), s or 0), default=None)
    return by_size.get(size, []), size


def positive(result: Result, metric: str) -> bool:
    """Whether a row that ended well has a value that a logarithmic axis can show."""
    found = measured(result, metric)
    return found is not None and found.value > 0


def _candidates(records: Records, rows: Iterable[Result], exact_only: bool) -> list[Result]:
    names = [(r, r.case.implementation) for r in rows]
    return [r for r, n in names if not is_floor(n) and (records.cards[n].exact or not exact_only)]


def _front(rows: Iterable[Result], x: str, y: str) -> list[Result]:
    """Those that no other is at most as high and at most as far right as, from left to right."""
    front: list[Result] = []
    for result in sorted(rows, key=lambda r: (r.metrics[x].value, r.metrics[y].value)):
        if not front or result.metrics[y].value < front[-1].metrics[y].value:
            front.append(result)
    return front


def _spot(records: Records, result: Result, x: str, y: str, best: bool) -> Group:
    name = result.case.implementation
    one, other = result.metrics[x], result.metrics[y]
    title = f"{name}: {shown(one.value, one.unit)}, {shown(other.value, other.unit)}"
    hollow = not records.cards[name].exact
    return Group(name, records.places[name], (Spot(one.value, other.value, title, hollow),), best)


def error_planes(records: Records) -> tuple[Plane, ...]:
    """The error against every varying axis but the swept one, where it has at least two values."""
    others = [axis for axis in records.axes if axis != records.sweep and axis != "seed"]
    found = (_error_plane(records, axis) for axis in others if "error" in records.metrics)
    return tuple(plane for plane in found if plane)[:MAX_SETTINGS]


def _error_plane(records: Records, axis: str) -> Plane | None:
    """At the setting of the other axes that has most rows, the largest of two."""
    facet = max(records.facets(axis), key=lambda f: (_erring(f.results), _largest(records, f)))
    values = [
        value
        for value in records.values(axis)
        if any(v.case.problem.get(axis) == value for v in facet.results)
    ]
    groups = tuple(
        group for name in records.cards if (group := _errors(records, facet.of(name), axis, values, name))
    )
    if len(values) < 2 or not groups:
        return None
    place = f", {facet.label}" if facet.label else ""
    return Plane(
        key=f"error-against-{axis}",
        title=f"Relative error against {records.words_for(axis)}{place}",
        words="Hollow: approximations.",
        x=Quantity(records.words_for(axis), "", tuple(words(axis, value) for value in values)),
        y=Quantity("relative error", "1"),
        series=groups,
        joined=True,
    )


def _erring(rows: Iterable[Result]) -> int:
    return sum(positive(r, "error") for r in rows)


def _largest(records: Records, facet: Facet) -> float:
    return max(size_of(r, records.sweep) for r in facet.results) if records.sweep else 0.0


def _errors(
    records: Records, rows: Sequence[Result], axis: str, values: Sequence[object], name: str
) -> Group | None:
    known = {r.case.problem.get(axis): r.metrics["error"].value for r in rows if positive(r, "error")}
    hollow = not records.cards[name].exact
    spots = tuple(
        Spot(
            float(place),
            known[value],
            f"{name}, {axis} {value}: {shown(known[value], '1')}",
            hollow,
            str(value),
        )
        for place, value in enumerate(values)
        if value in known
    )
    return Group(name, records.places[name], spots) if spots else None


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
