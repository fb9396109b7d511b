"""A problem at other sizes, and the sizes at which it is counted for a certificate. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import gcd
from typing import Any

from harness.counting.polynomial import Sizes
from implementations.operation import Operation, operation

#: Sizes of the first variable that are combined with all but the last of the others.
COMBINED = 4
#: Axes that change no count.
OF_NO_ACCOUNT = ("seed", "distribution", "layer", "input_scale")


def resized(problem: Any, axis: str, size: int) -> Any:
    """The problem with another size of one axis, and of those that follow it (kv_len follows seq_len)."""
    axes = problem.axes()
    return type(problem).from_axes(axes | dict.fromkeys({axis, *_followers(problem, axis)}, size))


def _followers(problem: Any, axis: str) -> Iterator[str]:
    """The axes that were left out, or might have been, and so are what this axis is."""
    axes = problem.axes()
    for follower, leader in _operation(problem).follows.items():
        if leader == axis and axes.get(follower) == axes[leader]:
            yield follower


def _operation(problem: Any) -> Operation:
    return operation(type(problem).__module__.split(".")[1])


def operation_variables(problem: Any) -> dict[str, str]:
    """Law variable -> axis, of the operation that the problem belongs to."""
    return dict(_operation(problem).variables)


@dataclass(frozen=True, slots=True)
class Grid:
    """A problem and the sizes of law variables that it is counted at: {"n": (256, 512, …), "d": (16, …)}."""

    problem: Any
    sizes: Mapping[str, Sequence[int]]

    @property
    def variables(self) -> list[str]:
        """The variables, the length first."""
        return list(self.sizes)

    @property
    def own(self) -> Sizes:
        """The problem's own sizes."""
        axes = self.problem.axes()
        return tuple(int(axes[axis]) for axis in self._axes(self.variables))

    @property
    def points(self) -> list[Sizes]:
        """Few where programs are long, and enough to determine a polynomial and to confirm it.

        The first sizes of the first variable with all but the last of the others, which determine it; then
        each variable by itself over all its sizes, the others as in the problem.
        """
        first, *others = (tuple(levels) for levels in self.sizes.values())
        own = self.own
        points = set(product(first[:COMBINED], *(levels[:-1] for levels in others)))
        points |= {(size, *own[1:]) for size in first}
        for axis, levels in enumerate(others, start=1):
            points |= {
                (size, *own[1:axis], level, *own[axis + 1 :]) for level in levels for size in first[:2]
            }
        return sorted(points)

    @property
    def step(self) -> int:
        """All sizes of the first variable are multiples of this."""
        return gcd(*next(iter(self.sizes.values())))

    @property
    def between(self) -> Sizes:
        """Sizes of which the first is a multiple of no block: does the polynomial hold there as well?"""
        lengths = sorted(next(iter(self.sizes.values())))
        return (lengths[len(lengths) // 2] - self.step // 2 - 3, *self.own[1:])

    def at(self, sizes: Sizes) -> Any:
        """The problem at other sizes of its variables."""
        problem = self.problem
        for axis, size in zip(self._axes(self.variables), sizes, strict=True):
            problem = resized(problem, axis, size)
        return problem

    def fixed(self, variables: Iterable[str]) -> str:
        """What certificates in these variables hold fixed, in words."""
        return describe(self.problem, self._axes(variables))

    def _axes(self, variables: Iterable[str]) -> list[str]:
        known = operation_variables(self.problem)
        return [known[variable] for variable in variables]


def describe(problem: Any, varied: Sequence[str]) -> str:
    """A problem in words without the axes that vary, those that follow them, and what is as usual."""
    axes = problem.axes()
    followers = {follower for axis in varied for follower in _followers(problem, axis)}
    usual = {("pass" if f.name == "pass_" else f.name): f.default for f in fields(problem)}
    words = []
    for axis, value in axes.items():
        if axis in (*varied, *followers, *OF_NO_ACCOUNT) or value is None:
            continue
        if isinstance(value, bool):
            words.append(axis if value else f"not {axis}")
        elif axis in ("dtype", "pass"):
            words.append(str(value))
        elif isinstance(value, int) or value != usual[axis]:
            words.append(f"{axis}={value}")
    return ", ".join(words)
