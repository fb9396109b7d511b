"""The quantities of a case that is ok on both sides: time, memory, errors, compile time."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from harness.format import quantity
from harness.gate.findings import Finding, Verdict
from harness.gate.screening import ENOUGH, Screen, screen
from harness.gate.side import Record

#: More memory is a regression beyond both.
MEMORY_SHARE, MEMORY_BYTES = 0.01, 2**20
#: An error may be so many times that of the baseline, and is never judged below one rounding of the dtype.
ERROR_RATIO = 2.0
ROUNDING = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
#: Largest relative error of anything exact, whatever the baseline says.
LARGEST_ERROR = {"float64": 1e-10, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}
#: Compile time is mentioned from this factor and this many seconds on.
COMPILE_RATIO, COMPILE_SECONDS = 1.5, 0.1


def quantities(before: Record, after: Record) -> Iterator[Finding]:
    """Findings of the quantities of a case, its time first; a case without any is the same as before."""
    timed = "time" in {*before.metrics, *after.metrics, *before.no_data, *after.no_data}
    if timed:
        yield _without_data(before, after, "time") or _time(before, after)
    else:
        yield Finding(after.key, "status", Verdict.SAME, "is ok and was ok; it has no time")
    if _has(before, after, "peak_memory"):
        yield _without_data(before, after, "peak_memory") or _memory(before, after)
    for name in sorted({*before.metrics, *after.metrics, *before.no_data, *after.no_data}):
        if name == "error" or (name.endswith("_error") and not name.endswith("max_abs_error")):
            yield _without_data(before, after, name) or _error(before, after, name)
    if "compile_time" in before.metrics and "compile_time" in after.metrics:
        yield from _compile_time(before, after)


def _has(before: Record, after: Record, name: str) -> bool:
    return name in {*before.metrics, *after.metrics, *before.no_data, *after.no_data}


def _without_data(before: Record, after: Record, name: str) -> Finding | None:
    """A quantity that one side lacks. What the candidate lost is a failure; what is new is said."""
    if name in after.metrics and name in before.metrics:
        return None
    metric = "accuracy" if name.endswith("error") else name
    if name in after.no_data:
        words = f"no data: the {name.replace('_', ' ')} is no finite number"
        return Finding(after.key, metric, Verdict.NEWLY_FAILED, words)
    if name not in after.metrics:
        words = f"not comparable: the candidate has no {name.replace('_', ' ')}, the baseline has one"
        return Finding(after.key, metric, Verdict.INCOMPARABLE, words)
    if name in before.no_data:
        words = f"no data: the baseline's {name.replace('_', ' ')} is no finite number"
        return Finding(after.key, metric, Verdict.INCOMPARABLE, words)
    words = f"not comparable: the baseline has no {name.replace('_', ' ')}"
    return Finding(after.key, metric, Verdict.INCOMPARABLE, words, advisory=name != "time")


def _values(record: Record, name: str) -> tuple[float, ...]:
    return record.metrics[name].values


def _time(before: Record, after: Record) -> Finding:
    """Screen the time; a breach is ambiguous until it is confirmed."""
    if before.mode != after.mode:
        words = (
            f"not comparable: timed as {before.mode or 'unknown'} before, as {after.mode or 'unknown'} now"
        )
        return Finding(after.key, "time", Verdict.INCOMPARABLE, words)
    value, history = median(_values(after, "time")), _values(before, "time")
    if value <= 0 or min(history) <= 0:
        return Finding(after.key, "time", Verdict.NEWLY_FAILED, "no data: the time is not above 0")
    found = screen(value, history)
    verdict, words = _time_verdict(found, value)
    return Finding(
        after.key, "time", verdict, words, "s", found.centre, value, found.change,
        threshold=found.threshold, detectable=found.detectable, spread=found.spread,
        processes=found.processes,
    )  # fmt: skip


def _time_verdict(found: Screen, value: float) -> tuple[Verdict, str]:
    words = f"{found.change:+.1%} ({quantity(found.centre, 's')} → {quantity(value, 's')})"
    if found.improved:
        return Verdict.FASTER, words
    if not found.breached:
        return Verdict.SAME, words
    few = (
        ""
        if found.processes >= ENOUGH
        else f" and the baseline holds {found.processes} of {ENOUGH} processes"
    )
    return Verdict.AMBIGUOUS, f"{words}, beyond {found.threshold:.1%}: not confirmed by paired runs{few}"


def _memory(before: Record, after: Record) -> Finding:
    old, new = median(_values(before, "peak_memory")), median(_values(after, "peak_memory"))
    beyond = max(MEMORY_SHARE * old, MEMORY_BYTES)
    verdict = Verdict.SAME
    if abs(new - old) > beyond:
        verdict = Verdict.SLOWER if new > old else Verdict.FASTER
    words = f"peak memory {quantity(old, 'B')} → {quantity(new, 'B')}"
    change = new / old - 1 if old > 0 else None
    limit = beyond / old if old > 0 else None
    return Finding(
        after.key, "peak_memory", verdict, words, "B", old, new, change,
        threshold=limit, detectable=limit, processes=len(_values(before, "peak_memory")),
    )  # fmt: skip


def _error(before: Record, after: Record, name: str) -> Finding:
    """The worst error of the candidate against the limit of the dtype, and twice the baseline's."""
    old, new = median(_values(before, name)), max(_values(after, name))
    dtype = str(after.problem.get("dtype"))
    limit, rounding = LARGEST_ERROR.get(dtype, 0.1), ROUNDING.get(dtype, 2.0**-23)
    words, verdict = f"{name.replace('_', ' ')} {old:.2e} → {new:.2e}", Verdict.SAME
    if after.exact and new > limit:
        verdict, words = Verdict.NEWLY_FAILED, f"{words}, beyond the {limit:.0e} of {dtype}"
    elif new > ERROR_RATIO * old and new > rounding:
        verdict, words = Verdict.NEWLY_FAILED, f"{words}, more than twice the baseline's"
    return Finding(
        after.key, "accuracy", verdict, words, "1", old, new, new / old - 1 if old > 0 else None,
        threshold=ERROR_RATIO - 1, processes=len(_values(before, name)),
    )  # fmt: skip


def _compile_time(before: Record, after: Record) -> Iterator[Finding]:
    old, new = median(_values(before, "compile_time")), median(_values(after, "compile_time"))
    if old > 0 and new > COMPILE_RATIO * old and new - old > COMPILE_SECONDS:
        words = f"the first call takes {quantity(new, 's')}, {quantity(old, 's')} before"
        yield Finding(
            after.key, "compile_time", Verdict.SLOWER, words, "s", old, new, new / old - 1, advisory=True
        )
