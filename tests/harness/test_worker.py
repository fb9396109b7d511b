"""The real worker process on a user's file whose implementations do right, wrong and worse."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.executor import WorkerExecutor
from harness.protocol import Probed
from harness.types import Case, Result, Scalar, Status

PLUGIN = Path(__file__).with_name("worker_plugin.py")
METRICS = ["accuracy", "counts", "energy", "latency", "memory", "throughput"]
SPEED = {"s", "FLOP/s", "B/s", "J"}

#: implementation -> the status of its row, and words of the reason
OUTCOMES = {
    "wrong": (Status.INCORRECT, "the output is off by 1.00e-02"),
    "not_a_number": (Status.INCORRECT, "the output is not finite"),
    "changes_its_inputs": (Status.INCORRECT, "it changes its inputs"),
    "keeps_its_answer": (Status.INCORRECT, "the output is off by"),
    "widens": (Status.ERROR, "the result is torch.float64, not a tensor of float32"),
    "raises": (Status.ERROR, "RuntimeError during set-up: seven stages do not fit"),
    "declines": (Status.UNSUPPORTED, "no such length"),
    "declines_at_once": (Status.UNSUPPORTED, "no such head_dim"),
    "elsewhere": (Status.UNSUPPORTED, "needs a GPU"),
    "greedy": (Status.OOM, "can't allocate memory"),
    "greedy_on_cuda": (Status.OOM, "Tried to allocate 7.00 TiB"),
}


def case(name: str, **axes: Scalar) -> Case:
    return Case(name, "attention", "cpu", {"seq_len": 32, "heads": 2, "head_dim": 16, **axes})


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerExecutor]:
    log = tmp_path_factory.mktemp("worker") / "worker.log"
    made = WorkerExecutor("cpu", "attention", 120.0, log, plugins=(str(PLUGIN),))
    made.ready(False)
    yield made
    made.close()


def measure(executor: WorkerExecutor, *cases: Case, metrics: list[str] = METRICS) -> dict[str, Result]:
    before = executor._children[False].process.pid
    rows = {
        row.case.implementation: row for row in executor.measure(cases, False, metrics, lambda touch: None)
    }
    assert executor._children[False].process.pid == before, "the worker lives on"
    return rows


def probe(executor: WorkerExecutor, name: str) -> Probed:
    return executor.probe(case(name), False, run=True)


@pytest.fixture(scope="module")
def rows(executor: WorkerExecutor) -> dict[str, Result]:
    """One group of all of them; who does right comes last."""
    return measure(executor, *(case(name) for name in (*OUTCOMES, "rough", "witness", "right")))


@pytest.mark.parametrize("name", OUTCOMES)
def test_who_fails_says_how_and_has_no_speed(rows: dict[str, Result], name: str) -> None:
    status, words = OUTCOMES[name]
    assert (rows[name].status, words in rows[name].reason) == (status, True), rows[name].reason
    assert not [q for q, found in rows[name].metrics.items() if found.unit in SPEED]
    assert rows[name].timing == {}


def test_who_does_right_is_measured_beside_them(rows: dict[str, Result]) -> None:
    row = rows["right"]
    assert row.status is Status.OK, row.reason
    known = {
        "cpu_time",
        "wall_time",
        "peak_memory",
        "error",
        "error_ratio",
        "flops",
        "flop_rate",
        "byte_rate",
    }
    assert known <= set(row.metrics)
    assert row.metrics["cpu_time"].value > 0
    assert len(row.metrics["cpu_time"].samples) == len(rows["rough"].metrics["cpu_time"].samples)
    assert row.notes["energy"].startswith("unknown: the CPU has no energy counter")
    assert "aten::bmm" in row.kernels
    assert row.timing["judged"] == "cpu_time"


def test_an_approximation_is_measured_and_labelled(rows: dict[str, Result]) -> None:
    row = rows["rough"]
    assert row.status is Status.OK, row.reason
    assert row.metrics["error"].value == pytest.approx(0.01, rel=1e-3)
    assert row.notes["accuracy"].startswith("approximation")
    assert "cpu_time" in row.metrics


def test_an_incorrect_case_keeps_its_evidence(rows: dict[str, Result]) -> None:
    assert rows["wrong"].metrics["error_ratio"].value > 2
    assert "error" not in rows["not_a_number"].metrics, "a failure is never a number"


def test_after_an_out_of_memory_nothing_keeps_the_tensors_alive(
    executor: WorkerExecutor, rows: dict[str, Result]
) -> None:
    assert rows["witness"].status is Status.OK, rows["witness"].reason
    (next_row,) = measure(executor, case("witness", seq_len=48), metrics=["accuracy"]).values()
    assert next_row.status is Status.OK, next_row.reason


def test_a_wrong_gradient_is_incorrect(executor: WorkerExecutor) -> None:
    both = [case(name, pass_="forward_backward") for name in ("wrong_gradient", "right")]
    found = measure(executor, *both, metrics=["accuracy", "latency"])
    assert found["wrong_gradient"].status is Status.INCORRECT
    assert "gradient by q is off" in found["wrong_gradient"].reason
    assert set(found["wrong_gradient"].metrics) >= {"error", "grad_q_error"}
    assert "cpu_time" not in found["wrong_gradient"].metrics
    assert found["right"].status is Status.OK, found["right"].reason
    assert "cpu_time" in found["right"].metrics


def test_no_speed_without_correctness_whatever_was_asked_for(executor: WorkerExecutor) -> None:
    found = measure(executor, case("wrong"), case("right"), metrics=["latency"])
    assert found["wrong"].status is Status.INCORRECT
    assert "cpu_time" not in found["wrong"].metrics
    assert "cpu_time" in found["right"].metrics


def test_a_backward_pass_alone_is_measured_beside_others(executor: WorkerExecutor) -> None:
    group = [
        case(name, **{"pass": "backward"}) for name in ("right", "changes_its_inputs", "rough", "sdpa_math")
    ]
    found = measure(executor, *group, metrics=["latency", "memory"])
    for name in ("right", "rough", "sdpa_math"):
        assert found[name].status in (Status.OK, Status.UNSTABLE), found[name].reason
        assert "cpu_time" in found[name].metrics


def test_a_probe_predicts_and_times(executor: WorkerExecutor) -> None:
    found = probe(executor, "right")
    assert found.result is None
    assert found.setup is not None
    assert found.call is not None
    assert 0 < found.call < 10
    products = 2 * 2 * 2 * 32 * 32 * 16
    assert found.flops == products
    assert found.peak_bytes is not None
    assert found.peak_bytes >= 4 * (2 * 32 * 16 * 4) + 2 * 32 * 32 * 4


@pytest.mark.parametrize("name", ["raises", "declines", "declines_at_once", "elsewhere", "greedy_on_cuda"])
def test_a_probe_that_fails_has_the_status_of_the_case(executor: WorkerExecutor, name: str) -> None:
    found = probe(executor, name).result
    assert found is not None
    status, words = OUTCOMES[name]
    assert found.status is status
    assert words.rpartition(": ")[2] in found.reason


def test_what_would_not_fit_is_skipped_before_it_is_allocated(executor: WorkerExecutor) -> None:
    found = probe(executor, "greedy").result
    assert found is not None
    assert found.status is Status.SKIPPED
    assert "predicted peak memory 5,629,499,534,2" in found.reason


def test_the_environment_is_strict_json_with_its_commit(executor: WorkerExecutor) -> None:
    found = executor.ready(False).environment
    text = json.dumps(dataclasses.asdict(found), allow_nan=False)
    assert json.loads(text)["device"]["kind"] == "cpu"
    assert found.device.facts["threads"] == 1
    assert (found.git_commit is None) == (found.git_dirty is None)
    assert "null" not in json.dumps([dict(found.host), dict(found.packages), dict(found.device.facts)])
