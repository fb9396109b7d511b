"""A child that hangs, crashes or talks nonsense costs its case, in bounded time, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.executor import WorkerExecutor
from harness.types import BenchError, Case, Result, Status

FAKE = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))

#: implementation -> the status and words its row must have
OUTCOMES = {
    "sleeps": (Status.TIMEOUT, "no sign of life for 1 s"),
    "segfaults": (Status.CRASHED, "SIGSEGV"),
    "killed": (Status.CRASHED, "SIGKILL"),
    "exits": (Status.ERROR, "code 0 and without a result"),
    "fails": (Status.ERROR, "code 3"),
    "babbles": (Status.ERROR, "unreadable answer"),
    "floods": (Status.ERROR, "a line without an end"),
}


def case(name: str) -> Case:
    return Case(name, "attention", "cpu", {"seq_len": 64})


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[WorkerExecutor]:
    made = WorkerExecutor("cpu", "attention", 1.0, tmp_path / "worker.log", command=FAKE)
    yield made
    made.close()


def measured(executor: WorkerExecutor, *names: str) -> dict[str, Result]:
    rows = executor.measure([case(n) for n in names], False, ["latency"], lambda touch: None)
    return {row.case.implementation: row for row in rows}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_bad_case_costs_its_row_alone(executor: WorkerExecutor, name: str) -> None:
    status, words = OUTCOMES[name]
    started = time.monotonic()
    rows = measured(executor, "first", name, "last")
    assert time.monotonic() - started < 20
    assert rows[name].status is status
    assert words in rows[name].reason
    assert rows["first"].status is rows["last"].status is Status.OK


def test_the_reasons_are_distinct(executor: WorkerExecutor) -> None:
    rows = measured(executor, *OUTCOMES)
    assert len({row.reason for row in rows.values()}) == len(OUTCOMES)


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_bad_probe_is_a_row(executor: WorkerExecutor, name: str) -> None:
    probed = executor.probe(case(name), False, run=True)
    assert probed.result is not None
    assert probed.result.status is OUTCOMES[name][0]
    assert executor.probe(case("fine"), False, run=True).result is None


def test_what_a_case_prints_is_no_answer(executor: WorkerExecutor) -> None:
    assert measured(executor, "prints")["prints"].status is Status.OK
    assert "junk on standard output" in executor.log.read_text()


def test_a_worker_that_dies_after_its_last_row_costs_nothing(executor: WorkerExecutor) -> None:
    rows = measured(executor, "first", "dies_after_its_row")
    assert [row.status for row in rows.values()] == [Status.OK, Status.OK]
    assert measured(executor, "next")["next"].status is Status.OK


def test_a_reason_quotes_no_earlier_worker(executor: WorkerExecutor) -> None:
    executor.log.write_text("Traceback of a worker before\n")
    assert measured(executor, "fails")["fails"].reason.endswith("it printed nothing")


def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "raise SystemExit('no torch here')")
    executor = WorkerExecutor("cpu", "attention", 1.0, tmp_path / "log", command=command)
    with pytest.raises(BenchError, match="no torch here"):
        executor.ready(False)


def test_the_real_worker_dies_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import time\nfrom pathlib import Path\nfrom harness.executor import WorkerExecutor\n"
        f"e = WorkerExecutor('cpu', 'attention', 60.0, Path({str(tmp_path / 'log')!r}))\n"
        "e.ready(False)\nprint(e._children[False].process.pid, flush=True)\ntime.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(child)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_closing_ends_the_children(executor: WorkerExecutor) -> None:
    executor.ready(False)
    pid = executor._children[False].process.pid
    executor.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
