"""What `bench check` takes for a thousand stored cases, as a process, start of Python included.

    make bench ARGS="-k thousand"

In `make test` it runs once, without timing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

REFERENCE = Path(__file__).parents[1] / "results" / "reference-seq_scaling-cpu"
CASES = 1000


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A run folder with the reference run's first measured row at a thousand lengths."""
    rows = (json.loads(line) for line in (REFERENCE / "rows.jsonl").read_text("utf-8").splitlines())
    row = next(row for row in rows if row["status"] == "ok")
    problems = [{**row["case"]["problem"], "seq_len": length} for length in range(100, 100 + CASES)]
    many = [{**row, "case": {**row["case"], "problem": problem}} for problem in problems]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in many))
    (tmp_path / "run.json").write_bytes((REFERENCE / "run.json").read_bytes())
    return tmp_path


def test_a_thousand_cases(benchmark: BenchmarkFixture, stored: Path) -> None:
    """A run against itself."""
    command = [str(Path(sys.executable).with_name("bench")), "check", str(stored), "--baseline", str(stored)]
    done = benchmark(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{CASES} same" in done.stdout
