"""The peak is a maximum over operators: who holds it for good, and from which size on."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.counting.certificates import Certificate
from harness.counting.certifying import certify_eager
from harness.counting.peaks import certify_peak, positive_from
from harness.counting.polynomial import NotPolynomial, Sizes
from harness.counting.predict import follow
from implementations.attention.problem import AttentionProblem
from implementations.registry import load, lookup

LENGTHS = (256, 512, 768, 1024, 1536)
lines = st.tuples(st.integers(0, 50), st.integers(0, 200_000))


def live(*operators: tuple[int, int]) -> dict[str, dict[Sizes, int]]:
    """Bytes after operators that obey slope · n + constant."""
    return {f"op{i}": {(n,): a * n + b for n in LENGTHS} for i, (a, b) in enumerate(operators)}


@given(st.lists(lines, min_size=1, max_size=5))
def test_the_certificate_gives_the_maximum_wherever_it_holds(operators: list[tuple[int, int]]) -> None:
    found = certify_peak("x", ("n",), live(*operators))
    start = found.least or LENGTHS[0]
    for n in (*range(start, start + 50), 10 * start, 1 << 22):
        assert found.polynomial.at((n,)) == max(a * n + b for a, b in operators)
    if found.least is not None:
        below = found.least - 1
        assert found.polynomial.at((below,)) < max(a * below + b for a, b in operators)


def test_a_line_that_takes_over_beyond_all_counted_sizes() -> None:
    """Counted peaks lie on 2n + 100,000 throughout; from 12,500 on another operator holds the peak."""
    found = certify_peak("x", ("n",), live((2, 100_000), (10, 0)))
    assert (str(found.polynomial), found.least) == ("10n", 12_500)


def test_two_holders_are_refused() -> None:
    at = [(n, d) for n in LENGTHS for d in (16, 32, 64, 128)]
    with pytest.raises(NotPolynomial, match="changes with the sizes: square, wide"):
        certify_peak(
            "x",
            ("n", "d"),
            {"square": {(n, d): 40 * n for n, d in at}, "wide": {(n, d): n * d for n, d in at}},
        )


def test_an_operator_without_a_polynomial_is_named() -> None:
    with pytest.raises(NotPolynomial, match="live bytes after odd"):
        certify_peak("x", ("n",), {"odd": {(n,): n * n.bit_length() for n in LENGTHS}})


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=4), st.integers(1, 9))
def test_where_a_polynomial_stops_being_negative(rest: list[int], leading: int) -> None:
    coefficients = [Fraction(c) for c in (*rest, leading)]
    values = [sum(c * n**power for power, c in enumerate(coefficients)) for n in range(80)]
    right = max((n + 1 for n, value in enumerate(values) if value < 0), default=0)
    assert positive_from(coefficients) == right


def test_the_peak_of_a_chunked_kernel_beyond_the_counted_sizes() -> None:
    """What the certificate says at a size that it was not counted at is what is counted there."""
    load("attention")
    problem = AttentionProblem(seq_len=256, heads=1, dtype="bfloat16")
    sizes = {"n": (256, 512, 768, 1024, 1536, 2048, 3072, 4096)}
    found = {one.quantity: one for one in certify_eager(lookup("linear_elu"), problem, sizes)}["peak_bytes"]
    assert isinstance(found, Certificate)
    size = max(8192, (found.least or 0) + 255) // 256 * 256
    larger = AttentionProblem(seq_len=size, heads=1, dtype="bfloat16")
    assert found.polynomial.at((size,)) == follow(lookup("linear_elu"), larger).counts.peak_bytes
