"""The command lines of the README run as they stand there, on little."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness import SCHEMA_VERSION
from harness.store import RunFolder
from harness.types import Case, DeviceInfo, Environment, Measurement, Result, Run, Status

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BENCH = Path(sys.executable).with_name("bench")
#: The others run in test_cli.py; `bench inspect`, which compiles for minutes, in test_cli_inspect.py; and the
#: gate, which needs a repository and a baseline, in gate/.
ELSEWHERE = {"inspect", "list", "info", "ab", "check"}
LINES = [
    line for line in re.findall(r"^(bench .*?) +#", README, flags=re.M) if line.split()[1] not in ELSEWHERE
]
#: Options that keep a command small; the words of the README stay.
LITTLE = {
    "run": ["--only", "uniform", "--set", "seq_len=32", "--set", "dtype=float32"],
    "count": ["--only", "uniform", "--set", "dtype=float32"],
    "verify": ["--only", "*its sum is 1*"],
}


def write_run(path: Path) -> None:
    """Two sizes of one implementation."""
    folder = RunFolder(path)
    environment = Environment(DeviceInfo("cpu", "a CPU"), {}, {}, None, None)
    suite = {"name": path.name, "axes": {"seq_len": [8, 16]}}
    folder.write_run(
        Run(SCHEMA_VERSION, suite, "How?", "attention", {"n": "seq_len"}, "a multiply-add is 2", "cpu",
            "2026-01-01T00:00:00+00:00", "bench run", environment, ())
    )  # fmt: skip
    for n in (8, 16):
        case = Case("naive", "attention", "cpu", {"seq_len": n, "heads": 1, "head_dim": 8, "batch": 1})
        folder.append(Result(case, Status.OK, metrics={"cpu_time": Measurement(n * n * 1e-6, "s")}))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the suites, and with the runs that the README names."""
    (tmp_path / "suites").symlink_to(ROOT / "suites")
    for name in ("RUN", "A", "B"):
        write_run(tmp_path / "results" / name)
    return tmp_path


def test_the_readme_shows_the_commands() -> None:
    assert {line.split()[1] for line in LINES} == {"run", "report", "table", "count", "verify"}


@pytest.mark.parametrize("line", LINES)
def test_it_runs(line: str, place: Path) -> None:
    words = shlex.split(line)[1:]
    done = subprocess.run(
        [BENCH, *words, *LITTLE.get(words[0], [])],
        cwd=place, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
    if "-o" in words:
        assert (place / words[words.index("-o") + 1]).read_text().lower().startswith("<!doctype html>")
    if "--report" in words:
        assert list((place / "reports").glob("*.html"))
