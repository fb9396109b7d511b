"""The complexity table in every variable of the field's laws, not in the sequence length alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.complexity import parse_law
from harness.report.tables import complexity_table
from harness.types import Case, ImplementationCard, Measurement, Result, Scalar, Status
from tests.harness.report import synthetic

VARIABLES = {
    "n": "seq_len",
    "d": "head_dim",
    "heads": "heads",
    "batch": "batch",
    "d_model": "d_model",
    "d_ff": "d_ff",
}
FORM = parse_law("batch*heads*n^2*d + batch*n*d_model*d_ff")
#: Variable -> how the form grows in it.
GROWTH = {"n": "n^2", "d": "n", "heads": "n", "batch": "n", "d_model": "n", "d_ff": "n"}
SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)
HELD = {"n": 512, "d": 64, "heads": 4, "batch": 2, "d_model": 256, "d_ff": 1024}


def rows(variable: str) -> list[Result]:
    """Times of 3 % noise and exact FLOPs, the other variables held."""
    rng = np.random.default_rng(3)
    found = []
    for size in SIZES:
        values = {**HELD, variable: size}
        flops = float(2 * FORM({name: np.array(float(value)) for name, value in values.items()}))
        seconds = tuple((1e-10 * flops * np.exp(0.03 * rng.standard_normal(30))).tolist())
        problem: dict[str, Scalar] = {VARIABLES[name]: value for name, value in values.items()}
        metrics = {
            "cpu_time": Measurement(float(np.median(seconds)), "s", samples=seconds),
            "flops": Measurement(flops, "FLOP"),
        }
        found.append(Result(Case("layer", "layer", "cpu", problem), Status.OK, metrics=metrics))
    return found


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_growth_in_each_variable_is_judged_and_predicted(variable: str) -> None:
    card = ImplementationCard("layer", "", True, {"time": str(FORM), "flops": str(FORM)})
    run = replace(synthetic.description((card,)), operation="layer", variables=VARIABLES)
    table = complexity_table(run, rows(variable))
    assert {row.variable for row in table.rows} == {variable}
    found = {row.quantity: row for row in table.rows}
    flops = found["FLOPs"]
    assert flops.word == "confirmed"
    assert flops.claim == GROWTH[variable].replace("n", variable)
    for factor, (size, _, middle, _) in zip((2, 4), flops.predictions, strict=True):
        values = {**HELD, variable: factor * SIZES[-1]}
        assert size == values[variable]
        expected = float(2 * FORM({name: np.array(float(value)) for name, value in values.items()}))
        assert middle == pytest.approx(expected, rel=1e-6)
    time = found["time"]
    assert time.word in ("confirmed", "inconclusive")
    assert all(law in ("1", "other") or variable in law for law in time.probabilities)
    assert len(time.predictions) == 2
