"""How the cases ended, in words: coverage, what did not run and why, what was not timed, what to doubt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from harness.report.records import Records, describe, sort_key
from harness.report.units import name as name_of
from harness.types import Result, Scalar, Status

STATUS_WORDS: Mapping[Status, str] = {
    Status.OK: "measured",
    Status.INCORRECT: "incorrect",
    Status.OOM: "out of memory",
    Status.TIMEOUT: "timed out",
    Status.CRASHED: "crashed",
    Status.ERROR: "ended in an error",
    Status.UNSTABLE: "unstable",
    Status.UNSUPPORTED: "unsupported",
    Status.SKIPPED: "skipped",
}
#: Settings that a list of places names before it only counts them.
MOST_SETTINGS = 4
_ORDER = {status: position for position, status in enumerate(STATUS_WORDS)}


def coverage(records: Records) -> str:
    """`184 measured, 9 out of memory, 7 unsupported`."""
    counts = Counter(result.status for result in records.results)
    if not counts:
        return "no case was recorded"
    return ", ".join(f"{counts[s]} {words}" for s, words in STATUS_WORDS.items() if counts[s])


def where(records: Records, results: Iterable[Result]) -> str:
    """The problems of some rows: `everywhere`, or per setting the sizes; many settings are told in part."""
    found = {_problem(records, r) for r in results}
    if found == records.all_problems:
        return "everywhere" if records.axes else "the only problem"
    groups: dict[tuple[Scalar, ...], list[Scalar]] = {}
    for first, *rest in sorted(found, key=lambda problem: [sort_key(value) for value in problem]):
        groups.setdefault(tuple(rest), []).append(first)
    told = [_setting(records, rest, values) for rest, values in groups.items()]
    more = f"; and {len(told) - MOST_SETTINGS} more settings" if len(told) > MOST_SETTINGS else ""
    return "; ".join(told[:MOST_SETTINGS]) + more


def _problem(records: Records, result: Result) -> tuple[Scalar, ...]:
    return tuple(result.case.problem.get(axis) for axis in records.axes)


def _setting(records: Records, rest: Sequence[Scalar], values: Sequence[Scalar]) -> str:
    """`seq_len 128, 256 at bfloat16`."""
    axis = records.axes[0]
    place = describe(zip(records.axes[1:], rest, strict=True))
    if axis == records.sweep and len(values) == len(records.sizes) > 1:
        return f"every {axis}" + (f" at {place}" if place else "")
    sizes = (
        f"{axis} {', '.join(map(str, values))}" if axis == records.sweep else describe([(axis, values[0])])
    )
    return f"{sizes} at {place}" if place else sizes


def not_ok(records: Records) -> list[tuple[Status, str, str, list[Result]]]:
    """(status, implementation, reason, rows) of every case that is not ok, the most serious first.

    Reasons that differ in their numbers alone are told once; the full data has each of them.
    """
    groups: dict[tuple[Status, str, str], list[Result]] = {}
    for r in records.results:
        if r.status is not Status.OK:
            groups.setdefault((r.status, r.case.implementation, without_numbers(r.reason)), []).append(r)
    ordered = sorted(groups.items(), key=lambda item: _ORDER[item[0][0]])
    return [(status, name, told_once(r.reason for r in rows), rows) for (status, name, _), rows in ordered]


def told_once(reasons: Iterable[str]) -> str:
    """Reasons that differ in their numbers alone are told once, with how many more there are."""
    kinds: dict[str, dict[str, None]] = {}
    for reason in reasons:
        kinds.setdefault(without_numbers(reason), {})[reason] = None
    return "; ".join(
        next(iter(alike)) + (f" (and {len(alike) - 1} alike but for the numbers)" if len(alike) > 1 else "")
        for alike in kinds.values()
    )


def without_numbers(reason: str) -> str:
    """A reason without its numbers."""
    return re.sub(r"\d[\d.,]*(e[+-]?\d+)?", "#", reason)


def remarks(records: Records) -> list[tuple[str, str, str, list[Result]]]:
    """(implementation, quantity, words, rows) of the notes: what was left out, and what else to know."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for r in records.results:
        for quantity, why in r.notes.items():
            groups.setdefault((r.case.implementation, name_of(quantity), why), []).append(r)
    return [(*key, rows) for key, rows in groups.items()]


def metric_notes(records: Records) -> list[tuple[str, str, int]]:
    """(quantity, note, number of rows) of what a measurement says of itself."""
    counts = Counter((name, m.note) for r in records.results for name, m in r.metrics.items() if m.note)
    return [(name_of(name), note, count) for (name, note), count in counts.items()]


def flagged(records: Records) -> list[tuple[str, list[str], list[Result]]]:
    """(kind of doubt, up to three of its texts, rows); the kind is what stands before the colon."""
    groups: dict[str, list[Result]] = {}
    texts: dict[str, dict[str, None]] = {}
    for r in records.results:
        for flag in r.flags:
            kind, _, rest = flag.partition(":")
            groups.setdefault(kind, []).append(r)
            texts.setdefault(kind, {})[rest.strip()] = None
    found = [(kind, _few(list(texts[kind])), rows) for kind, rows in groups.items()]
    return sorted(found, key=lambda item: -len(item[2]))


def _few(texts: list[str]) -> list[str]:
    return texts if len(texts) <= 3 else [*texts[:2], f"and {len(texts) - 2} more such"]


def warnings(records: Records, overhead_bound: int) -> list[str]:
    """What a reader must know before trusting the numbers."""
    doubts = flagged(records)
    return [
        *_run_warnings(records),
        *(
            f"{cases(rows)} flagged as {kind}" + (f", such as: {t[0]}" if t[0] else "")
            for kind, t, rows in doubts
        ),
        *_interpreted(records),
        *([f"{overhead_bound} of the timed points are overhead-bound"] if overhead_bound else []),
        *_wrong(records),
    ]


def _run_warnings(records: Records) -> Iterable[str]:
    environment = records.run.environment
    if records.run.finished is None:
        yield "the run did not finish: cases are missing"
    if environment.git_dirty:
        yield "measured with uncommitted changes"
    if environment.git_commit is None:
        yield "the commit is unknown"


def _interpreted(records: Records) -> Iterable[str]:
    rows = [r for r in records.results if any("interpreted" in why for why in r.notes.values())]
    if rows:
        names = ", ".join(dict.fromkeys(r.case.implementation for r in rows))
        yield f"{cases(rows)} interpreted and not timed ({names})"


def _wrong(records: Records) -> Iterable[str]:
    wrong = [r for r in records.results if r.status is Status.INCORRECT]
    if wrong:
        names = ", ".join(dict.fromkeys(r.case.implementation for r in wrong))
        yield f"{cases(wrong)} incorrect and without a speed ({names})"


def cases(rows: Sequence[object]) -> str:
    """`1 case`, `12 cases`."""
    return f"{len(rows)} case" + ("s" if len(rows) != 1 else "")
