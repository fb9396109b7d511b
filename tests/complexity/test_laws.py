from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.complexity.laws import LAWS, Factor, Law, LawError, Term, parse_law


@pytest.mark.parametrize("name", LAWS)
def test_every_name_of_the_table_round_trips(name: str) -> None:
    law = parse_law(name)
    assert law.name == name
    assert law.degree("n") == LAWS[name]
    assert parse_law(str(law)) == law


@pytest.mark.parametrize(
    ("text", "variable", "exponent"),
    [
        ("n^2*d", "n", 2),
        ("n^2*d", "d", 1),
        ("n²·d_k", "d_k", 1),
        ("n²·d_k", "n", 2),
        ("O(n^2*d_model + n*d_model^2)", "n", 2),
        ("n^2*d_model + n*d_model^2", "d_model", 2),
        ("n*d_model*d_ff", "d_ff", 1),
        ("n*d_model*d_ff", "heads", 0),
        ("n**1.5", "n", 1.5),
        ("n^3/2", "n", 1.5),
        ("sqrt(n) log n", "n", 0.5),
        ("n^-1", "n", -1),
        ("4 n^2 + 260 n", "n", 2),
        ("1", "n", 0),
    ],
)
def test_exponent_in_one_variable(text: str, variable: str, exponent: float) -> None:
    assert parse_law(text).exponent(variable) == exponent


def test_evaluates_on_arrays_of_its_variables() -> None:
    law = parse_law("n^2*d_model + n*d_model^2")
    n = np.array([2.0, 4.0])
    assert law({"n": n, "d_model": 3.0}).tolist() == [4 * 3 + 2 * 9, 16 * 3 + 4 * 9]
    assert parse_law("n log n")({"n": [8.0]}).tolist() == [24.0]
    assert law.variables == ("n", "d_model")


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(LawError, match="needs d"):
        parse_law("n^2*d")({"n": 3})


@pytest.mark.parametrize("text", ["", "n^", "n*", "n + ", "log", "sqrt 3", "n^2 ? d", "(n)", "log n^0.5"])
def test_what_cannot_be_read_is_an_error_that_quotes_it(text: str) -> None:
    with pytest.raises(LawError, match="cannot read law"):
        parse_law(text)


def test_along_reduces_to_one_variable() -> None:
    assert str(parse_law("n^2*d + n*d^2").along("d")) == "n^2"
    assert parse_law("n^2*d").along("heads").name == "1"


FACTORS = st.builds(
    Factor,
    st.sampled_from(["n", "d", "d_model", "heads"]),
    st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.807, 3.0]),
    st.integers(0, 2),
)
TERMS = st.lists(FACTORS, max_size=3, unique_by=lambda f: f.variable).map(lambda f: Term(tuple(f)))


@given(st.lists(TERMS, min_size=1, max_size=3, unique=True))
def test_text_round_trips(terms: list[Term]) -> None:
    law = Law(tuple(terms))
    assert parse_law(str(law)) == law


@given(st.lists(TERMS, min_size=1, max_size=3, unique=True), st.integers(2, 10))
def test_scaling_one_variable_follows_its_degree(terms: list[Term], base: int) -> None:
    law = Law(tuple(terms))
    values = {name: float(base) for name in law.variables}
    assert float(law(values)) == pytest.approx(
        sum(float(column) for column in law.columns(values)), rel=1e-12
    )
