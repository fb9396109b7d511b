"""A suite says what is wrong with it, where, and what was probably meant, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.located_yaml import SuiteError
from harness.suite import Suite
from harness.suite_file import read_suite

SUITES = Path(__file__).parents[2] / "suites"

GOOD = """\
name: study
implementations:
  - naive
  - sdpa_math
axes:
  seq_len: [64, 128]
  heads: 6
"""


def read(tmp_path: Path, text: str, kind: str = "cpu", **settings: Any) -> Suite:
    path = tmp_path / "study.yaml"
    path.write_text(text, "utf-8")
    return read_suite(path, kind, settings)


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.yaml")), ids=lambda path: path.stem)
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_every_shipped_suite_loads(path: Path, kind: str) -> None:
    suite = read_suite(path, kind)
    assert suite.name == path.stem
    assert suite.question.endswith("?")
    assert suite.groups(kind)


def test_groups_hold_every_case_once_in_growing_cost(tmp_path: Path) -> None:
    text = GOOD.replace("[64, 128]", "[128, 64]") + "  causal: [false, true]\n"
    groups = read(tmp_path, text).groups("cpu")
    assert len(groups) == 4
    costs = [group.problem.flops() for group in groups]
    assert costs == sorted(costs)
    assert all([c.implementation for c in g.cases] == ["naive", "sdpa_math"] for g in groups)


def test_problems_that_are_the_same_run_once(tmp_path: Path) -> None:
    text = GOOD + "  causal: [false, true]\n  alignment: [top_left, bottom_right]\n"
    assert len(read(tmp_path, text).groups("cpu")) == 4  # equal lengths: one mask per causal


def test_inputs_may_be_swept(tmp_path: Path) -> None:
    text = GOOD + "  input_scale: [0.3, 1, 3]\ninputs: [randn, ar1]\n"
    suite = read(tmp_path, text)
    assert suite.axes["distribution"] == ("randn", "ar1")
    drawn = {(group.problem.distribution, group.problem.input_scale) for group in suite.groups("cpu")}
    assert drawn == {(kind, scale) for kind in ("randn", "ar1") for scale in (0.3, 1.0, 3.0)}


def test_no_window_is_written_as_null(tmp_path: Path) -> None:
    suite = read(tmp_path, GOOD + "  window: [null, 16]\n")
    assert {group.problem.window for group in suite.groups("cpu")} == {None, 16}


def test_packed_lengths_need_no_seq_len(tmp_path: Path) -> None:
    text = GOOD.replace("seq_len: [64, 128]", "lengths: [100+37, 12+50+64]")
    assert [group.problem.seq_len for group in read(tmp_path, text).groups("cpu")] == [126, 137]


MISTAKES = {
    "no window by another name": (GOOD + "  window: none\n", 8, "axes.window", "valid integer"),
    "a length that is null": (GOOD.replace("[64, 128]", "null"), 6, "axes.seq_len", "valid integer"),
    "unreadable lengths": (
        GOOD.replace("seq_len: [64, 128]", "lengths: 100,37"), 6, "axes.lengths", "joined by +"),
    "lengths and a length": (GOOD + "  lengths: 3+4\n", 8, "axes.lengths", "leave seq_len and kv_len out"),
    "one of several inputs": (GOOD + "inputs: [randn, rand]\n", 8, "inputs", "or 'activations', got 'rand'"),
    "unknown key": (GOOD + "metrcs: [latency]\n", 8, "metrcs", "did you mean 'metrics'"),
    "unknown implementation": (
        GOOD.replace("naive", "naiv"), 3, "implementations", "did you mean 'naive'"),
    "duplicate key": (GOOD + "name: other\n", 8, "name", "duplicate key"),
    "duplicate axis": (GOOD + "  heads: 4\n", 8, "heads", "duplicate key"),
    "wrong type": (GOOD.replace("[64, 128]", "[64, many]"), 6, "axes.seq_len", "'many'"),
    "number as text": (GOOD.replace("[64, 128]", '["64"]'), 6, "axes.seq_len", "'64'"),
    "bool as number": (GOOD.replace("heads: 6", "heads: true"), 7, "axes.heads", "True"),
    "word for a bool": (GOOD + "  causal: on\n", 8, "axes.causal", "'on'"),
    "fraction": (GOOD.replace("heads: 6", "heads: 2.5"), 7, "axes.heads", "2.5"),
    "indivisible heads": (GOOD + "  kv_heads: 4\n", 8, "axes.kv_heads", "divisor of heads"),
    "no heads": (GOOD.replace("heads: 6", "heads: 0"), 7, "axes.heads", "at least 1"),
    "unknown axis": (GOOD + "  seqlen: 3\n", 8, "axes.seqlen", "did you mean 'seq_len'"),
    "unknown dtype": (GOOD + "  dtype: fp61\n", 8, "axes.dtype", "fp61"),
    "unknown pass": (GOOD + "  pass: sideways\n", 8, "axes.pass", "forward"),
    "unknown metric": (GOOD + "metrics: [latencyy]\n", 8, "metrics", "did you mean 'latency'"),
    "unknown operation": (GOOD + "operation: atention\n", 8, "operation", "did you mean 'attention'"),
    "unknown device": (
        GOOD + "devices:\n  cdua:\n    budget: 3\n", 9, "devices.cdua", "did you mean 'cuda'"),
    "unknown override": (
        GOOD + "devices:\n  cuda:\n    axis: {}\n", 10, "devices.cuda.axis", "did you mean 'axes'"),
    "override's axis": (
        GOOD + "devices:\n  cuda:\n    axes:\n      head: 3\n", 11, "cuda.axes.head", "did you mean 'heads'"),
    "override's implementation": (
        GOOD + "devices:\n  cuda:\n    implementations: [naive, sdpa]\n", 10, "implementations.1", "sdpa"),
    "named twice": (GOOD.replace("sdpa_math", "naive"), 4, "implementations.1", "twice"),
    "no implementation": (
        "name: a\nimplementations: []\naxes: {seq_len: 1}\n", 2, "implementations", "at least one"),
    "missing axis": (GOOD.replace("  seq_len: [64, 128]\n", ""), 5, "axes.seq_len", "must be given"),
    "missing key": (GOOD.replace("name: study\n", ""), 1, "name", "must be given"),
    "empty axis": (GOOD.replace("[64, 128]", "[]"), 6, "axes.seq_len", "at least one value"),
    "negative budget": (GOOD + "budget: -3\n", 8, "budget", "greater than 0"),
    "claim on nothing": (GOOD + "claims: {naiv: {time: n^2}}\n", 8, "claims.naiv", "did you mean 'naive'"),
    "claim of nothing": (
        GOOD + "claims: {naive: {tim: n^2}}\n", 8, "claims.naive.tim", "did you mean 'time'"),
    "claim unreadable": (GOOD + "claims: {naive: {time: n^^2}}\n", 8, "claims.naive.time", "n^^2"),
    "claim in another variable": (
        GOOD + "claims: {naive: {time: k^2}}\n", 8, "claims.naive.time", "known: batch"),
    "odd tag": (GOOD + "claims: !!omap [a: 1]\n", 8, "claims", "valid dictionary"),
    "merged axis": (
        GOOD + "devices:\n  cpu:\n    axes: &one {head: 1}\n  cuda:\n    axes: {<<: *one}\n",
        10, "cpu.axes.head", "did you mean 'heads'"),
    "endless budget": (GOOD + "budget: .inf\n", 8, "budget", "less than"),
    "overflowing timeout": (GOOD + "timeout: 1e400\n", 8, "timeout", "less than"),
    "a seed that is none": (GOOD + "seed: -1\n", 8, "seed", "greater than or equal to 0"),
    "no machine's length": (GOOD.replace("[64, 128]", "1e300"), 6, "axes.seq_len", "larger than any tensor"),
    "unknown distribution": (GOOD + "inputs: randm\n", 8, "inputs", "'ar1' or 'activations', got 'randm'"),
    "seed among the axes": (GOOD + "  seed: 3\n", 8, "axes.seed", "write `seed: …` at the top"),
    "broken YAML": (GOOD + "metrics: [latency\n", 9, "", "not YAML"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_file_line_key_and_fix(tmp_path: Path, mistake: str) -> None:
    text, line, key, fix = MISTAKES[mistake]
    with pytest.raises(SuiteError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert f"study.yaml:{line}:" in message
    assert key in message
    assert fix in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["a: " + "[" * 3000, "budget: 1" + "0" * 5000])
def test_what_no_parser_can_hold_is_one_message(tmp_path: Path, text: str) -> None:
    with pytest.raises(SuiteError, match=r"study\.yaml: not YAML that a suite can hold"):
        read(tmp_path, text)


def test_yaml_1_2_numbers(tmp_path: Path) -> None:
    suite = read(tmp_path, GOOD.replace("[64, 128]", "[1e3, 0x10]"))
    assert suite.axes["seq_len"] == (1000, 16)


def test_device_overrides_replace(tmp_path: Path) -> None:
    text = (
        GOOD
        + "budget: 9\ndevices:\n  cpu:\n    budget: 3\n    axes: {seq_len: 8}\n    implementations: [naive]\n"
    )
    cpu, cuda = read(tmp_path, text), read(tmp_path, text, "cuda")
    assert (cpu.budget, cpu.axes["seq_len"], cpu.implementations) == (3, (8,), ("naive",))
    assert (cuda.budget, cuda.axes["seq_len"]) == (9, (64, 128))


def test_settings_replace_axes_and_are_checked(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD, seq_len=[7]).axes["seq_len"] == (7,)
    with pytest.raises(SuiteError, match=r"--set seqlen: unknown axis; did you mean 'seq_len'"):
        read(tmp_path, GOOD, seqlen=[7])
    with pytest.raises(SuiteError, match=r"--set kv_heads: 6 query heads"):
        read(tmp_path, GOOD, kv_heads=[4])


def test_filters(tmp_path: Path) -> None:
    suite = read(tmp_path, GOOD)
    assert suite.select(["sdpa_*"], []).implementations == ("sdpa_math",)
    assert suite.select([], ["naive"]).implementations == ("sdpa_math",)
    with pytest.raises(SuiteError, match="--only naiv: matches no implementation"):
        suite.select(["naiv"], [])
    with pytest.raises(SuiteError, match="is left to run"):
        suite.select(["naive"], ["naive"])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="cannot be read: No such file"):
        read_suite(tmp_path / "none.yaml", "cpu")
