"""Which implementation to take: the fastest correct one, crossovers, and how far each one goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.complexity import Frontier, frontier
from harness.report.accuracy import FLOOR, is_floor
from harness.report.certified import certificate_of
from harness.report.impossible import why_impossible
from harness.report.records import Facet, Records, labelled, measured, run_label, size_of
from harness.report.sweeps import Sweep, fit_of, ordered
from harness.types import Measurement, Result

#: With more settings than this, how far memory reaches is not extrapolated: each takes a fit.
MANY_SETTINGS = 4
#: Doublings beyond the sweep to which fitted memory is extrapolated; the size to which a count is followed.
OCTAVES = 6
FURTHEST = 1 << 40


@dataclass(frozen=True, slots=True)
class Timed:
    """One implementation on one problem."""

    name: str
    exact: bool
    time: Measurement
    result: Result


@dataclass(frozen=True, slots=True)
class Fastest:
    """The fastest on one problem.

    tied      the exact implementations whose intervals overlap the fastest one's, the fastest first
    others    the other exact ones, by time
    approximations  those that beat the fastest exact one clearly, by time, and the floor by error
    idle      the names of those that are as fast but err no less than the floor
    leanest   the exact implementation with the least memory, with that memory, or None
    """

    problem: Facet
    tied: tuple[Timed, ...]
    others: tuple[Timed, ...]
    approximations: tuple[Timed, ...]
    idle: tuple[str, ...]
    leanest: tuple[str, Measurement] | None


@dataclass(frozen=True, slots=True)
class Reach:
    """How far one implementation was measured along the swept axis, and what ended it.

    fits  the largest size whose peak memory is predicted to fit the device, with its 95 % interval, or
          None where unknown
    open  whether even the largest size that was extrapolated to fits
    exact  whether an exact count says so, which the measured peaks bear out
    """

    setting: str
    implementation: str
    largest: float
    beyond: Result | None
    fits: Frontier | None
    open: bool
    exact: bool = False


def fastest(records: Records) -> tuple[Fastest, ...]:
    """The fastest correct implementation of every problem that was timed in a possible time."""
    found = (_fastest(records, problem) for problem in records.problems())
    return tuple(choice for choice in found if choice)


def _fastest(records: Records, problem: Facet) -> Fastest | None:
    timed = sorted(_timed(records, problem), key=lambda t: t.time.value)
    exact = [t for t in timed if t.exact]
    if not exact:
        return None
    limit = top(exact[0].time)
    faster = [
        t for t in timed if not t.exact and not is_floor(t.name) and top(t.time) < bottom(exact[0].time)
    ]
    tied = tuple(t for t in exact if bottom(t.time) <= limit)
    return Fastest(
        problem=problem,
        tied=tied,
        others=tuple(t for t in exact if t not in tied),
        approximations=tuple(t for t in faster if not _idle(problem, t)),
        idle=tuple(t.name for t in faster if _idle(problem, t)),
        leanest=_leanest(records, exact),
    )


def _idle(problem: Facet, timed: Timed) -> bool:
    """Whether an approximation errs at least as much as the mean of V, which costs next to nothing."""
    floors = problem.of(labelled(FLOOR, run_label(timed.name)))
    known = [m.value for r in (timed.result, *floors) if (m := measured(r, "error"))]
    return len(known) == 2 and known[0] >= known[1]


def _timed(records: Records, problem: Facet) -> Iterable[Timed]:
    for result in problem.results:
        time = measured(result, records.time)
        if time is not None and time.value > 0 and not why_impossible(result):
            card = records.cards[result.case.implementation]
            yield Timed(card.name, card.exact, time, result)


def _leanest(records: Records, exact: Sequence[Timed]) -> tuple[str, Measurement] | None:
    known = [(t.name, m) for t in exact if (m := measured(t.result, records.memory))]
    return min(known, key=lambda pair: pair[1].value, default=None)


def top(m: Measurement) -> float:
    """The upper end of the interval, or the value."""
    return m.value if m.high is None else m.high


def bottom(m: Measurement) -> float:
    """The lower end of the interval, or the value."""
    return m.value if m.low is None else m.low


def reaches(records: Records) -> tuple[Reach, ...]:
    """The largest size of each implementation that was measured, with the first row beyond it."""
    if records.sweep is None:
        return ()
    facets = records.facets(records.sweep)
    few = len(facets) <= MANY_SETTINGS
    found = (_reach(records, facet, name, few) for facet in facets for name in records.cards)
    return tuple(reach for reach in found if reach)


def _reach(records: Records, facet: Facet, name: str, extrapolate: bool) -> Reach | None:
    assert records.sweep is not None
    sweep = records.sweep
    rows = sorted(facet.of(name), key=lambda r: size_of(r, sweep))
    good = [size_of(r, sweep) for r in rows if r.status == "ok"]
    if not good:
        return None
    beyond = next((r for r in rows if size_of(r, sweep) > good[-1]), None)
    reach = Reach(facet.label, name, good[-1], beyond, None, False)
    memory, limit = records.memory, records.memory_of(facet.results[0].case.problem)
    along = ordered(facet, name, sweep)
    if not extrapolate or memory is None or limit is None or not along:
        return reach
    return _with_frontier(reach, Sweep(records, name, sweep, sweep, facet.label, along), memory, limit)


def _with_frontier(reach: Reach, sweep: Sweep, memory: str, limit: float) -> Reach:
    """With the memory frontier: of an exact count where there is one, else the engine's of what was measured.

    A fit is followed up to 2⁶ times the sweep, a count as far as it goes.
    """
    counted = certificate_of(sweep, "peak memory")
    if counted and counted.agrees(sweep, memory):
        size = counted.largest_within(sweep.results[-1], sweep.axis, limit, FURTHEST)
        if size is None:
            return reach
        beyond = size + counted.certificate.step > FURTHEST
        return replace(reach, fits=Frontier(size, size, size, size > reach.largest), open=beyond, exact=True)
    fit = fit_of(sweep, memory)
    if fit is None:
        return reach
    furthest = size_of(sweep.results[-1], sweep.axis) * 2**OCTAVES
    if fit.predict(furthest)[0, 1] <= limit:
        return replace(reach, fits=Frontier(furthest, furthest, furthest, True), open=True)
    return replace(reach, fits=frontier(fit, limit, furthest))
