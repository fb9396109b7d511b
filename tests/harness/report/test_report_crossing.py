"""Crossovers are the engine's: with an interval that holds the truth, or none where nothing is decided."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from harness.report import choosing, crossing
from harness.report.crossing import crossovers
from harness.report.records import Records, arrange
from harness.types import Measurement, Scalar

from . import synthetic

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)


def _records(times: Mapping[str, Callable[[float], float]], sizes: tuple[int, ...] = SIZES) -> Records:
    """Implementations with times (s) of n, 2 % noise, 20 samples."""
    noise = random.Random(3)
    cards = tuple(replace(synthetic.CARDS[0], name=name) for name in times)
    axes: dict[str, tuple[Scalar, ...]] = {"seq_len": sizes}
    rows = []
    for result in synthetic.rows(axes, cards, fail=False):
        cost = times[result.case.implementation](float(str(result.case.problem["seq_len"])))
        samples = tuple(cost * noise.lognormvariate(0, 0.02) for _ in range(20))
        rows.append(
            replace(result, metrics={"cpu_time": Measurement(sorted(samples)[4], "s", samples=samples)})
        )
    return arrange(synthetic.description(cards), rows)


def square(n: float) -> float:
    return 1e-9 * n**2


def linear(n: float) -> float:
    return 1e-6 * n


def test_a_crossover_has_an_interval_that_holds_the_truth() -> None:
    (found,) = crossovers(_records({"square": square, "linear": linear})).found
    assert (found.below, found.above) == ("square", "linear")
    assert found.low < 1000 < found.high
    assert found.low < found.size < found.high < 1.2 * found.low
    assert not found.extrapolated
    (same,) = crossovers(_records({"linear": linear, "square": square})).found
    assert (same.below, same.above) == ("square", "linear")


def test_beyond_the_sweep_is_said() -> None:
    records = _records({"square": lambda n: 1e-9 * n**2, "linear": lambda n: 1.2e-5 * n})
    (found,) = crossovers(records).found
    assert found.extrapolated
    (row,) = choosing.crossovers(records, crossovers(records)).rows
    assert "beyond what both measured" in str(row)


def test_what_is_never_decided_is_no_crossover() -> None:
    assert crossovers(_records({"a": square, "b": square})).found == ()
    assert crossovers(_records({"a": square, "b": lambda n: 50 * square(n)})).found == ()


def test_too_few_sizes_and_the_floor_have_none() -> None:
    assert crossovers(_records({"square": square, "linear": linear}, (512, 1024, 2048))).found == ()
    assert crossovers(_records({"square": square, "uniform": linear})).found == ()


def test_comparisons_without_time_for_them_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossing, "MAX_PAIRS", 1)
    records = _records({"square": square, "near": lambda n: 3 * square(n), "linear": linear})
    found = crossovers(records)
    assert found.left_out == 2
    assert {found.found[0].below, found.found[0].above} == {"square", "linear"}
    assert "2 more pairs were not compared" in choosing.crossovers(records, found).caption
