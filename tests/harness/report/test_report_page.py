"""The page as a whole: well-formed, self-contained, escaped, deterministic, small, and free of torch."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness.report import alldata, page, render
from harness.report.facts import few
from harness.report.records import arrange
from harness.report.units import plain
from harness.types import Measurement, Result, Scalar, Status

from . import synthetic

VOID = {"meta", "img", "br", "hr", "input", "link", "base"}
#: Elements whose end tag HTML lets one omit, and that the page does omit.
OPTIONAL = {"td", "th", "tr", "thead", "tbody"}


class Page(HTMLParser):
    """Collects what the tests look at, and fails on elements closed out of order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1] != tag and self.open[-1] in OPTIONAL:
            self.open.pop()
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        (self.scripts if inside in ("script", "style") else self.text).append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def html() -> str:
    return page(synthetic.description(), synthetic.rows())


@pytest.fixture(scope="module")
def parsed(html: str) -> Page:
    return Page(html)


def test_the_page_is_well_formed_with_landmarks_and_one_heading(html: str, parsed: Page) -> None:
    assert html.startswith("<!doctype html>")
    assert parsed.tags.count("h1") == 1
    for landmark in ("header", "nav", "main", "footer"):
        assert parsed.tags.count(landmark) == 1
    assert dict(parsed.attributes)["html"]["lang"] == "en"
    assert parsed.tags.count("caption") == parsed.tags.count("table")


def test_identifiers_are_unique_and_every_reference_has_its_target(parsed: Page) -> None:
    ids = [a["id"] for _, a in parsed.attributes if "id" in a]
    assert len(ids) == len(set(ids))
    for _, a in parsed.attributes:
        wanted = (a.get("aria-labelledby") or "").split()
        if (href := a.get("href") or "").startswith("#"):
            wanted.append(href[1:])
        assert set(wanted) <= set(ids)


def test_nothing_is_loaded_and_no_script_but_ours_may_run(html: str, parsed: Page) -> None:
    for tag, attributes in parsed.attributes:
        for name, value in attributes.items():
            assert not name.startswith("on"), f"<{tag} {name}>"
            if name in ("src", "href", "action"):
                assert (value or "").startswith(("#", "data:")), f"<{tag} {name}={value}>"
    assert parsed.tags.count("script") == 1
    assert "eval(" not in html
    assert not re.search(r"https?://(?!www\.w3\.org)", html)
    policy = next(a["content"] for _, a in parsed.attributes if a.get("http-equiv"))
    assert (policy or "").startswith("default-src 'none'")
    digest = base64.b64encode(hashlib.sha256(parsed.scripts[-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in (policy or "")


def test_names_reasons_and_notes_are_text(html: str, parsed: Page) -> None:
    assert "<img" not in html
    assert synthetic.HOSTILE in parsed.words
    assert synthetic.HOSTILE_WORDS in parsed.words
    assert "alert(2)" not in "".join(parsed.scripts)


def test_the_same_input_gives_the_same_bytes(html: str) -> None:
    assert page(synthetic.description(), list(synthetic.rows())) == html


def test_render_writes_the_page_of_a_folder(tmp_path: Path, html: str) -> None:
    folder = synthetic.write(tmp_path / "run", synthetic.description(), synthetic.rows())
    output = tmp_path / "new" / "page.html"
    render(folder, output)
    assert output.read_text("utf-8") == html


def test_no_torch_is_imported_and_no_hash_decides_the_bytes(tmp_path: Path) -> None:
    folder = synthetic.write(
        tmp_path / "run", synthetic.description(), synthetic.rows({"seq_len": (64, 128)}, fail=False)
    )
    pages = [tmp_path / f"{seed}.html" for seed in (1, 2)]
    for seed, path in enumerate(pages, start=1):
        code = (
            "import sys, pathlib; from harness.report import render; "
            f"render(pathlib.Path({str(folder)!r}), pathlib.Path({str(path)!r})); "
            "sys.exit('torch' in sys.modules)"
        )
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        root = Path(__file__).parents[3]
        done = subprocess.run([sys.executable, "-c", code], cwd=root, check=False, env=environment)
        assert done.returncode == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_coverage_and_every_failure_is_there_with_its_reason(parsed: Page) -> None:
    assert "56 measured, 1 incorrect, 1 out of memory, 1 timed out, 1 crashed" in parsed.words
    for _, reason in synthetic.FAILURES.values():
        assert reason in parsed.words


def test_interpreted_rows_say_why_they_have_no_time(parsed: Page) -> None:
    assert "8 cases interpreted and not timed (triton_flash)" in parsed.words


def _download(html: str, suffix: str) -> str:
    found = re.search(rf'download="[^"]*{suffix}.gz"[^>]*base64,([^"]*)"', html)
    assert found
    return gzip.decompress(base64.b64decode(found[1])).decode()


def test_downloads_hold_every_stored_number_exactly(html: str) -> None:
    stored = {r.case.key: r for r in synthetic.rows()}
    table = list(csv.DictReader(io.StringIO(_download(html, ".csv"))))
    records = json.loads(_download(html, ".json"))
    assert len(table) == len(records) == len(stored)
    for row, record, result in zip(table, records, stored.values(), strict=True):
        assert row["implementation"] == record["implementation"] == result.case.implementation
        assert row["status"] == result.status
        for name, m in result.metrics.items():
            assert float(row[f"{name} [{m.unit}]"]) == record[f"{name} [{m.unit}]"] == m.value


def test_numbers_in_the_table_are_the_stored_ones(html: str) -> None:
    rows = [r for r in synthetic.rows() if r.case.implementation == "flex" and r.status is Status.OK]
    table = html[html.index('id="data-table"') :]
    assert "CPU time (ms)" in table
    for row in rows:
        assert f"<td>{plain(row.metrics['cpu_time'].value / 1e-3)}" in table


def test_an_incorrect_row_keeps_no_speed(html: str) -> None:
    def spoiled(result: Result) -> Result:
        if result.case.implementation != "sdpa_flash":
            return result
        return replace(result, status=Status.INCORRECT, reason="output differs")

    text = Page(page(synthetic.description(), map(spoiled, synthetic.rows(fail=False)))).words
    assert "sdpa_flash is the fastest" not in text
    assert "8 cases incorrect and without a speed (sdpa_flash)" in text


def test_a_figure_comes_before_the_first_table_of_findings(html: str) -> None:
    assert html.index("<svg") < html.index("<table")


def test_the_full_data_begin_with_what_was_measured(html: str) -> None:
    table = html[html.index('id="data-table"') :].partition("</table>")[0]
    statuses = re.findall(r"<td(?: class=\w+)?>(measured|unsupported|skipped|out of memory|crashed)", table)
    assert statuses.index("crashed") > len([s for s in statuses if s == "measured"]) - 1
    assert set(statuses[-2:]) == {"unsupported", "skipped"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([3, 1], "3, 1"),
        ([30, 5, 2, 70, 9], "5 different values, 2 to 70"),
        (["d", "b", "a", "c", "e"], "5 different values, such as d"),
    ],
)
def test_many_values_are_told_by_their_smallest_and_largest(values: list[Scalar], words: str) -> None:
    assert few(values) == words


def _erring(error: float) -> str:
    def wrong(result: Result) -> Result:
        if result.case.implementation != "linear_elu" or result.status is not Status.OK:
            return result
        return replace(result, metrics={**result.metrics, "error": Measurement(error, "1")})

    cards = synthetic.CARDS[:3] + synthetic.CARDS[5:7]
    sizes = {"seq_len": (1024, 2048, 4096)}
    return Page(page(synthetic.description(cards), map(wrong, synthetic.rows(sizes, cards)))).words


def test_an_approximation_is_offered_with_a_warning_or_not_at_all() -> None:
    assert "error 70%: far from attention" in _erring(0.7)
    assert "far from attention" not in _erring(0.01)
    assert "linear_elu: no nearer than the mean of V" in _erring(0.95)


def test_headline_and_table_say_the_same_word(parsed: Page) -> None:
    assert "undetermined" not in parsed.words


def test_an_empty_run_and_an_unfinished_one_still_make_a_page() -> None:
    unfinished = replace(synthetic.description(), finished=None)
    text = Page(page(unfinished, [])).words
    assert "Nothing was measured." in text
    assert "the run did not finish" in text


def test_a_run_without_a_sweep_makes_a_page() -> None:
    text = Page(page(synthetic.description(), synthetic.rows({"dtype": ("float16", "float32")}))).words
    assert "No numeric axis is swept" in text


def test_a_note_with_mathematics_or_an_unknown_metric_does_no_harm() -> None:
    def noted(result: Result) -> Result:
        odd = {"zebra_count": Measurement(3.0, "1", note="$x^$ \\frac <b>")}
        return replace(result, metrics={**result.metrics, **odd}) if result.status is Status.OK else result

    text = Page(page(synthetic.description(), map(noted, synthetic.rows({"seq_len": (64, 128)})))).words
    assert "zebra count" in text


def test_size_of_two_hundred_rows_with_more_than_twelve_figures() -> None:
    axes = {"seq_len": synthetic.SIZES, "dtype": ("float32", "bfloat16", "float16")}
    html = page(synthetic.description(), synthetic.rows(axes))
    assert html.count("<svg") > 12
    assert len(html.encode()) < 500_000


def test_size_of_ten_thousand_rows() -> None:
    axes: dict[str, tuple[Scalar, ...]] = {
        "seq_len": synthetic.SIZES,
        "dtype": ("float32", "bfloat16", "float16"),
        "causal": (False, True),
        "pass": ("forward", "backward", "forward_backward"),
        "head_dim": (32, 64, 128),
        "heads": (1, 2, 4),
    }
    html = page(synthetic.description(), synthetic.rows(axes, samples=10))
    assert len(html.encode()) < 3_000_000
    assert "This run is large" in html
    assert "left out" in html
    assert "further settings are not drawn" in html


def test_what_a_very_large_run_leaves_out_of_the_page_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    records = arrange(synthetic.description(), synthetic.rows())
    whole = alldata.table(records)
    everything = len(alldata.downloads(records)[0].href)
    monkeypatch.setattr(alldata, "MOST_TABLE", len(whole.html.encode()) // 2)
    grid = alldata.table(records)
    assert len(grid.html.encode()) < 0.6 * len(whole.html.encode())
    assert f"the first {len(grid.rows)} of {len(whole.rows)} rows" in grid.caption
    monkeypatch.setattr(alldata, "MOST_DOWNLOAD", everything - 1)
    values = alldata.downloads(records)[0]
    assert values.words == "CSV of the values alone"
    text = gzip.decompress(base64.b64decode(values.href.partition("base64,")[2])).decode()
    head = next(csv.reader(io.StringIO(text)))
    assert "cpu_time [s]" in head
    assert "reason" in head
    assert not [name for name in head if "low" in name or name in ("kernels", "notes")]
    monkeypatch.setattr(alldata, "MOST_DOWNLOAD", 10)
    assert [link.words for link in alldata.downloads(records)] == ["JSON"]


def test_the_script_is_small() -> None:
    assert (Path(__file__).parents[3] / "harness/report/script.js").stat().st_size <= 20_000
