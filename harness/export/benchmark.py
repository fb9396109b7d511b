"""What every format can say of a case: a name, its samples, and numbers beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.gate.reading import TIMES
from harness.types import Measurement, Result, Run, Scalar, Status


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One timed case.

    samples   seconds per call, in the order they were taken; the stored value alone where there are none
    value     seconds: what the harness judges by; low, high  its interval
    extra     quantity -> (value, unit of storage)
    """

    name: str
    group: str
    parameters: Mapping[str, Scalar]
    quantity: str
    value: float
    low: float | None
    high: float | None
    samples: tuple[float, ...]
    extra: Mapping[str, tuple[float, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exported:
    """A run to be written: its timed cases, and how many were left out because they have no time."""

    run: Run
    benchmarks: tuple[Benchmark, ...]
    left_out: int

    @classmethod
    def of(cls, run: Run, rows: Sequence[Result]) -> Exported:
        """The cases that ended ok and have a time."""
        found = tuple(_benchmarks(rows))
        return cls(run, found, len(rows) - len(found))


def _benchmarks(rows: Sequence[Result]) -> Iterator[Benchmark]:
    for row in rows:
        quantity = judged(row)
        if row.status is Status.OK and quantity:
            measured: Measurement = row.metrics[quantity]
            swept = ",".join(f"{axis}={value}" for axis, value in sorted(row.case.problem.items()))
            yield Benchmark(
                name=f"{row.case.implementation}/{row.case.device.partition(':')[0]}/{swept}",
                group=swept,
                parameters={"implementation": row.case.implementation, **row.case.problem},
                quantity=quantity,
                value=measured.value,
                low=measured.low,
                high=measured.high,
                samples=measured.samples or (measured.value,),
                extra={
                    name: (found.value, found.unit) for name, found in row.metrics.items() if name != quantity
                },
            )


def judged(row: Result) -> str:
    """The time that the harness judges by, or "" where the row has none."""
    named = str(row.timing.get("judged", ""))
    return named if named in row.metrics else next((name for name in TIMES if name in row.metrics), "")
