"""What judging a sweep takes, as pytest-benchmark cases; ratios are to least squares over six classes.

    make bench ARGS="-k judging"

In `make test` each case runs once, without timing.
"""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.complexity_accuracy import google_benchmark
from benchmarks.scaling_corpus import FUNCTIONS, Cell, make_case
from harness.complexity import infer

FITTERS = {"infer": infer, "least squares": google_benchmark}


@pytest.mark.parametrize("sizes", [8, 12])
@pytest.mark.parametrize("fitter", FITTERS)
def test_judging(benchmark: BenchmarkFixture, fitter: str, sizes: int) -> None:
    """One sweep of an overhead and a square."""
    function = next(f for f in FUNCTIONS if f.name == "n^2 + overhead")
    case = make_case(function, Cell(sizes), seed=7)
    benchmark.group = f"one sweep of {sizes} sizes"
    benchmark(FITTERS[fitter], case.sizes, case.samples)
