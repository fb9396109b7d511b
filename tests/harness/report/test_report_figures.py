"""Figures are honest: gaps stay gaps, titles say the stored numbers, texts stay apart."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.report import canvas, figures
from harness.report.canvas import DASHES, MARKERS, spread
from harness.report.charting import charts
from harness.report.charts import Chart
from harness.report.records import arrange
from harness.report.svg import COLOURS
from harness.report.units import shown
from harness.types import ImplementationCard, Result

from . import synthetic


@pytest.fixture(scope="module")
def chart() -> Chart:
    drawn, _ = charts(arrange(synthetic.description(), synthetic.rows()))
    return drawn[0]


@pytest.fixture(scope="module")
def tree(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(figures.draw(chart))


def _part(tree: ElementTree.Element, part: str, index: int) -> list[ElementTree.Element]:
    return [g for g in tree.iter("g") if g.get("class") == f"s {part}" and g.get("data-series") == str(index)]


def test_no_line_bridges_a_failure(chart: Chart, tree: ElementTree.Element) -> None:
    flex = next(s for s in chart.series if s.name == "flex")  # 32 ended in an error, 256 crashed
    assert [gap.letter for gap in flex.gaps] == ["E", "C"]
    path = "".join(p.get("d", "") for g in _part(tree, "line", flex.index) for p in g.iter("path"))
    assert path.count("M") == 2, path  # 64–128 and 512–4096, with nothing between


def test_every_measured_point_is_drawn_once_and_titled_with_its_number(
    chart: Chart, tree: ElementTree.Element
) -> None:
    for series in chart.series:
        groups = _part(tree, "points", series.index) + _part(tree, "hollow", series.index)
        titles = [title.text for group in groups for title in group.iter("title")]
        assert sorted(filter(None, titles)) == sorted(p.title for p in series.points)
        for point in series.points:
            assert shown(point.y, "s") in point.title


def test_gaps_are_letters_with_the_reason_as_tooltip(chart: Chart, tree: ElementTree.Element) -> None:
    titles = {t.text for t in tree.iter("title")}
    assert "out of memory: MemoryError during call: 4,294,967,296 B" in titles
    assert "M out of memory" in chart.key_words


def test_what_has_no_point_is_named_with_the_reason(chart: Chart) -> None:
    assert chart.absent == (("triton_flash", "not timed: interpreted"),)


def test_overhead_bound_points_are_hollow(chart: Chart) -> None:
    uniform = next(s for s in chart.series if s.name == "uniform")
    assert [p.x for p in uniform.points if p.overhead] == [32, 64, 128, 256, 512]
    naive = next(s for s in chart.series if s.name == "naive")
    assert not any(p.overhead for p in naive.points)


def test_colours_come_from_the_style_sheet(tree: ElementTree.Element) -> None:
    source = ElementTree.tostring(tree, encoding="unicode")
    assert not re.search(r"#[0-9a-f]{6}\b", source)
    assert "var(--s0)" in source
    css = (Path(figures.__file__).parent / "style.css").read_text("utf-8")
    assert "svg text { fill: currentColor;" in css
    assert "font-family" not in source


def test_the_limits_come_from_the_data(chart: Chart, tree: ElementTree.Element) -> None:
    low, high = chart.series[0].points[0], chart.series[0].points[-1]
    assert low.y < high.y
    for use in (u for s in chart.series for g in _part(tree, "points", s.index) for u in g.iter("use")):
        assert 0 <= float(use.get("x", "-1")) <= canvas.WIDTH
        assert 0 <= float(use.get("y", "-1")) <= canvas.TOP + canvas.PLOT_HEIGHT


def test_forty_two_series_stay_distinct_and_their_names_apart() -> None:
    looks = {(i % COLOURS, i % len(MARKERS), i % len(DASHES)) for i in range(42)}
    assert len(looks) == 42
    cards = tuple(ImplementationCard(f"variant_{i:02}", "", True, {}) for i in range(42))
    drawn, _ = charts(arrange(synthetic.description(cards), synthetic.rows(cards=cards, fail=False)))
    root = ElementTree.fromstring(figures.draw(drawn[0]))
    labels = [g for g in root.iter("g") if g.get("class") == "s label"]
    heights = sorted(float(text.get("y", "0")) for label in labels for text in label.iter("text"))
    assert len(heights) == 42
    assert min(b - a for a, b in pairwise(heights)) >= 10


@pytest.mark.parametrize("wanted", [[5, 5, 5], [0, 100, 100], [50, 51, 52, 53], [98, 99, 100], [0, 1, 2]])
def test_spread_keeps_order_distance_and_bounds(wanted: list[float]) -> None:
    placed = list(spread({i: float(w) for i, w in enumerate(wanted)}, 10, 0, 100).values())
    assert all(0 <= p <= 100 for p in placed)
    assert all(b - a >= 10 - 1e-9 for a, b in pairwise(placed))


def test_a_zero_is_marked_and_not_drawn() -> None:
    def exact(result: Result) -> Result:
        if result.case.implementation == "naive" and "error" in result.metrics:
            zero = type(result.metrics["error"])(0.0, "1")
            object.__setattr__(result, "metrics", {**result.metrics, "error": zero})
        return result

    records = arrange(synthetic.description(), map(exact, synthetic.rows(fail=False)))
    error = next(c for c in charts(records)[0] if c.metric == "error")
    assert dict(error.absent)["naive"] == "exactly 0"


def _luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _schemes() -> list[dict[str, str]]:
    """The colours of the style sheet: light, dark and print."""
    css = (Path(figures.__file__).parent / "style.css").read_text("utf-8")
    blocks = re.findall(r":root \{(.*?)\}", css, flags=re.S)
    return [{n: c if len(c) == 7 else "#" + "".join(2 * d for d in c[1:]) for n, c in re.findall(
        r"--(\w+): (#[0-9a-f]{3,6});", block)} for block in blocks]  # fmt: skip


@pytest.mark.parametrize("scheme", _schemes(), ids=["light", "dark", "print"])
def test_lines_and_markers_stand_out_from_the_paper(scheme: dict[str, str]) -> None:
    names = [f"s{k}" for k in range(COLOURS)] + ["ink", "faint"]
    for name in names:
        bright, dim = sorted((_luminance(scheme[name]), _luminance(scheme["paper"])), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 3, name
