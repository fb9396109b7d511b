"""Suites of several operations: read with their places, run as one, told apart in the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.families import families
from harness.located_yaml import SuiteError
from harness.report.records import arrange
from harness.suite import Suite
from harness.suite_file import read_suite
from harness.types import Case, Measurement, Result, Status

SUITES = Path(__file__).parents[2] / "suites"
TEXT = """\
name: study
implementations: [naive]
axes: {seq_len: [8, 16, 32, 64], heads: 2, head_dim: 4}
also:
  - operation: feedforward
    implementations: [ffn, ffn_plain]
    axes: {seq_len: [8, 16, 32, 64], d_model: 8, d_ff: 16}
    claims: {ffn: {depth: "1"}}
"""


def read(tmp_path: Path, text: str, **settings: object) -> Suite:
    path = tmp_path / "study.yaml"
    path.write_text(text, "utf-8")
    return read_suite(path, "cpu", settings)


def test_every_operation_has_its_cases_in_growing_cost(tmp_path: Path) -> None:
    suite = read(tmp_path, TEXT)
    groups = suite.groups("cpu")
    assert [g.problem.flops() for g in groups] == sorted(g.problem.flops() for g in groups)
    cases = [case for group in groups for case in group.cases]
    assert {(c.operation, c.implementation) for c in cases} == {
        ("attention", "naive"), ("feedforward", "ffn"), ("feedforward", "ffn_plain"),
    }  # fmt: skip
    assert len(cases) == 12
    assert {family.case.operation for family in families(suite)} == {"attention", "feedforward"}
    assert suite.describe()["also"][0]["implementations"] == ["ffn", "ffn_plain"]


def test_patterns_choose_from_all_operations(tmp_path: Path) -> None:
    suite = read(tmp_path, TEXT)
    assert suite.select(["ffn*"], []).every_implementation == ("ffn", "ffn_plain")
    assert suite.select(["ffn*"], []).operation.name == "feedforward"
    assert suite.select([], ["ffn_plain"]).every_implementation == ("naive", "ffn")
    with pytest.raises(SuiteError, match="ffn_plain"):
        suite.select(["ffn_plian"], [])


def test_settings_reach_every_operation_that_has_the_axis(tmp_path: Path) -> None:
    suite = read(tmp_path, TEXT, seq_len=[128], heads=[1])
    assert {group.problem.seq_len for group in suite.groups("cpu")} == {128}
    assert suite.parts[0].axes["heads"] == (1,)
    assert "heads" not in suite.parts[1].axes


@pytest.mark.parametrize(
    ("wrong", "right", "words"),
    [
        ("ffn, ffn_plain", "fnn", r"study.yaml:6: implementations.0: .*did you mean"),
        ("d_ff: 16", "dff: 16", r"study.yaml:7: axes.dff: unknown axis"),
        ("operation: feedforward", "operation: feedfoward", r"study.yaml:5: operation: .*did you mean"),
        ("[ffn, ffn_plain]", "[naive]", r"study.yaml:6: implementations.0: naive computes attention"),
        ('depth: "1"', 'deep: "1"', r"study.yaml:8: also.0.claims.ffn.deep"),
    ],
)
def test_faults_name_their_place(tmp_path: Path, wrong: str, right: str, words: str) -> None:
    with pytest.raises(SuiteError, match=words):
        read(tmp_path, TEXT.replace(wrong, right))


def test_the_complexity_table_has_every_row() -> None:
    suite = read_suite(SUITES / "complexity_table.yaml", "cpu")
    assert [part.operation.name for part in suite.parts] == ["attention", "feedforward", "layer", "recurrent"]
    assert {"naive", "sdpa_flash", "linear_elu", "ffn", "layer_naive"} <= set(suite.every_implementation)


def test_operations_are_an_axis_of_the_report(tmp_path: Path) -> None:
    from tests.harness.report.synthetic import description

    rows = [
        Result(case, Status.OK, metrics={"cpu_time": Measurement(1.0, "s")})
        for group in read(tmp_path, TEXT).groups("cpu")
        for case in group.cases
    ]
    records = arrange(description(), rows)
    assert records.axes == ("seq_len", "operation")
    assert {facet.label for facet in records.facets("seq_len")} == {"attention", "feedforward"}
    assert all(len(facet.results) in (4, 8) for facet in records.facets("seq_len"))
    assert "d_ff" not in records.constants
    assert records.constants["dtype"] == "float32"
    alone = [row for row in rows if row.case.operation == "feedforward"]
    assert arrange(description(), alone).axes == ("seq_len",)
    assert isinstance(alone[0].case, Case)
    assert "operation" not in alone[0].case.problem
