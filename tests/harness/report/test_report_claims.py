"""The page shows the claims that were verified beside a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.report import render
from harness.report.claims import CLAIMS_FILE, drawings, read_claims, table
from harness.report.grid import Cell
from harness.store import UnreadableRun

REFERENCE = Path(__file__).parents[3] / "results" / "reference-seq_scaling-cpu"


def record(**more: Any) -> dict[str, Any]:
    return {"section": "§3", "claim": "rows sum to 1", "number": 1e-7, "bound": "< 1e-06", "verdict": "PASS",
            **more}  # fmt: skip


CURVED = record(
    claim="vanishes",
    figures=[
        {"title": "Gradient over depth", "x_label": "layers", "y_label": "norm", "log_y": True,
         "curves": [{"name": "pre", "xs": [1, 2, 4], "ys": [1.0, 0.5, 0.0]}]},
        {"title": "nothing to draw", "x_label": "layers", "y_label": "norm", "log_y": True,
         "curves": [{"name": "pre", "xs": [1, 2], "ys": [0.0, 0.0]}]},
    ],
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "run"
    shutil.copytree(REFERENCE, copy)
    return copy


def test_the_page_shows_the_claims(folder: Path, tmp_path: Path) -> None:
    failing = record(
        claim="a hard claim", number=None, verdict="FAIL", document="wrong", care="It is not so."
    )
    (folder / CLAIMS_FILE).write_text(json.dumps([record(), CURVED, failing]), "utf-8")
    render(folder, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text("utf-8")
    for words in ("Claims of the document", "rows sum to 1", "a hard claim", "It is not so.",
                  "2 pass, 1 fail", "Gradient over depth"):  # fmt: skip
        assert words in html, words


def test_without_claims_there_is_no_section(folder: Path, tmp_path: Path) -> None:
    render(folder, tmp_path / "page.html")
    assert "Claims of the document" not in (tmp_path / "page.html").read_text("utf-8")


def test_unknown_numbers_are_no_zero() -> None:
    row = table([record(number=None, verdict="FAIL")]).rows[0]
    assert isinstance(row[2], Cell)
    assert row[2].text == "—"
    assert table([record(number=16_777_216)]).rows[0][2] == "16,777,216"


def test_curves_are_drawn_where_they_have_a_logarithm() -> None:
    (plane,) = drawings([CURVED, record()])
    assert [(spot.x, spot.y) for spot in plane.series[0].points] == [(1, 1.0), (2, 0.5)]


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"section": "§3"}]'])
def test_another_file_is_named_with_the_fix(folder: Path, text: str) -> None:
    (folder / CLAIMS_FILE).write_text(text, "utf-8")
    with pytest.raises(UnreadableRun, match=r"claims\.json: not .*bench verify --json"):
        read_claims(folder)
