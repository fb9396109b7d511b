"""The frozen records that travel between the stages: Case, Measurement, Result, Environment, Run.

Storage is in seconds, bytes and FLOPs. Unknown is absent, never 0; numbers are finite, so that every
record is strict JSON. This module imports no torch: reports and gates read it on any laptop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Scalar = bool | int | float | str | None


class Status(StrEnum):
    """How a case ended. Every status but `ok` carries a reason in words."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    INCORRECT = "incorrect"
    OOM = "oom"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    ERROR = "error"
    UNSTABLE = "unstable"
    SKIPPED = "skipped"


class BenchError(Exception):
    """What a user can cause and mend: the message names the place and the fix. `exit_code` is the CLI's."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Case:
    """One implementation on one problem on one device; `problem` holds the axes as plain data."""

    implementation: str
    operation: str
    device: str
    problem: Mapping[str, Scalar]

    @property
    def key(self) -> str:
        """Identifies the case within and across runs."""
        axes = ",".join(f"{axis}={self.problem[axis]}" for axis in sorted(self.problem))
        return f"{self.operation}/{self.implementation}/{self.device}/{axes}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One quantity of one case.

    unit       "s", "B", "FLOP", "FLOP/s", "B/s", "J" or "1" (a ratio)
    better     "lower", "higher" or "none" where neither is
    low, high  95 % interval of `value` where there is one
    samples    the raw samples, in the order they were taken
    note       what a reader must know: the convention, or why to be careful
    Raises ValueError when a number is not finite.
    """

    value: float
    unit: str
    better: str = "lower"
    low: float | None = None
    high: float | None = None
    samples: tuple[float, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        numbers = [self.value, *self.samples, *(x for x in (self.low, self.high) if x is not None)]
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError(f"a measurement must be finite, got {self}")


@dataclass(frozen=True, slots=True)
class Result:
    """One line of rows.jsonl.

    kernels  what actually ran: device kernel names, or the ATen operators
    notes    what was not measured, and why: quantity or metric -> words
    flags    doubts about the numbers in words (throttled, contended, overhead-bound …)
    timing   how it was timed: timer, threads, cache state, calls per sample
    """

    case: Case
    status: Status
    reason: str = ""
    metrics: Mapping[str, Measurement] = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    timing: Mapping[str, Scalar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status is not Status.OK and not self.reason:
            raise ValueError(f"{self.case.key}: status {self.status} needs a reason")


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device: what a reader must know to compare. Absent facts are None, with words in `unknown`."""

    kind: str
    name: str
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Environment:
    """Captured once per run."""

    device: DeviceInfo
    host: Mapping[str, Scalar]
    packages: Mapping[str, str]
    git_commit: str | None
    git_dirty: bool | None


@dataclass(frozen=True, slots=True)
class ImplementationCard:
    """What a report needs to know of an implementation without importing it."""

    name: str
    summary: str
    exact: bool
    laws: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Run:
    """run.json: everything about a run that is not a row."""

    schema: int
    suite: Mapping[str, Any]
    question: str
    operation: str
    variables: Mapping[str, str]
    flop_convention: str
    device: str
    started: str
    command: str
    environment: Environment
    implementations: tuple[ImplementationCard, ...]
    finished: str | None = None
