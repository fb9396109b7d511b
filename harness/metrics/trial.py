"""A case while it is being measured in the worker: what to call, and what is known so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness.types import Case, Measurement, Result, Scalar, Status
from implementations.operation import Operation
from implementations.registry import Implementation, Unsupported

#: The units of what only a case that ended well may claim.
SPEED = frozenset({"s", "FLOP/s", "B/s", "J"})


class Announce(Protocol):
    """Says what the worker is busy with, and the seconds per call seen so far, if any."""

    def __call__(self, stage: str, live: float | None = None) -> None:
        """Announce."""


@dataclass(slots=True)
class Trial:
    """One case in the worker.

    inputs   the problem's tensors, shared by all trials of a group
    call     runs the problem's pass once; what is timed
    outputs  runs it once and returns (output, gradients); gradients is empty for a forward pass
    touch    announces to the runner which case the worker is busy with, so that a crash finds its cause
    result   what is known so far; metrics add to it through `record`
    """

    case: Case
    operation: Operation
    implementation: Implementation
    problem: Any
    interpreted: bool
    result: Result
    inputs: Any = None
    call: Callable[[], object] = lambda: None
    outputs: Callable[[], tuple[Any, tuple[Any, ...]]] = lambda: (None, ())
    touch: Announce = lambda stage, live=None: None

    @property
    def alive(self) -> bool:
        """Whether there is still something to measure."""
        return self.result.status is Status.OK

    def record(
        self,
        metrics: Mapping[str, Measurement] | None = None,
        *,
        notes: Mapping[str, str] | None = None,
        flags: tuple[str, ...] = (),
        kernels: tuple[str, ...] = (),
        timing: Mapping[str, Scalar] | None = None,
    ) -> None:
        """Add findings to the result."""
        known = self.result
        self.result = replace(
            known,
            metrics={**known.metrics, **(metrics or {})},
            notes={**known.notes, **(notes or {})},
            flags=known.flags + flags,
            kernels=known.kernels or kernels,
            timing={**known.timing, **(timing or {})},
        )

    def end(self, status: Status, reason: str) -> None:
        """End the case with a status other than ok; findings so far are kept, but no speed.

        An unstable one keeps its times: they are what shows that it is. The tensors go at once: the others of
        its group need the memory.
        """
        kept = self.result.metrics
        if status is not Status.UNSTABLE:
            kept = {name: found for name, found in kept.items() if found.unit not in SPEED}
        self.result = replace(self.result, status=status, reason=reason, metrics=kept)
        self.inputs, self.call, self.outputs = None, lambda: None, lambda: (None, ())

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Work on this case: announce it, and turn what it raises into a status with a reason."""
        self.touch(name)
        try:
            yield
        except Exception as error:
            if poisons(error):
                raise
            self.end(*failure(error, name))


#: What CUDA says when a kernel has destroyed the process's context: every later call fails as well.
_POISON = (
    "illegal memory access",
    "misaligned address",
    "illegal instruction",
    "device-side assert",
    "unspecified launch failure",
    "launch timed out",
    "uncorrectable ECC error",
    "hardware stack error",
)


def poisons(error: Exception) -> bool:
    """Whether nothing can be measured in this process any more: the worker must end and be replaced."""
    text = str(error)
    return "CUDA" in text and any(words in text for words in _POISON)


def failure(error: Exception, stage: str) -> tuple[Status, str]:
    """The status and reason of an exception."""
    if isinstance(error, Unsupported):
        return Status.UNSUPPORTED, str(error) or f"unsupported, as {stage} found"
    words = f"{type(error).__name__} during {stage}: {str(error).strip() or 'no message'}"
    out_of_memory = isinstance(error, MemoryError) or (
        type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    )
    return (Status.OOM if out_of_memory else Status.ERROR), words[:2000]
