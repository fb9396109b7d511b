"""Charts → SVG. Drawn with placeholder colours and texts; `svg.dress` puts in what the page needs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

from harness.report import charts, svg
from harness.report.charts import Chart, Series
from harness.report.units import tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Six dashes and seven colours repeat together only after 42 series.
DASHES: Sequence[Any] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (8, 3)),
    (0, (2.5, 1)),
)
MARKERS = ("o", "s", "^", "D", "v", "P")
WIDTH, LABEL_WIDTH, LEFT, TOP, BOTTOM = 640.0, 118.0, 66.0, 12.0, 42.0
PLOT_HEIGHT, STRIP_ROW, STRIP_GAP, LABEL_GAP = 330.0, 13.0, 6.0, 14.0


def draw(chart: Chart) -> str:
    """The figure as an SVG element, to be placed in a page."""
    texts = svg.Texts()
    out = StringIO()
    with style():
        compose(chart, texts).savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return svg.dress(out.getvalue(), chart, texts)


def compose(chart: Chart, texts: svg.Texts) -> Figure:
    """The figure in placeholder colours; draw and save it within `style()`."""
    from matplotlib.figure import Figure

    gappy = [s for s in chart.series if s.gaps]
    height = max(PLOT_HEIGHT, LABEL_GAP * (len(chart.series) + 1))
    strip = STRIP_ROW * len(gappy)
    total = TOP + height + (STRIP_GAP + strip if gappy else 0) + BOTTOM
    figure = Figure(figsize=(WIDTH / 72, total / 72), facecolor="none")
    axes = figure.add_axes(_box(total, TOP, height))
    _frame(axes, chart, texts, labelled=not gappy)
    for position, series in enumerate(chart.series):
        under = sum(charts.coincide(series, other) for other in chart.series[position + 1 :])
        _series(axes, series, chart.xs, min(under, 4))
    _guides(axes, chart, texts)
    _labels(axes, chart, texts, height)
    if gappy:
        below = figure.add_axes(_box(total, TOP + height + STRIP_GAP, strip), sharex=axes)
        _strip(below, chart, gappy, texts)
    return figure


@contextmanager
def style(**more: Any) -> Iterator[None]:
    """Settings under which figures are drawn and saved alike everywhere; `more`: rcParams, _ for the dot."""
    import matplotlib as mpl

    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "attnbench",
        "font.size": 11,
        "axes.linewidth": 0.8,
        "text.parse_math": False,
        "path.simplify": False,
    }
    with mpl.rc_context(settings | {name.replace("_", "."): value for name, value in more.items()}):
        yield


def _box(total: float, top: float, height: float) -> tuple[float, float, float, float]:
    """A rectangle of the figure in its fractions; `top` counts points from above."""
    bottom = (total - top - height) / total
    return LEFT / WIDTH, bottom, (WIDTH - LEFT - LABEL_WIDTH) / WIDTH, height / total


def _frame(axes: Axes, chart: Chart, texts: svg.Texts, labelled: bool) -> None:
    """Logarithmic axes whose limits come from the measured data alone."""
    axes.set_facecolor("none")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    values = [
        v for s in chart.series for p in s.points for v in _span(p.measurement.low, p.y, p.measurement.high)
    ]
    low, high = min(values), max(values)
    pad = max((high / low) ** 0.06, 1.25)
    axes.set_ylim(low / pad, high * pad)
    step = (chart.xs[-1] / chart.xs[0]) ** 0.03 if len(chart.xs) > 1 else 2.0
    axes.set_xlim(chart.xs[0] / step, chart.xs[-1] * step)
    _ticks(axes, chart, texts, labelled)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(svg.FAINT)


def _span(low: float | None, value: float, high: float | None) -> list[float]:
    return [v for v in (low, value, high) if v is not None and v > 0]


def _ticks(axes: Axes, chart: Chart, texts: svg.Texts, labelled: bool) -> None:
    low, high = axes.get_ylim()
    decades = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    ys = [10.0**d for d in decades][:: max(1, len(decades) // 7)]
    if len(ys) < 2:  # less than a decade or so: 1, 2, 5 between
        around = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ys = [m * 10.0**d for d in around for m in (1, 2, 5) if low <= m * 10.0**d <= high]
    axes.set_yticks(ys, [texts.add(tick(y, chart.unit)) for y in ys])
    xs = chart.xs if len(chart.xs) <= 12 else chart.xs[:: math.ceil(len(chart.xs) / 12)]
    axes.set_xticks(xs, [texts.add(f"{x:g}" if x < 1e5 else f"{x:,.0f}") for x in xs])
    axes.minorticks_off()
    axes.tick_params(colors=svg.INK, labelbottom=labelled, length=0)
    axes.grid(True, color=svg.GRID, linewidth=0.6, clip_on=False)
    axes.set_axisbelow(True)
    if labelled:
        axes.set_xlabel(texts.add(chart.x_label), color=svg.INK)


def _series(axes: Axes, series: Series, xs: Sequence[float], under: int) -> None:
    """A line that breaks at every gap, intervals, and markers: filled, or hollow where overhead-bound.

    under: how many series lie on this one; it is drawn wider, so that its rim stays in sight.
    """
    colour = svg.series_colour(series.index)
    dash, marker = DASHES[series.index % len(DASHES)], MARKERS[series.index % len(MARKERS)]
    at = {p.x: p for p in series.points}
    line = [at[x].y if x in at else math.nan for x in xs]
    gid = f"series-{series.index}"
    axes.plot(
        xs, line, color=colour, linestyle=dash, linewidth=1.6 + 1.3 * under, gid=f"{gid}-line", clip_on=False
    )
    spans = [(p.x, p.measurement.low, p.measurement.high) for p in series.points]
    bars = [(x, low, high) for x, low, high in spans if low is not None and high is not None and low > 0]
    if bars:
        columns = [list(column) for column in zip(*bars, strict=True)]
        axes.vlines(
            columns[0], columns[1], columns[2], colors=colour, linewidth=1.2, clip_on=False, gid=f"{gid}-bars"
        )
    for kind, overhead in (("points", False), ("hollow", True)):
        points = [p for p in series.points if p.overhead is overhead]
        if points:
            axes.plot(
                [p.x for p in points],
                [p.y for p in points],
                linestyle="none",
                marker=marker,
                markersize=5.5 + 2.2 * under,
                color=colour,
                markerfacecolor=svg.PAPER if overhead else colour,
                gid=f"{gid}-{kind}",
                clip_on=False,
            )


def _guides(axes: Axes, chart: Chart, texts: svg.Texts) -> None:
    """Reference slopes from one origin, in the corner that the data leave emptier."""
    if chart.unit == "1" or len(chart.xs) < 3:
        return
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    reach = min(math.log(x1 / x0) * 0.2, math.log(y1 / y0) * 0.16)
    left, base = _corner(axes, chart, reach)
    symbol = chart.x_label.rpartition("(")[2].rstrip(")") or "x"
    for power, word in ((0, "constant"), (1, symbol), (2, f"{symbol}²")):
        end = (left * math.exp(reach), base * math.exp(power * reach))
        axes.plot([left, end[0]], [base, end[1]], color=svg.FAINT, linewidth=0.9, clip_on=False)
        axes.annotate(
            texts.add(word),
            end,
            (3, 0),
            textcoords="offset points",
            color=svg.FAINT,
            va="center",
            fontsize=10,
        )


def _corner(axes: Axes, chart: Chart, reach: float) -> tuple[float, float]:
    """The origin of the slopes: upper left or lower right."""
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    wide, high = math.log(x1 / x0), math.log(y1 / y0)
    across, up = reach / wide + 0.14, 2 * reach / high + 0.05  # with room for the words
    places = [(math.log(p.x / x0) / wide, math.log(p.y / y0) / high) for s in chart.series for p in s.points]
    upper = sum(x < across and y > 1 - up for x, y in places)
    lower = sum(x > 1 - across and y < up for x, y in places)
    if lower < upper:
        return x0 * math.exp((1 - across) * wide), y0 * math.exp(0.03 * high)
    return x0 * math.exp(0.03 * wide), y1 / math.exp(2 * reach + 0.03 * high)


def _labels(axes: Axes, chart: Chart, texts: svg.Texts, height: float) -> None:
    """The name of each series beside its last height, moved apart where names would collide."""
    ends = {s.index: _fraction(axes, s.points[-1].y) * height for s in chart.series}
    places = spread(ends, LABEL_GAP, LABEL_GAP / 2, height - LABEL_GAP / 2)
    across = WIDTH - LEFT - LABEL_WIDTH
    for series in chart.series:
        y = places[series.index] / height
        colour = svg.series_colour(series.index)
        gid = f"series-{series.index}"
        axes.plot(
            [1 + 6 / across, 1 + 15 / across, 1 + 24 / across],
            [y, y, y],
            transform=axes.transAxes,
            color=colour,
            linestyle=DASHES[series.index % len(DASHES)],
            linewidth=1.4,
            marker=MARKERS[series.index % len(MARKERS)],
            markevery=[1],
            markersize=5,
            clip_on=False,
            gid=f"{gid}-swatch",
        )
        _name(axes, (1 + 29 / across, y), series, texts, 10.5)


def _name(axes: Axes, place: tuple[float, float], series: Series, texts: svg.Texts, size: float) -> None:
    """A series' name right of the plot."""
    axes.text(
        *place,
        texts.add(clip(series.name), series.name),
        transform=axes.transAxes,
        color=svg.INK,
        va="center_baseline",
        fontsize=size,
        gid=f"series-{series.index}-label",
    )


def clip(name: str) -> str:
    """A name that fits beside the plot; the whole of it is in the tooltip and in the table."""
    return name if len(name) <= 16 else name[:15] + "…"


def _fraction(axes: Axes, y: float) -> float:
    low, high = axes.get_ylim()
    return math.log(y / low) / math.log(high / low)


def spread(wanted: dict[int, float], gap: float, low: float, high: float) -> dict[int, float]:
    """Positions near the wanted ones, at least `gap` apart and within [low, high] where they fit."""
    order = sorted(wanted, key=lambda key: (wanted[key], key))
    placed: list[float] = []
    for key in order:  # push up from below ...
        floor = placed[-1] + gap if placed else low
        placed.append(max(wanted[key], floor))
    ceiling = high
    for position in reversed(range(len(placed))):  # ... then back down from above
        placed[position] = min(placed[position], ceiling)
        ceiling = placed[position] - gap
    return dict(zip(order, placed, strict=True))


def _strip(axes: Axes, chart: Chart, gappy: Sequence[Series], texts: svg.Texts) -> None:
    """One line per implementation with gaps: a letter where it has no point."""
    axes.set_facecolor("none")
    axes.set_ylim(len(gappy) - 0.5, -0.5)
    axes.set_yticks([])
    axes.minorticks_off()
    axes.tick_params(colors=svg.INK, length=0)
    axes.set_xlabel(texts.add(chart.x_label), color=svg.INK)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    across = WIDTH - LEFT - LABEL_WIDTH
    for row, series in enumerate(gappy):
        gid = f"series-{series.index}"
        for gap in series.gaps:
            axes.text(
                gap.x, row, texts.add(gap.letter, gap.words), color=svg.series_colour(series.index),
                ha="center", va="center_baseline", fontsize=10, fontweight="bold", gid=f"{gid}-gap",
            )  # fmt: skip
        _name(axes, (1 + 6 / across, 1 - (row + 0.5) / len(gappy)), series, texts, 9)
