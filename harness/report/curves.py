"""The fitted law of one implementation as a curve with its interval, where its verdict has a fit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from harness.complexity import Fit
from harness.report.impossible import why_impossible
from harness.report.records import Facet, Records
from harness.report.sweeps import Sweep, fit_of, ordered

#: Places at which a curve is computed, from the smallest to the largest size that was measured.
PLACES = 9

#: A fit whose middle is further than this factor from a point does not describe the points.
FAR = 2.0

Curve = tuple[tuple[float, float, float, float], ...]


def fitted(records: Records, facet: Facet, name: str, metric: str) -> Curve:
    """(size, low, middle, high) with the central 95 % over the sizes measured; () where nothing is fitted.

    Only of time and memory, whose growth is judged; an impossible time follows no law.
    """
    axis = records.sweep or ""
    if metric not in (records.time, records.memory):
        return ()
    rows = ordered(facet, name, axis)
    if metric == records.time and why_impossible(*rows):
        return ()
    fit = fit_of(Sweep(records, name, axis, axis, facet.label, rows), metric)
    return _curve(fit) if fit else ()


def describes(curve: Curve, points: Sequence[tuple[float, float]]) -> bool:
    """Whether a curve passes near every point (x, y); one that is not there contradicts nothing."""
    if not curve:
        return True
    logs = np.log(np.array(curve))
    known = np.array([(x, y) for x, y in points if curve[0][0] <= x <= curve[-1][0]])
    middle = np.interp(np.log(known[:, 0]), logs[:, 0], logs[:, 2])
    return bool(np.abs(middle - np.log(known[:, 1])).max() <= np.log(FAR))


@lru_cache(maxsize=256)
def _curve(fit: Fit) -> Curve:
    sizes = fit.summary.sizes
    places = np.geomspace(sizes[0], sizes[-1], PLACES)
    low, middle, high = fit.predict(places).T.tolist()
    return tuple(zip(places.tolist(), low, middle, high, strict=True))
