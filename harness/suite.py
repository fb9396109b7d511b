"""A suite and its groups: one problem, many implementations. `suite_file.py` reads it from YAML."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.located_yaml import SuiteError
from harness.types import Case, Scalar
from implementations.operation import Operation


@dataclass(frozen=True, slots=True)
class Group:
    """One problem and the cases that compute it, measured together on the same inputs."""

    problem: Any
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """A validated suite for one kind of device.

    axes     axis -> the values it sweeps     budget   seconds of measuring in all
    timeout  seconds that one step of one case may take
    claims   implementation -> quantity -> the law it is expected to follow, beside what it declares
    also     other operations in the same run, with their implementations and axes; all else is this suite's
    """

    name: str
    question: str
    operation: Operation
    implementations: tuple[str, ...]
    axes: Mapping[str, tuple[Scalar, ...]]
    metrics: tuple[str, ...]
    budget: float
    timeout: float
    path: Path
    claims: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    also: tuple[Suite, ...] = ()

    @property
    def parts(self) -> tuple[Suite, ...]:
        """A suite for each operation, this one first."""
        return replace(self, also=()), *self.also

    @property
    def every_implementation(self) -> tuple[str, ...]:
        """Those of all operations."""
        return tuple(name for part in self.parts for name in part.implementations)

    def groups(self, device: str) -> tuple[Group, ...]:
        """Every distinct problem with its cases, cheapest first."""
        found = [group for part in self.parts for group in part._groups(device)]
        return tuple(sorted(found, key=lambda group: group.problem.flops()))

    def _groups(self, device: str) -> Iterable[Group]:
        for problem in dict.fromkeys(problems(self.operation, self.axes)):
            if cases := tuple(self._cases(problem, device)):
                yield Group(problem, cases)

    def _cases(self, problem: Any, device: str) -> Iterable[Case]:
        for name in self.implementations:
            yield Case(name, self.operation.name, device, problem.axes())

    def select(self, only: Sequence[str], skip: Sequence[str]) -> Suite:
        """Keep the implementations that match a pattern of `only` and none of `skip`.

        Raises SuiteError when a pattern matches nothing, or nothing is left.
        """
        for option, patterns in (("--only", only), ("--skip", skip)):
            for pattern in patterns:
                if not any(fnmatchcase(name, pattern) for name in self.every_implementation):
                    raise SuiteError(
                        f"{option} {pattern}: matches no implementation of {self.path}"
                        f"{hint(pattern, self.every_implementation)}"
                    )
        kept = [part for part in (part._kept(only, skip) for part in self.parts) if part.implementations]
        if not kept:
            raise SuiteError(f"--only/--skip: no implementation of {self.path} is left to run")
        return replace(kept[0], also=tuple(kept[1:]))

    def _kept(self, only: Sequence[str], skip: Sequence[str]) -> Suite:
        kept = tuple(
            name
            for name in self.implementations
            if (not only or any(fnmatchcase(name, p) for p in only))
            and not any(fnmatchcase(name, p) for p in skip)
        )
        return replace(self, implementations=kept)

    def describe(self) -> dict[str, Any]:
        """The suite as data, for run.json."""
        also = [{"operation": part.operation.name, **part.describe()} for part in self.also]
        return {
            "name": self.name,
            "implementations": list(self.implementations),
            "axes": {axis: list(values) for axis, values in self.axes.items()},
            "metrics": list(self.metrics),
            "budget": self.budget,
            "timeout": self.timeout,
            "claims": {name: dict(laws) for name, laws in self.claims.items()},
            "file": self.path.name,
        } | ({"also": also} if also else {})


def problems(found: Operation, axes: Mapping[str, Sequence[Scalar]]) -> Iterable[Any]:
    """Every combination of the axes. Raises ValueError that begins with the axis at fault."""
    for combination in itertools.product(*axes.values()):
        try:
            yield found.problem.from_axes(dict(zip(axes, combination, strict=True)))
        except TypeError as error:  # a required axis is missing
            missing = str(error).rpartition(": ")[2].strip("'")
            raise ValueError(f"{missing}: this axis must be given") from None


def hint(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them."""
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    return f"; did you mean {nearest[0]!r}?" if nearest else f"; known: {', '.join(sorted(known))}"
