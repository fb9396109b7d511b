"""One implementation along one axis: which sweeps a run holds, their points, their fits, their overhead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from harness.complexity import Fit, infer
from harness.report.records import TIMES, Facet, Records, is_size, measured, size_of
from harness.types import Result

#: A fit takes tens of milliseconds; beyond so many the page says what it left out.
MAX_FITS = 160
MIN_SIZES = 4
#: Fits that one sweep takes: one per quantity.
QUANTITIES = 4
INSUFFICIENT = "insufficient data"
#: Times within this factor of a series' smallest are its plateau ...
PLATEAU = 1.5
#: ... and the plateau is overhead when the work on it grows by at least this factor.
PLATEAU_WORK = 2.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """One implementation along one axis: its rows that ended well, by size."""

    records: Records
    implementation: str
    variable: str
    axis: str
    setting: str
    results: tuple[Result, ...]


def swept_variables(records: Records) -> Mapping[str, str]:
    """Law variable → axis, of those that this run sweeps."""
    return {symbol: axis for symbol, axis in records.run.variables.items() if axis in records.axes}


def sweeps(records: Records) -> Iterable[Sweep]:
    """Every variable that is swept × setting × implementation, the most swept axis first."""
    variables = sorted(swept_variables(records).items(), key=lambda item: item[1] != records.sweep)
    for variable, axis in variables:
        for facet in records.facets(axis):
            for implementation in records.cards:
                results = ordered(facet, implementation, axis)
                if results:
                    yield Sweep(records, implementation, variable, axis, facet.label, results)


def ordered(facet: Facet, implementation: str, axis: str) -> tuple[Result, ...]:
    """The rows of one implementation that carry a metric, by size."""
    rows = [r for r in facet.of(implementation) if r.metrics and is_size(r.case.problem.get(axis))]
    return tuple(sorted(rows, key=lambda r: size_of(r, axis)))


def within_budget(found: Sequence[Sweep]) -> tuple[list[Sweep], tuple[str, ...]]:
    """The settings whose fits a page has time for, whole; in words, those left out and why."""
    settings: dict[tuple[str, str], list[Sweep]] = {}
    for sweep in found:
        settings.setdefault((sweep.axis, sweep.setting), []).append(sweep)
    kept: list[Sweep] = []
    left: list[str] = []
    short: dict[str, list[int]] = {}
    spent = 0
    for (axis, setting), members in settings.items():
        cost = sum(map(_cost, members))
        if not cost:
            short.setdefault(axis, []).append(max(len(_sizes(sweep)) for sweep in members))
        elif spent and spent + cost > MAX_FITS:
            where = f"{axis} at {setting}" if setting else axis
            left.append(f"Growth in {where}: left out, a page fits {MAX_FITS} curves at most.")
        else:
            kept += members
            spent += cost
    return kept, (*left, *(_too_short(axis, most) for axis, most in short.items()))


def _too_short(axis: str, most: Sequence[int]) -> str:
    """`most`: the usable sizes of each setting that has too few."""
    settings = f" at {len(most)} settings" if len(most) > 1 else ""
    sizes = f"{max(most)} usable size" + ("s" if max(most) != 1 else "")
    return f"Growth in {axis}{settings}: {INSUFFICIENT}, {sizes} at most and {MIN_SIZES} are needed."


def _sizes(sweep: Sweep) -> set[float]:
    return {size_of(r, sweep.axis) for r in sweep.results}


def _cost(sweep: Sweep) -> int:
    """Fits that a sweep takes; too few sizes take none."""
    return QUANTITIES if len(_sizes(sweep)) >= MIN_SIZES else 0


def points(sweep: Sweep, metric: str) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """Sizes and samples of a metric; a repeated size keeps all its samples."""
    found: dict[float, tuple[float, ...]] = {}
    for result in sweep.results:
        measurement = measured(result, metric)
        if measurement is not None and measurement.value > 0:
            size = size_of(result, sweep.axis)
            found[size] = found.get(size, ()) + (measurement.samples or (measurement.value,))
    return tuple(found), tuple(found.values())


def fit_of(sweep: Sweep, metric: str) -> Fit | None:
    """The fit of a metric along the sweep, or None with too few usable sizes."""
    if not metric:
        return None
    sizes, samples = points(sweep, metric)
    if len(sizes) < MIN_SIZES:
        return None
    fit = _infer(sizes, samples, kind_of(metric))
    return fit if fit.exponent is not None else None


def kind_of(metric: str) -> str:
    """How the complexity engine is to treat a metric."""
    if metric not in TIMES:
        return "count"
    return "gpu_time" if metric.startswith("gpu") else "cpu_time"


@lru_cache(maxsize=4 * MAX_FITS)
def _infer(sizes: tuple[float, ...], samples: tuple[tuple[float, ...], ...], kind: str) -> Fit:
    # Cached: exact implementations of one problem count the same FLOPs.
    return infer(sizes, samples, kind=kind)


def overhead_limit(results: Sequence[Result], axis: str, metric: str) -> float | None:
    """The largest size up to which time stays within 1.5 × its smallest while the work doubles or more.

    Work is the counted FLOPs where there are any, else the size. None when time grows from the start.
    """
    known = [(size_of(r, axis), m.value, _work(r, axis)) for r in results if (m := measured(r, metric))]
    if not known:
        return None
    least = min(time for _, time, _ in known)
    plateau = []
    for point in known:
        if point[1] > PLATEAU * least:
            break
        plateau.append(point)
    if len(plateau) < 2 or plateau[-1][2] < PLATEAU_WORK * plateau[0][2]:
        return None
    return plateau[-1][0]


def _work(result: Result, axis: str) -> float:
    flops = result.metrics.get("flops")
    return flops.value if flops else size_of(result, axis)
