"""Several runs on one page: overlaid on one machine, side by side on several; the texts beside the page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import main
from harness.report import csv_to, markdown_to
from harness.report.accuracy import error_rows
from harness.report.canvas import MOST_LETTERS, clip
from harness.report.charts import Chart
from harness.report.choice import fastest
from harness.report.crossing import crossovers
from harness.report.illustrations import drawings
from harness.report.markdown import MOST_BYTES, escaped, fitted, summary
from harness.report.page import page_of
from harness.report.records import labelled
from harness.report.runs import Source, combined, read
from harness.types import BenchError, DeviceInfo, Measurement, Result, Run

from . import synthetic

SIZES = {"seq_len": synthetic.SIZES[1:6]}
CARDS = synthetic.CARDS[:3] + synthetic.CARDS[5:7]
OTHER = DeviceInfo("cpu", "Other CPU", {"memory_bytes": 4 << 30})


def slower(results: Iterator[Result], factor: float) -> Iterator[Result]:
    for row in results:
        scaled = {
            name: Measurement(m.value * factor, m.unit, m.better) if m.unit == "s" else m
            for name, m in row.metrics.items()
        }
        yield replace(row, metrics=scaled)


def run(device: DeviceInfo | None = None) -> Run:
    described = synthetic.description(CARDS)
    if device is None:
        return described
    return replace(described, environment=replace(described.environment, device=device))


def source(label: str, factor: float = 1.0, device: DeviceInfo | None = None) -> Source:
    return Source(label, run(device), tuple(slower(synthetic.rows(SIZES, CARDS), factor)))


def test_runs_of_one_machine_are_overlaid() -> None:
    sources = [source("before", 2.0), source("after")]
    records = combined(sources)
    assert records.axes == ("seq_len",)
    time = drawings(records).overview[0]
    assert {s.name for s in time.series} >= {"naive · before", "naive · after"}
    before, after = (
        {
            p.x: p.y
            for s in drawings(records).overview[0].series
            if s.name == f"naive · {label}"
            for p in s.points
        }
        for label in ("before", "after")
    )
    assert all(before[x] == pytest.approx(2 * after[x], rel=0.2) for x in after)
    assert len(records.results) == sum(len(s.rows) for s in sources)


def test_each_run_is_held_against_its_own_floor() -> None:
    records = combined([source("a"), source("b")])
    rows = {row.implementation: row for row in error_rows(records)}
    for label in "ab":
        cells = [cell for cell in rows[f"linear_elu · {label}"].cells if cell]
        assert cells
        assert all(cell.floor == pytest.approx(0.7 / 0.9) for cell in cells)
    assert not any(t.name.startswith("uniform") for c in fastest(records) for t in c.approximations)
    crossed = {name for c in crossovers(records).found for name in (c.below, c.above)}
    assert not any(name.startswith("uniform") for name in crossed)


def test_machines_stand_side_by_side_and_are_named() -> None:
    records = combined([source("a"), source("b", 3.0, OTHER)])
    assert "machine" in records.axes
    assert [d.title.rpartition(", ")[2] for d in drawings(records).overview] == ["Example CPU", "Other CPU"]
    assert {r.case.implementation for r in records.results} == {card.name for card in CARDS}
    assert records.device_of({"machine": "Other CPU"}) == OTHER
    assert records.memory_of({"machine": "Other CPU"}) == 4 << 30


def test_machines_share_the_scale_of_a_figure() -> None:
    slow = drawings(combined([source("a"), source("b", 30.0, OTHER)])).overview
    spans = [chart.among for chart in slow if isinstance(chart, Chart)]
    assert len(spans) == 2
    assert (min(spans[0]), max(spans[0])) == (min(spans[1]), max(spans[1]))


def test_machines_with_different_clocks_are_each_timed_by_their_own() -> None:
    gpu = source("b", 0.1, OTHER)
    renamed = {"cpu_time": "gpu_time_cold", "wall_time": "gpu_time_hot"}
    rows = tuple(
        replace(r, metrics={renamed.get(name, name): m for name, m in r.metrics.items()}) for r in gpu.rows
    )
    records = combined([source("a"), replace(gpu, rows=rows)])
    assert records.time == "own_time"
    for row in records.results:
        own = row.metrics.get("cpu_time") or row.metrics.get("gpu_time_cold")
        assert row.metrics.get("own_time") == own
    assert len(drawings(records).overview) == 2
    assert {c.problem.fixed[1][1] for c in fastest(records)} == {"Example CPU", "Other CPU"}


def test_machines_of_one_name_are_told_apart() -> None:
    twin = replace(OTHER, name="Example CPU")
    records = combined([source("a"), source("b", 1.0, twin)])
    assert set(records.machines) == {"Example CPU", "Example CPU (2)"}


def test_the_page_shows_both_and_where_they_differ() -> None:
    html = page_of([source("before"), source("after", 1.0, OTHER)])
    assert "synthetic on Example CPU and Other CPU" in html
    assert "where their machines and versions differ" in html
    assert "from the records of 2 runs" in html
    assert html == page_of([source("before"), source("after", 1.0, OTHER)])


def _folders(tmp_path: Path, *names: str) -> list[Path]:
    return [synthetic.write(tmp_path / name, run(), synthetic.rows(SIZES, CARDS)) for name in names]


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["cpu-before", "cpu-after"], ["before", "after"]),
        (["seq_scaling-20261201-033743", "reference-seq_scaling"], ["run 1", "run 2"]),
        (["one"], [""]),
    ],
)
def test_labels_are_what_tells_folders_apart(tmp_path: Path, names: list[str], labels: list[str]) -> None:
    assert [s.label for s in read(_folders(tmp_path, *names))] == labels


def test_a_run_named_twice_is_a_sentence(tmp_path: Path) -> None:
    folder = _folders(tmp_path, "one")[0]
    with pytest.raises(BenchError, match="named twice"):
        read([folder, tmp_path / "one" / ".." / "one"])


def test_the_command_writes_page_summary_and_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = _folders(tmp_path, "cpu-before", "cpu-after")
    texts = ["--markdown", str(tmp_path / "new" / "s.md"), "--csv", str(tmp_path / "rows.csv")]
    with pytest.raises(SystemExit) as done:
        main(["report", *map(str, folders), "-o", str(tmp_path / "page.html"), *texts])
    assert done.value.code == 0
    assert "summary:" in capsys.readouterr().out
    assert "naive · before" in (tmp_path / "page.html").read_text("utf-8")
    assert (tmp_path / "new" / "s.md").read_text("utf-8").startswith("# synthetic on Example CPU\n")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text("utf-8"))))
    assert len(rows) == 2 * 5 * len(CARDS)


def test_a_text_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for write in (markdown_to, csv_to):
        with pytest.raises(BenchError, match="cannot be written"):
            write(_folders(tmp_path, "one"), tmp_path / "file" / "below")


def test_the_summary_begins_with_what_is_wrong() -> None:
    text = summary([Source("", synthetic.description(), tuple(synthetic.rows()))])
    places = [text.index(words) for words in ("Coverage", "incorrect |", "The fastest exact")]
    assert places == sorted(places)
    for _, reason in synthetic.FAILURES.values():
        assert escaped(reason) in text
    assert "<img" not in text.replace("\\<", "")
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")


def test_a_summary_keeps_its_limit_and_says_what_it_leaves_out() -> None:
    text = "\n".join(f"line {k} {'ä' * 100}" for k in range(20_000))
    kept = fitted(text)
    assert len(kept.encode()) <= MOST_BYTES
    whole = kept.split("\n\n_")[0].split("\n")
    assert text.split("\n")[: len(whole)] == whole
    assert f"_{20_000 - len(whole)} more lines are left out" in kept
    assert fitted("short") == "short"


def test_names_beside_a_figure_keep_the_label_of_their_run() -> None:
    names = [
        "naive",
        labelled("scaled_dot_product", "run 1"),
        labelled("scaled_dot_product", "run 2"),
        "x" * 40,
    ]
    clipped = [clip(name) for name in names]
    assert clipped[0] == "naive"
    assert clipped[1].endswith(" · run 1")
    assert len(set(clipped)) == len(names)
    assert all(len(name) <= MOST_LETTERS for name in clipped)
