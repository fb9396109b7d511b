"""The command line as people meet it: in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.store import read_rows, read_run
from harness.types import Status

ROOT = Path(__file__).parents[2]
BENCH = Path(sys.executable).with_name("bench")

SUITE = """\
name: tiny
question: Does it run?
implementations: [naive, sdpa_math, sdpa_cudnn]
axes:
  seq_len: [16, 32]
  heads: 2
  head_dim: 16
metrics: [latency, memory, accuracy, counts, throughput]
budget: 20
"""

PLUGIN = """\
import time
from implementations.registry import implementation

@implementation("mine", operation="attention", exact=True, laws={"time": "n^2*d"})
def mine(problem):
    \"\"\"A user's own kernel.\"\"\"
    def attend(inputs):
        %s
        return (inputs.q @ inputs.k.mT * problem.scale).softmax(-1) @ inputs.v
    return attend
"""


def bench(*arguments: str | Path, cwd: Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [BENCH, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300,
        env={**os.environ, "COLUMNS": "200"}, check=False,
    )  # fmt: skip
    assert done.returncode == expect, done.stdout + done.stderr
    return done


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SUITE)
    return path


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.yaml").write_text(SUITE)
    (folder / "mine.py").write_text(PLUGIN % "pass")
    bench("run", "tiny.yaml", "--plugin", "mine.py", "--out", "out", "--report", cwd=folder)
    return folder


def test_a_run_leaves_rows_a_description_and_a_page(tiny_run: Path) -> None:
    rows = list(read_rows(tiny_run / "out"))
    run = read_run(tiny_run / "out")
    assert len(rows) == 8  # the plugin's kernel joined
    ok = {row.case.implementation for row in rows if row.status is Status.OK}
    assert ok == {"naive", "sdpa_math", "mine"}
    assert all(row.reason for row in rows if row.status is not Status.OK)
    assert run.finished is not None
    assert (tiny_run / "reports" / "out.html").read_text().lower().startswith("<!doctype html>")


def test_every_ok_row_has_time_memory_error_and_work(tiny_run: Path) -> None:
    for row in read_rows(tiny_run / "out"):
        if row.status is Status.OK:
            wanted = {"cpu_time", "wall_time", "peak_memory", "error", "flops", "flop_rate"}
            assert wanted <= row.metrics.keys() | row.notes.keys()
            assert len(row.metrics["cpu_time"].samples) >= 5
            assert row.kernels


def test_rows_are_what_the_documentation_says(tiny_run: Path) -> None:
    for line in (tiny_run / "out" / "rows.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert {"status", "reason", "case", "metrics"} <= row.keys()
        assert {"implementation", "problem"} <= row["case"].keys()
        assert row["case"]["problem"]["seq_len"] in (16, 32)


def test_a_finished_run_has_nothing_left_to_do(tiny_run: Path) -> None:
    before = (tiny_run / "out" / "rows.jsonl").read_bytes()
    bench("run", "tiny.yaml", "--plugin", "mine.py", "--out", "out", "--resume", cwd=tiny_run)
    assert (tiny_run / "out" / "rows.jsonl").read_bytes() == before


def test_a_run_is_not_overwritten_or_mixed(tiny_run: Path) -> None:
    again = bench("run", "tiny.yaml", "--out", "out", cwd=tiny_run, expect=2)
    assert "holds a run already" in again.stderr
    other = bench("run", "tiny.yaml", "--out", "out", "--resume", cwd=tiny_run, expect=2)
    assert "another suite, device or options" in other.stderr


def test_a_mistake_runs_nothing(suite: Path) -> None:
    suite.write_text(SUITE.replace("heads: 2", "heads: 2\n  kv_heads: 3"))
    done = bench("run", suite, "--out", suite.parent / "out", cwd=suite.parent, expect=2)
    assert re.fullmatch(r"bench: \S*tiny\.yaml:7: axes\.kv_heads: .*\n", done.stderr)
    assert not (suite.parent / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--only", "nothing"], "--only nothing: matches no implementation"),
        (["--set", "seqlen=3"], "did you mean 'seq_len'"),
        (["--set", "seq_len"], "write axis=value"),
        (["--budget", "0"], "more than 0"),
        (["--budget", "nan"], "more than 0"),
        (["--budget", "inf"], "must be a number"),
        (["--plugin", "exits.py"], "--plugin exits.py: SystemExit: 0"),
        (["--plugin", "none.py"], "no such plugin file"),
        (["--device", "tpu"], "tpu"),
        (["--resume"], "no unfinished run"),
    ],
)
def test_a_bad_option_is_a_sentence(suite: Path, options: list[str], words: str) -> None:
    (suite.parent / "exits.py").write_text("raise SystemExit(0)\n")
    done = bench("run", suite, *options, cwd=suite.parent, expect=2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_cuda_without_cuda_is_an_error(suite: Path) -> None:
    import torch

    if torch.cuda.is_available():
        assert "cuda" in bench("info", "--device", "cuda", cwd=suite.parent).stdout
        return
    done = bench("run", suite, "--device", "cuda", cwd=suite.parent, expect=2)
    assert "CUDA" in done.stderr


def test_a_dry_run_predicts_and_measures_nothing(suite: Path) -> None:
    done = bench("run", suite, "--dry-run", cwd=suite.parent)
    assert "naive seq_len=32" in done.stdout
    assert re.search(r"naive seq_len=32\s+│\s+[\d.]+ kB\s+│\s+[\d.]+ .?s", done.stdout)
    assert re.search(r"In all about [\d.]+ .?s of timing, of a budget of 20", done.stdout)
    assert not (suite.parent / "results").exists()


def test_an_impossible_size_is_skipped_with_its_memory(suite: Path) -> None:
    done = bench("run", suite, "--only", "naive", "--set", "seq_len=1048576", "--out", "out",
                 cwd=suite.parent, expect=1)  # fmt: skip
    (row,) = read_rows(suite.parent / "out")
    assert row.status is Status.SKIPPED
    assert "predicted peak memory 17," in row.reason  # 2·n²·4 B per head, two heads
    assert "no case could be measured" in done.stderr


def test_list_says_where_everything_runs_and_why_not(tmp_path: Path) -> None:
    done = bench("list", cwd=tmp_path)
    lines = {line.split("│")[1].strip(): line for line in done.stdout.splitlines() if line.count("│") > 4}
    assert {"naive", "sdpa_flash", "flex", "triton_flash", "xformers", "performer", "uniform"} <= lines.keys()
    assert "no: " in lines["sdpa_cudnn"] or "runs" in lines["sdpa_cudnn"]


def test_info_names_the_versions(tmp_path: Path) -> None:
    assert "torch" in bench("info", cwd=tmp_path).stdout


def test_help_is_quick_and_imports_no_torch() -> None:
    def seconds() -> float:
        before = time.perf_counter()
        subprocess.run([BENCH, "--help"], check=True, capture_output=True)
        return time.perf_counter() - before

    assert statistics.median(seconds() for _ in range(5)) < 1.0  # 0.2 s when nothing else runs


def start(suite: Path, sleep: str) -> subprocess.Popen[str]:
    """A run whose plugin sleeps in every call."""
    (suite.parent / "slow.py").write_text(PLUGIN % f"time.sleep({sleep})")
    return subprocess.Popen(
        [BENCH, "run", suite, "--plugin", "slow.py", "--skip", "sdpa_*", "--out", "out"],
        cwd=suite.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_rows(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    rows = folder / "rows.jsonl"
    while not rows.exists() or rows.read_text().count("\n") < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_goes_on(suite: Path, blow: signal.Signals) -> None:
    running = start(suite, "0.03")
    wait_for_rows(suite.parent / "out", 1)
    running.send_signal(blow)
    _, errors = running.communicate(timeout=60)
    if blow is signal.SIGINT:
        assert running.returncode == 130
        assert "go on with --resume" in errors
    kept = list(read_rows(suite.parent / "out"))
    assert read_run(suite.parent / "out").finished is None
    bench(
        "run", suite, "--plugin", "slow.py", "--skip", "sdpa_*", "--out", "out", "--resume", cwd=suite.parent
    )
    rows = list(read_rows(suite.parent / "out"))
    assert rows[: len(kept)] == kept
    assert len({row.case.key for row in rows}) == len(rows) == 4
    assert read_run(suite.parent / "out").finished is not None
