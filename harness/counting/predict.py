"""What an implementation will need for a problem, found on fake tensors: nothing is allocated or computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from harness import passes
from harness.counting.eager import EagerCounts, TooManyOperators, count, tensors_of
from harness.counting.formulas import NoFormula
from implementations.registry import Implementation

#: Operator calls that a prediction follows, about 50 µs each; longer programs are counted at smaller sizes.
MAX_CALLS = 20_000


class Untraceable(RuntimeError):
    """The implementation cannot be followed on fake tensors; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """counts       of one pass
    input_bytes  the problem's tensors, the output's gradient included
    """

    counts: EagerCounts
    input_bytes: int

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

    A backward pass is counted alone, over a graph whose saved tensors are live.
    Raises Untraceable with the reason in words: Triton kernels, compiled code, operators without a formula.
    """
    if implementation.interpreted_on or implementation.kernel_builds is not None:
        raise Untraceable("its kernels are Triton's: only the interpreter sees inside them")
    with _eager(), FakeTensorMode():
        try:
            return _trace(implementation, problem, max_calls)
        except (NoFormula, TooManyOperators) as error:
            raise Untraceable(str(error)) from error
        except Exception as error:
            words = (str(error).strip() or "no message").splitlines()[0][:300]
            raise Untraceable(f"it does not run on fake tensors ({type(error).__name__}: {words})") from error


def predict(implementation: Implementation, problem: Any) -> Prediction | None:
    """`trace`, or None where that cannot be done."""
    try:
        return trace(implementation, problem)
    except Untraceable:
        return None


def predicted_peak_bytes(implementation: Implementation, problem: Any) -> int | None:
    """Bytes that inputs and live storage will take together, or None where that cannot be told."""
    prediction = predict(implementation, problem)
    return prediction.peak_bytes if prediction else None


def _trace(implementation: Implementation, problem: Any, max_calls: int) -> Prediction:
    inputs = problem.inputs("cpu")
    storages = {id(t.untyped_storage()): t.untyped_storage().nbytes() for t in tensors_of(inputs)}
    bound = passes.bind(problem.pass_, implementation.prepare(problem), inputs)
    first: Callable[[], object] | None = bound.call if problem.pass_ == "backward" else None
    counts = count(bound.call, inputs, first=first, max_calls=max_calls)
    return Prediction(counts, sum(storages.values()))


@contextmanager
def _eager() -> Iterator[None]:
    """Compiled functions run as written: compiling takes seconds and hides the operators."""
    with torch.compiler.set_stance("force_eager"):
        yield
