"""`bench verify`: the table, the JSON and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from harness.commands import verify as command
from harness.types import BenchError
from harness.verify.claim import Bound, Claim, Finding, Unavailable, below

BENCH = Path(sys.executable).with_name("bench")


def missing() -> Finding:
    raise Unavailable("pip install weights")


FEW = [
    Claim("§3", "rows sum to one", lambda: Finding(0.0, below(1e-6), "float32", printed=("as printed",))),
    Claim("§5", "equivariant", lambda: Finding(0.0, below(1), "x"), "wrong", "It is not invariant."),
    Claim("§9", "needs weights", missing),
]
FAILING = Claim("§3", "softmax is hard", lambda: Finding(1.0, below(0.5), "x"))


def run(monkeypatch: pytest.MonkeyPatch, claims: list[Claim], *only: str, save: Path | None = None) -> str:
    monkeypatch.setattr(command, "claims", lambda: iter(claims))
    console = Console(width=80, markup=False, highlight=False)
    with console.capture() as shown:
        command.verify(only, save, console)
    return shown.get()


def test_the_table_fits_and_says_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    text = run(monkeypatch, FEW)
    assert "rows sum to one" in text
    assert "as printed" in text
    assert "2 claims: 2 PASS, 0 FAIL; 1 that the document states loosely or wrongly" in text
    assert "stated wrongly" in text
    assert "§9 not run: needs weights: pip install weights" in text
    table = [line for line in text.splitlines() if "PASS" in line and "claims:" not in line]
    assert table
    assert all(len(line) <= 80 for line in table)


def test_a_failure_ends_with_1_after_the_json_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "claims.json"
    with pytest.raises(BenchError, match=r"softmax is hard: 1, not < 0\.5") as failure:
        run(monkeypatch, [*FEW, FAILING], save=path)
    assert failure.value.exit_code == 1
    records = json.loads(path.read_text("utf-8"))
    assert {"section", "claim", "number", "bound", "verdict"} <= set(records[0])
    assert [(r["section"], r["verdict"]) for r in records] == [("§3", "PASS"), ("§3", "FAIL"), ("§5", "PASS")]


def test_a_pattern_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "equivariant" not in run(monkeypatch, FEW, "3")
    assert "rows sum" not in run(monkeypatch, FEW, "*EQUI*")
    with pytest.raises(BenchError, match="matches no claim; give a section"):
        run(monkeypatch, FEW, "§33")


def test_the_command_runs(tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    done = subprocess.run(
        [BENCH, "verify", "--only", "4", "--json", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "PASS — implementations are numerically equivalent." in done.stdout
    records = json.loads(path.read_text("utf-8"))
    assert all(record["section"] == "§4" and record["verdict"] == "PASS" for record in records)
    assert Bound(high=1e-5, strict=True).holds(records[0]["number"])
