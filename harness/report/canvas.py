"""What all figures share: the paper, dashes and markers, names beside the plot, settings of matplotlib."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness.report import svg
from harness.report.records import SEPARATOR, base_name, labelled, run_label

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
WIDTH, LABEL_WIDTH, LEFT, TOP, BOTTOM = 640.0, 118.0, 66.0, 16.0, 42.0
PLOT_HEIGHT, LABEL_GAP = 330.0, 14.0
#: Letters of a name for which there is room beside the plot; a run's label is shorter by far.
MOST_LETTERS = 14
#: Width of the plot itself, in points.
ACROSS = WIDTH - LEFT - LABEL_WIDTH


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


def paper(series: int, below: float = 0.0) -> tuple[Figure, Axes, float, float]:
    """A figure with room for the names of so many series: (figure, axes, height of the plot, of the whole).

    below  room under the plot, in points, beside that for the ticks
    """
    from matplotlib.figure import Figure

    height = max(PLOT_HEIGHT, LABEL_GAP * (series + 1))
    total = TOP + height + below + BOTTOM
    figure = Figure(figsize=(WIDTH / 72, total / 72), facecolor="none")
    axes = figure.add_axes(box(total, TOP, height))
    axes.set_facecolor("none")
    return figure, axes, height, total


def box(total: float, top: float, height: float) -> tuple[float, float, float, float]:
    """A rectangle of the figure in its fractions; `top` counts points from above."""
    return LEFT / WIDTH, (total - top - height) / total, ACROSS / WIDTH, height / total


def plain(axes: Axes) -> None:
    """Two thin spines, no tick marks, a faint grid."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(svg.FAINT)
    axes.minorticks_off()
    axes.tick_params(colors=svg.INK, length=0)
    axes.grid(True, color=svg.GRID, linewidth=0.6, clip_on=False)
    axes.set_axisbelow(True)


def decades(low: float, high: float) -> list[float]:
    """Where a logarithmic axis carries numbers: powers of ten, or 1, 2, 5 within a decade or so."""
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    ticks = [10.0**d for d in powers][:: max(1, len(powers) // 7)]
    if len(ticks) >= 2:
        return ticks
    around = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [m * 10.0**d for d in around for m in (1, 2, 5) if low <= m * 10.0**d <= high]


def padded(values: Sequence[float], least: float = 1.25) -> tuple[float, float]:
    """Limits of a logarithmic axis: the data, with a little room on either side."""
    low, high = min(values), max(values)
    pad = max((high / low) ** 0.06, least)
    return low / pad, high * pad


def look(index: int, joined: bool = True) -> dict[str, Any]:
    """Colour, dash and marker of a series; `joined`: whether its points are."""
    return {
        "color": svg.series_colour(index),
        "linestyle": DASHES[index % len(DASHES)] if joined else "none",
        "marker": MARKERS[index % len(MARKERS)],
    }


def labels(
    axes: Axes,
    ends: Sequence[tuple[svg.Line, float]],
    texts: svg.Texts,
    height: float,
    *,
    joined: bool = True,
) -> None:
    """The name of each series beside its last height, moved apart where names would collide."""
    wanted = {line.index: fraction(axes, y) * height for line, y in ends}
    places = spread(wanted, LABEL_GAP, LABEL_GAP / 2, height - LABEL_GAP / 2)
    for line, _ in ends:
        y = places[line.index] / height
        axes.plot(
            [1 + 6 / ACROSS, 1 + 15 / ACROSS, 1 + 24 / ACROSS],
            [y, y, y],
            transform=axes.transAxes,
            **look(line.index, joined),
            linewidth=1.4,
            markevery=[1],
            markersize=5,
            markerfacecolor=svg.PAPER if not joined and line.points[-1].hollow else None,
            clip_on=False,
            gid=f"series-{line.index}-swatch",
        )
        name_beside(axes, (1 + 29 / ACROSS, y), line, texts, 10.5)


def name_beside(
    axes: Axes, place: tuple[float, float], line: svg.Line, texts: svg.Texts, size: float
) -> None:
    """A series' name right of the plot."""
    axes.text(
        *place,
        texts.add(clip(line.name), line.name),
        transform=axes.transAxes,
        color=svg.INK,
        va="center_baseline",
        fontsize=size,
        gid=f"series-{line.index}-label",
    )


def clip(name: str) -> str:
    """A name that fits beside the plot, with the whole label of its run; all of it is in the tooltip."""
    label = run_label(name)
    room = MOST_LETTERS - (len(SEPARATOR + label) if label else 0)
    base = base_name(name)
    return labelled(base if len(base) <= room else _shortened(base, room), label)


def fraction(axes: Axes, y: float) -> float:
    """How far up the plot a value lies, from 0 to 1."""
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


def _shortened(name: str, room: int) -> str:
    """A name in so many letters; variants differ after their colon, so that end is kept."""
    option = name[name.index(":") :] if ":" in name else ""
    kept = option if len(option) <= room // 2 else ""
    return name[: room - 1 - len(kept)] + "…" + kept
