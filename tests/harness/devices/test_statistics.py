"""Quantiles and their intervals, by simulation with fixed seeds."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from harness.devices.statistics import Samples, effective_size, quantile_interval, relative_width, seconds

TRIALS = 400

TIMES = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=80).map(np.array)
QUANTILES = st.sampled_from([0.05, 0.2, 0.5, 0.9])


def lognormal(rng: np.random.Generator, n: int) -> Samples:
    """Right-skewed, as timings are."""
    return rng.lognormal(0.0, 0.5, n)


def autoregressive(rng: np.random.Generator, n: int, rho: float) -> Samples:
    noise = rng.normal(0.0, 1.0, n + 200)
    filtered: Samples = lfilter([1.0], [1.0, -rho], noise)[200:]
    found: Samples = np.exp(filtered * np.sqrt(1 - rho**2) * 0.5)
    return found


def coverage(draw: object, q: float, n: int, truth: float) -> float:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(TRIALS):
        _, low, high = quantile_interval(draw(rng, n), q)  # type: ignore[operator]
        held += low <= truth <= high
    return held / TRIALS


@pytest.mark.parametrize("q", [0.2, 0.5])
@pytest.mark.parametrize("n", [20, 60, 200])
def test_intervals_of_independent_samples_hold_the_quantile(q: float, n: int) -> None:
    truth = float(np.exp(0.5 * {0.2: -0.8416212, 0.5: 0.0}[q]))
    assert coverage(lognormal, q, n, truth) >= 0.94


@pytest.mark.parametrize("rho", [0.3, 0.6])
def test_intervals_widen_for_autocorrelation(rho: float) -> None:
    assert coverage(partial(autoregressive, rho=rho), 0.5, 200, 1.0) >= 0.92


def test_without_the_correction_autocorrelated_intervals_would_be_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.devices.statistics.effective_size", lambda samples: float(len(samples)))
    assert coverage(partial(autoregressive, rho=0.6), 0.5, 200, 1.0) < 0.8


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_the_effective_size_is_n_times_one_minus_rho_over_one_plus_rho(rho: float) -> None:
    samples = autoregressive(np.random.default_rng(2), 50_000, rho)
    logs: Samples = np.log(samples)
    assert effective_size(logs) == pytest.approx(50_000 * (1 - rho) / (1 + rho), rel=0.05)


def test_alternating_samples_are_not_worth_more_than_they_are() -> None:
    assert effective_size(np.array([1.0, 2.0] * 20)) == 40


@pytest.mark.parametrize("samples", [[1.0], [1.0, 2.0], [3.0] * 50])
def test_few_or_equal_samples_have_a_size(samples: list[float]) -> None:
    assert effective_size(np.array(samples)) == len(samples)


def test_a_trend_is_worth_almost_nothing() -> None:
    assert effective_size(np.arange(100.0)) < 3


def test_too_few_samples_give_the_whole_range() -> None:
    assert quantile_interval(np.array([3.0, 1.0, 2.0]), 0.5) == (2.0, 1.0, 3.0)
    assert quantile_interval(np.array([5.0]), 0.2) == (5.0, 5.0, 5.0)


def test_the_ranks_are_the_textbooks() -> None:
    """n = 20: the 6th and the 15th hold the median with 95.9 % (Conover, table A3)."""
    order = np.random.default_rng(0).permutation(np.arange(1.0, 21.0))
    assert effective_size(order) == 20, "a permutation without positive autocorrelation"
    assert quantile_interval(order, 0.5) == (10.5, 6.0, 15.0)


@given(TIMES, QUANTILES)
def test_the_interval_contains_the_quantile_and_lies_within_the_samples(samples: Samples, q: float) -> None:
    centre, low, high = quantile_interval(samples, q)
    assert samples.min() <= low <= centre <= high <= samples.max()
    assert centre == np.quantile(samples, q)


@given(TIMES, QUANTILES)
def test_the_unit_of_time_does_not_matter(samples: Samples, q: float) -> None:
    """By a power of two, so that nothing rounds."""
    scaled = quantile_interval(1024 * samples, q)
    assert scaled == tuple(1024 * x for x in quantile_interval(samples, q))
    assert relative_width(1024 * samples, q) == relative_width(samples, q)


@given(TIMES)
def test_samples_are_worth_from_one_to_all_of_them(samples: Samples) -> None:
    assert 1 <= effective_size(samples) <= len(samples)


@given(TIMES, QUANTILES)
def test_more_confidence_is_never_narrower(samples: Samples, q: float) -> None:
    _, low, high = quantile_interval(samples, q, 0.95)
    _, lower, higher = quantile_interval(samples, q, 0.99)
    assert lower <= low
    assert high <= higher


@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_other_confidences_hold_too(confidence: float) -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(TRIALS):
        _, low, high = quantile_interval(rng.exponential(1.0, 60), 0.5, confidence)
        held += low <= math.log(2) <= high
    assert held / TRIALS >= confidence - 2 * math.sqrt(confidence * (1 - confidence) / TRIALS)


def test_the_relative_width_is_infinite_where_nothing_is_known() -> None:
    assert relative_width(np.array([1.0] * 4), 0.5) == float("inf")
    assert relative_width(np.zeros(20), 0.5) == float("inf")
    assert relative_width(np.ones(20), 0.5) == 0.0


def test_a_measurement_names_its_quantile() -> None:
    found = seconds(tuple(float(i) for i in range(1, 31)), 0.2)
    assert found.unit == "s"
    assert found.note.startswith("0.2 quantile of 30 samples")
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    assert found.samples[0] == 1.0
