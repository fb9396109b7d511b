"""The IO claim in the report: an identity of certified counts, refuted when a single byte more is asked."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.counting.certificates import Certificate, CertifiedFamily
from harness.counting.polynomial import Polynomial, Sizes
from harness.report.grid import Cell
from harness.report.records import Records, arrange
from harness.report.traffic import figure, table, tiled
from harness.types import Case, Scalar
from tests.harness.report import synthetic

blocks = st.sampled_from([16, 32, 64, 128])


def loaded(tensor: str, square: Fraction) -> Certificate:
    terms: dict[Sizes, Fraction] = {(2,): square}
    sizes = ((128,), (256,), (384,))
    return Certificate("", f"loaded_{tensor}", "B", Polynomial(("n",), terms), "", sizes, ((512,), (640,)))


def family(m: int, n: int, d: int, more: int = 0, **axes: Any) -> CertifiedFamily:
    """K and V are each read once a tile of m queries, in two bytes a number."""
    problem: dict[str, Scalar] = {
        "head_dim": d, "dtype": "float16", "causal": False, "pass": "forward", "seq_len": 128,
    }  # fmt: skip
    case = Case(f"flash:{m}x{n}", "attention", "cpu", problem | axes)
    square = Fraction(2 * d, m)
    return CertifiedFamily(case, ("heads",), (loaded("k", square + more), loaded("v", square)), {})


def naive(d: int) -> CertifiedFamily:
    terms: dict[Sizes, Fraction] = {(2, 0, 1): Fraction(8), (1, 1, 1): Fraction(12)}
    found = Certificate("naive", "bytes", "B", Polynomial(("n", "d", "heads"), terms), "", (), ())
    problem: dict[str, Scalar] = {
        "head_dim": d, "dtype": "float16", "causal": False, "pass": "forward",
    }  # fmt: skip
    return CertifiedFamily(Case("naive", "attention", "cpu", problem), (), (found,), {})


def records(*families: CertifiedFamily) -> Records:
    return arrange(synthetic.description(), synthetic.rows(), families)


def verdicts(found: Records) -> list[str]:
    return [cell.text for row in table(found).rows if isinstance(cell := row[-1], Cell)]


@given(blocks, blocks, st.sampled_from([32, 64, 128]))
def test_the_identity_is_confirmed_for_every_tile(m: int, n: int, d: int) -> None:
    (one,) = tiled(records(family(m, n, d)))
    memory = m * (d * 6 + 4 * n) + 4 * n * d
    assert one.on_chip == memory
    assert one.counted == one.claimed == Fraction(4 * d, m) * memory / d**2


def test_a_byte_more_per_pair_refutes_it() -> None:
    assert verdicts(records(family(64, 32, 64), family(32, 32, 64, more=1))) == ["refuted", "confirmed"]


@pytest.mark.parametrize("axes", [{"causal": True}, {"pass": "backward"}, {"dtype": "float64"}])
def test_other_problems_are_no_matter_of_the_claim(axes: dict[str, Any]) -> None:
    found = records(family(64, 32, 64, **axes))
    assert not table(found).rows
    assert not figure(found)


def test_the_figure_has_a_series_a_width_and_naive_beside() -> None:
    (plane,) = figure(records(family(64, 32, 64), family(16, 16, 64), family(16, 16, 128), naive(64)))
    assert [group.name for group in plane.series] == ["head_dim 64", "head_dim 128"]
    assert plane.limit == (8.0, "naive, per pair")
    assert [spot.y for spot in plane.series[0].points] == [16.0, 4.0]  # 4·d/m bytes a pair
