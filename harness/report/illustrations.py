"""Every figure of a page, in the section where it is looked for, each with the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.report import charting, charts, efficiency, figures, planes, sections, traffic
from harness.report.charts import Chart
from harness.report.grid import Grid
from harness.report.planes import Plane
from harness.report.records import Records

Drawing = Chart | Plane
#: The sections that have figures, in the order of the page.
PARTS = ("overview", "choose", "scaling", "efficiency", "accuracy")


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing as drawn, with the data behind it."""

    drawing: Drawing
    svg: Markup
    data: Grid


@dataclass(frozen=True, slots=True)
class Drawings:
    """What a page draws.

    overview  what a reader sees first
    undrawn   in words, what there was no room for
    """

    overview: tuple[Drawing, ...]
    choose: tuple[Drawing, ...]
    scaling: tuple[Drawing, ...]
    efficiency: tuple[Drawing, ...]
    accuracy: tuple[Drawing, ...]
    undrawn: str

    @property
    def all(self) -> tuple[Drawing, ...]:
        """In the order of the page."""
        return tuple(drawing for part in PARTS for drawing in getattr(self, part))

    @property
    def overhead_bound(self) -> int:
        """How many of the drawn times are overhead-bound."""
        sweeps = [d for d in self.all if isinstance(d, Chart)]
        return sum(point.overhead for chart in sweeps for series in chart.series for point in series.points)


def drawings(records: Records) -> Drawings:
    """The figures of a page, as data."""
    drawn, undrawn = charting.charts(records)
    costs = [chart for chart in drawn if chart.metric not in charts.ERRORS]
    overview = _overview(records, costs)
    return Drawings(
        overview=tuple(overview),
        choose=planes.pareto(records),
        scaling=(*(chart for chart in costs if chart not in overview), *traffic.figure(records)),
        efficiency=efficiency.roofline(records),
        accuracy=(
            *(chart for chart in drawn if chart.metric in charts.ERRORS),
            *planes.error_planes(records),
        ),
        undrawn=undrawn,
    )


def _overview(records: Records, costs: Sequence[Chart]) -> list[Chart]:
    """Time and memory at the first setting; of several machines the time on each."""
    settings = list(dict.fromkeys(chart.setting for chart in costs))[: max(1, len(records.machines))]
    metrics = (records.time,) if records.machines else (records.time, records.memory)
    return [chart for chart in costs if chart.setting in settings and chart.metric in metrics]


def drawn(some: Iterable[Drawing]) -> list[Figure]:
    """Drawings as the page shows them."""
    # The source is serialised from a tree, which escapes texts.
    return [Figure(drawing, Markup(figures.draw(drawing)), _behind(drawing)) for drawing in some]


def _behind(drawing: Drawing) -> Grid:
    return sections.behind(drawing) if isinstance(drawing, Chart) else sections.behind_plane(drawing)
