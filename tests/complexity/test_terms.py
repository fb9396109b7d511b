from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.complexity import infer_terms, parse_law

Array = NDArray[np.float64]
FORM = parse_law("n^2*d_model + n*d_model^2")


def grid() -> tuple[Array, Array]:
    n, d = np.meshgrid([128.0, 256, 512, 1024, 2048], [64.0, 128, 256, 512])
    return n.ravel(), d.ravel()


def layer(seed: int, ratio: float, overhead: float = 2e-5) -> tuple[tuple[Array, ...], list[Array]]:
    """Columns of the layer's form and samples of a n^2 d + ratio a n d^2 + overhead, a = 2e-11."""
    n, d = grid()
    rng = np.random.default_rng(seed)
    t = overhead + 2e-11 * (n**2 * d + ratio * n * d**2)
    t = t * np.exp(0.01 * rng.standard_normal(t.size))
    samples = [value * np.exp(0.05 * rng.standard_normal(30)) for value in t]
    return FORM.columns({"n": n, "d_model": d}), samples


def test_the_crossover_interval_covers_the_truth() -> None:
    covered = 0
    for seed in range(40):
        columns, samples = layer(seed, ratio=2.0)
        crossing = infer_terms(columns, samples).crossover(0, 1)
        covered += crossing.low <= 2.0 <= crossing.high
        assert crossing.mid == pytest.approx(2.0, rel=0.1)
    assert covered >= 35


def test_columns_in_any_form_are_the_same_columns() -> None:
    columns, samples = layer(0, ratio=1.0)
    answers = {
        infer_terms(columns, samples).coefficients,
        infer_terms(np.stack(columns, axis=1), samples).coefficients,
        infer_terms({"scores": columns[0], "projections": columns[1]}, samples).coefficients,
    }
    assert len(answers) == 1


def test_a_given_overhead_column_is_used() -> None:
    columns, samples = layer(1, ratio=1.0)
    fit = infer_terms([*columns, np.ones(len(samples))], samples)
    assert fit.coefficients[2].mid == pytest.approx(2e-5, rel=0.15)


def test_counts_give_exact_coefficients() -> None:
    n, d = grid()
    columns = FORM.columns({"n": n, "d_model": d})
    counts = [[4 * a + 8 * b] for a, b in zip(*columns, strict=True)]
    fit = infer_terms(columns, counts, "count")
    assert [c.mid for c in fit.coefficients] == pytest.approx([4, 8], rel=1e-6)
    assert fit.crossover(0, 1).mid == pytest.approx(2, rel=1e-6)
    assert fit.crossover(1, 0).mid == pytest.approx(0.5, rel=1e-6)


def test_an_absent_term_has_an_interval_that_touches_zero() -> None:
    n, d = grid()
    columns = FORM.columns({"n": n, "d_model": d})
    fit = infer_terms(columns, [[4 * a] for a in columns[0]], "count")
    assert fit.coefficients[1].low == 0
    assert fit.coefficients[1].high < 1e-3


def test_too_few_problems_are_an_error_in_words() -> None:
    with pytest.raises(ValueError, match="insufficient data: 2 usable problems for 2 terms"):
        infer_terms([[1.0, 2.0], [1.0, 4.0]], [[1.0], [2.0]])


def test_new_problems_are_predicted_from_their_columns() -> None:
    n, d = np.array([4096.0, 8192.0]), np.array([512.0, 1024.0])
    truth = 2e-5 + 2e-11 * (n**2 * d + 2 * n * d**2)
    columns, samples = layer(3, ratio=2.0)
    low, mid, high = infer_terms(columns, samples).predict(FORM.columns({"n": n, "d_model": d})).T
    assert mid == pytest.approx(truth * np.exp(-0.67 * 0.05), rel=0.05)  # the 0.25 quantile of 5 % noise
    assert (low < mid).all()
    assert (mid < high).all()


def test_terms_that_are_there_and_terms_that_are_not() -> None:
    n, d = grid()
    columns = (*FORM.columns({"n": n, "d_model": d}), n**2)
    _, samples = layer(2, ratio=1.0)
    fit = infer_terms(columns, samples)
    assert [fit.verdict(k).word for k in (0, 1)] == ["confirmed", "confirmed"]
    assert fit.verdict(2).word != "confirmed"
    counts = [[4 * a + 8 * b] for a, b in zip(*columns[:2], strict=True)]
    words = [infer_terms(columns, counts, "count").verdict(k).word for k in range(3)]
    assert words == ["confirmed", "confirmed", "refuted"]


def test_a_form_that_misses_the_costs_confirms_nothing() -> None:
    n, d = grid()
    _, samples = layer(4, ratio=1.0)
    fit = infer_terms([n * d], samples)
    assert fit.verdict(0).word == "inconclusive"
    assert "another term is needed" in fit.verdict(0).reason
