"""Quads and screening: known values, and how often they err on simulated machines."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator, default_rng
from scipy import stats

from harness.gate.quads import ALPHA, LOOKS, Decision, decide, detectable, difference, interval
from harness.gate.screening import ENOUGH, screen

POSITIVE = st.floats(1e-6, 10.0)


def sequential(draws: Generator, change: float, noise: float, heavy: bool) -> Decision:
    """One verdict, reached as the engine reaches it."""
    size = LOOKS[-1]
    raw = draws.standard_t(3, size) if heavy else draws.standard_normal(size)
    differences = (math.log1p(change) + noise * raw).tolist()
    for look in LOOKS:
        if (found := decide(differences[:look])) is not Decision.UNDECIDED:
            return found
    return Decision.UNDECIDED


def rate(decision: Decision, change: float, noise: float, heavy: bool, trials: int = 500) -> float:
    draws = default_rng(20)
    return sum(sequential(draws, change, noise, heavy) is decision for _ in range(trials)) / trials


@given(st.tuples(POSITIVE, POSITIVE), st.tuples(POSITIVE, POSITIVE))
def test_a_difference_is_the_log_of_the_ratio_of_geometric_means(
    a: tuple[float, float], b: tuple[float, float]
) -> None:
    ratio = math.exp(difference(a, b))
    expected = statistics.geometric_mean(b) / statistics.geometric_mean(a)
    assert ratio == pytest.approx(expected)
    assert difference(b, a) == pytest.approx(-difference(a, b))


def test_linear_drift_cancels_in_a_quad() -> None:
    drifting = [math.exp(0.03 * position) for position in range(4)]
    assert difference((drifting[0], drifting[3]), (drifting[1], drifting[2])) == pytest.approx(0)


@pytest.mark.parametrize("bad", [(1.0,), (1.0, 0.0), (1.0, math.nan), (1.0, math.inf), (1.0, -1.0)])
def test_a_quad_without_two_times_is_an_error(bad: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="two positive times"):
        difference(bad, (1.0, 1.0))


def test_the_interval_is_yuens() -> None:
    values = default_rng(1).standard_normal(20)
    found = interval(values.tolist(), 0.95)
    assert found.centre == pytest.approx(stats.trim_mean(values, 0.2))
    winsorised = np.asarray(stats.mstats.winsorize(values, (0.2, 0.2)))
    assert found.error == pytest.approx(math.sqrt(19 * winsorised.var(ddof=1) / (12 * 11)))
    assert found.high - found.centre == pytest.approx(stats.t.ppf(0.975, 11) * found.error)


@given(st.lists(st.floats(-0.1, 0.1), min_size=4, max_size=40), st.floats(-0.5, 0.5))
def test_the_interval_moves_with_the_data(values: list[float], shift: float) -> None:
    here, there = interval(values), interval([value + shift for value in values])
    assert there.low - here.low == pytest.approx(shift, abs=1e-9)
    assert here.low <= here.centre <= here.high


def test_one_wild_quad_of_ten_changes_nothing() -> None:
    quiet = [0.001 * (i % 3 - 1) for i in range(12)]
    assert decide(quiet) is decide([*quiet[:11], 5.0]) is Decision.SAME


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("noise", [0.005, 0.02, 0.06])
def test_no_change_is_hardly_ever_slower(noise: float, heavy: bool) -> None:
    assert rate(Decision.SLOWER, 0.0, noise, heavy) <= ALPHA
    assert rate(Decision.SLOWER, 0.01, noise, heavy) <= ALPHA  # the edge of what may be called slower


@pytest.mark.parametrize("heavy", [False, True])
def test_changes_are_found(heavy: bool) -> None:
    noise = 0.012 if heavy else 0.02
    assert rate(Decision.SLOWER, 0.05, noise, heavy) >= 0.95
    assert rate(Decision.SLOWER, 0.10, noise, heavy) >= 0.99
    assert rate(Decision.FASTER, -0.10, noise, heavy) >= 0.95


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.06, 0.2])
def test_five_percent_is_hardly_ever_the_same(noise: float) -> None:
    assert rate(Decision.SAME, 0.05, noise, heavy=False) <= ALPHA


def test_noise_beyond_measuring_is_undecided() -> None:
    assert rate(Decision.UNDECIDED, 0.05, 0.3, heavy=False, trials=300) > 0.95


def test_only_the_looks_decide() -> None:
    assert decide([0.2 + 1e-4 * i for i in range(5)]) is Decision.UNDECIDED
    assert decide([0.2 + 1e-4 * i for i in range(6)]) is Decision.SLOWER


def test_the_detectable_change_is_detected() -> None:
    noise = 0.03
    sample = (noise * default_rng(3).standard_normal(400)).tolist()
    smallest = statistics.median(detectable(sample[i : i + 40]) or 0 for i in range(0, 400, 40))
    assert rate(Decision.SLOWER, smallest, noise, heavy=False) >= 0.85  # a few end early as the same
    assert rate(Decision.SLOWER, smallest / 3, noise, heavy=False) < 0.7
    assert detectable(sample[:3]) is None


@pytest.mark.parametrize(
    ("value", "history", "breached"),
    [
        (1.05e-3, [950e-6] * 5, True),  # +10.5 %
        (1.01e-3, [1e-3 * (1 + 0.03 * i) for i in (-1, 0, 1, -1, 1)], False),  # +1 % in 3 % of noise
        (1.10e-3, [1e-3 * (1 + 0.03 * i) for i in (-1, 0, 1, -1, 1)], False),  # within 4 MAD = 12 %
        (1.13e-3, [1e-3 * (1 + 0.03 * i) for i in (-1, 0, 1, -1, 1)], True),
        (6.5e-6, [5e-6] * 5, False),  # +30 %, and 1.5 µs: below the floor
        (7.5e-6, [5e-6] * 5, True),
        (0.5e-3, [1e-3] * 5, False),  # an improvement
    ],
)
def test_screening(value: float, history: list[float], breached: bool) -> None:
    assert screen(value, history).breached is breached


def test_a_change_is_relative_to_the_median_process() -> None:
    found = screen(1.05e-3, [950e-6])
    assert found.change == pytest.approx(0.10526, rel=1e-3)
    assert (found.processes, found.spread, found.detectable) == (1, None, None)
    assert screen(0.5, [1.0]).improved


@given(st.lists(POSITIVE, min_size=ENOUGH, max_size=20), POSITIVE, st.floats(1e-3, 1e3))
def test_screening_does_not_depend_on_the_unit(history: list[float], value: float, unit: float) -> None:
    here = screen(value, history, floor=0)
    there = screen(value * unit, [x * unit for x in history], floor=0)
    assert there.change == pytest.approx(here.change, abs=1e-9)
    assert there.threshold == pytest.approx(here.threshold)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_screening_refuses_what_is_no_time(bad: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        screen(bad, [1.0])
    with pytest.raises(ValueError, match="positive"):
        screen(1.0, [1.0, bad])
