"""The terms of a cost: made-up times of known coefficients are taken apart again, balance included."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from harness.counting.certificates import Certificate, CertifiedFamily
from harness.counting.polynomial import Polynomial, Sizes
from harness.report.records import arrange
from harness.report.tables import complexity_table
from harness.report.terms import Split, sentence, splits
from harness.types import Case, Measurement, Result, Status
from tests.harness.report.synthetic import description

#: Seconds per FLOP with weights and with keys, and per exponential.
WEIGHTS, KEYS, EXP = 2e-11, 4e-11, 2e-9
VARIABLES = ("n", "d_model", "heads")
AXES = {"n": "seq_len", "d_model": "d_model", "heads": "heads"}


def certificate(quantity: str, terms: dict[Sizes, int]) -> Certificate:
    found = Polynomial(VARIABLES, {powers: Fraction(value) for powers, value in terms.items()})
    return Certificate("layer", quantity, "1", found, "", ((64, 64, 2),), ((128, 64, 2),))


def case(n: int, d: int, name: str = "layer") -> Case:
    return Case(name, "layer", "cpu", {"seq_len": n, "d_model": d, "heads": 2, "dtype": "float32", "seed": 0})


FAMILY = CertifiedFamily(
    case(64, 64),
    (),
    (
        certificate("flops", {(1, 2, 0): 24, (2, 1, 0): 4}),
        certificate("exponentials", {(2, 0, 1): 1}),
    ),
    {},
)


def row(n: int, d: int, exp: float, noise: random.Random) -> Result:
    seconds = WEIGHTS * 24 * n * d * d + KEYS * 4 * n * n * d + exp * 2 * n * n
    samples = tuple(seconds * noise.lognormvariate(0, 0.02) for _ in range(30))
    return Result(case(n, d), Status.OK, metrics={"cpu_time": Measurement(seconds, "s", samples=samples)})


def found(sizes: list[int], widths: list[int], exp: float = EXP, **family: Any) -> tuple[Split, ...]:
    noise = random.Random(1)
    rows = [row(n, d, exp, noise) for n in sizes for d in widths]
    run = replace(description(), operation="layer", variables=AXES)
    return splits(arrange(run, rows, [replace(FAMILY, **family)]))


@pytest.mark.parametrize("exp", [0.0, EXP])
def test_coefficients_and_balance_are_found_again(exp: float) -> None:
    (split,) = found([64, 128, 256, 512, 1024, 2048], [64, 128, 256], exp)
    for part, truth in zip(split.parts, (WEIGHTS, KEYS, exp), strict=True):
        assert part.seconds.low <= truth * 1.02
        assert part.seconds.high >= truth * 0.98
    assert split.counted == 6 * 256
    truth = WEIGHTS * 24 * 256 * 256 / (KEYS * 4 * 256 + exp * 2)
    low, middle, high = split.measured
    assert low is not None
    assert middle is not None
    assert high is not None
    assert low <= truth <= high
    assert middle == pytest.approx(truth, rel=0.1)
    assert high / low < 1.5
    words = sentence(split)
    assert "seq_len = 1,536 by their FLOPs" in words
    assert "24·n·d_model² FLOPs" in words


def test_without_what_it_takes_there_is_no_split() -> None:
    sizes = [64, 128, 256, 512, 1024, 2048]
    assert not found([], [])
    assert not found([64, 128], [64, 128])  # fewer problems than terms and some to spare
    assert not found(sizes, [64, 128], certificates=FAMILY.certificates[1:])  # no FLOPs are certified
    single = certificate("flops", {(1, 2, 0): 24})
    assert not found(sizes, [64, 128], certificates=(single,))
    assert not found(sizes, [64, 128], case=case(64, 64, "another"))


def test_at_one_width_softmax_counts_with_the_keys() -> None:
    (split,) = found([64, 128, 256, 512, 1024, 2048], [128])
    assert len(split.parts) == 2
    low, _, high = split.measured
    truth = WEIGHTS * 24 * 128 * 128 / (KEYS * 4 * 128 + EXP * 2)
    assert low is not None
    assert high is not None
    assert low <= truth <= high


def test_the_table_says_it() -> None:
    noise = random.Random(2)
    rows = [row(n, d, EXP, noise) for n in (64, 128, 256, 512, 1024) for d in (64, 128)]
    table = complexity_table(replace(description(), variables=AXES), rows, [FAMILY])
    assert len(table.terms) == 1
    assert table.terms[0].startswith("layer in float32, CPU time of 10 problems")
