"""The runner against an executor whose costs are exact: planning, budget, rows, resuming."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from harness.commands.choice import Choice
from harness.commands.measure import describe
from harness.devices.device import Sampling
from harness.executor import Listen
from harness.progress import PlainProgress
from harness.protocol import Certified, Probed, Ready, Touch
from harness.report import render
from harness.report.tables import complexity_table
from harness.runner import Runner, coverage
from harness.store import RunFolder, read_rows, read_run
from harness.suite import Suite
from harness.types import Case, DeviceInfo, Environment, Measurement, Result, Status
from implementations import registry
from implementations.attention import OPERATION

UNIT = 1e-9  # seconds per n²
SIZES = (64, 128, 256, 512, 1024, 2048)


def _quadratic(problem: object) -> Callable[[object], object]:
    """Costs exactly n² nanoseconds."""
    return lambda inputs: inputs


@pytest.fixture(scope="module", autouse=True)
def _fakes() -> Iterator[None]:
    """Two implementations that exist in this module alone: other tests run over the registry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
        register = partial(registry.implementation, operation="attention", exact=True)
        register("fake_quadratic", laws={"time": "n^2"})(_quadratic)
        register("fake_interpreted", laws={}, interpreted_on=["cpu"])(_quadratic)
        yield


@dataclass
class FakeExecutor:
    """Costs n²; records what it was asked."""

    refuses: frozenset[str] = frozenset()
    stops_after: int | None = None
    probed: list[tuple[str, object, bool]] = field(default_factory=list)
    lots: list[tuple[tuple[str, ...], object, bool]] = field(default_factory=list)
    certified: list[tuple[str, bool, list[str]]] = field(default_factory=list)

    def ready(self, interpreted: bool) -> Ready:
        environment = Environment(DeviceInfo("cpu", "fake"), {}, {}, None, None)
        return Ready(environment, Sampling(20, 20, 2.0, 0.0))

    def probe(self, case: Case, interpreted: bool, run: bool) -> Probed:
        n = case.problem["seq_len"]
        assert isinstance(n, int)
        self.probed.append((case.implementation, n, run))
        refused = Result(case, Status.UNSUPPORTED, "no") if case.implementation in self.refuses else None
        call = n * n * UNIT if run else None
        return Probed(case, refused, call, call, n * n, n * n, n * n)

    def measure(
        self, cases: Sequence[Case], interpreted: bool, metrics: Sequence[str], listen: Listen
    ) -> Iterator[Result]:
        n = cases[0].problem["seq_len"]
        assert isinstance(n, int)
        self.lots.append((tuple(case.implementation for case in cases), n, interpreted))
        if self.stops_after is not None and len(self.lots) > self.stops_after:
            raise KeyboardInterrupt
        for case in cases:
            listen(Touch(case.key, "time", n * n * UNIT))
            yield Result(
                case,
                Status.OK,
                metrics={"cpu_time": Measurement(n * n * UNIT, "s", samples=(n * n * UNIT,) * 5)},
            )

    def certify(self, case: Case, interpreted: bool, sizes: Mapping[str, tuple[int, ...]]) -> Certified:
        self.certified.append((case.implementation, interpreted, list(sizes)))
        return Certified((), {"counts": "fake"})

    def close(self) -> None:
        pass


def suite(*names: str, budget: float = 60.0) -> Suite:
    return Suite(
        name="study",
        question="How?",
        operation=OPERATION,
        implementations=names,
        axes={"seq_len": SIZES},
        metrics=("latency",),
        budget=budget,
        timeout=9.0,
        path=Path("study.yaml"),
    )


def run(folder: Path, executor: FakeExecutor, chosen: Suite) -> list[Result]:
    console = Console(quiet=True)
    done = {row.case.key for row in read_rows(folder)}
    Runner(chosen, "cpu", executor, RunFolder(folder), PlainProgress(console, ["seq_len"]), done).run()
    return list(read_rows(folder))


def test_every_case_has_one_row_with_its_exact_cost(tmp_path: Path) -> None:
    rows = run(tmp_path, FakeExecutor(), suite("fake_quadratic"))
    times = {row.case.problem["seq_len"]: row.metrics["cpu_time"].value for row in rows}
    assert times == {n: n * n * UNIT for n in SIZES}
    assert len(rows) == len(SIZES)


def test_sizes_are_probed_growing_and_measured_in_another_order(tmp_path: Path) -> None:
    executor = FakeExecutor()
    run(tmp_path, executor, suite("fake_quadratic"))
    assert [n for _, n, ran in executor.probed if ran] == list(SIZES)
    order = [n for _, n, _ in executor.lots]
    assert sorted(order, key=str) == sorted(SIZES, key=str)
    assert order != list(SIZES)


def test_interpreted_cases_go_to_their_own_worker(tmp_path: Path) -> None:
    executor = FakeExecutor()
    run(tmp_path, executor, suite("fake_quadratic", "fake_interpreted"))
    assert {(names, lane) for names, _, lane in executor.lots} == {
        (("fake_quadratic",), False),
        (("fake_interpreted",), True),
    }


def test_what_does_not_fit_the_budget_is_skipped_with_its_prediction(tmp_path: Path) -> None:
    # The largest size costs 24 calls of 4.2 ms, the others 20 samples of at least 2 ms each.
    rows = run(tmp_path, FakeExecutor(), suite("fake_quadratic", budget=0.28))
    skipped = [row for row in rows if row.status is Status.SKIPPED]
    assert [row.case.problem["seq_len"] for row in skipped] == [2048]
    assert "predicted 109 ms" in skipped[0].reason
    assert len(rows) == len(SIZES)


def test_a_size_too_costly_even_to_try_is_not_called(tmp_path: Path) -> None:
    executor = FakeExecutor()
    rows = run(tmp_path, executor, suite("fake_quadratic", budget=0.02))
    called = {n for _, n, ran in executor.probed if ran}
    assert 64 in called
    assert 2048 not in called
    assert len(rows) == len(SIZES)


def test_a_first_size_beyond_all_bounds_is_not_called(tmp_path: Path) -> None:
    """Without smaller sizes to extrapolate from, counted work at nominal rates must do."""
    executor = FakeExecutor()
    chosen = replace(suite("fake_quadratic", budget=10.0), axes={"seq_len": (2**20,)})
    (row,) = run(tmp_path, executor, chosen)  # 2⁴⁰ FLOPs are 55 s at 20 GFLOP/s
    assert row.status is Status.SKIPPED
    assert "does not fit the budget" in row.reason
    assert not [ran for _, _, ran in executor.probed if ran]


def test_an_unsupported_case_is_a_row_and_costs_no_measuring(tmp_path: Path) -> None:
    executor = FakeExecutor(refuses=frozenset({"fake_quadratic"}))
    rows = run(tmp_path, executor, suite("fake_quadratic"))
    assert coverage(rows) == {"unsupported": len(SIZES)}
    assert not executor.lots


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, FakeExecutor(stops_after=2), suite("fake_quadratic"))
    kept = list(read_rows(tmp_path))
    assert len(kept) == 2
    second = FakeExecutor()
    rows = run(tmp_path, second, suite("fake_quadratic"))
    assert rows[:2] == kept
    assert len({row.case.key for row in rows}) == len(rows) == len(SIZES)
    assert len(second.lots) == len(SIZES) - 2


def test_an_exact_square_is_confirmed_in_the_report(tmp_path: Path) -> None:
    """Runner, store and report together: n² nanoseconds come out as n², with the seconds that were put in."""
    sizes = tuple(2**k for k in range(5, 14))
    chosen = replace(suite("fake_quadratic", budget=600.0), axes={"seq_len": sizes})
    executor = FakeExecutor()
    folder = tmp_path / "run"
    RunFolder(folder).write_run(describe(Choice(chosen, "cpu", ()), executor.ready(False)))
    rows = run(folder, executor, chosen)
    (row,) = complexity_table(read_run(folder), rows).rows
    assert (row.claim, row.word) == ("n^2", "confirmed")
    assert row.measured is not None
    assert row.measured.value == pytest.approx(2.0, abs=0.02)
    size, _, seconds, _ = row.predictions[-1]
    assert seconds == pytest.approx(size * size * UNIT, rel=0.05)
    render(folder, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "confirmed" in page
    assert "67.1 ms" in page  # 8192² ns


def test_nothing_is_left_to_do(tmp_path: Path) -> None:
    run(tmp_path, FakeExecutor(), suite("fake_quadratic"))
    again = FakeExecutor()
    run(tmp_path, again, suite("fake_quadratic"))
    assert not again.probed
    assert not again.lots


def test_the_case_key_knows_every_axis() -> None:
    case = Case("a", "attention", "cpu", {"seq_len": 1})
    assert case.key != replace(case, problem={"seq_len": 2}).key
