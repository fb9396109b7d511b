"""What a figure shows, as data: series with gaps where nothing was measured, and words for each gap."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.curves import FAR, Curve
from harness.report.outcomes import STATUS_WORDS
from harness.report.units import name as name_of
from harness.report.units import shown
from harness.types import Measurement, Status

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
#: A limit further than this factor from the data is told in words: a line must not flatten the data.
NEAR_LIMIT = 4.0
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
    curve    the fitted law with its 95 % interval, in pieces between gaps; empty without a fit
    unlike   whether a law was fitted but does not describe the points, so that it is not drawn
    """

    name: str
    index: int
    points: tuple[Point, ...]
    gaps: tuple[Gap, ...]
    curve: tuple[Curve, ...] = ()
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
    among   heights that the axis holds as well: of the same figure on other machines
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
    among: tuple[float, ...] = ()

    @property
    def title(self) -> str:
        """What is drawn against what, and where."""
        name = name_of(self.metric)
        place = f", {self.setting}" if self.setting else ""
        return f"{name[0].upper()}{name[1:]} against {self.x_label}{place}"

    @property
    def drawn_limit(self) -> float | None:
        """The limit where it is near enough to the data to be drawn, or None."""
        if self.limit is None:
            return None
        top = max(p.y for s in self.series for p in s.points)
        return self.limit[0] if top / NEAR_LIMIT <= self.limit[0] <= top * NEAR_LIMIT else None

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
        if self.limit and self.drawn_limit is None:
            words.append(f"{self.limit[1]}, is beyond the figure")
        if names := [s.name for s in self.series if any(p.impossible for p in s.points)]:
            words.append(f"impossible, not fast: {', '.join(names)}")
        return "; ".join(words)


def letter_words(letter: str) -> str:
    """A letter of the strip in words."""
    by_letter = {mark: STATUS_WORDS[status] for status, mark in LETTERS.items()}
    return (by_letter | _OTHER_WORDS)[letter]
