"""The first lines of the page: the answer to the suite's question, in sentences that the tables support."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.report.accuracy import RULE, ErrorRow, is_floor, worst_exact
from harness.report.choice import Fastest
from harness.report.impossible import why_impossible
from harness.report.records import Records, describe
from harness.report.tables import ComplexityRow, ComplexityTable
from harness.report.units import pretty, shown


def answer(
    records: Records, table: ComplexityTable, choices: Sequence[Fastest], errors: Sequence[ErrorRow]
) -> tuple[str, ...]:
    """Short sentences: who is fastest, how time and memory grow, who errs most."""
    if not records.results:
        return ("Nothing was measured.",)
    said = [*_impossible(records), *_speed(records, choices), *_growth(table), *_error(errors)]
    return tuple(said) or ("No case ended with a measurement; the reasons are below.",)


def _impossible(records: Records) -> Iterable[str]:
    names = dict.fromkeys(r.case.implementation for r in records.results if why_impossible(r))
    if names:
        yield f"Impossible, not fast: {', '.join(names)}; the reasons stand below."


def _speed(records: Records, choices: Sequence[Fastest]) -> Iterable[str]:
    if not choices:
        asked = "latency" in records.run.suite.get("metrics", ["latency"])
        cannot_be = any(why_impossible(r) for r in records.results)
        timed = "timed in a possible time" if cannot_be else "timed"
        yield f"No exact implementation was {timed}." if asked else "This suite does not measure time."
        return
    last = next((c for c in reversed(choices) if len(c.tied) + len(c.others) > 1), choices[-1])
    winners = " and ".join(t.name for t in last.tied)
    time = last.tied[0].time
    place = describe(last.problem.fixed) or "the only problem"
    rest = f", {_factor(last)}" if last.others else ""
    tie = _standing(last)
    yield f"At {place}, {winners} {tie} ({shown(time.value, 's')}{rest})."
    wins = {t.name for choice in choices for t in choice.tied}
    if len(choices) > 1 and len(wins) > 1:
        counts = sorted(wins, key=lambda name: (-_wins(choices, name), name))
        tally = ", ".join(f"{name} {_wins(choices, name)}" for name in counts)
        yield f"Fastest or tied on {len(choices)} problems: {tally}."


def _standing(choice: Fastest) -> str:
    if len(choice.tied) > 1:
        return "tie as the fastest exact implementations"
    return (
        "is the fastest exact implementation"
        if choice.others
        else "is the only exact implementation with a time that can be compared"
    )


def _wins(choices: Sequence[Fastest], name: str) -> int:
    return sum(any(t.name == name for t in choice.tied) for choice in choices)


def _factor(choice: Fastest) -> str:
    """How much the next one takes, and naive where it was timed."""
    best = choice.tied[0].time.value
    named = {t.name: t for t in choice.others}
    beside = dict.fromkeys([choice.others[0].name, *(["naive"] if "naive" in named else [])])
    return " and ".join(f"{named[name].time.value / best:.3g}× as long in {name}" for name in beside)


def _growth(table: ComplexityTable) -> Iterable[str]:
    for quantity in ("time", "peak memory"):
        rows = [row for row in table.rows if row.quantity == quantity and row.axis == table.rows[0].axis]
        words = [part for word in ("confirmed", "refuted", "inconclusive") if (part := _verdicts(rows, word))]
        if words:
            yield f"Declared growth of {quantity} in {rows[0].axis}: {'; '.join(words)}."


def _verdicts(rows: Sequence[ComplexityRow], word: str) -> str:
    """The implementations with a verdict; where settings disagree, each with its settings."""
    settings: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.word == word:
            settings.setdefault((row.implementation, row.claim), []).append(row.setting)
    if not settings:
        return ""
    names = [_named(rows, name, claim, held) for (name, claim), held in settings.items()]
    return f"{word} for {', '.join(names)}"


def _named(rows: Sequence[ComplexityRow], name: str, claim: str, held: Sequence[str]) -> str:
    every = sum(row.implementation == name for row in rows)
    if len(held) == every:
        return f"{name} ({pretty(claim)})"
    some = " and ".join(held) if len(held) <= 2 else f"{len(held)} of {every} settings"
    return f"{name} ({pretty(claim)}, {some})"


def _error(errors: Sequence[ErrorRow]) -> Iterable[str]:
    worst = worst_exact(errors)
    if worst is not None:
        yield _worst(*worst)
    beaten = dict.fromkeys(
        row.implementation
        for row in errors
        if not row.exact and not is_floor(row.implementation) and _idle(row)
    )
    if beaten:
        yield f"No nearer to the truth than the mean of V somewhere: {', '.join(beaten)}."


def _worst(row: ErrorRow, ratio: float) -> str:
    if ratio <= RULE:
        return f"The exact implementations err at most {ratio:.2g} × as much as naive in the same dtype."
    place = f" at {row.setting}" if row.setting else ""
    return (
        f"{row.implementation} errs up to {ratio:.2g} × as much as naive in the same dtype{place}; "
        f"up to {RULE:g} is usual."
    )


def _idle(row: ErrorRow) -> bool:
    """Whether an approximation is somewhere no better than the floor."""
    return any(cell.floor is not None and cell.floor >= 1 for cell in row.cells if cell)
