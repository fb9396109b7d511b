"""Environments, quarantine, baselines, confirmation and outputs."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.gate import outputs
from harness.gate.compare import judge
from harness.gate.confirming import Outcome, settled, suspects
from harness.gate.findings import Finding, Judgement, Verdict
from harness.gate.page import regressions
from harness.gate.quads import Decision
from harness.gate.quarantine import read_quarantine
from harness.gate.reading import run_side
from harness.gate.side import Side
from harness.types import BenchError

from .made import Row, bench, changed, environment, row, rows, verdicts, write

TODAY = datetime.date(2026, 6, 1)
Make = Callable[..., Side]


@pytest.fixture
def side(tmp_path: Path) -> Make:
    """A side of rows on a machine."""

    def make(lines: list[Row], where: dict[str, Any] | None = None, **run: Any) -> Side:
        return run_side(write(tmp_path / "run", lines, where, **run))

    return make


REFUSED = [
    ({"name": "NVIDIA H100"}, "NVIDIA H200"),
    ({"memory_bytes": 80_000_000_000}, "memory bytes"),
    ({"compute_capability": "8.0"}, "compute capability"),
    ({"mig": "3g.71gb"}, "mig"),
]
FINE: list[dict[str, Any]] = [{"uuid": "GPU-2"}, {"host": "another"}]
NEW_EPOCH = [({"driver": "590.2"}, "driver 580.1 → 590.2"), ({"torch": "2.14.0"}, "torch 2.13.0 → 2.14.0"),
             ({"power_cap_w": 500.0}, "power cap"), ({"clock_lock": "1980"}, "clock lock")]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_other_hardware_is_refused(side: Make, change: dict[str, Any], words: str) -> None:
    gpu = rows("cuda:0")
    found = judge(side(gpu, environment("cuda", **change)), side(gpu, environment("cuda")))
    assert found.exit_codes() == (4,)
    assert words in found.refusals[0]
    assert found.findings == ()


@pytest.mark.parametrize("change", FINE)
def test_the_same_gpu_elsewhere_is_fine(side: Make, change: dict[str, Any]) -> None:
    before = side(rows("cuda:0"), environment("cuda"))
    found = judge(side(rows("cuda:1"), environment("cuda", **change)), before)
    assert (found.exit_codes(True), dict(found.counts), found.warnings) == ((0,), {"same": 12}, ())


@pytest.mark.parametrize(("change", "words"), NEW_EPOCH)
def test_other_software_is_a_new_epoch(side: Make, change: dict[str, Any], words: str) -> None:
    gpu = rows("cuda:0")
    found = judge(side(gpu, environment("cuda", **change)), side(gpu, environment("cuda")))
    assert found.exit_codes(True) == (0,)
    assert words in found.warnings[0]
    assert "new epoch" in found.warnings[0]


@pytest.mark.parametrize(
    "change", [{"flop_convention": "2·pairs"}, {"operation": "layer"}, {"suite": {"name": "y"}}]
)
def test_other_definitions_are_refused(side: Make, change: dict[str, Any]) -> None:
    assert judge(side(rows(), **change), side(rows())).exit_codes() == (4,)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    run, old = write(tmp_path / "run", rows()), write(tmp_path / "old", rows(), schema=0)
    assert "schema 0" in bench("check", run, "--baseline", old, expect=4).stderr
    bench("check", old, "--baseline", run, expect=4)


QUARANTINE = """
- case: "{case}"
  reason: waits for a compiler
  owner: ann
  expires: {expires}
"""


def quarantined(side: Make, case: str, expires: str, change: Callable[[Row], object]) -> Judgement:
    text = QUARANTINE.format(case=case, expires=expires)
    entries = read_quarantine(text, Path("quarantine.yaml"), TODAY)
    return judge(side(changed(rows(), 0, change)), side(rows()), quarantine=entries)


def crash(line: Row) -> None:
    line.update(status="crashed", reason="SIGSEGV", metrics={})


def test_quarantine_excuses_until_it_expires(side: Make) -> None:
    excused = quarantined(side, "naive", "2026-06-01", crash)
    assert (excused.exit_codes(), excused.counts["quarantined"]) == ((0,), 1)
    (finding,) = (f for f in excused.findings if f.verdict is Verdict.QUARANTINED)
    assert "2026-06-01 by ann: waits for a compiler" in finding.words
    expired = quarantined(side, "naive", "2026-05-31", crash)
    assert expired.exit_codes() == (3, 1)
    assert "ended on 2026-05-31" in expired.expired[0]
    assert quarantined(side, "naive", "2026-05-31", lambda line: None).exit_codes() == (1,)


def test_accuracy_cannot_be_quarantined(side: Make) -> None:
    assert quarantined(
        side, "*", "2027-01-01", lambda r: r["metrics"]["error"].update(value=0.5)
    ).exit_codes() == (3,)
    assert quarantined(
        side, "*", "2027-01-01", lambda r: r.update(status="incorrect", reason="off", metrics={})
    ).exit_codes() == (3,)


@pytest.mark.parametrize(
    "text", ["- {case: x}", "case: x", "[", "- {case: x, reason: y, owner: z, expires: soon}"]
)
def test_a_bad_quarantine_is_named(text: str) -> None:
    with pytest.raises(BenchError, match=r"quarantine\.yaml"):
        read_quarantine(text, Path("quarantine.yaml"), TODAY)


def test_a_baseline_lives(tmp_path: Path) -> None:
    folder = tmp_path / "baselines"
    runs = [write(tmp_path / f"run{i}", rows(scale=1 + 0.01 * (i % 3))) for i in range(6)]
    bench("baseline", "list", "--into", folder, expect=4)
    bench("check", runs[0], "--baseline", folder, expect=4)
    done = bench("baseline", "accept", *runs[:5], "--reason", "first", "--by", "ann", "--into", folder)
    assert "made--amd-epyc.json" in done.stdout
    shown = bench("baseline", "list", "--into", folder).stdout
    assert "5 to 5 a case" in shown
    assert "by ann: first" in shown
    found = json.loads(bench("check", runs[5], "--baseline", folder, "--json", "-", "--no-confirm").stdout)
    times = [finding for finding in found["findings"] if finding["metric"] == "time"]
    assert {finding["processes"] for finding in times} == {5}
    assert all(finding["spread"] == pytest.approx(0.01, rel=0.1) for finding in times)
    assert all(finding["detectable"] > 0.05 for finding in times)
    assert verdicts(found) == {}
    faster = write(tmp_path / "faster", rows(scale=0.5))
    assert "12 faster" in bench("check", faster, "--baseline", folder).stdout
    assert "new level" in bench("baseline", "accept", faster, "--reason", "kernel", "--into", folder).stdout
    bench("check", runs[0], "--baseline", folder, "--no-confirm", "--fail-on-undecided", expect=5)
    fewer = write(tmp_path / "fewer", rows()[:-1])
    bench("check", fewer, "--baseline", folder, "--no-confirm", expect=3)
    bench("baseline", "prune", fewer, "--into", folder)
    assert "11" in bench("baseline", "list", "--into", folder).stdout
    (path,) = folder.glob("*.json")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert str(path) in bench("check", faster, "--baseline", folder, expect=2).stderr


def test_a_new_epoch_begins_the_history_anew(tmp_path: Path) -> None:
    folder = tmp_path / "baselines"
    old = write(tmp_path / "old", rows())
    new = write(tmp_path / "new", rows(), environment(torch="2.14.0"))
    bench("baseline", "accept", old, old, "--reason", "x", "--into", folder)
    assert "2 to 2 a case" in bench("baseline", "list", "--into", folder).stdout
    bench("baseline", "accept", new, "--reason", "torch", "--into", folder)
    assert "1 to 1 a case" in bench("baseline", "list", "--into", folder).stdout
    other = write(tmp_path / "other", rows(), environment(threads=2))
    bench("baseline", "accept", other, "--reason", "x", "--into", folder, expect=4)


@pytest.mark.parametrize(
    ("decisions", "verdict"),
    [
        ("slower slower slower", Verdict.SLOWER),
        ("same same same", Verdict.SAME),
        ("same same undecided", Verdict.SAME),
        ("slower slower undecided", Verdict.AMBIGUOUS),
        ("slower slower", Verdict.AMBIGUOUS),
        ("same same slower", Verdict.AMBIGUOUS),
        ("", Verdict.AMBIGUOUS),
    ],
)
def test_paired_runs_settle_a_breach(side: Make, decisions: str, verdict: Verdict) -> None:
    lines = changed(rows(), 0, lambda r: r["metrics"]["cpu_time"].update(value=1.3e-8 * 256**2))
    suspected = judge(side(lines), side(rows()))
    (breach,) = suspects(suspected)
    outcomes = [Outcome(Decision(word), 0.1) for word in decisions.split()]
    found = settled(suspected, {breach.case: outcomes})
    (after,) = (f for f in found.findings if f.case == breach.case and f.metric == "time")
    assert after.verdict is verdict


HOSTILE = "<img>|`x`\n::error::%0A@all\x00"


def judgement(count: int = 3) -> Judgement:
    found = [
        Finding(f"case {i} {HOSTILE}", "time", Verdict.SLOWER, HOSTILE, "s", 1.0, 1.1, 0.1)
        for i in range(count)
    ]
    return Judgement(
        "run", "base", (*found, Finding("new", "status", Verdict.NEW, "is new")), warnings=(HOSTILE,)
    )


def test_junit_is_xml_with_counts() -> None:
    root = ElementTree.fromstring(outputs.as_junit(judgement(), False).encode())
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures")) == ("4", "3")
    assert len(root.findall(".//failure")) == 3
    refused = replace(judgement(0), refusals=("H100 is no H200",))
    (suite,) = ElementTree.fromstring(outputs.as_junit(refused, False).encode())
    assert suite.get("failures") == "1"


def test_annotations_stay_on_their_line() -> None:
    lines = outputs.as_annotations(judgement(), False).splitlines()
    assert [line.split()[0] for line in lines] == ["::error"] * 3 + ["::warning"]
    assert all(line.count("::error::") <= 1 and "%250A" in line for line in lines)


def test_markdown_fits_a_comment_and_begins_with_the_worst() -> None:
    text = outputs.as_markdown(judgement(3000), False)
    assert len(text.encode()) <= 64 * 1024
    assert "3000 slower, 1 new" in text
    assert "more lines are left out" in text
    table = [line for line in text.splitlines() if line.startswith("| slower")]
    assert len(table) > 50
    assert "<img>" not in text
    assert "failed (exit 1)" in text


def test_json_lists_every_code_and_precedence() -> None:
    both = replace(judgement(1), refusals=("no",), expired=("old",))
    missing = replace(
        both, findings=(*both.findings, Finding("gone", "status", Verdict.MISSING, "is missing"))
    )
    doubt = replace(missing, findings=(*missing.findings, Finding("odd", "time", Verdict.AMBIGUOUS, "?")))
    found = json.loads(outputs.as_json(doubt, True))
    assert (found["exit_code"], found["exit_codes"]) == (4, [4, 3, 1, 5])
    assert json.loads(outputs.as_json(doubt, False))["exit_codes"] == [4, 3, 1]
    assert found["findings"][0]["verdict"] == "missing"


def test_files_are_written(tmp_path: Path) -> None:
    before, after = write(tmp_path / "a", rows()), write(tmp_path / "b", [*rows(), row("naive", 64, 1e-3)])
    names = {"--json": "j.json", "--junit": "j.xml", "--markdown": "m.md", "--report": "page.html"}
    options = [part for option, name in names.items() for part in (option, tmp_path / name)]
    done = bench("check", after, "--baseline", before, *options, "--github")
    assert json.loads((tmp_path / "j.json").read_text())["counts"] == {"new": 1, "same": 12}
    assert "Regressions" in (tmp_path / "page.html").read_text()
    assert "### Performance gate passed" in (tmp_path / "m.md").read_text()
    assert "against" in done.stdout


def test_doubts_of_what_stayed_the_same_are_counted_not_listed() -> None:
    """Else they bury the few rows that changed."""
    same = [
        Finding(f"case {n}", "time", Verdict.SAME, words="same", flags=("drift: +9%",)) for n in range(50)
    ]
    slower = Finding("the slow one", "time", Verdict.SLOWER, words="slower", flags=("drift: +9%",))
    judgement = Judgement("run", "baseline", (*same, slower))
    (notes, table) = regressions(judgement)
    assert [row[1] for row in table.rows] == ["the slow one"]
    assert "drift (50)" in str(notes.rows)
    text = outputs.as_markdown(judgement, False)
    assert "the slow one" in text
    assert "case 7" not in text
    assert "drift (50)" in text
    assert len(list(outputs.rows(judgement, everything=False))) == 1
    assert len(list(outputs.rows(judgement, everything=True))) == 51
