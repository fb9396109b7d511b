"""Counts have no noise: every verdict on them must be right, and what they cannot show must be said."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.count_accuracy import MAKERS, programs, score
from harness.complexity import LAWS, Fit, infer
from harness.complexity.regimes import find_regimes

Array = NDArray[np.float64]
SIZES: Array = np.power(2.0, np.arange(5, 13))  # 32 ... 4096


def fit(counts: Sequence[float], sizes: Array = SIZES) -> Fit:
    return infer(sizes, [[c] for c in counts], "count")


#: Peaks of memory (B) that an allocator reported from n = 32 to 4096, and the peak at n = 16384 by the same
#: program; None where no one can know it from those sizes, and an interval is all that may be asked for.
PEAKS: dict[str, tuple[list[float], str, str, float]] = {
    "fused attention, bfloat16: buffers step at 256 and 1024": (
        [31488, 54528, 100608, 250368, 483840, 1394688, 1935360, 3016704],
        *("n", "confirmed", 528 * 16384 + 854016),
    ),
    "plain attention through float32: quadratic from 128 on": (
        [204800, 458752, 1114628, 3408900, 11536388, 41947140, 159391748, 620773380],
        *("n^2", "confirmed", 36 * 16384**2 + 4100 * 16384 + 4),
    ),
    "chunked attention, float32: a maximum, linear from 1024 on": (
        [166016, 265472, 464384, 862208, 1124352, 2163712, 4260864, 8455168],
        *("n", "confirmed", 2048 * 16384 + 66560),
    ),
    "random features, bfloat16: two regimes, a third beyond the sweep": (
        [696832, 1123328, 1976320, 3682304, 3813376, 4075520, 4599808, 5648384],
        *("n", "confirmed", 17047552),
    ),
    "random features, float32: a third regime at the last size": (
        [664064, 1057792, 1845248, 3420160, 3682304, 4206592, 5255168, 8658944],
        *("n", "inconclusive", 33824768),
    ),
    "chunked attention, bfloat16: a maximum, linear from 2048 on": (
        [198784, 331008, 655360, 1310720, 1377280, 1517568, 2163712, 4260864],
        *("n", "inconclusive", 1024 * 16384 + 66560),
    ),
}


@pytest.mark.parametrize("name", PEAKS)
def test_peaks_that_change_regime(name: str) -> None:
    counts, law, word, at_four = PEAKS[name]
    found = fit(counts)
    assert found.verdict(law).word == word
    assert "confirmed" not in {found.verdict(other).word for other in LAWS if other != law}
    assert found.verdict(law).word != "refuted"
    low, mid, high = found.predict([16384])[0]
    assert low * (1 - 1e-6) <= at_four <= high * (1 + 1e-6)
    if "beyond" not in name:
        assert mid == pytest.approx(at_four, rel=0.05)


@pytest.mark.parametrize("name", PEAKS)
def test_no_one_is_told_to_count_again(name: str) -> None:
    counts, _, word, _ = PEAKS[name]
    reasons = [fit(counts).verdict(law).reason for law in LAWS]
    assert not any("measure" in reason or "repeats" in reason for reason in reasons)
    if word == "inconclusive":
        assert any("too few sizes follow the last change of regime" in reason for reason in reasons)
        assert any("extend the range" in reason for reason in reasons)


def test_a_reason_says_where_the_growth_changes() -> None:
    counts, law, _, _ = PEAKS["random features, float32: a third regime at the last size"]
    assert "between n = 2048 and 4096" in fit(counts).verdict(law).reason
    confirmed = fit(PEAKS["fused attention, bfloat16: buffers step at 256 and 1024"][0]).verdict("n")
    assert "from n = 1024 on" in confirmed.reason


def test_a_sweep_without_a_change_is_predicted_to_the_byte() -> None:
    low, mid, high = fit((4 * SIZES**2 + 260 * SIZES).tolist()).predict([16384])[0]
    assert high / low - 1 < 1e-5
    assert mid == pytest.approx(4 * 16384.0**2 + 260 * 16384, rel=1e-6)


def test_a_count_shows_terms_that_a_time_would_hide() -> None:
    found = fit((951180 + 1024 * SIZES).tolist())
    assert found.verdict("n").word == "confirmed"
    assert found.verdict("1").word == "refuted"
    found = fit((4000 * SIZES + 0.02 * SIZES**2).tolist())
    assert found.verdict("n").word != "confirmed"
    assert found.verdict("n").bound != "confirmed"


def test_padded_counts_ask_for_whole_tiles() -> None:
    sizes = np.round(39 * 1.7 ** np.arange(8))
    found = fit((np.ceil(sizes / 128) * 128).tolist(), sizes)
    reasons = {found.verdict(law).reason for law in LAWS if found.verdict(law).word == "inconclusive"}
    assert any("sizes that tiles and chunks divide" in reason for reason in reasons)


STRETCH = st.tuples(
    st.sampled_from([1.0, 2.0]), st.integers(1, 500), st.integers(0, 10**6), st.integers(3, 5)
)


@settings(deadline=None, max_examples=40)
@given(st.lists(STRETCH, min_size=1, max_size=3))
def test_regimes_are_found_exactly(stretches: list[tuple[float, int, int, int]]) -> None:
    """No fewer coefficients explain made-up stretches than it took to make them, and it finds no more."""
    sizes = 32 * np.power(2.0, np.arange(sum(length for *_, length in stretches)))
    parts, start = [], 0
    for power, a, b, length in stretches:
        parts.append(a * sizes[start : start + length] ** power + b)
        start += length
    regimes = find_regimes(sizes, np.log(np.concatenate(parts)))
    assert regimes.coefficients[-1] <= sum(2 if b else 1 for _, _, b, _ in stretches)
    ends = [stretch[0] for stretch in regimes.stretches[1:]]
    assert len(regimes.stretches) <= sizes.size
    assert ends == sorted(ends)


def test_irregular_counts_have_no_regimes() -> None:
    counts = np.random.default_rng(0).uniform(1e5, 1e6, 8)
    regimes = find_regimes(SIZES, np.log(counts))
    assert regimes.coefficients[-1] == 8
    assert regimes.changes == ()
    assert not regimes.probability_of_change(np.array([2.0])).any()


@pytest.fixture(scope="module")
def scores() -> dict[str, dict[str, float]]:
    return score([5], 5)


@pytest.mark.parametrize("family", [make.__name__ for make in MAKERS])
def test_no_verdict_on_a_program_is_wrong(family: str, scores: dict[str, dict[str, float]]) -> None:
    assert scores[family]["false confirmations"] == 0
    assert scores[family]["false refutations"] == 0


def test_predictions_of_counts_are_honest(scores: dict[str, dict[str, float]]) -> None:
    assert scores["all"]["right law confirmed"] >= 0.7
    assert scores["all"]["interval at 4x covers"] >= 0.93
    assert scores["polynomial"]["count at 4x within 1 %"] == 1


def test_programs_are_deterministic() -> None:
    first, second = ([p.curve(s).tobytes() for p, s in programs(3, 1)] for _ in range(2))
    assert first == second
