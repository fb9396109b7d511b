"""`bench table` on a run folder, as a process: what it prints, its JSON, its exit codes, and no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.types import DeviceInfo, Measurement, Result

from .report import synthetic

NAMES = ("naive", "sdpa_flash")
#: The command, then a failure if anything on the way imported torch.
CODE = """
import sys
from harness.cli import main
try:
    main(sys.argv[1:])
finally:
    assert "torch" not in sys.modules
"""


def bench(*arguments: object, expect: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CODE, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"COLUMNS": "240", "PYTHONHASHSEED": "0"}
    )
    assert done.returncode == expect, done.stderr
    return done


def first(shown: str, quantity: str) -> str:
    """The first row of a quantity."""
    return next(line for line in shown.splitlines() if line.strip().startswith(quantity))


def strict(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("good") / "run", {})


@pytest.fixture(scope="module")
def refuted_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("bad") / "run", {"naive": {"time": "n*d"}})


def _write(folder: Path, laws: dict[str, dict[str, str]]) -> Path:
    cards = tuple(
        replace(card, laws=laws.get(card.name, card.laws)) for card in synthetic.CARDS if card.name in NAMES
    )
    rows = list(synthetic.rows(cards=cards, fail=False))
    return synthetic.write(folder, synthetic.description(cards), rows)


def test_the_table_shows_claim_exponent_and_verdict(run_folder: Path) -> None:
    shown = bench("table", run_folder).stdout
    row = first(shown, "time")
    for words in ("n^2", "2.00", "confirmed"):
        assert words in row
    table = [line for line in shown.splitlines() if line.startswith((" quantity", " time ", " peak memory "))]
    assert max(map(len, table)) <= 80
    assert "No peak arithmetic and bandwidth are known for Example CPU" in shown


def test_json_is_strict_and_complete(run_folder: Path) -> None:
    rows = json.loads(bench("table", run_folder, "--json").stdout, parse_constant=strict)
    found = {(row["implementation"], row["quantity"]): row for row in rows}
    assert {name for name, _ in found} == set(NAMES)
    assert {quantity for _, quantity in found} == {"time", "peak memory", "FLOPs", "bytes"}
    time = found["naive", "time"]
    assert time["word"] == "confirmed"
    assert time["claim"] == "n^2"
    assert time["measured"]["low"] <= time["measured"]["value"] <= time["measured"]["high"]
    size, low, middle, high = time["predictions"][-1]
    assert size == 4 * synthetic.SIZES[-1]
    assert low <= middle <= high
    assert time["predictions"][0][0] == 2 * synthetic.SIZES[-1]
    assert next(iter(time["probabilities"])) == "n^2"
    assert sum(time["probabilities"].values()) == pytest.approx(1, abs=0.01)


def test_predictions_and_probabilities_stand_with_the_reasons(run_folder: Path) -> None:
    lines = bench("table", run_folder).stdout.splitlines()
    below = next(lines[k + 1] for k, line in enumerate(lines) if line.startswith(" time: "))
    assert "expected: " in below
    assert "at n = 8192" in below
    assert "at n = 16384" in below
    assert "probability: n^2 " in below


def test_strict_passes_when_nothing_is_refuted(run_folder: Path) -> None:
    bench("table", run_folder, "--strict")


def test_strict_exits_1_and_says_what_is_refuted(refuted_folder: Path) -> None:
    done = bench("table", refuted_folder, "--strict", expect=1)
    assert "naive: time ~ n in n is refuted" in done.stderr
    assert "Traceback" not in done.stderr
    assert "refuted" in done.stdout  # the table is printed all the same
    bench("table", refuted_folder)  # without --strict a refuted law is a result like any other


def test_strict_json_is_still_json(refuted_folder: Path) -> None:
    done = bench("table", refuted_folder, "--json", "--strict", expect=1)
    words = {row["word"] for row in json.loads(done.stdout, parse_constant=strict)}
    assert "refuted" in words


def test_an_impossible_time_is_called_so(tmp_path: Path) -> None:
    def flat(result: Result) -> Result:
        time = Measurement(0.0143, "s", samples=(0.0143,) * 5)
        return replace(result, metrics={"cpu_time": time, "flops": result.metrics["flops"]})

    run = synthetic.description(synthetic.CARDS[:1])
    device = DeviceInfo("cuda", "NVIDIA H200", {"memory_bytes": 1 << 37})
    run = replace(run, environment=replace(run.environment, device=device))
    rows = [flat(r) for r in synthetic.rows(cards=synthetic.CARDS[:1], fail=False)]
    folder = synthetic.write(tmp_path / "run", run, rows)
    shown = bench("table", folder).stdout
    assert "impossible" in first(shown, "time")
    assert "Times were held against the peaks of NVIDIA H200" in shown
    (time,) = [r for r in json.loads(bench("table", folder, "--json").stdout) if r["quantity"] == "time"]
    assert time["word"] == "impossible"
    assert "0.0143 s to 0.0143 s from n = 32 to 4096" in time["reason"]


@pytest.mark.parametrize("content", [None, "not JSON", '{"schema": 1}'])
def test_an_unreadable_folder_exits_2(tmp_path: Path, content: str | None) -> None:
    folder = tmp_path / "run"
    if content is not None:
        folder.mkdir()
        (folder / "run.json").write_text(content)
    done = bench("table", folder, expect=2)
    assert done.stderr.startswith("bench: ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
