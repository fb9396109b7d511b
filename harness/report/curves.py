"""The fitted law of one implementation as a curve with its interval, where its verdict has a fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from harness.complexity import Fit
from harness.report.impossible import why_impossible
from harness.report.records import Facet, Records
from harness.report.sweeps import Sweep, fit_of, ordered

#: With fewer sizes than this a curve has a place between each two, so that it looks like one.
FEW = 12
#: A fit whose middle is further than this factor from a point does not describe the points.
FAR = 2.0

#: (size, low, middle, high) in order of size.
Curve = tuple[tuple[float, float, float, float], ...]


def fitted(
    records: Records, facet: Facet, name: str, metric: str, runs: Sequence[Sequence[float]]
) -> tuple[Curve, ...]:
    """The law with its central 95 %, a piece for each run of sizes without a gap; () where nothing is fitted.

    Only of time and memory, whose growth is judged; an impossible time follows no law.
    """
    axis = records.sweep or ""
    if metric not in (records.time, records.memory):
        return ()
    rows = ordered(facet, name, axis)
    if metric == records.time and why_impossible(*rows):
        return ()
    fit = fit_of(Sweep(records, name, axis, axis, facet.label, rows), metric)
    if fit is None:
        return ()
    # A peak is a maximum: before its last regime something else was the most, and the law says nothing.
    spoken = [[size for size in run if size >= (fit.since or 0)] for run in runs]
    return tuple(_curve(fit, tuple(run)) for run in spoken if len(run) > 1)


def runs_of(sizes: Iterable[float], present: Iterable[float]) -> list[list[float]]:
    """The sizes that are present, split wherever one between them is not."""
    known = set(present)
    runs: list[list[float]] = [[]]
    for size in sizes:
        if size in known:
            runs[-1].append(size)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def describes(curve: Iterable[Curve], points: Sequence[tuple[float, float]]) -> bool:
    """Whether a law passes near every point (x, y) that it is drawn at; none contradicts nothing."""
    middle = {x: y for piece in curve for x, _, y, _ in piece}
    return all(1 / FAR <= middle[x] / y <= FAR for x, y in points if x in middle)


@lru_cache(maxsize=512)
def _curve(fit: Fit, sizes: tuple[float, ...]) -> Curve:
    between = [float(np.sqrt(a * b)) for a, b in pairwise(sizes)] if len(sizes) < FEW else []
    places = sorted({*map(float, sizes), *between})
    low, middle, high = fit.predict(places).T.tolist()
    return tuple(zip(places, low, middle, high, strict=True))
