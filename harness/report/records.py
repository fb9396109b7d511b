"""The rows of a run, arranged: which axes vary, which one is swept, and what is held fixed with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from harness.counting.certificates import CertifiedFamily
from harness.types import DeviceInfo, ImplementationCard, Measurement, Result, Run, Scalar, Status

#: The quantity that is "the time" of a run: the first of these that most rows carry;
#: `own_time` is made up for a page of machines that are timed by different clocks: each one's own.
OWN_TIME = "own_time"
TIMES = (OWN_TIME, "gpu_time_cold", "gpu_time_hot", "cpu_time", "wall_time")
MEMORIES = ("peak_memory", "peak_live_bytes")
#: An axis that follows another by default is no axis of its own unless it departs from it.
FOLLOWERS = {"kv_len": "seq_len", "kv_heads": "heads"}
#: The axis that tells machines apart, where a page shows several.
MACHINE = "machine"
#: The axis that tells operations apart, where a run measured several.
OPERATION = "operation"
#: Stands between the name of an implementation and the label of its run, where a page shows several.
SEPARATOR = " · "


def labelled(implementation: str, label: str) -> str:
    """An implementation as it is called on a page of several runs."""
    return f"{implementation}{SEPARATOR}{label}" if label else implementation


def base_name(implementation: str) -> str:
    """The implementation without the label of its run."""
    return implementation.partition(SEPARATOR)[0]


def run_label(implementation: str) -> str:
    """The label of the run that an implementation is shown from, or the empty string."""
    return implementation.partition(SEPARATOR)[2]


def judged_time(result: Result) -> float | None:
    """The time (s) that a row's rates are over: the judged one, else the first of the others."""
    names = (str(result.timing.get("judged")), *TIMES)
    return next((m.value for name in names if (m := measured(result, name)) and m.value > 0), None)


@dataclass(frozen=True)
class Facet:
    """The rows that share the value of every varying axis but one.

    fixed  the varying axes that are held, with their values; empty when only one axis varies
    """

    fixed: tuple[tuple[str, Scalar], ...]
    results: tuple[Result, ...]

    @property
    def label(self) -> str:
        """The held axes in words, or the empty string."""
        return describe(self.fixed)

    def of(self, implementation: str) -> tuple[Result, ...]:
        """The rows of one implementation."""
        return tuple(r for r in self.results if r.case.implementation == implementation)


@dataclass(frozen=True)
class Records:
    """A run with its rows; of two rows for one case the later counts.

    axes       the axes that vary, the swept one first
    sweep      the numeric axis with the most distinct values, or None
    certified  what was certified by exact counting
    machines   value of the axis "machine" → device, where the page shows several machines
    """

    run: Run
    results: tuple[Result, ...]
    axes: tuple[str, ...]
    sweep: str | None
    certified: tuple[CertifiedFamily, ...] = ()
    machines: Mapping[str, DeviceInfo] = field(default_factory=dict)

    @cached_property
    def cards(self) -> Mapping[str, ImplementationCard]:
        """What each implementation is; one that the run does not describe is taken as exact."""
        named = {card.name: card for card in self.run.implementations}
        met = dict.fromkeys(r.case.implementation for r in self.results)
        return named | {n: ImplementationCard(n, "", True, {}) for n in met if n not in named}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each implementation in the palette: those that ran have the first."""
        ran = {r.case.implementation for r in self.results if r.status is Status.OK}
        ordered = sorted(self.cards, key=lambda name: name not in ran)
        return {name: place for place, name in enumerate(ordered)}

    @cached_property
    def constants(self) -> Mapping[str, Scalar]:
        """The axes that do not vary, with their value; followers that follow are left out."""
        first = self.results[0].case.problem if self.results else {}
        held = {axis: value for axis, value in first.items() if axis not in self.axes}
        if OPERATION in self.axes:  # what only one operation has says nothing of the others
            problems = [result.case.problem for result in self.results]
            held = {a: v for a, v in held.items() if all(a in p and p[a] == v for p in problems)}
        return {a: v for a, v in held.items() if FOLLOWERS.get(a) is None or v != first.get(FOLLOWERS[a])}

    @cached_property
    def sizes(self) -> tuple[float, ...]:
        """The values of the swept axis, in order; empty when nothing is swept."""
        if self.sweep is None:
            return ()
        return tuple(sorted({size_of(r, self.sweep) for r in self.results}))

    @cached_property
    def all_problems(self) -> frozenset[tuple[Scalar, ...]]:
        """The values of the varying axes of every problem of the run."""
        return frozenset(tuple(r.case.problem.get(axis) for axis in self.axes) for r in self.results)

    def device_of(self, problem: Mapping[str, Scalar]) -> DeviceInfo:
        """The device on which a problem was measured."""
        return self.machines.get(str(problem.get(MACHINE)), self.run.environment.device)

    def memory_of(self, problem: Mapping[str, Scalar]) -> float | None:
        """Bytes of memory of the device on which a problem was measured, or None where they are unknown."""
        known = self.device_of(problem).facts.get("memory_bytes")
        return float(known) if isinstance(known, int | float) and known > 0 else None

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that some row carries, in order of first appearance."""
        return tuple(dict.fromkeys(name for r in self.results for name in r.metrics))

    @cached_property
    def time(self) -> str | None:
        """The metric that stands for time; one for all rows, never a mixture."""
        return self._commonest(TIMES)

    @cached_property
    def memory(self) -> str | None:
        """The metric that stands for peak memory."""
        return self._commonest(MEMORIES)

    def _commonest(self, names: Sequence[str]) -> str | None:
        counts = {name: sum(name in r.metrics for r in self.results) for name in names}
        best = max(names, key=lambda name: counts[name])
        return best if counts[best] else None

    def facets(self, along: str | None) -> tuple[Facet, ...]:
        """The rows split by every varying axis but `along`."""
        held = [axis for axis in self.axes if axis != along]
        groups: dict[tuple[tuple[str, Scalar], ...], list[Result]] = {}
        for result in self.results:
            fixed = tuple((axis, result.case.problem.get(axis)) for axis in held)
            groups.setdefault(fixed, []).append(result)
        ordered = sorted(groups, key=lambda fixed: [sort_key(value) for _, value in fixed])
        return tuple(Facet(fixed, tuple(groups[fixed])) for fixed in ordered)

    def problems(self) -> tuple[Facet, ...]:
        """One facet per distinct problem, the swept axis growing last."""
        held = [axis for axis in self.axes if axis != self.sweep] + [a for a in self.axes if a == self.sweep]
        facets = self.facets(along=None)
        return tuple(sorted(facets, key=lambda f: [sort_key(dict(f.fixed)[axis]) for axis in held]))

    def values(self, axis: str) -> tuple[Scalar, ...]:
        """The values of an axis, in order."""
        return tuple(sorted({r.case.problem.get(axis) for r in self.results}, key=sort_key))

    def words_for(self, axis: str) -> str:
        """An axis with its symbol in the laws: `seq_len (n)`."""
        symbol = next((s for s, a in self.run.variables.items() if a == axis), axis)
        return axis if symbol == axis else f"{axis} ({symbol})"


def arrange(run: Run, rows: Iterable[Result], certified: Iterable[CertifiedFamily] = ()) -> Records:
    """Arrange the rows of a run, with what was certified of its families."""
    latest = {result.case.key: result for result in rows}
    results = _told_apart(tuple(latest.values()))
    varying = _varying(results)
    sweep = _swept(run, results, varying)
    axes = ([sweep] if sweep else []) + [axis for axis in varying if axis != sweep]
    return Records(run, results, tuple(axes), sweep, tuple(certified))


def _told_apart(results: tuple[Result, ...]) -> tuple[Result, ...]:
    """With the operation as an axis, where there are several."""
    if len({result.case.operation for result in results}) < 2:
        return results
    return tuple(
        replace(r, case=replace(r.case, problem={OPERATION: r.case.operation, **r.case.problem}))
        for r in results
    )


def _varying(results: Sequence[Result]) -> list[str]:
    """The axes that vary within an operation, and the operation where there are several."""
    apart: dict[str, list[Result]] = {}
    for result in results:
        apart.setdefault(result.case.operation, []).append(result)
    found = dict.fromkeys(axis for members in apart.values() for axis in _varying_in(members))
    return [*found, *([OPERATION] if len(apart) > 1 else [])]


def _varying_in(results: Sequence[Result]) -> list[str]:
    names = dict.fromkeys(axis for r in results for axis in r.case.problem)
    columns = {axis: [r.case.problem.get(axis) for r in results] for axis in names}
    varying = [axis for axis, values in columns.items() if len(set(values)) > 1]
    return [a for a in varying if columns[a] != columns.get(FOLLOWERS.get(a, ""))]


def _swept(run: Run, results: Sequence[Result], varying: Sequence[str]) -> str | None:
    values = {axis: {r.case.problem.get(axis) for r in results} for axis in varying}
    numeric = [axis for axis in varying if all(is_size(value) for value in values[axis])]
    # The law's variables first: a seed has many values but nothing grows with it.
    numeric = [a for a in run.variables.values() if a in numeric] + [a for a in numeric if a != "seed"]
    return max(numeric, key=lambda axis: len(values[axis]), default=None)


def is_size(value: Scalar) -> bool:
    """Whether a value can be a size on a logarithmic axis."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def sort_key(value: Scalar) -> tuple[int, float, str]:
    """Orders mixed scalars: numbers by size, then words."""
    if isinstance(value, int | float):
        return 0, float(value), ""
    return 1, 0.0, str(value)


def size_of(result: Result, axis: str) -> float:
    """The value of a numeric axis."""
    value = result.case.problem[axis]
    assert isinstance(value, int | float)
    return value


def describe(fixed: Iterable[tuple[str, Scalar]]) -> str:
    """Axes with their values in words: `float16, causal, head_dim 64`."""
    return ", ".join(words(axis, value) for axis, value in fixed)


def words(axis: str, value: Scalar) -> str:
    """One axis with its value in words."""
    if axis == "causal" and isinstance(value, bool):
        return "causal" if value else "not causal"
    if axis in (MACHINE, OPERATION):
        return str(value)
    if axis in ("dtype", "pass"):
        return str(value).replace("_", " and ") if axis == "pass" else str(value)
    if isinstance(value, bool) or value is None:
        return f"{axis} {'unset' if value is None else str(value).lower()}"
    return f"{axis} {value}"


def measured(result: Result, metric: str | None) -> Measurement | None:
    """A metric of a row that ended well; a failed case keeps no speed."""
    if metric is None or result.status is not Status.OK:
        return None
    return result.metrics.get(metric)
