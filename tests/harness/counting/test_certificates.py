"""Exact polynomials: found from a few sizes, confirmed on the rest, and refused where there is none."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.counting.certificates import Certificate, Uncertified, certify
from harness.counting.certifying import certify_eager
from harness.counting.polynomial import NotPolynomial, Polynomial, Sizes, interpolate, lowest_degree
from implementations.attention.problem import AttentionProblem
from implementations.registry import load, lookup

coefficients = st.fractions(min_value=-1000, max_value=1000, max_denominator=64)


@given(st.lists(coefficients, min_size=1, max_size=4))
def test_any_polynomial_of_one_variable_is_found(values: list[Fraction]) -> None:
    scale = math.lcm(*range(1, 65))  # whole numbers, as counts are
    right: dict[Sizes, Fraction] = {(power,): value * scale for power, value in enumerate(values) if value}
    counted = {n: int(Polynomial(("n",), right).at((n,))) for n in range(64, 64 * 9, 64)}
    assert dict(lowest_degree("n", counted, 3).terms) == right


@given(st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 2)), st.integers(-9, 9), max_size=5))
def test_any_polynomial_of_two_variables_is_certified(terms: dict[tuple[int, int], int]) -> None:
    right = Polynomial(("n", "d"), {p: Fraction(c) for p, c in terms.items() if c})
    counts: dict[Sizes, int] = {
        at: int(right.at(at)) for at in product((64, 128, 192, 320, 448), (16, 32, 64, 128))
    }
    found = certify("x", "bytes", "B", ("n", "d"), counts)
    assert dict(found.polynomial.terms) == dict(right.terms)
    assert (448, 128) in found.confirmed_at
    assert not set(found.found_at) & set(found.confirmed_at)


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({(2, 0): 4, (1, 0): 260}, "4n² + 260n"),
        ({(2, 1): 4, (0, 0): -3}, "4·n²·d - 3"),
        ({(1, 1): 1}, "n·d"),
        ({(1, 0): Fraction(-1, 2)}, "-(1/2)n"),
        ({(12, 0): 2, (1, 0): -1}, "2n¹² - n"),
        ({}, "0"),
    ],
)
def test_how_it_reads(terms: dict[tuple[int, int], Any], text: str) -> None:
    assert str(Polynomial(("n", "d"), {p: Fraction(c) for p, c in terms.items()})) == text


def test_a_certificate_reads_as_people_write_it() -> None:
    counts: dict[Sizes, int] = {(n,): 4 * n * n + 260 * n for n in (64, 128, 192, 256, 512)}
    found = certify("flash", "bytes", "B", ("n",), counts, conditions="fp16, d=64, 64×64 tiles")
    assert str(found) == "bytes = 4n² + 260n (fp16, d=64, 64×64 tiles)"
    assert found.exponent() == 2
    assert Certificate.from_record(json.loads(json.dumps(found.to_record()))) == found


def test_the_lowest_degrees_win_and_nothing_is_certified_without_confirmation() -> None:
    assert certify("x", "q", "1", ("n",), {(n,): 7 for n in (1, 2, 3)}).exponent() == 0
    with pytest.raises(NotPolynomial, match="at least two"):
        certify("x", "q", "1", ("n",), {(1,): 1, (2,): 4})


@pytest.mark.parametrize("lie", [lambda n: n * n.bit_length(), lambda n: n * n + n % 3, lambda n: 2**n])
def test_what_is_no_polynomial_is_refused_with_the_first_miss(lie: Any) -> None:
    with pytest.raises(NotPolynomial, match=r"gives .* at n = .* was counted"):
        certify("x", "q", "1", ("n",), {(n,): lie(n) for n in (2, 3, 5, 8, 16, 31)})


def test_counts_that_do_not_determine_the_polynomial() -> None:
    with pytest.raises(ValueError, match="use more sizes"):
        interpolate(("n", "d"), {(1, 1): 1, (2, 2): 4}, (1, 1))


@given(st.integers(1, 9), st.integers(0, 99), st.integers(100, 400))
def test_small_sizes_of_another_rule_are_left_out(slope: int, constant: int, plateau: int) -> None:
    counts: dict[Sizes, int] = {
        (n,): slope * n + constant if n >= 256 else 256 * slope + constant + plateau
        for n in (64, 128, 256, 384, 512, 1024)
    }
    found = certify("x", "q", "B", ("n",), counts)
    assert (found.least, found.domain) == (256, "n ≥ 256")
    assert found.polynomial.at((4096,)) == 4096 * slope + constant


def test_the_certificate_says_at_which_sizes_it_holds() -> None:
    counts: dict[Sizes, int] = {(n,): n for n in (64, 128, 192, 256)}
    found = replace(certify("x", "depth", "1", ("n",), counts, conditions="fp16"), least=64, step=64)
    assert str(found) == "depth = n (fp16, n ≥ 64, n a multiple of 64)"
    assert Certificate.from_record(json.loads(json.dumps(found.to_record()))) == found


GRID = {"n": (256, 512, 768, 1024, 1536, 1 << 20), "d": (16, 32, 64, 128), "heads": (1, 2, 3)}


def certified(
    name: str, sizes: Mapping[str, Sequence[int]], **axes: Any
) -> dict[str, Certificate | Uncertified]:
    load("attention")
    problem = AttentionProblem(seq_len=256, heads=1, dtype="float16", **axes)
    return {found.quantity: found for found in certify_eager(lookup(name), problem, sizes)}


def text(found: Certificate | Uncertified) -> str:
    assert isinstance(found, Certificate), found
    return f"{found.polynomial}{found.domain and '; ' + found.domain}"


def test_naive_by_equality_up_to_a_million_tokens() -> None:
    """fp16, per head: u = 2n²; the scaled q, the product, the softmax and the product with V."""
    found = certified("naive", GRID)
    assert {quantity: text(one) for quantity, one in found.items()} == {
        "flops": "4·n²·d·heads",
        "bytes": "8·n²·heads + 12·n·d·heads",  # 4u + 6·n·d·b
        "peak_bytes": "4·n²·heads",  # 2u
        "exponentials": "n²·heads",
        "depth": "4",
    }
    flops = found["flops"]
    assert isinstance(flops, Certificate)
    assert (1 << 20, 64, 1) in flops.confirmed_at
    assert {v: flops.exponent(v) for v in flops.variables} == {"n": 2, "d": 1, "heads": 1}
    assert flops.conditions == "batch=1, float16, not causal, forward"


def test_naive_forward_and_backward() -> None:
    """Peak 3u + 3·n·d·b, of which u is 2n² bytes in fp16."""
    found = certified("naive", GRID, pass_="forward_backward")
    assert text(found["peak_bytes"]) == "6·n²·heads + 6·n·d·heads"
    assert text(found["flops"]) == "12·n²·d·heads"


@pytest.mark.parametrize("name", ["linear_elu", "performer"])
def test_linear_attention_is_linear_by_equality(name: str) -> None:
    sizes = {"n": (256, 512, 768, 1024, 1536, 2048, 3072), "d": (16,)}
    found = certified(name, sizes, head_dim=16)
    for quantity in ("flops", "bytes", "exponentials", "depth"):
        one = found[quantity]
        assert isinstance(one, Certificate), one
        assert one.exponent("n") == 1, one


def test_counts_between_blocks_are_told_apart() -> None:
    """A chunk that is not whole costs an operator more: the certificate holds for multiples only."""
    depth = certified("linear_elu", {"n": (256, 512, 768, 1024, 1536)})["depth"]
    assert isinstance(depth, Certificate)
    assert depth.step == 256


def test_every_power_is_confirmed_by_a_size_of_its_own() -> None:
    """A cubic goes through any four values of d; the larger of two costs is a polynomial in n alone."""
    at: dict[Sizes, int] = {
        (n, d): max(n * d, 40 * n) for n in (256, 512, 768, 1024) for d in (16, 32, 64, 128)
    }
    with pytest.raises(NotPolynomial):
        certify("x", "bytes", "B", ("n", "d"), at)
    along: dict[Sizes, int] = {(n,): at[n, 64] for n, d in ((n, 64) for n in (256, 512, 768, 1024))}
    assert certify("x", "bytes", "B", ("n",), along).exponent() == 1


def test_a_variable_that_is_left_with_one_value_is_not_certified_as_having_no_part() -> None:
    """d³ needs more sizes of d than there are; leaving small n out would leave one d, and 7n for any d."""
    grid = [(n, d) for n in (64, 128, 192, 256) for d in (16, 32, 64)] + [
        (n, 64) for n in (512, 768, 1024, 2048)
    ]
    counts: dict[Sizes, int] = {(n, d): n * d**3 for n, d in grid}
    with pytest.raises(NotPolynomial):
        certify("x", "flops", "FLOP", ("n", "d"), counts)
