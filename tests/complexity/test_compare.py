from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.complexity import Fit, crossovers, frontier, infer

Array = NDArray[np.float64]
SIZES: Array = np.power(2.0, np.arange(6, 14))


def measured(curve: Callable[[Array], Array], seed: int) -> Fit:
    rng = np.random.default_rng(seed)
    return infer(SIZES, [t * np.exp(0.03 * rng.standard_normal(30)) for t in curve(SIZES)])


def test_a_linear_method_overtakes_a_quadratic_one() -> None:
    quadratic = measured(lambda n: 2e-5 + 1e-10 * n**2, 1)
    linear = measured(lambda n: 5e-5 + 1e-7 * n, 2)
    truth = (1e-7 + np.sqrt(1e-14 + 4 * 1e-10 * 3e-5)) / 2e-10
    (crossing,) = crossovers(quadratic, linear)
    assert crossing.low is not None
    assert crossing.high is not None
    assert crossing.low < truth < crossing.high
    assert crossing.low > 0.9 * truth
    assert crossing.cheaper_beyond == 1
    assert not crossing.extrapolated


def test_the_order_of_the_two_only_renames_the_cheaper() -> None:
    quadratic = measured(lambda n: 1e-10 * n**2, 1)
    linear = measured(lambda n: 1e-7 * n, 2)
    (one,), (other,) = crossovers(quadratic, linear), crossovers(linear, quadratic)
    assert one.size == pytest.approx(other.size)
    assert (one.cheaper_beyond, other.cheaper_beyond) == (1, 0)


def test_a_crossover_beyond_the_sweep_is_called_extrapolated() -> None:
    quadratic = measured(lambda n: 1e-10 * n**2, 1)
    linear = measured(lambda n: 1e-10 * 16384 * n, 2)
    (crossing,) = crossovers(quadratic, linear)
    assert crossing.extrapolated


def test_parallel_curves_do_not_cross() -> None:
    assert crossovers(measured(lambda n: 1e-8 * n, 1), measured(lambda n: 3e-8 * n, 2)) == ()


def test_insufficient_data_cross_nowhere() -> None:
    nothing = infer([64], [[1.0]])
    assert crossovers(nothing, measured(lambda n: 1e-8 * n, 1)) == ()
    assert frontier(nothing, 1e9) is None


def test_memory_frontier_from_counts_is_exact() -> None:
    fit = infer(SIZES, [[4 * n**2 + 256 * n] for n in SIZES], "count")
    largest = frontier(fit, 80e9)
    assert largest is not None
    assert largest.mid == pytest.approx((-256 + np.sqrt(256**2 + 16 * 80e9)) / 8, abs=2)
    assert largest.extrapolated
    assert frontier(fit, 1.0) is None


#: Peaks with a new regime at the last size: many curves are possible, which made frontiers slow.
UNCLEAR = [664064, 1057792, 1845248, 3420160, 3682304, 4206592, 5255168, 8658944]


def test_a_frontier_is_where_predictions_reach_the_budget_and_quick() -> None:
    fit = infer(SIZES, [[b] for b in UNCLEAR], "count")
    start = time.process_time()
    found = frontier(fit, 80e9)
    assert time.process_time() - start < 0.5
    assert found is not None
    assert found.low < found.mid < found.high
    for size, column in zip((found.low, found.mid, found.high), (2, 1, 0), strict=True):
        assert fit.predict([size])[0, column] == pytest.approx(80e9, rel=0.01)


def test_a_budget_below_the_smallest_or_above_everything_has_no_frontier() -> None:
    fit = infer(SIZES, [[4 * n**2] for n in SIZES], "count")
    assert frontier(fit, 0.0) is None
    assert frontier(fit, 4 * 64.0**2 - 1) is None
    assert frontier(fit, 80e9, largest=1e5) is None
