"""Triton flash attention against float64, in a process of its own whose Triton interprets its kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.implementations.flash_cases import (
    CASES,
    DECODED,
    DRIFT,
    HALVES,
    LAYOUTS,
    MASKS,
    PACKED,
    RECTANGLES,
    WINDOWS,
    Case,
)

HERE = Path(__file__).parent
NAMES = ("out", "dq", "dk", "dv")
LIMITS = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What the child process found. One BLAS thread: the interpreter's small products only lose by more."""
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE)])
    environment = {
        **os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(HERE / "flash_process.py")],
        capture_output=True, text=True, env=environment, timeout=1800, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("name", list(CASES))
def test_output_and_gradients_match_float64(found: dict[str, Any], name: str) -> None:
    assert found[name]["finite"]
    assert dict(zip(NAMES, found[name]["ours"], strict=True)) == pytest.approx(
        dict.fromkeys(NAMES, 0.0), abs=LIMITS[CASES[name].dtype]
    )


@pytest.mark.parametrize("case", [*DRIFT, *HALVES], ids=str)
def test_errors_are_at_most_a_fifth_above_those_of_pytorch(found: dict[str, Any], case: Case) -> None:
    ours, theirs = found[str(case)]["ours"], found[str(case)]["theirs"]
    ratios = {name: a / b for name, a, b in zip(NAMES, ours, theirs, strict=True)}
    assert max(ratios.values()) <= 1.2, ratios


@pytest.mark.parametrize("case", [*RECTANGLES, *MASKS, *WINDOWS, *DECODED], ids=str)
def test_rows_that_see_no_key_are_exactly_zero(found: dict[str, Any], case: Case) -> None:
    """Output and gradient; what they send to keys and values is part of the comparison with float64."""
    assert found[str(case)]["blind_values"] == 0.0


def test_every_rule_has_cases_with_blind_rows(found: dict[str, Any]) -> None:
    """So that the test before this one has something to look at."""
    for cases in (RECTANGLES, MASKS, WINDOWS, DECODED):
        assert sum(found[str(case)]["blind_rows"] for case in cases) > 0, cases


def test_any_case_is_right(found: dict[str, Any]) -> None:
    assert found["property"] == ""


def test_few_queries_to_many_keys_are_decoded(found: dict[str, Any]) -> None:
    for case in DECODED:
        assert found[str(case)]["kernels"][:2] == ["flash_decode", "flash_merge"]
    for case in (*RECTANGLES, *PACKED):
        assert found[str(case)]["kernels"][0] == "flash_forward"


def test_the_merged_log_sum_exp_is_that_of_all_keys(found: dict[str, Any]) -> None:
    assert found["log_sum_exp"] < 1e-5


def test_packed_sequences_never_touch_each_other(found: dict[str, Any]) -> None:
    assert found["neighbours"] == [True] * 4


def test_upper_channels_count(found: dict[str, Any]) -> None:
    """A kernel that reads only the first 64 channels sees uniform attention here."""
    case = next(case for case in LAYOUTS if case.channels)
    assert found[str(case)]["ours"][0] < 1e-6
    assert found[str(case)]["uniform"] > 0.1


def test_nothing_is_stored_outside_the_tensors(found: dict[str, Any]) -> None:
    assert found["guarded_stores"]


def test_any_number_of_heads_fits_the_grid(found: dict[str, Any]) -> None:
    """Only a grid's first axis may be longer than 65,535."""
    grid, reason = found["grids"]
    assert grid == [140_000]
    assert "2,800,000,000" in reason


def test_offsets_are_64_bit(found: dict[str, Any]) -> None:
    assert found["offset"] == 4_587_520_000


def test_what_is_not_taken_is_said(found: dict[str, Any]) -> None:
    said = found["refusals"]
    assert "gradient" in said["gradient"]
    assert "(3, 4)" in said["shape"]
    assert "causal_offset" in said["window"]
    assert "not both" in said["both"]
