"""Measured sweeps: what PyTorch's operations really cost, with the two largest sizes held out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real_sweeps import HELD_OUT, HeldOut, judge, operations, table

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


def test_known_forms_predict_as_well_and_cover() -> None:
    """A layer: n^2 for scores and softmax, n for everything that acts on one position."""
    rows = judge(SWEEPS, by_form=True)
    assert {row.operation for row in rows} == set(SWEEPS)
    assert {row.law for row in rows if row.operation == "layer"} == {"n^2 + n"}
    assert np.quantile([row.error for row in rows], 0.9) <= 0.20
    assert np.mean([row.covered for row in rows]) >= 0.85


def test_the_table_sums_up(held_out: list[HeldOut]) -> None:
    text = table(held_out)
    assert all(f"| {name} |" in text for name in SWEEPS)
    assert "median" in text.splitlines()[-1]


@pytest.mark.parametrize("name", SWEEPS)
def test_every_saved_operation_can_be_measured_again(name: str) -> None:
    sizes, make = operations()[name]
    assert [int(n) for n in SWEEPS[name]] or sizes
    assert make(sizes[0])() is not None
