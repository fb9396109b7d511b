"""A run folder survives kills, and refuses what it cannot read by name."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import SCHEMA_VERSION
from harness.store import RunFolder, UnreadableRun, UnwritableRun, decode, encode, read_rows, read_run
from harness.types import (
    Case,
    DeviceInfo,
    Environment,
    ImplementationCard,
    Measurement,
    Result,
    Run,
    Status,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
measurements = st.builds(
    Measurement,
    value=finite,
    unit=st.sampled_from(["s", "B", "1"]),
    low=st.none() | finite,
    high=st.none() | finite,
    samples=st.lists(finite, max_size=4).map(tuple),
    note=st.text(max_size=8),
)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | finite | st.text(max_size=8)
results = st.builds(
    Result,
    case=st.builds(
        Case, st.text(), st.text(), st.text(), st.dictionaries(st.text(max_size=5), scalars, max_size=4)
    ),
    status=st.sampled_from(Status),
    reason=st.text(min_size=1, max_size=20),
    metrics=st.dictionaries(st.text(max_size=5), measurements, max_size=3),
    kernels=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    notes=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    flags=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    timing=st.dictionaries(st.text(max_size=5), scalars, max_size=2),
)

RUN = Run(
    schema=SCHEMA_VERSION,
    suite={"name": "study", "axes": {"seq_len": [64]}},
    question="?",
    operation="attention",
    variables={"n": "seq_len"},
    flop_convention="exact pairs",
    device="cpu",
    started="2026-01-01T00:00:00+00:00",
    command="run study.yaml",
    environment=Environment(DeviceInfo("cpu", "a CPU"), {"cores": 2}, {"torch": "2.13.0"}, None, None),
    implementations=(ImplementationCard("naive", "plain", True, {"time": "n^2*d"}),),
)


def row(seq_len: int) -> Result:
    return Result(Case("naive", "attention", "cpu", {"seq_len": seq_len}), Status.OK)


@given(results)
def test_a_row_survives_the_round_trip_as_strict_json(result: Result) -> None:
    line = encode(result)
    assert "\n" not in line
    json.loads(line, parse_constant=lambda name: pytest.fail(f"not strict JSON: {name}"))
    assert decode(line) == result


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_unknown_is_never_a_number(number: float) -> None:
    for fields in ({"value": number}, {"value": 1.0, "low": number}, {"value": 1.0, "samples": (number,)}):
        with pytest.raises(ValueError, match="finite"):
            Measurement(unit="s", **fields)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_a_failure_needs_a_reason(status: Status) -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        Result(Case("a", "attention", "cpu", {}), status)


def test_a_killed_run_keeps_its_whole_rows(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_run(RUN)
    folder.append(row(1))
    folder.append(row(2))
    with open(tmp_path / "rows.jsonl", "a") as rows:
        rows.write('{"case": {"implem')
    assert list(read_rows(tmp_path)) == [row(1), row(2)]
    folder.drop_torn_lines()
    folder.append(row(3))
    assert list(read_rows(tmp_path)) == [row(1), row(2), row(3)]
    assert read_run(tmp_path) == RUN


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(encode(row(1)) + '\n{"status": "fine"}\n')
    with pytest.raises(UnreadableRun, match=r"rows.jsonl:2: damaged row: .*--resume"):
        list(read_rows(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', "null", '{"schema": 99}'])
def test_an_unreadable_run_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(UnreadableRun, match=r"run\.json"):
        read_run(tmp_path)
    assert path.read_text() == text


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRun, match="give a folder that `bench run` wrote"):
        read_run(tmp_path / "nowhere")


def test_one_run_at_a_time(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    with first.held(), pytest.raises(UnwritableRun, match="another run is writing here"), second.held():
        pass
    with RunFolder(tmp_path).held():
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableRun, match="file: cannot be written"):
        RunFolder(tmp_path / "file")
    (tmp_path / "rows.jsonl").symlink_to("/dev/full")
    with pytest.raises(UnwritableRun, match="No space left on device"):
        RunFolder(tmp_path).append(row(1))


def test_run_json_is_replaced_whole(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_run(RUN)
    folder.write_run(replace(RUN, finished="2026-01-01T00:01:00+00:00"))
    assert read_run(tmp_path).finished == "2026-01-01T00:01:00+00:00"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
