"""What ran before a case does not change its time, in the worker as users run it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.executor import WorkerExecutor
from harness.types import Case, Scalar, Status


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[WorkerExecutor]:
    made = WorkerExecutor("cpu", "attention", 60.0, tmp_path / "worker.log")
    yield made
    made.close()


def seconds(executor: WorkerExecutor, **axes: Scalar) -> float:
    """CPU time of naive attention, whose matrices an allocator in a bad mood faults in anew each call."""
    case = Case("naive", "attention", "cpu", {"heads": 4, "head_dim": 64, **axes})
    (row,) = executor.measure([case], False, ["latency"], lambda touch: None)
    assert row.status is Status.OK, row.reason
    return row.metrics["cpu_time"].value


def test_the_same_case_first_middle_and_last_agrees(executor: WorkerExecutor) -> None:
    """Within 10 % of CPU time. A machine that is busy enough to fool CPU time gets more attempts: what an
    allocator did would fail them all."""

    def spread() -> float:
        times = [seconds(executor, seq_len=256)]
        for other in (1024, 64):
            seconds(executor, seq_len=other)
            times.append(seconds(executor, seq_len=256))
        return max(times) / min(times) - 1

    assert any(spread() < 0.1 for _ in range(20))
