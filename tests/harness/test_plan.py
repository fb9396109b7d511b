"""Predictions: what grows like a power is extrapolated exactly, and what does not fit is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.devices.device import Sampling
from harness.plan import Estimate, measuring_seconds, predicted_call, skipped, within
from harness.types import Case, Status

sizes = st.integers(1, 1000)
powers = st.floats(0.1, 1.2)


def estimate(name: str, seconds: float) -> Estimate:
    return Estimate(Case(name, "attention", "cpu", {}), seconds, seconds)


@given(sizes, powers, st.floats(1e-6, 1.0))
def test_a_power_of_the_work_is_extrapolated(work: int, power: float, unit: float) -> None:
    cost = [(w, unit * w**power) for w in (work, 4 * work)]
    assert predicted_call(cost, 16 * work) == pytest.approx(unit * (16 * work) ** power)


def test_nothing_is_predicted_from_nothing() -> None:
    assert predicted_call([], 100) is None
    assert predicted_call([(100, 1.0)], 100) is None


def test_one_probe_grows_with_the_work() -> None:
    assert predicted_call([(100, 1.0)], 400) == pytest.approx(4.0)


@given(st.lists(st.floats(0.01, 10.0), max_size=12), st.floats(0.1, 50.0))
def test_what_is_kept_fits_and_the_cheapest_go_first(costs: list[float], budget: float) -> None:
    fits, rest = within([estimate(str(i), c) for i, c in enumerate(costs)], budget)
    assert len(fits) + len(rest) == len(costs)
    assert sum(e.seconds for e in fits) <= budget * (1 + 1e-9)
    assert all(kept.seconds <= left.seconds for kept in fits for left in rest)


def test_a_skipped_case_says_what_it_would_have_taken() -> None:
    result = skipped(estimate("naive", 41.3).case, 41.3, 30.0)
    assert result.status is Status.SKIPPED
    assert "41.3 s" in result.reason
    assert "30.0 s" in result.reason


def test_an_untimed_case_costs_a_few_calls() -> None:
    sampling = Sampling(min_samples=20, max_samples=60, seconds=2.0, precision=0.01, fewest=8)
    assert measuring_seconds(1.0, sampling, timed=False) == 4.0
    assert measuring_seconds(1.0, sampling, timed=True) == 14.0  # the eight samples it takes at least
    assert measuring_seconds(0.1, sampling, timed=True) == pytest.approx(2.6)  # two seconds of samples
    assert measuring_seconds(0.0, sampling, timed=True) == pytest.approx(0.12)  # sixty short samples
