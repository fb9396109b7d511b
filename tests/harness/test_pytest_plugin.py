"""Suites as pytest-benchmark tests: what passes, skips and fails, and that its storage takes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = """
name: tiny
implementations: [naive, sdpa_math, triton_flash, uniform]
axes: {seq_len: [16, 32], heads: 1, head_dim: 16, dtype: float32}
devices: {cpu: {}}
"""
QUICK = ("--benchmark-only", "--benchmark-max-time=0.01", "--benchmark-min-rounds=2", "--suite-device=cpu")


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", *map(str, arguments)]
    plugin = [] if _installed() else ["-p", "harness.pytest_plugin"]
    return subprocess.run([*command, *plugin], capture_output=True, text=True, check=False, cwd=folder)


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(entry.name == "attnbench" for entry in entry_points(group="pytest11"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("suites")
    (made / "tiny.yaml").write_text(SUITE)
    (made / "pytest.ini").write_text("[pytest]\naddopts = --benchmark-disable\n")
    return made


def test_each_case_is_a_benchmark(folder: Path) -> None:
    done = run(folder, "tiny.yaml", *QUICK, f"--benchmark-json={folder / 'out.json'}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed, 2 skipped" in done.stdout
    assert "not timed: interpreted" in done.stdout
    found = json.loads((folder / "out.json").read_text())["benchmarks"]
    assert len(found) == 6
    assert {one["extra_info"]["implementation"] for one in found} == {"naive", "sdpa_math", "uniform"}
    assert all(one["extra_info"]["error"] < 2 and one["extra_info"]["kernels"] for one in found)
    assert len({one["group"] for one in found}) == 2
    assert found[0]["fullname"].startswith("tiny.yaml::test_case[naive-seq_len=16")


def test_storage_and_comparison_work(folder: Path) -> None:
    saved = ("-k", "naive", f"--benchmark-storage={folder / 'kept'}", *QUICK)
    assert run(folder, "tiny.yaml", *saved, "--benchmark-save=first").returncode == 0
    done = run(folder, "tiny.yaml", *saved, "--benchmark-compare=0001")
    assert done.returncode == 0, done.stdout
    assert "(0001_first)" in done.stdout


def test_an_incorrect_case_fails_with_its_figures(folder: Path) -> None:
    plugin = ROOT / "tests" / "harness" / "worker_plugin.py"
    (folder / "conftest.py").write_text(
        "from pathlib import Path\nfrom implementations.registry import load_plugin\n"
        f"load_plugin(Path({str(plugin)!r}))\n"
    )
    (folder / "wrong.yaml").write_text(SUITE.replace("naive, sdpa_math, triton_flash, uniform", "wrong"))
    done = run(folder, "wrong.yaml", *QUICK)
    (folder / "conftest.py").unlink()
    assert done.returncode == 1
    assert "incorrect: the output is off by" in done.stdout


def test_a_bad_suite_is_an_error_that_names_the_line(folder: Path) -> None:
    (folder / "bad.yaml").write_text(SUITE.replace("naive,", "naiv,"))
    done = run(folder, "bad.yaml", *QUICK)
    assert done.returncode == 2
    assert "bad.yaml:3" in done.stdout
    assert "did you mean 'naive'" in done.stdout


def test_suites_that_are_not_named_are_left_alone(folder: Path) -> None:
    done = run(folder, ".", "--collect-only")
    assert done.returncode == 5, done.stdout  # nothing was collected
