"""A cost with several terms: what each exactly counted term takes in time, and where they are equal.

The columns are the terms of the certified FLOPs, 24·n·d_model² and 4·n²·d_model of a layer, and beside them
the exponentials of its softmax, which take time and are no FLOPs. Their coefficients are times per operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.complexity import Estimate, Terms, infer_terms
from harness.counting.certificates import CertifiedFamily
from harness.counting.polynomial import Polynomial, Sizes
from harness.format import significant
from harness.report.records import Records, measured
from harness.report.sweeps import kind_of
from harness.report.units import name as name_of
from harness.types import Result

#: Problems beyond the number of terms, so that a fit may fail.
SPARE = 3
DRAWS = 4000
Draws = NDArray[np.float64]
LEVELS = (0.025, 0.5, 0.975)


@dataclass(frozen=True, slots=True)
class Part:
    """One term: how it was counted, its time per operation (s, 95 %), its share of the cost where it counts
    most, and whether it is seen ("confirmed", "refuted", "inconclusive"), with the reason."""

    counted: str
    seconds: Estimate
    share: Estimate
    word: str
    reason: str


@dataclass(frozen=True, slots=True)
class Split:
    """The time of one implementation as a sum of its counted terms.

    at        the sizes of the other variables that the crossover is stated for
    counted   the n at which its terms of the highest power of n are as many FLOPs as the others
    measured  the n at which they take as long, softmax included; an end that the data leave open is None
    scatter   how far the form misses the times (ln)
    """

    implementation: str
    setting: str
    metric: str
    problems: int
    parts: tuple[Part, ...]
    variable: str
    at: str
    counted: float
    measured: tuple[float | None, float | None, float | None]
    scatter: float


@dataclass(frozen=True, slots=True)
class _Term:
    """A monomial of the sizes; `work`: it is FLOPs, not exponentials."""

    polynomial: Polynomial
    work: bool

    @property
    def powers(self) -> Sizes:
        (powers,) = self.polynomial.terms
        return powers

    def value(self, sizes: Sizes) -> float:
        return float(self.polynomial.at(sizes))

    def __str__(self) -> str:
        return f"{self.polynomial} {'FLOPs' if self.work else 'exponentials'}"


def splits(records: Records) -> tuple[Split, ...]:
    """Every implementation whose certified FLOPs have terms of several powers of the length."""
    found = (_split(records, family) for family in records.certified)
    return tuple(one for one in found if one)


def sentence(split: Split) -> str:
    """The split in words: the time of each term per operation, and where they balance, counted and timed."""
    low, middle, high = split.measured
    ends = " to ".join("any length" if end is None else f"{end:,.0f}" for end in (low, high))
    timed = f"{'beyond any length' if middle is None else format(middle, ',.0f')} [{ends}]"
    setting = f" in {split.setting}" if split.setting else ""
    return (
        f"{split.implementation}{setting}, {name_of(split.metric)} of {split.problems} problems as a sum of "
        f"counted terms: {'; '.join(map(_in_words, split.parts))}. "
        f"The terms of the highest power of {split.variable} come to equal the others at "
        f"{split.variable} = {split.counted:,.0f} by their FLOPs, and at {timed} by the clock, "
        f"softmax included ({split.at})."
    )


def _in_words(part: Part) -> str:
    low, middle, high = map(_each, part.seconds)
    return f"{part.counted} at {middle} [{low}, {high}] ps each, {part.word}: {part.reason}"


def _each(value: float) -> str:
    """Seconds per operation, in ps."""
    return significant(value * 1e12)


def _split(records: Records, family: CertifiedFamily) -> Split | None:
    terms = _terms(family)
    metric = records.time
    if metric is None or len({term.powers[0] for term in terms if term.work}) < 2 or family.pinned:
        return None
    axes = [records.run.variables[variable] for variable in terms[0].polynomial.variables]
    rows = [row for row in _rows(records, family, axes) if measured(row, metric)]
    sizes = [tuple(int(row.case.problem[axis] or 0) for axis in axes) for row in rows]
    if not _apart(terms, sizes):  # at one width softmax's n² cannot be told from that of the products
        terms = [term for term in terms if term.work]
    if len(set(sizes)) < len(terms) + SPARE or not _apart(terms, sizes):
        return None
    table = _table(terms, sizes)
    samples = [_samples(row, metric) for row in rows]
    fit = infer_terms(table, samples, kind_of(metric))
    largest = max(sizes, key=lambda at: at[1:])
    names = [f"{axis} = {size:,}" for axis, size in zip(axes[1:], largest[1:], strict=True)]
    return Split(
        implementation=family.case.implementation,
        setting=str(family.case.problem.get("dtype", "")),
        metric=metric,
        problems=len(rows),
        parts=tuple(_part(fit, place, term) for place, term in enumerate(terms)),
        variable=axes[0],
        at=", ".join(names),
        counted=_balance(terms, np.array([[1.0 if term.work else 0.0 for term in terms]]), largest)[0],
        measured=_bounds(_balance(terms, _drawn(fit, len(terms)), largest)),
        scatter=fit.scatter,
    )


def _table(terms: Sequence[_Term], sizes: Sequence[Sizes]) -> Draws:
    """(problems, terms): the counted terms of each problem."""
    return np.array([[term.value(at) for term in terms] for at in sizes]).reshape(len(sizes), len(terms))


def _apart(terms: Sequence[_Term], sizes: Sequence[Sizes]) -> bool:
    """Whether the problems tell the terms apart."""
    table = _table(terms, sizes)
    return bool(sizes) and np.linalg.matrix_rank(table / table.max(axis=0)) == len(terms)


def _terms(family: CertifiedFamily) -> list[_Term]:
    """The terms of the FLOPs, then of the exponentials in the same variables."""
    by_quantity = {one.quantity: one.polynomial for one in family.certificates}
    work, beside = by_quantity.get("flops"), by_quantity.get("exponentials")
    if work is None:
        return []
    found = [_Term(Polynomial(work.variables, {p: c}), True) for p, c in work.terms.items()]
    if beside is not None and beside.variables == work.variables:
        found += [_Term(Polynomial(work.variables, {p: c}), False) for p, c in beside.terms.items()]
    return found


def _rows(records: Records, family: CertifiedFamily, axes: Sequence[str]) -> Iterable[Result]:
    """The rows that the family speaks of."""
    held = {axis: v for axis, v in family.case.problem.items() if axis not in (*axes, "seed")}
    for row in records.results:
        same: Mapping[str, object] = row.case.problem
        if row.case.implementation == family.case.implementation and all(
            same.get(axis) == value for axis, value in held.items()
        ):
            yield row


def _samples(row: Result, metric: str) -> tuple[float, ...]:
    found = measured(row, metric)
    assert found is not None
    return found.samples or (found.value,)


def _part(fit: Terms, place: int, term: _Term) -> Part:
    seen = fit.verdict(place)
    return Part(str(term), fit.coefficients[place], fit.shares[place], seen.word, seen.reason)


def _drawn(fit: Terms, terms: int) -> Draws:
    """(draws, terms): coefficients from the posterior, none below 0."""
    generator = np.random.default_rng(0)
    chosen = generator.choice(len(fit.weight), DRAWS, p=fit.weight / fit.weight.sum())
    scale = np.sqrt(np.maximum(np.einsum("nkk->nk", fit.covariance), 1e-300))
    found = []
    for one, count in zip(*np.unique(chosen, return_counts=True), strict=True):
        correlation = fit.covariance[one] / np.outer(scale[one], scale[one])
        unit = generator.multivariate_normal(
            np.zeros(len(scale[one])), correlation, count, check_valid="ignore", method="eigh"
        )
        found.append(fit.mean[one] + unit * scale[one])
    drawn: Draws = np.maximum(np.concatenate(found)[:, :terms], 0.0)
    return drawn


def _balance(terms: Sequence[_Term], coefficients: Draws, at: Sizes) -> list[float]:
    """The length at which terms of the highest power of it cost as much as the others, for each row."""
    powers = [term.powers[0] for term in terms]
    high, low = max(powers), max((p for p in powers if p < max(powers)), default=0)
    unit = (1, *at[1:])
    values = coefficients * np.array([term.value(unit) for term in terms])
    above = values[:, [p == high for p in powers]].sum(axis=1)
    below = values[:, [p == low for p in powers]].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = below / above
    return [float(value) for value in ratio ** (1 / (high - low))]


def _bounds(lengths: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    values = np.sort(np.nan_to_num(np.array(lengths), nan=np.inf))
    low, middle, high = (float(values[int(level * (len(values) - 1))]) for level in LEVELS)
    closed = [value if np.isfinite(value) else None for value in (low, middle, high)]
    return closed[0], closed[1], closed[2]
