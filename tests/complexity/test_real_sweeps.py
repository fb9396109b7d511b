"""Measured sweeps: what PyTorch's operations really cost, with the two largest sizes held out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real_sweeps import HELD_OUT, HeldOut, judge, operations, table
from harness.complexity import infer_terms

SWEEPS = json.loads((Path(__file__).parent / "real_sweeps.json").read_text())


@pytest.fixture(scope="module")
def held_out() -> list[HeldOut]:
    return judge(SWEEPS)


def test_held_out_sizes_are_predicted(held_out: list[HeldOut]) -> None:
    errors = [row.error for row in held_out]
    assert len(errors) == HELD_OUT * len(SWEEPS)
    assert np.median(errors) <= 0.10
    assert np.quantile(errors, 0.9) <= 0.20
    assert np.mean([row.covered for row in held_out]) >= 0.85


def test_a_shorter_sweep_predicts_less_well_but_says_so() -> None:
    shorter = {name: {n: sweep[n] for n in sorted(sweep, key=int)[:-1]} for name, sweep in SWEEPS.items()}
    rows = judge(shorter)
    assert np.median([row.error for row in rows]) <= 0.10
    assert np.mean([row.covered for row in rows]) >= 0.85


def test_a_layer_is_predicted_by_its_known_form() -> None:
    """n^2 and n: the softmax and products of scores, and everything that acts on one position."""
    sizes = np.array(sorted(map(int, SWEEPS["layer"])), dtype=float)
    samples = [SWEEPS["layer"][str(int(n))] for n in sizes]
    known = sizes[:-HELD_OUT]
    fit = infer_terms([known**2, known], samples[:-HELD_OUT])
    predicted = fit.predict([sizes[-HELD_OUT:] ** 2, sizes[-HELD_OUT:]])[:, 1]
    measured = [np.quantile(values, 0.25) for values in samples[-HELD_OUT:]]
    assert predicted == pytest.approx(measured, rel=0.2)


def test_the_table_sums_up(held_out: list[HeldOut]) -> None:
    text = table(held_out)
    assert all(f"| {name} |" in text for name in SWEEPS)
    assert "median" in text.splitlines()[-1]


@pytest.mark.parametrize("name", SWEEPS)
def test_every_saved_operation_can_be_measured_again(name: str) -> None:
    sizes, make = operations()[name]
    assert [int(n) for n in SWEEPS[name]] or sizes
    assert make(sizes[0])() is not None
