"""What a sweep may and may not be said to show: the known ways that this goes wrong."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.complexity import LAWS, Fit, Law, infer, parse_law
from harness.complexity.fit import INSUFFICIENT

Array = NDArray[np.float64]
SIZES: Array = np.power(2.0, np.arange(6, 14))


def sweep(
    curve: Callable[[Array], Array], sizes: Array = SIZES, noise: float = 0.03, seed: int = 0
) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [t * np.exp(noise * rng.standard_normal(30)) for t in curve(sizes)]


def words(fit: Fit) -> dict[str, str]:
    return {name: fit.verdict(name).word for name in LAWS}


def test_launch_overhead_hides_a_quadratic_but_is_never_constant_time() -> None:
    sizes = np.power(2.0, np.arange(6, 13))
    fit = infer(sizes, sweep(lambda n: 20e-6 + 1.28e-12 * n**2, sizes))
    assert fit.law == "n^2"
    assert fit.verdict("1").word != "confirmed"
    assert "confirmed" not in {fit.verdict(name).word for name in LAWS if name != "n^2"}


@pytest.mark.parametrize("seed", range(5))
def test_a_sweep_that_ends_in_overhead_asks_for_a_wider_range(seed: int) -> None:
    sizes = np.power(2.0, np.arange(6, 12))
    fit = infer(sizes, sweep(lambda n: 20e-6 + 2e-13 * n**2, sizes, seed=seed), "gpu_time")
    verdict = fit.verdict("n^2")
    assert verdict.word == "inconclusive"
    assert verdict.reason == "overhead-bound up to n = 2048: extend the range"
    assert verdict.bound == "inconclusive"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.02, 0.04])
def test_a_flat_time_is_constant_only_with_what_may_hide(share: float, seed: int) -> None:
    """Launch overhead over work of a few percent: where noise hides the work, the words say how much."""
    fit = infer(SIZES, sweep(lambda n: 20e-6 * (1 + share * n / SIZES[-1]), seed=seed, noise=0.05))
    verdict = fit.verdict("1")
    if verdict.word == "confirmed":
        told = re.search(r"a growing term of up to (\d+)% of it would not be seen", verdict.reason)
        assert told
        assert float(told[1]) / 100 >= share / (1 + share) - 0.005
    else:
        assert verdict.word == "inconclusive"


@pytest.mark.parametrize(("step", "largest"), [(1024, 13), (4096, 13), (4096, 14)])
def test_a_step_in_the_cost_is_not_a_higher_power(step: int, largest: int) -> None:
    sizes = np.power(2.0, np.arange(6, largest + 1))
    fit = infer(sizes, sweep(lambda n: 1e-10 * n**2 * np.where(n >= step, 2.2, 1.0), sizes))
    assert fit.law == "n^2"
    assert fit.verdict("n^2").word == "confirmed"
    assert fit.verdict("n^3").word == "refuted"
    assert fit.change is not None
    assert (fit.change.low, fit.change.high) == (step / 2, step)
    assert fit.change.ratio == pytest.approx(2.2, rel=0.1)
    assert f"as much from between n = {step / 2:g} and {step:g} on" in fit.verdict("n^2").reason


def test_a_dear_last_size_may_be_a_bad_one_or_a_step() -> None:
    fit = infer(SIZES, sweep(lambda n: 1e-8 * n * np.where(n >= 8192, 2.0, 1.0)))
    assert "confirmed" not in {fit.verdict(name).word for name in LAWS if name != "n"}
    low, _, high = fit.predict([4 * 8192])[0]
    usual = 1e-8 * 4 * 8192
    assert low < 1.02 * usual
    assert high > 0.98 * 2 * usual * np.exp(-0.67 * 0.03)  # the 0.25 quantile of 3 % noise


def test_a_bad_size_does_not_move_the_exponent() -> None:
    fit = infer(SIZES, sweep(lambda n: 1e-8 * n * np.where(n == 512, 1.4, 1.0)))
    assert fit.exponent == pytest.approx(1.0, abs=0.03)
    assert fit.verdict("n").word == "confirmed"
    assert fit.change is None


def test_the_same_data_a_hundred_times_give_the_same_answer() -> None:
    samples = sweep(lambda n: 2e-5 + 1e-9 * n**1.5)
    answers = {
        (f.law, f.exponent, f.interval, tuple(f.probabilities.items()), f.predict([1e5]).tobytes())
        for f in (infer(SIZES, samples) for _ in range(100))
    }
    assert len(answers) == 1


def test_tiny_coefficients_keep_their_digits() -> None:
    fit = infer(SIZES, sweep(lambda n: 3e-15 * n**2, noise=0.0))
    assert fit.predict([2.0**14])[0, 1] == pytest.approx(3e-15 * 2.0**28, rel=1e-3)
    assert fit.law == "n^2"


DEGENERATE: dict[str, tuple[list[float], list[list[float]]]] = {
    "no size": ([], []),
    "one size": ([64], [[1.0, 1.1]]),
    "two sizes": ([64, 128], [[1.0], [2.0]]),
    "three sizes": ([64, 128, 256], [[1.0], [2.0], [4.0]]),
    "the same size again and again": ([64] * 6, [[1.0], [1.1], [0.9], [1.0], [1.2], [1.0]]),
    "three sizes, repeated": ([64, 128, 256] * 3, [[1.0], [2.0], [4.0]] * 3),
    "n = 0": ([0, 0, 0, 0, 64], [[1.0]] * 5),
    "n = 0 and n = 1": ([0, 1, 2, 4], [[1.0], [1.0], [2.0], [4.0]]),
    "t = 0": ([1, 2, 4, 8, 16], [[0.0], [0.0], [1.0], [2.0], [4.0]]),
    "no samples": ([1, 2, 4, 8], [[], [], [], []]),
    "not a number": ([1, 2, 4, 8], [[np.nan], [np.inf], [1.0], [2.0]]),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("kind", ["cpu_time", "gpu_time", "count"])
def test_degenerate_data_are_insufficient_without_a_warning(name: str, kind: str) -> None:
    sizes, samples = DEGENERATE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = infer(sizes, samples, kind)
        verdict = fit.verdict("n^2")
        prediction = fit.predict([128, 256])
    assert not fit.sufficient
    assert verdict.word == verdict.bound == "inconclusive"
    assert INSUFFICIENT in verdict.reason
    assert prediction.shape == (2, 3)


USABLE: dict[str, list[list[float]]] = {
    "constant": [[1.0]] * 6,
    "falling": [[6.0], [5.0], [4.0], [3.0], [2.0], [1.0]],
    "erratic": [[1.0], [900.0], [2.0], [1e-6], [5.0], [7.0]],
    "steep": [[10.0 ** (3 * k)] for k in range(6)],
    "cliff": [[1e-30], [1e-30], [1.0], [1.0], [1e30], [1e30]],
}


@pytest.mark.parametrize("name", USABLE)
@pytest.mark.parametrize("kind", ["cpu_time", "count"])
def test_odd_data_give_an_answer_without_a_warning(name: str, kind: str) -> None:
    sizes = [1, 2, 4, 8, 16, 32]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = infer(sizes, USABLE[name], kind)
        assert np.isfinite(fit.predict([64])).all()
    assert all(fit.verdict(law).reason for law in LAWS)
    assert sum(fit.probabilities.values()) == pytest.approx(1.0)


EXACT: list[tuple[str, Callable[[Array], Array]]] = [
    ("n^2", lambda n: 4 * n**2 + 260 * n),
    ("n^2", lambda n: n * (n + 1) / 2),
    ("n^2", lambda n: n * (n - 1) / 2),
    ("n", lambda n: 128 * n - 128**2 / 2),
    ("n", lambda n: 12 * n),
    ("n", lambda n: 7 * np.ceil(n / 128)),
    ("n", lambda n: n * 64 * np.where(n > 256, 2, 1)),
    ("1", lambda n: np.full(n.size, 4096.0)),
    ("log n", np.log2),
    ("n log n", lambda n: 5 * n * np.log2(n)),
    ("n^2 log n", lambda n: n**2 * np.log2(n) + 3 * n),
    ("n^1.5", lambda n: n**1.5 + 8 * n),
    ("n^3", lambda n: n**3 + n**2),
]


@pytest.mark.parametrize("case", range(len(EXACT)))
def test_every_verdict_on_a_count_is_right(case: int) -> None:
    law, curve = EXACT[case]
    fit = infer(SIZES, [[c] for c in curve(SIZES)], "count")
    assert fit.law == law
    assert words(fit) == {name: "confirmed" if name == law else "refuted" for name in LAWS}
    order = list(LAWS)
    upper = [fit.verdict(name).bound for name in order[order.index(law) :]]
    assert set(upper) == {"confirmed"}


def test_counts_predict_exactly() -> None:
    fit = infer(SIZES, [[4 * n**2 + 260 * n] for n in SIZES], "count")
    assert fit.predict([2.0**20])[0, 1] == pytest.approx(4 * 2.0**40 + 260 * 2.0**20, rel=1e-6)


def test_claims_in_words_or_laws_are_the_same_claim() -> None:
    fit = infer(SIZES, sweep(lambda n: 1e-9 * n**2))
    written: list[str | Law] = ["n^2", "n²", "O(n^2)", "n*n"]
    claims = [*written, parse_law("n^2"), parse_law("n^2*d + n*d^2").along("n")]
    assert {fit.verdict(claim).word for claim in claims} == {"confirmed"}


def test_a_claim_that_is_not_in_the_table_can_be_confirmed() -> None:
    fit = infer(SIZES, sweep(lambda n: 1e-9 * n**2.5))
    assert fit.law == "other"
    assert fit.verdict("n^2.5").word == "confirmed"
    assert fit.verdict("n^1.25").word == "refuted"


def test_equality_and_upper_bound_are_told_apart() -> None:
    fit = infer(SIZES, sweep(lambda n: 1e-8 * n))
    verdict = fit.verdict("n^2")
    assert (verdict.word, verdict.bound) == ("refuted", "confirmed")
    assert "over this sweep" in verdict.reason


def test_a_time_does_not_certify_a_logarithm_unless_asked() -> None:
    fit = infer(SIZES, sweep(lambda n: 1e-8 * n * np.log2(n), noise=0.01))
    assert fit.verdict("n log n").word == "inconclusive"
    assert "logarithm" in fit.verdict("n log n").reason
    assert fit.verdict("n log n", logarithms=True).word == "confirmed"


def test_unknown_kinds_and_mismatched_lengths_are_errors() -> None:
    with pytest.raises(ValueError, match="kind must be one of"):
        infer([1, 2], [[1.0], [2.0]], "wall")
    with pytest.raises(ValueError, match="2 sizes but 1 arrays"):
        infer([1, 2], [[1.0]])


CURVES: list[Callable[[Array], Array]] = [
    lambda n: 1e-8 * n,
    lambda n: 2e-5 + 1e-9 * n**2,
    lambda n: 1e-9 * n**1.75,
    lambda n: np.maximum(1e-4, 1e-7 * n),
]


@settings(deadline=None, max_examples=12)
@given(st.sampled_from(CURVES), st.integers(-9, 9), st.integers(0, 50))
def test_units_of_time_do_not_matter(curve: Callable[[Array], Array], decade: int, seed: int) -> None:
    samples = sweep(curve, seed=seed)
    one, other = infer(SIZES, samples), infer(SIZES, [10.0**decade * s for s in samples])
    assert one.law == other.law
    assert words(one) == words(other)
    assert one.exponent == pytest.approx(other.exponent, abs=1e-4)
    scaled = 10.0**decade * one.predict([2.0**15])
    assert other.predict([2.0**15]) == pytest.approx(scaled, rel=1e-4)


@settings(deadline=None, max_examples=12)
@given(st.sampled_from(CURVES), st.randoms(use_true_random=False), st.integers(0, 50))
def test_the_order_of_sizes_and_samples_does_not_matter(
    curve: Callable[[Array], Array], random: object, seed: int
) -> None:
    samples = sweep(curve, seed=seed)
    order = np.random.default_rng(seed).permutation(SIZES.size)
    one = infer(SIZES, samples)
    other = infer(SIZES[order], [samples[k][::-1] for k in order])
    assert one.probabilities == other.probabilities
    assert one.interval == other.interval


def test_repeated_sizes_are_pooled() -> None:
    samples = sweep(lambda n: 1e-8 * n)
    halves = [part for s in samples for part in (s[::2], s[1::2])]
    whole, split = infer(SIZES, samples), infer(np.repeat(SIZES, 2), halves)
    assert whole.probabilities == split.probabilities
