"""What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from harness.format import seconds as in_words
from harness.protocol import Touch
from harness.types import Case, Result, Scalar, Status


class Progress(Protocol):
    """What the runner tells."""

    def begin(self, total: int) -> None:
        """So many cases are to be done."""

    def probe(self, case: Case) -> None:
        """The case is being predicted."""

    def certify(self, case: Case) -> None:
        """The case is being counted at many sizes."""

    def touch(self, touch: Touch) -> None:
        """The worker is busy with this."""

    def row(self, result: Result, left: float) -> None:
        """A row was written; about `left` seconds remain."""

    def end(self) -> None:
        """Nothing more comes."""


def label(implementation: str, problem: dict[str, Scalar], swept: Sequence[str]) -> str:
    """The implementation and the axes that the suite sweeps."""
    return " ".join([implementation, *(f"{axis}={problem[axis]}" for axis in swept)])


def judged_time(result: Result) -> float | None:
    """The time a row is judged by, in seconds."""
    for quantity in ("cpu_time", "gpu_time_cold", "gpu_time_hot"):
        if quantity in result.metrics:
            return result.metrics[quantity].value
    return None


def outcome(result: Result) -> str:
    """The row in a few words."""
    if result.status is not Status.OK:
        return f"{result.status}: {result.reason}"
    time_ = judged_time(result)
    if time_ is not None:
        return in_words(time_)
    error = result.metrics.get("error")
    found = [f"error {error.value:.1e}"] if error else ["ok"]
    return ", ".join(found + [result.notes[note] for note in ("latency",) if note in result.notes])


def time_left(left: float) -> str:
    """The predicted time that remains, to the second; nothing while it is not predicted or is over."""
    return f" ({left:.0f} s left)" if left >= 1 else ""


@dataclass(slots=True)
class PlainProgress:
    """One line a row, for logs; what an implementation cannot run is said once, and at the end how often."""

    console: Console
    swept: Sequence[str]
    total: int = 0
    done: int = 0
    alike: Counter[tuple[str, str]] = field(default_factory=Counter)

    def begin(self, total: int) -> None:
        """Say how many cases there are."""
        self.total = total
        self.console.print(f"{total} cases: predicting what they cost, then measuring")

    def probe(self, case: Case) -> None:
        """Nothing to say."""

    def certify(self, case: Case) -> None:
        """Nothing to say."""

    def touch(self, touch: Touch) -> None:
        """Nothing to say."""

    def row(self, result: Result, left: float) -> None:
        """One line."""
        self.done += 1
        if result.status is Status.UNSUPPORTED:
            same = result.case.implementation, outcome(result)
            self.alike[same] += 1
            if self.alike[same] > 1:
                return
        name = label(result.case.implementation, dict(result.case.problem), self.swept)
        self.console.print(
            f"[{self.done}/{self.total}] {name}: {outcome(result)}{time_left(left)}",
            soft_wrap=True,
        )  # fmt: skip

    def end(self) -> None:
        """How many rows were like one that was shown."""
        for (name, words), count in self.alike.items():
            if count > 1:
                self.console.print(f"{name}: {count} cases {words}", soft_wrap=True)


@dataclass(slots=True)
class BarProgress:
    """A bar with the case at work, its live median and the time left."""

    console: Console
    swept: Sequence[str]
    bar: Bar = field(init=False)
    task: TaskID = field(init=False)
    labels: dict[str, str] = field(default_factory=dict)
    medians: dict[str, float] = field(default_factory=dict)
    refreshed: float = 0.0

    def __post_init__(self) -> None:
        self.bar = Bar(
            BarColumn(24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}", markup=False),
            console=self.console,
        )
        self.task = self.bar.add_task("starting", total=None, left="")

    def begin(self, total: int) -> None:
        """Show the bar."""
        self.bar.start()
        self.bar.update(self.task, total=total)

    def probe(self, case: Case) -> None:
        """Show what is being predicted."""
        name = label(case.implementation, dict(case.problem), self.swept)
        self.labels[case.key] = name
        self.bar.update(self.task, description=f"predicting {name}")

    def certify(self, case: Case) -> None:
        """Show what is being counted."""
        self.bar.update(self.task, description=f"counting {case.implementation} at many sizes")

    def touch(self, touch: Touch) -> None:
        """Show the case, the stage and the latest live median; at most ten times a second."""
        if touch.live is not None:  # kept also when it comes between two refreshes
            self.medians[touch.key] = touch.live
        if time.monotonic() - self.refreshed < 0.1:
            return
        self.refreshed = time.monotonic()
        live = f" {in_words(self.medians[touch.key])}" if touch.key in self.medians else ""
        name = self.labels.get(touch.key, touch.key)
        self.bar.update(self.task, description=f"{name}: {touch.stage}{live}")

    def row(self, result: Result, left: float) -> None:
        """Advance; a row that is not ok is printed above the bar with its reason."""
        self.bar.update(self.task, advance=1, left=time_left(left))
        if result.status not in (Status.OK, Status.UNSUPPORTED):
            name = label(result.case.implementation, dict(result.case.problem), self.swept)
            self.console.print(f"{name}: {outcome(result)}")

    def end(self) -> None:
        """Take the bar away."""
        self.bar.stop()


def progress_for(console: Console, swept: Sequence[str]) -> Progress:
    """A bar on a terminal, plain lines elsewhere."""
    return BarProgress(console, swept) if console.is_terminal else PlainProgress(console, swept)
