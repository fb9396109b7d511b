"""The self-check: its rates, and its injected faults, judged by a real worker without timing anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import binomtest

from harness.gate.builds import CHECKOUT, Build
from harness.gate.paired import Pair, Track
from harness.gate.quads import Decision
from harness.gate.rates import Rate, row
from harness.gate.selfcheck import FAULTS, KERNELS, _case, _missing
from harness.types import Case, Status


@pytest.mark.parametrize(("count", "of"), [(0, 300), (3, 300), (7, 10), (10, 10), (1, 1)])
def test_the_interval_of_a_rate_is_exact(count: int, of: int) -> None:
    expected = binomtest(count, of).proportion_ci(method="exact")
    assert Rate(count, of).interval == pytest.approx((expected.low, expected.high))


def track(decision: Decision, failure: str = "") -> Track:
    case = Case("x", "attention", "cpu", {})
    found = Track(Pair("x", case, case), [0.01 * i for i in range(6)], [1.0], [1.0], failure=failure)
    found.decision = decision
    return found


def test_a_gate_that_errs_too_often_is_a_fault() -> None:
    same, slower = [track(Decision.SAME)] * 100, [track(Decision.SLOWER)] * 10
    assert row("A against A", 0.0, same).fault == ""
    assert "wrong in 10/110" in row("A against A", 0.0, same + slower).fault
    assert row("+5 %", 0.05, slower).fault == ""
    assert "wrong in 100/110" in row("+5 %", 0.05, same + slower).fault
    assert row("+5 %", 0.05, [*slower, track(Decision.UNDECIDED, "crashed")]).slower.of == 10
    with pytest.raises(ValueError, match="crashed"):
        row("+5 %", 0.05, [track(Decision.UNDECIDED, "crashed")])


def test_a_missing_case_turns_the_gate_red() -> None:
    assert _missing().exit_codes() == (3,)


def test_the_faults_are_found_by_a_worker(tmp_path: Path) -> None:
    side = Build("here", CHECKOUT, (str(KERNELS),)).executor("cpu", "attention", 120.0, tmp_path / "log")
    names = ["work", *(f"work:{fault}" for fault in FAULTS)]
    try:
        rows = side.hold([_case(name, "cpu") for name in names], False, ("memory",), release=True)
        sample = side.sample(rows[0].case.key, move=True, turn=0)
    finally:
        side.close()
    found = dict(zip(names, rows, strict=True))
    right = {name for name, result in found.items() if result.status is Status.OK}
    assert right == {"work", "work:leaked_memory"}
    wrong = [result for name, result in found.items() if name not in right]
    assert all(result.status is Status.INCORRECT and "off by" in result.reason for result in wrong)
    peaks = [found[name].metrics["peak_memory"].value for name in ("work", "work:leaked_memory")]
    assert peaks[1] - peaks[0] > 2**20
    assert sample.judged > 0
    assert sample.wall is not None
