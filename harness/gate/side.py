"""One side of a comparison: cases with their process-level values, from a run or a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.types import Environment, Scalar, Status


@dataclass(frozen=True, slots=True)
class Series:
    """Process-level values of one quantity: one a run, in the unit of storage, never raw samples."""

    unit: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One case of one side.

    metrics  quantity -> its values; "time" is the quantity that the timer judges by
    mode     how it was timed; times of different modes are different quantities
    no_data  quantities whose stored value was no finite number
    flags    doubts about the numbers
    """

    key: str
    problem: Mapping[str, Scalar]
    implementation: str
    status: Status
    reason: str = ""
    metrics: Mapping[str, Series] = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    mode: str = ""
    exact: bool = True
    no_data: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """A run, or a baseline.

    name         what the user called it      suite  name of the suite
    definition   what must agree for cases to be the same: operation, FLOP convention
    commits      of the code that was measured, the newest last
    """

    name: str
    suite: str
    definition: Mapping[str, str]
    environment: Environment
    records: Mapping[str, Record]
    commits: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
