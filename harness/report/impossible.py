"""Times that cannot be: which measured rows no device could have done, and why, before any is called fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.complexity.impossible import faster_than_the_device, flat_while_work_grows
from harness.report.peaks import limits
from harness.report.records import Records, judged_time, measured, size_of
from harness.report.sweeps import Sweep, sweeps
from harness.types import Result

#: The variable in which a flat time is impossible. Heads, batch and width fill idle parts of a device, so
#: that time may truly stay flat in them; a longer sequence is a longer chain of work.
LENGTH = "n"
#: How a row says so among its flags, and the engine in its reasons.
PREFIX = "impossible: "
#: A cache that holds the traffic saves it; where its size (B) is unknown, more than any device has.
MOST_CACHE = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Work:
    """One timed row: seconds, FLOPs that it must do at least, bytes that must come from memory at least."""

    result: Result
    size: float
    seconds: float
    flops: float
    traffic: float


def marked(records: Records) -> Records:
    """The records with a flag "impossible: why" on every row whose time cannot be.

    A time below the roofline of the device's peaks, or flat over >= 16x in n while the work grows.
    """
    found = _findings(records)
    results = (
        replace(r, flags=(*r.flags, found[r.case.key])) if r.case.key in found else r for r in records.results
    )
    return replace(records, results=tuple(results)) if found else records


def why_impossible(*results: Result) -> str:
    """Why a time is impossible: the reason on the last of the rows that has one, or the empty string."""
    reasons = [flag for result in results for flag in result.flags if flag.startswith(PREFIX)]
    return reasons[-1].removeprefix(PREFIX) if reasons else ""


def _findings(records: Records) -> Mapping[str, str]:
    """Case key → the engine's words."""
    axis = records.sweep
    found = {
        result.case.key: why
        for result in records.results
        if (why := _too_fast(records, _work(records, result, axis)))
    }
    for sweep in sweeps(records):
        if sweep.variable == LENGTH:
            found = _flat(sweep) | found
    return found


def checked(records: Records) -> str:
    """Against what times were held, in words; or why they could not be."""
    if records.time is None:
        return ""
    device = records.run.environment.device
    dtypes = dict.fromkeys(r.case.problem.get("dtype") for r in records.results)
    known = [
        f"for {dtype or 'any dtype'} {found.words}" for dtype in dtypes if (found := limits(device, dtype))
    ]
    if not known:
        return (
            f"No peak arithmetic and bandwidth are known for {device.name}: whether a time is below what "
            "the device allows could not be checked."
        )
    return f"Times were held against the peaks of {device.name}: {'; '.join(known)}."


def _flat(sweep: Sweep) -> dict[str, str]:
    """The engine's finding of a whole sweep, for each row that it rests on."""
    rows = [w for r in sweep.results if (w := _work(sweep.records, r, sweep.axis)) and w.flops > 0]
    sizes, seconds, flops = ([getattr(w, name) for w in rows] for name in ("size", "seconds", "flops"))
    finding = flat_while_work_grows(sizes, seconds, flops) if rows else None
    if finding is None:
        return {}
    return {w.result.case.key: finding.reason for w in rows if w.size in finding.sizes}


def _too_fast(records: Records, work: Work | None) -> str:
    """The roofline's finding of one row, or the empty string."""
    known = work and limits(records.run.environment.device, work.result.case.problem.get("dtype"))
    if not work or not known:
        return ""
    finding = faster_than_the_device(
        [work.size], [work.seconds], [work.flops], [work.traffic], known.flops, known.bandwidth
    )
    return finding.reason if finding else ""


def _work(records: Records, result: Result, axis: str | None) -> Work | None:
    time = measured(result, records.time)
    if time is None or time.value <= 0:
        return None
    size = size_of(result, axis) if axis else 0.0
    return Work(result, size, time.value, _flops(records, result), _traffic(records, result))


def _flops(records: Records, result: Result) -> float:
    """FLOPs that the row cannot do without; 0 where unknown.

    An exact implementation owes the problem's useful FLOPs whatever it declares; an approximation is
    held to what was counted of it.
    """
    exact = records.cards[result.case.implementation].exact
    useful = _amount(result, "flop_rate") if exact else None
    counted = measured(result, "flops")
    return useful or (counted.value if counted else 0.0)


def _traffic(records: Records, result: Result) -> float:
    """Inputs read and outputs written once (B), less what the last cache may hold from before."""
    cache = records.run.environment.device.facts.get("l2_bytes")
    held = float(cache) if isinstance(cache, int | float) and cache > 0 else MOST_CACHE
    return max(0.0, (_amount(result, "byte_rate") or 0.0) - held)


def _amount(result: Result, rate: str) -> float | None:
    """What a rate was computed from: the rate times the time that it is over."""
    per_second, time = measured(result, rate), judged_time(result)
    return per_second.value * time if per_second and time else None
