"""What is certified of a suite: one case for every setting of the axes that certificates do not vary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.counting.grid import resized
from harness.suite import Suite
from harness.types import Case, Scalar
from implementations.registry import lookup

#: Where the interpreter counts: it runs whole programs, so few and small. Multiples of a usual tile; where
#: tiles are larger, `certify_interpreted` takes twice these.
INTERPRETED_LENGTHS = (64, 128, 192, 256, 320)
#: Of these the interpreter counts one; its counts are per head and batch item.
PINNED = ("heads", "batch")
#: A sweep of so many sizes has a growth to certify.
SWEPT = 3


@dataclass(frozen=True, slots=True)
class Family:
    """Cases that differ in sizes only, and the sizes of law variables at which one of them is counted.

    pinned  axes that are set to 1 for the count, whatever the suite has
    """

    case: Case
    interpreted: bool
    sizes: Mapping[str, tuple[int, ...]]
    pinned: tuple[str, ...] = ()


def families(suite: Suite) -> Iterator[Family]:
    """The families of a suite, each counted on the CPU: no other device is needed."""
    for part in suite.parts:
        yield from _families(part)


def _families(suite: Suite) -> Iterator[Family]:
    for name in suite.implementations:
        interpreted = lookup(name).runs_interpreted("cpu")
        pinned = _pinned(suite) if interpreted else {}
        lead = lead_variable(suite)
        axes = _settings(suite, [lead] if interpreted else [lead, *suite.operation.counted_at])
        narrowed = replace(suite, implementations=(name,), axes=axes | pinned)
        for group in narrowed.groups("cpu"):
            sizes = {lead: INTERPRETED_LENGTHS} if interpreted else _sizes(suite, lead, group.problem)
            for case in group.cases:
                yield Family(case, interpreted, sizes, tuple(pinned))


def sweeps_a_size(suite: Suite) -> bool:
    """Whether the suite sweeps a variable of its laws, so that there is growth to certify."""
    return any(len(suite.axes.get(axis, ())) >= SWEPT for axis in suite.operation.variables.values())


def lead_variable(suite: Suite) -> str:
    """The variable whose growth is certified: the length, or that of the keys where it alone is swept."""
    variables = suite.operation.variables
    swept = [v for v in ("n", "m") if len(suite.axes.get(variables.get(v, ""), ())) > 1]
    return swept[0] if swept else "n"


def _settings(suite: Suite, varied: Sequence[str]) -> dict[str, tuple[Scalar, ...]]:
    """The axes with one value of those that certificates vary themselves, the lead first."""
    variables = suite.operation.variables
    axes = {**suite.axes, variables[varied[0]]: (INTERPRETED_LENGTHS[0],)}
    for axis in (variables[variable] for variable in varied if variable != "n"):
        if len(axes.get(axis, ())) >= SWEPT:
            axes[axis] = axes[axis][:1]
    return axes


def _pinned(suite: Suite) -> dict[str, tuple[Scalar, ...]]:
    """One of each, and whatever is shared between several."""
    known = suite.operation.variables
    shared = [axis for axis in ("kv_heads",) if axis in suite.axes]
    return dict.fromkeys((*(known[v] for v in PINNED if v in known), *shared), (1,))


def _sizes(suite: Suite, lead: str, problem: object) -> dict[str, tuple[int, ...]]:
    """Where to count: without the variables that the problem does not let vary (shared heads, say)."""
    counted = suite.operation.counted_at
    others = {v: sizes for v, sizes in counted.items() if v != "n" and _varies(suite, problem, v, sizes)}
    return {lead: counted["n"], **others}


def _varies(suite: Suite, problem: object, variable: str, sizes: Iterable[int]) -> bool:
    try:
        for size in sizes:
            resized(problem, suite.operation.variables[variable], size)
    except ValueError:
        return False
    return True
