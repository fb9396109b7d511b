"""Exports as their consumers read them, imports of what other tools write, and both ways."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from harness.export.benchmark import Exported
from harness.export.formats import READERS, WRITERS
from harness.store import UnreadableRun, read_rows, read_run
from tests.harness.gate.made import ROOT, bench, row, rows, write

REFERENCE = ROOT / "results" / "reference-seq_scaling-cpu"


@pytest.fixture(scope="module")
def exported() -> Exported:
    return Exported.of(read_run(REFERENCE), list(read_rows(REFERENCE)))


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("form", WRITERS)
def test_every_timed_case_is_written_in_strict_json(exported: Exported, form: str) -> None:
    text = WRITERS[form](exported)
    strict(text)
    assert len(exported.benchmarks) > 50
    assert all(json.dumps(one.name)[1:-1] in text for one in exported.benchmarks)


@pytest.mark.parametrize("form", READERS)
def test_there_and_back(exported: Exported, form: str) -> None:
    found = {one.name: one for one in READERS[form](strict(WRITERS[form](exported)), "file")}
    assert len(found) == len(exported.benchmarks)
    for one in exported.benchmarks:
        expected = median(one.samples) if form == "pytest-benchmark" else one.value
        assert found[one.name].seconds == pytest.approx(expected, rel=1e-9)


def test_pytest_benchmark_compares_what_we_write(exported: Exported, tmp_path: Path) -> None:
    path = tmp_path / "0001_ours.json"
    path.write_text(WRITERS["pytest-benchmark"](exported), "utf-8")
    table = tmp_path / "table.csv"
    command = ["compare", str(path), f"--csv={table}", "--columns=median,rounds", "--group-by=param:dtype"]
    module = [sys.executable, "-m", "pytest_benchmark", *command]
    done = subprocess.run(module, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = table.read_text().splitlines()
    assert len(lines) == len(exported.benchmarks) + 1
    first = exported.benchmarks[0]
    (line,) = (line for line in lines if first.name in line)
    assert any(
        float(cell) == pytest.approx(median(first.samples), rel=1e-6)
        for cell in line.split('"')[-1].split(",")
        if cell.replace(".", "").replace("e-", "").isdigit()
    )


def test_asv_loads_what_we_write(exported: Exported, tmp_path: Path) -> None:
    results = pytest.importorskip("asv.results", reason="asv is not installed: its parser was not asked")
    path = tmp_path / "machine" / "0000-existing.json"
    path.parent.mkdir()
    path.write_text(WRITERS["asv"](exported), "utf-8")
    loaded = results.Results.load(str(path))
    assert len(loaded.get_all_result_keys()) == len(exported.benchmarks)
    first = exported.benchmarks[0]
    assert loaded.get_result_value(f"attention.time_case('{first.name}')", []) == [first.value]


#: Files as the tools themselves write them, cut to what matters.
_ONE = {"run_type": "iteration", "real_time": 9}
GOOGLE = {
    "context": {"num_cpus": 2},
    "benchmarks": [
        {**_ONE, "name": "BM_a/8", "run_name": "BM_a/8", "cpu_time": 1.5, "time_unit": "us"},
        {**_ONE, "name": "BM_a/8", "run_name": "BM_a/8", "cpu_time": 2.5, "time_unit": "us"},
        {"run_type": "aggregate", "name": "BM_a/8_mean", "run_name": "BM_a/8", "cpu_time": 99},
        {"name": "BM_b", "run_type": "iteration", "cpu_time": 3, "time_unit": "ms"},
        {"name": "BM_c", "run_type": "iteration", "error_occurred": True, "error_message": "no"},
    ],
}  # fmt: skip


def test_units_and_repetitions_of_google_benchmark() -> None:
    a, b = READERS["google-benchmark"](GOOGLE, "g.json")
    assert (a.name, b.name) == ("BM_a/8", "BM_b")
    assert (a.seconds, b.seconds) == pytest.approx((2e-6, 3e-3))
    assert a.samples == pytest.approx((1.5e-6, 2.5e-6))


def test_bencher_counts_in_nanoseconds() -> None:
    (found,) = READERS["bencher"]({"x": {"latency": {"value": 88.0}}, "y": {"size": {"value": 1}}}, "b.json")
    assert found.name == "x"
    assert found.seconds == pytest.approx(88e-9)


def test_what_pytest_benchmark_itself_wrote(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("def test_it(benchmark):\n    benchmark(sum, range(1000))\n")
    made = tmp_path / "made.json"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(test),
        f"--benchmark-json={made}",
    ]
    quick = ["--benchmark-max-time=0.01", "--benchmark-min-rounds=3", "--rootdir", str(tmp_path)]
    subprocess.run([*command, *quick], check=True, capture_output=True, cwd=tmp_path)
    run = tmp_path / "run"
    bench("import", made, "--format", "pytest-benchmark", "--out", run)
    bench("check", run, "--baseline", run)
    (found,) = read_rows(run)
    stats = json.loads(made.read_text())["benchmarks"][0]["stats"]
    assert found.metrics["wall_time"].value == stats["median"]


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize(
    "data", [[], {"x": {"latency": {"value": "fast"}}}, None, {"benchmarks": [{"cpu_time": "no"}]}]
)
def test_a_wrong_file_is_refused_in_words(form: str, data: Any) -> None:
    if form == "bencher" and isinstance(data, dict) and "benchmarks" in data:
        data = {"x": {"latency": {}}}
    with pytest.raises(UnreadableRun, match=r"wrong\.json"):
        READERS[form](data, "wrong.json")


def test_the_commands_refuse_in_words(tmp_path: Path) -> None:
    run = write(tmp_path / "run", rows())
    assert "did you mean 'bencher'" in bench("export", run, "--format", "benchr", expect=2).stderr
    torn = tmp_path / "torn.json"
    torn.write_text(json.dumps(GOOGLE)[:200])
    done = bench("import", torn, "--format", "google-benchmark", "--out", tmp_path / "new", expect=2)
    assert str(torn) in done.stderr
    line = row("naive", 64, 1e-3)
    line["metrics"] = {}
    bench("export", write(tmp_path / "untimed", [line]), "--format", "asv", expect=2)
    assert json.loads(bench("export", run, "--format", "bencher").stdout)
