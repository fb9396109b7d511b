"""The complexity table: what is declared, what was counted, what was measured, and what may be said.

`complexity_table(run, rows)` is a pure function; the page and the command line show the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from harness.complexity import Fit, Law, LawError, parse_law
from harness.counting.certificates import CertifiedFamily
from harness.report.certified import Certified, certificate_of, why_uncertified
from harness.report.impossible import checked, marked, why_impossible
from harness.report.records import TIMES, Records, arrange, measured, size_of
from harness.report.sweeps import (
    INSUFFICIENT,
    MIN_SIZES,
    Sweep,
    fit_of,
    overhead_limit,
    points,
    sweeps,
    within_budget,
)
from harness.report.terms import sentence, splits
from harness.report.units import name as name_of
from harness.types import Result, Run

NOT_MEASURED = "not measured"
IMPOSSIBLE = "impossible"
#: Less probable laws are out of the question.
POSSIBLE = 1e-3


@dataclass(frozen=True, slots=True)
class Quantity:
    """A row of the table: the metrics that measure it, those that count it, and the laws that claim it.

    only_claimed  it has no row where no law is declared for it
    """

    name: str
    measured: tuple[str, ...]
    counted: tuple[str, ...]
    laws: tuple[str, ...]
    only_claimed: bool = False


QUANTITIES = (
    Quantity("time", TIMES, ("flops",), ("time",)),
    Quantity("peak memory", ("peak_memory",), ("peak_live_bytes",), ("memory",)),
    Quantity("FLOPs", (), ("flops",), ("flops", "time")),
    Quantity("bytes", (), ("bytes_touched", "bytes_requested"), ("bytes",)),
    Quantity("depth", (), ("depth",), ("depth",), only_claimed=True),
)


@dataclass(frozen=True, slots=True)
class Exponent:
    """The exponent of growth that one metric shows, with its central 95 %."""

    metric: str
    value: float
    low: float
    high: float
    sizes: int


@dataclass(frozen=True, slots=True)
class ComplexityRow:
    """One implementation × quantity × swept variable, the other axes held.

    declared       the law as declared, or "" when nothing is claimed
    claim          its growth in this variable alone, or ""
    counted, measured   exponents; None without enough sizes
    polynomial     the exact count, or ""
    evidence       how it was found and confirmed, or why there is none; "" where nothing was counted
    basis          what the verdict rests on: a metric, "certificate", or ""
    word, reason   "confirmed", "refuted", "inconclusive", "impossible", "insufficient data", "not
                   measured" or "not claimed", and why; an impossible time is neither judged nor predicted
    bound, bound_reason  the same for the law as an upper bound
    law, probability, share  the most probable law, its probability, its share of the cost at the largest size
    probabilities  of every law that is not out of the question; empty where a certificate judges
    since          a count's law holds from this size on; None where it holds over the sweep
    predictions    (size, low, middle, high) at 2 and 4 times the largest size
    overhead_to    largest size up to which fixed overhead hides the growth, or None
    """

    implementation: str
    exact: bool
    quantity: str
    variable: str
    axis: str
    setting: str
    declared: str
    claim: str
    counted: Exponent | None
    measured: Exponent | None
    basis: str
    word: str
    reason: str
    bound: str
    bound_reason: str
    law: str = ""
    probability: float | None = None
    share: float | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    since: float | None = None
    predictions: tuple[tuple[float, float, float, float], ...] = ()
    unit: str = ""
    overhead_to: float | None = None
    polynomial: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class ComplexityTable:
    """The rows; in words what was left out, against which peaks times were held, and which terms add up."""

    rows: tuple[ComplexityRow, ...]
    left_out: tuple[str, ...]
    checked: str = ""
    terms: tuple[str, ...] = ()


def complexity_table(
    run: Run, rows: Iterable[Result], certified: Iterable[CertifiedFamily] = ()
) -> ComplexityTable:
    """The complexity table of a run: every variable that was swept, every implementation, every quantity."""
    return tabulate(marked(arrange(run, rows, certified)))


def tabulate(records: Records) -> ComplexityTable:
    """The complexity table of arranged records whose impossible rows are marked."""
    kept, left = within_budget(list(sweeps(records)))
    rows = tuple(row for sweep in kept for row in _rows(sweep))
    return ComplexityTable(rows, left, checked(records), tuple(map(sentence, splits(records))))


def _rows(sweep: Sweep) -> Iterable[ComplexityRow]:
    laws = sweep.records.cards[sweep.implementation].laws
    for quantity in QUANTITIES:
        if quantity.only_claimed and not any(laws.get(key) for key in quantity.laws):
            continue
        counted = _first(sweep, quantity.counted)
        times = (sweep.records.time,) if quantity.name == "time" else quantity.measured
        seen = _first(sweep, [metric for metric in times if metric])
        found = certificate_of(sweep, quantity.name)
        if counted or seen or found:
            row = _certified(_row(sweep, quantity, counted, seen), sweep, found, seen or counted)
            why = why_impossible(*sweep.results) if quantity.name == "time" else ""
            yield _impossible(row, why) if why else row


def _certified(row: ComplexityRow, sweep: Sweep, found: Certified | None, metric: str) -> ComplexityRow:
    """With the exact count. It judges by equality, no time and nothing that was measured to be otherwise."""
    if found is None:
        return replace(row, evidence=why_uncertified(sweep, row.quantity))
    if row.quantity == "time" and not found.certificate.polynomial.terms:
        return row  # no matrix product: its FLOPs say nothing of its time
    power = float(found.exponents[sweep.axis])
    sizes = len(found.certificate.found_at) + len(found.certificate.confirmed_at)
    exact = Exponent(found.certificate.quantity, power, power, power, sizes)
    row = replace(row, counted=exact, polynomial=str(found.certificate.polynomial), evidence=found.evidence)
    if row.quantity == "time" or (metric and found.contradicted(sweep, metric)):
        return row
    row = replace(row, basis="certificate", unit=found.certificate.unit, law="", probability=None, share=None)
    row = replace(row, probabilities={}, since=None, predictions=found.predictions(sweep))
    claim = _claim(row.declared, sweep.variable)
    if not isinstance(claim, Law) or row.polynomial == "0":  # without a matrix product no law of FLOPs speaks
        reason = f"no law is declared for it; counted: {row.polynomial}"
        return replace(row, word="not claimed", reason=reason)
    word, reason, bound, bound_reason = found.judge(claim, sweep.axis)
    return replace(row, word=word, reason=reason, bound=bound, bound_reason=bound_reason)


def _claim(declared: str, variable: str) -> Law | str | None:
    """The declared growth in one variable; the reason where it cannot be read; None where nothing is."""
    try:
        return parse_law(declared).along(variable) if declared else None
    except LawError as error:
        return f"the declared law cannot be read: {error}"


def _impossible(row: ComplexityRow, why: str) -> ComplexityRow:
    """What cannot be confirms nothing and predicts nothing, and overhead does not explain it."""
    judged = replace(row, word=IMPOSSIBLE, reason=why, bound="", bound_reason="")
    return replace(judged, predictions=(), overhead_to=None)


def _first(sweep: Sweep, metrics: Iterable[str]) -> str:
    """The first metric that any row of the sweep carries, or ""."""
    return next((m for m in metrics if any(measured(r, m) for r in sweep.results)), "")


def _row(sweep: Sweep, quantity: Quantity, counted: str, seen: str) -> ComplexityRow:
    card = sweep.records.cards[sweep.implementation]
    declared = next((card.laws[key] for key in quantity.laws if card.laws.get(key)), "")
    # A count of operations says nothing of time; everything else may rest on a count.
    basis = seen or ("" if quantity.name == "time" else counted)
    fit = fit_of(sweep, basis)
    judged = _judge(declared, sweep.variable, fit, _too_few(sweep, basis))
    return ComplexityRow(
        implementation=sweep.implementation,
        exact=card.exact,
        quantity=quantity.name,
        variable=sweep.variable,
        axis=sweep.axis,
        setting=sweep.setting,
        declared=declared,
        claim=judged.claim,
        counted=_exponent(sweep, counted),
        measured=_exponent(sweep, seen),
        basis=basis,
        word=judged.word,
        reason=judged.reason,
        bound=judged.bound,
        bound_reason=judged.bound_reason,
        law=written_in(sweep.variable, fit.law) if fit else "",
        probability=fit.probabilities[fit.law] if fit else None,
        share=fit.share if fit else None,
        probabilities=_probabilities(sweep.variable, fit) if fit else {},
        since=fit.since if fit else None,
        predictions=_predictions(sweep, fit),
        unit=_unit(sweep, basis),
        overhead_to=overhead_limit(sweep.results, sweep.axis, seen) if quantity.name == "time" else None,
    )


def _probabilities(variable: str, fit: Fit) -> Mapping[str, float]:
    """The most probable first."""
    known = sorted(fit.probabilities.items(), key=lambda item: -item[1])
    return {written_in(variable, law): value for law, value in known if value >= POSSIBLE}


@dataclass(frozen=True, slots=True)
class _Judgement:
    claim: str
    word: str
    reason: str
    bound: str = ""
    bound_reason: str = ""


def _judge(declared: str, variable: str, fit: Fit | None, too_few: str) -> _Judgement:
    claim = _claim(declared, variable)
    if isinstance(claim, str):
        return _Judgement("", "inconclusive", claim)
    text = written_in(variable, str(claim or ""))
    if fit is None:
        return _Judgement(text, INSUFFICIENT if "usable" in too_few else NOT_MEASURED, too_few)
    if claim is None:
        likely = written_in(variable, fit.law)
        return _Judgement("", "not claimed", f"no law is declared; most probable: {likely}")
    verdict = fit.verdict(claim)
    reasons = (written_in(variable, words) for words in (verdict.reason, verdict.bound_reason))
    return _Judgement(text, verdict.word, next(reasons), verdict.bound, next(reasons))


def written_in(variable: str, words: str) -> str:
    """The engine writes every law in n; say it in the variable that was swept."""
    return re.sub(r"\bn\b", variable, words)


def _too_few(sweep: Sweep, basis: str) -> str:
    if not basis:
        notes = [words for r in sweep.results for words in r.notes.values() if "not timed" in words]
        return next(iter(notes), "not measured")
    found = len(points(sweep, basis)[0])
    return f"{found} usable sizes of {name_of(basis)}, {MIN_SIZES} are needed"


def _exponent(sweep: Sweep, metric: str) -> Exponent | None:
    fit = fit_of(sweep, metric)
    if fit is None or fit.exponent is None or fit.interval is None:
        return None
    return Exponent(metric, fit.exponent, *fit.interval, len(points(sweep, metric)[0]))


def _predictions(sweep: Sweep, fit: Fit | None) -> tuple[tuple[float, float, float, float], ...]:
    if fit is None:
        return ()
    largest = max(size_of(r, sweep.axis) for r in sweep.results)
    sizes = [2 * largest, 4 * largest]
    rows = fit.predict(sizes).tolist()
    return tuple((size, *row) for size, row in zip(sizes, rows, strict=True))


def _unit(sweep: Sweep, metric: str) -> str:
    found = (measured(r, metric) for r in sweep.results)
    return next((m.unit for m in found if m), "")
