"""Charts → SVG. Drawn with placeholder colours and texts; `svg.dress` puts in what the page needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from harness.report import charts, scatter, svg
from harness.report.canvas import (
    ACROSS,
    TOP,
    box,
    decades,
    labels,
    look,
    name_beside,
    padded,
    paper,
    plain,
    style,
)
from harness.report.charts import Chart, Series
from harness.report.planes import Plane
from harness.report.units import tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STRIP_ROW, STRIP_GAP = 13.0, 6.0


def draw(drawing: Chart | Plane) -> str:
    """The figure as an SVG element, to be placed in a page."""
    texts = svg.Texts()
    out = StringIO()
    with style():
        compose(drawing, texts).savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return svg.dress(out.getvalue(), drawing, texts)


def compose(drawing: Chart | Plane, texts: svg.Texts) -> Figure:
    """The figure in placeholder colours; draw and save it within `style()`."""
    return scatter.compose(drawing, texts) if isinstance(drawing, Plane) else _sweep(drawing, texts)


def _sweep(chart: Chart, texts: svg.Texts) -> Figure:
    """Series against the swept axis, with a strip of letters under it where points are missing."""
    gappy = [s for s in chart.series if s.gaps]
    strip = STRIP_ROW * len(gappy)
    figure, axes, height, total = paper(len(chart.series), STRIP_GAP + strip if gappy else 0)
    _frame(axes, chart, texts, labelled=not gappy)
    _limit(axes, chart, texts)
    for position, series in enumerate(chart.series):
        under = sum(charts.coincide(series, other) for other in chart.series[position + 1 :])
        _behind(axes, series)
        _series(axes, series, chart.xs, min(under, 4))
    _guides(axes, chart, texts)
    labels(axes, [(s, s.points[-1].y) for s in chart.series], texts, height)
    if gappy:
        below = figure.add_axes(box(total, TOP + height + STRIP_GAP, strip), sharex=axes)
        _strip(below, chart, gappy, texts)
    return figure


def _frame(axes: Axes, chart: Chart, texts: svg.Texts, labelled: bool) -> None:
    """Logarithmic axes whose limits come from the measured data alone, and a limit that is near it."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    values = [
        v for s in chart.series for p in s.points for v in _span(p.measurement.low, p.y, p.measurement.high)
    ]
    values += chart.among
    if (limit := chart.drawn_limit) is not None:
        values.append(limit)
    axes.set_ylim(*padded(values))
    step = (chart.xs[-1] / chart.xs[0]) ** 0.03 if len(chart.xs) > 1 else 2.0
    axes.set_xlim(chart.xs[0] / step, chart.xs[-1] * step)
    _ticks(axes, chart, texts, labelled)


def _span(low: float | None, value: float, high: float | None) -> list[float]:
    return [v for v in (low, value, high) if v is not None and v > 0]


def _ticks(axes: Axes, chart: Chart, texts: svg.Texts, labelled: bool) -> None:
    ys = decades(*axes.get_ylim())
    axes.set_yticks(ys, [texts.add(tick(y, chart.unit)) for y in ys])
    xs = chart.xs if len(chart.xs) <= 12 else chart.xs[:: math.ceil(len(chart.xs) / 12)]
    axes.set_xticks(xs, [texts.add(f"{x:g}" if x < 1e5 else f"{x:,.0f}") for x in xs])
    axes.tick_params(labelbottom=labelled)
    plain(axes)
    if labelled:
        axes.set_xlabel(texts.add(chart.x_label), color=svg.INK)


def _limit(axes: Axes, chart: Chart, texts: svg.Texts) -> None:
    if (limit := chart.drawn_limit) is None or chart.limit is None:
        return
    axes.axhline(limit, color=svg.INK, linewidth=1.0, linestyle=(0, (1, 2)))
    axes.annotate(
        texts.add(chart.limit[1]),
        (chart.xs[0], limit),
        (4, 4),
        textcoords="offset points",
        color=svg.INK,
        fontsize=10,
    )


def _behind(axes: Axes, series: Series) -> None:
    """Behind a line: the interval of the fitted law, the overhead-bound region, where memory ends."""
    colour, gid = svg.series_colour(series.index), f"series-{series.index}"
    for piece in series.curve:
        xs, lows, middles, highs = (list(column) for column in zip(*piece, strict=True))
        axes.fill(xs + xs[::-1], lows + highs[::-1], color=colour, alpha=0.14, linewidth=0, gid=f"{gid}-band")
        axes.plot(xs, middles, color=colour, linewidth=0.8, alpha=0.7, gid=f"{gid}-law")
    if series.plateau:
        left, right, low, high = series.plateau
        across = [left / 1.12, right * 1.12, right * 1.12, left / 1.12]
        up = [low / 1.2, low / 1.2, high * 1.2, high * 1.2]
        axes.fill(across, up, color=svg.FAINT, alpha=0.2, linewidth=0, gid=f"{gid}-overhead")
    if series.out_of_memory is not None:
        top = axes.get_ylim()[1]
        x = series.out_of_memory
        axes.plot([x, x], [series.points[-1].y, top], color=colour, linewidth=1.2, linestyle=(0, (1, 1.6)),
                  gid=f"{gid}-wall")  # fmt: skip


def _series(axes: Axes, series: Series, xs: Sequence[float], under: int) -> None:
    """A line that breaks at every gap, intervals, and markers: filled, or hollow where overhead-bound.

    under: how many series lie on this one; it is drawn wider, so that its rim stays in sight.
    """
    seen, gid = look(series.index), f"series-{series.index}"
    colour, marker = seen["color"], seen.pop("marker")
    at = {p.x: p for p in series.points}
    line = [at[x].y if x in at else math.nan for x in xs]
    axes.plot(xs, line, **seen, linewidth=1.6 + 1.3 * under, gid=f"{gid}-line", clip_on=False)
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
    for row, series in enumerate(gappy):
        gid = f"series-{series.index}"
        for gap in series.gaps:
            axes.text(
                gap.x, row, texts.add(gap.letter, gap.words), color=svg.series_colour(series.index),
                ha="center", va="center_baseline", fontsize=10, fontweight="bold", gid=f"{gid}-gap",
            )  # fmt: skip
        name_beside(axes, (1 + 6 / ACROSS, 1 - (row + 0.5) / len(gappy)), series, texts, 9)
