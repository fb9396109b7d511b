"""What an implementation will need for a problem, found on fake tensors: nothing is allocated or computed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from harness import passes
from harness.counting.eager import EagerCounts, OpCounts, TooManyOperators, count, tensors_of
from harness.counting.formulas import NoFormula
from harness.counting.grid import operation_variables, resized
from harness.counting.polynomial import NotPolynomial, lowest_degree
from implementations.registry import Implementation, Unsupported

#: Operator calls that are followed directly, some 0.2 ms each; longer programs are extrapolated.
MAX_CALLS = 2_000
#: A long program is counted at these multiples of a power of two that is at least STEP.
MULTIPLES = (2, 3, 4, 5, 6, 8)
STEP = 64
#: No count here grows faster than the square of a size.
HIGHEST_DEGREE = 2


class Untraceable(RuntimeError):
    """The implementation cannot be followed on fake tensors; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """counts        of one pass
    input_bytes   the problem's tensors, the output's gradient included
    extrapolated  from which sizes, in words; empty when the problem itself was followed
    unconfirmed   figures of the counts that a straight line continues for want of a polynomial that holds
    """

    counts: EagerCounts
    input_bytes: int
    extrapolated: str = ""
    unconfirmed: frozenset[str] = frozenset()

    @property
    def peak_bytes(self) -> int:
        """Inputs and peak live storage together: what must be free before the case may start."""
        return self.input_bytes + self.counts.peak_bytes

    @property
    def flops(self) -> int:
        """FLOPs of one pass."""
        return self.counts.flops

    @property
    def bytes(self) -> int:
        """Bytes touched by one pass."""
        return self.counts.bytes


def trace(implementation: Implementation, problem: Any, max_calls: int = MAX_CALLS) -> Prediction:
    """Counts of one pass of an implementation on fake CPU tensors.

    A backward pass is counted alone, over a graph whose saved tensors are live. A program of more than
    `max_calls` operators is counted at smaller sizes and extrapolated by the exact polynomial through them.
    Raises Untraceable with the reason in words: Triton kernels, compiled code, operators without a formula.
    """
    if implementation.interpreted_on or implementation.kernel_builds is not None:
        raise Untraceable("its kernels are Triton's: only the interpreter sees inside them")
    try:
        return follow(implementation, problem, max_calls)
    except TooManyOperators as error:
        try:
            return _extrapolate(implementation, problem, max_calls)
        except (NotPolynomial, TooManyOperators) as why:
            raise Untraceable(f"{error}, and it cannot be extrapolated: {why}") from why


def predict(implementation: Implementation, problem: Any) -> Prediction | None:
    """`trace`, or None where that cannot be done. Remembered: a worker asks twice."""
    return _predict(_Same(implementation), problem)


class _Same:
    """An implementation as a key of a cache: it is equal to itself only."""

    def __init__(self, implementation: Implementation) -> None:
        self.it = implementation

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.it is self.it


@lru_cache(maxsize=256)
def _predict(implementation: _Same, problem: Any) -> Prediction | None:
    try:
        return trace(implementation.it, problem)
    except Untraceable:
        return None


def predicted_peak_bytes(implementation: Implementation, problem: Any) -> int | None:
    """Bytes that inputs and live storage will take together, or None where that cannot be told."""
    prediction = predict(implementation, problem)
    return prediction.peak_bytes if prediction else None


def follow(implementation: Implementation, problem: Any, max_calls: int | None = None) -> Prediction:
    """Counts of the problem itself, operator by operator. Raises Untraceable, TooManyOperators."""
    try:
        with FakeTensorMode():
            return _follow(implementation, problem, max_calls)
    except TooManyOperators:
        raise
    except (NoFormula, Unsupported) as error:
        raise Untraceable(f"not followed on fake CPU tensors: {error}") from error
    except Exception as error:
        words = (str(error).strip() or "no message").splitlines()[0][:300]
        raise Untraceable(f"it does not run on fake tensors ({type(error).__name__}: {words})") from error


def _follow(implementation: Implementation, problem: Any, max_calls: int | None) -> Prediction:
    inputs = problem.inputs("cpu")
    storages = {id(t.untyped_storage()): t.untyped_storage().nbytes() for t in tensors_of(inputs)}
    run = implementation.prepare(problem)
    with _uncompiled():
        # The first call may draw features or build masks that later ones find: what is timed is a later one.
        count(passes.bind("forward", run, inputs).call, inputs, max_calls=max_calls)
        bound = passes.bind(problem.pass_, run, inputs)
        first: Callable[[], object] | None = bound.call if problem.pass_ == "backward" else None
        counts = count(bound.call, inputs, first=first, max_calls=max_calls)
    return Prediction(counts, sum(storages.values()))


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Compiled functions run as written: compiling takes seconds and hides the operators."""
    if "torch._dynamo" not in sys.modules:  # nothing was compiled, and importing it takes seconds
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def _extrapolate(implementation: Implementation, problem: Any, max_calls: int) -> Prediction:
    """Counts at sizes congruent to the problem's, then the polynomial through them at the problem's own."""
    axis = operation_variables(problem)["n"]
    size = int(problem.axes()[axis])
    same = _Same(implementation)
    step = _step(same, resized(problem, axis, size % STEP + 4 * STEP), axis, max_calls)
    smaller = _family(same, resized(problem, axis, size % step + step), axis, step, max_calls)
    ops = {n: {op.name: op for op in p.counts.ops} for n, p in smaller.items()}
    unconfirmed: set[str] = set()
    # Operator by operator: each one's live bytes follow a rule where the peak, their maximum, changes rules.
    counts = EagerCounts.of(
        tuple(
            _operator_at(size, name, {n: found.get(name) for n, found in ops.items()}, unconfirmed)
            for name in dict.fromkeys(name for found in ops.values() for name in found)
        )
    )
    return Prediction(
        counts,
        int(lowest_degree("n", {n: p.input_bytes for n, p in smaller.items()}, 1).at((size,))),
        f"the exact polynomial through {axis} = {', '.join(map(str, smaller))}",
        frozenset("peak_bytes" if name == "live_bytes" else name for name in unconfirmed),
    )


def _operator_at(
    size: int, name: str, counted: dict[int, OpCounts | None], unconfirmed: set[str]
) -> OpCounts:
    figures: dict[str, int] = {}
    for field in (f.name for f in fields(OpCounts) if f.name != "name"):
        values = {n: getattr(op, field) if op else 0 for n, op in sorted(counted.items())}
        try:
            figures[field] = _value_at(size, values)
        except NotPolynomial:
            if field not in ("live_bytes", "depth"):
                raise
            unconfirmed.add(field)  # maxima whose rule changes among these sizes
            (a, low), (b, high) = list(values.items())[-2:]
            figures[field] = high + -(-(high - low) * (size - b) // (b - a))
    return OpCounts(name, **figures)


@lru_cache(maxsize=256)
def _step(implementation: _Same, probe: Any, axis: str, max_calls: int) -> int:
    """The largest step whose biggest multiple stays below `max_calls`, for the sake of large chunks."""
    calls = sum(op.calls for op in follow(implementation.it, probe, max_calls).counts.ops)
    room = int(probe.axes()[axis]) * max_calls // (calls * MULTIPLES[-1])
    return max(STEP, 1 << (room.bit_length() - 1) if room else STEP)


@lru_cache(maxsize=64)
def _family(
    implementation: _Same, member: Any, axis: str, step: int, max_calls: int
) -> dict[int, Prediction]:
    """Counts at the multiples of a step, plus what is left of the member's size beyond one step."""
    left = int(member.axes()[axis]) - step
    sizes = [left + multiple * step for multiple in MULTIPLES]
    return {n: follow(implementation.it, resized(member, axis, n), 4 * max_calls) for n in sizes}


def _value_at(size: int, counts: dict[int, int]) -> int:
    """The polynomial through all counts, or through the largest when small sizes obey another rule."""
    for dropped in (0, 1, 2):
        kept = dict(list(counts.items())[dropped:])
        try:
            return int(lowest_degree("n", kept, HIGHEST_DEGREE).at((size,)))
        except NotPolynomial as error:
            last = error
    raise last
