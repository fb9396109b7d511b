"""Planes → matplotlib: two quantities against each other, with front, roof and names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.report import svg
from harness.report.canvas import decades, labels, look, padded, paper, plain
from harness.report.planes import Plane, Quantity, Roof
from harness.report.units import tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def compose(plane: Plane, texts: svg.Texts) -> Figure:
    """The figure in placeholder colours."""
    figure, axes, height, _ = paper(len(plane.series))
    _frame(axes, plane, texts)
    _front(axes, plane)
    if plane.roof:
        _roof(axes, plane.roof)
    if plane.limit:
        _limit(axes, plane.limit, texts)
    for position in range(len(plane.series)):
        _group(axes, plane, position)
    ends = [(group, group.points[-1].y) for group in plane.series]
    labels(axes, ends, texts, height, joined=plane.joined)
    return figure


def _frame(axes: Axes, plane: Plane, texts: svg.Texts) -> None:
    """Limits from the data; the roof's slope and ridge are cut where they leave it."""
    spots = [spot for group in plane.series for spot in group.points]
    axes.set_yscale("log")
    heights = [spot.y for spot in spots]
    if plane.limit:
        heights.append(plane.limit[0])
    if plane.roof:
        heights.append(min(plane.roof.flops, max(map(plane.roof.at, (spot.x for spot in spots)))))
    axes.set_ylim(*padded(heights))
    ys = decades(*axes.get_ylim())
    rate = plane.y.unit == "FLOP/s"  # its unit is too long to stand beside each number
    axes.set_yticks(ys, [texts.add(tick(y, "" if rate else plane.y.unit)) for y in ys])
    label = f"{plane.y.label}, FLOP/s" if rate else plane.y.label
    axes.annotate(texts.add(label), (0, 1), (0, 3), xycoords="axes fraction", textcoords="offset points",
                  color=svg.INK, fontsize=10)  # fmt: skip
    _across(axes, plane.x, [spot.x for spot in spots], texts)
    axes.set_xlabel(texts.add(plane.x.label), color=svg.INK)
    plain(axes)


def _across(axes: Axes, quantity: Quantity, values: list[float], texts: svg.Texts) -> None:
    if quantity.names:
        axes.set_xlim(-0.4, len(quantity.names) - 0.6)
        axes.set_xticks(range(len(quantity.names)), [texts.add(name) for name in quantity.names])
        return
    axes.set_xscale("log")
    axes.set_xlim(*padded(values))
    xs = decades(*axes.get_xlim())
    unit = "" if quantity.unit == "FLOP/B" else quantity.unit
    axes.set_xticks(xs, [texts.add(tick(x, unit) if unit else f"{x:g}") for x in xs])


def _group(axes: Axes, plane: Plane, position: int) -> None:
    """The points of one implementation, those that are approximations hollow; words' points stand apart."""
    group, count = plane.series[position], len(plane.series)
    aside = 0.3 * ((position + 0.5) / count - 0.5) if plane.x.names else 0.0
    seen, gid = look(group.index), f"series-{group.index}"
    colour, marker = seen["color"], seen.pop("marker")
    if plane.joined and len(group.points) > 1:
        xs, ys = [spot.x + aside for spot in group.points], [spot.y for spot in group.points]
        axes.plot(xs, ys, **seen, linewidth=1.4, gid=f"{gid}-line", clip_on=False)
    for kind, hollow in (("points", False), ("hollow", True)):
        spots = [spot for spot in group.points if spot.hollow is hollow]
        if spots:
            axes.plot(
                [spot.x + aside for spot in spots],
                [spot.y for spot in spots],
                linestyle="none",
                marker=marker,
                color=colour,
                markersize=9 if group.best else 6.5,
                markerfacecolor=svg.PAPER if hollow else colour,
                gid=f"{gid}-{kind}",
                clip_on=False,
                zorder=3,
            )


def _front(axes: Axes, plane: Plane) -> None:
    """A staircase: what lies above or right of it is beaten in both quantities."""
    if not plane.front:
        return
    xs, ys = (list(column) for column in zip(*plane.front, strict=True))
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    axes.step([xs[0], *xs, right], [top, *ys, ys[-1]], where="post", color=svg.INK, linewidth=1.0)


def _roof(axes: Axes, roof: Roof) -> None:
    left, right = axes.get_xlim()
    ridge = min(max(roof.flops / roof.bandwidth, left), right)
    xs = [left, ridge, right]
    axes.plot(xs, [roof.at(x) for x in xs], color=svg.INK, linewidth=1.4)


def _limit(axes: Axes, limit: tuple[float, str], texts: svg.Texts) -> None:
    height, words = limit
    axes.axhline(height, color=svg.INK, linewidth=1.0, linestyle=(0, (1, 2)))
    axes.annotate(texts.add(words), (axes.get_xlim()[0], height), (4, 4), textcoords="offset points",
                  color=svg.INK, fontsize=10)  # fmt: skip
