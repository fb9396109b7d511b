from __future__ import annotations

import numpy as np
import pytest

from harness.complexity.impossible import (
    flat_while_work_grows,
    impossibilities,
    roofline_seconds,
)

N = 2.0 ** np.arange(16, 20)  # 65k to 524k


def attention_flops(n: np.ndarray, heads: int = 8, head_dim: int = 64) -> np.ndarray:
    return np.asarray(4 * n**2 * head_dim * heads)


def test_the_public_claim_of_log_linear_exact_attention_is_impossible() -> None:
    seconds = np.full(N.size, 14.3e-3)
    found = impossibilities(N, seconds, attention_flops(N), peak_flops=989e12)
    assert len(found) == 1
    assert "impossible" in found[0].reason
    assert 2.0**19 in found[0].sizes


def test_flat_over_sixteen_times_is_impossible_without_knowing_the_device() -> None:
    n = 2.0 ** np.arange(15, 20)
    found = flat_while_work_grows(n, np.full(n.size, 14.3e-3), attention_flops(n))
    assert found is not None
    assert found.sizes == tuple(n)


def test_launch_overhead_is_not_impossible() -> None:
    n = 2.0 ** np.arange(6, 13)
    assert flat_while_work_grows(n, np.full(n.size, 20e-6), attention_flops(n)) is None


def test_flat_over_eight_times_is_not_called_so_without_a_device() -> None:
    assert flat_while_work_grows(N, np.full(N.size, 14.3e-3), attention_flops(N)) is None


def test_flat_work_may_take_flat_time() -> None:
    n = 2.0 ** np.arange(10, 16)
    assert flat_while_work_grows(n, np.full(n.size, 0.1), np.full(n.size, 1e9)) is None


def test_honest_times_are_possible() -> None:
    flops = attention_flops(N)
    assert impossibilities(N, flops / 500e12, flops, peak_flops=989e12) == ()


def test_bandwidth_bounds_too() -> None:
    n = np.array([1e6, 2e6])
    found = impossibilities(n, n / 1e10, 0 * n, bytes_moved=8 * n, peak_bandwidth=1e10)
    assert len(found) == 1


@pytest.mark.parametrize(("flops", "moved", "least"), [(1e12, 0, 1.0), (1e12, 4e9, 4.0), (0, 0, 0)])
def test_roofline_is_the_longer_of_the_two(flops: float, moved: float, least: float) -> None:
    assert float(roofline_seconds(flops, moved, 1e12, 1e9)) == least


def test_an_unknown_device_bounds_nothing() -> None:
    assert float(roofline_seconds(1e15, 1e12, None, None)) == 0.0
