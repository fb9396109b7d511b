"""What lies behind the lines of a figure: fitted laws, overhead, the end of memory, limits near and far."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from harness.report import figures
from harness.report.charting import charts
from harness.report.charts import Chart
from harness.report.curves import describes, runs_of
from harness.report.records import arrange

from . import synthetic


@pytest.fixture(scope="module")
def drawn() -> dict[str, Chart]:
    return {c.metric: c for c in charts(arrange(synthetic.description(), synthetic.rows()))[0]}


def _classes(chart: Chart) -> set[tuple[str, str]]:
    root = ElementTree.fromstring(figures.draw(chart))
    return {(g.get("class", ""), g.get("data-series", "")) for g in root.iter("g")}


def test_the_law_is_drawn_with_its_interval_around_the_points(drawn: dict[str, Chart]) -> None:
    chart = drawn["cpu_time"]
    found = _classes(chart)
    for name in ("naive", "sdpa_flash", "uniform"):
        series = next(s for s in chart.series if s.name == name)
        assert {("s law", str(series.index)), ("s band", str(series.index))} <= found
        places = [place for piece in series.curve for place in piece]
        middles = {x: middle for x, _, middle, _ in places}
        assert all(low <= middle <= high for _, low, middle, high in places)
        for point in (series.points[0], series.points[-1]):
            assert middles[point.x] == pytest.approx(point.y, rel=0.1)


def test_no_law_bridges_a_failure(drawn: dict[str, Chart]) -> None:
    flex = next(s for s in drawn["cpu_time"].series if s.name == "flex")  # 256 crashed
    assert [(piece[0][0], piece[-1][0]) for piece in flex.curve] == [(64, 128), (512, 4096)]
    assert runs_of([1, 2, 4, 8, 16], [2, 4, 16]) == [[2, 4], [16]]
    assert runs_of([1, 2], []) == []


def test_a_law_that_misses_the_points_is_not_drawn_and_named(drawn: dict[str, Chart]) -> None:
    curve = (tuple((x, x / 2, x, 2 * x) for x in (1.0, 10.0, 100.0)),)
    assert describes(curve, [(1.0, 1.5), (100.0, 60.0)])
    assert not describes(curve, [(1.0, 1.0), (10.0, 25.0)])
    assert describes((), [(1.0, 1.0)])
    chart = drawn["cpu_time"]
    odd = tuple(replace(s, curve=(), unlike=s.name == "naive") for s in chart.series)
    assert "without: naive, whose law misses a point by more than 2 ×" in replace(chart, series=odd).key_words


def test_overhead_is_shaded_where_the_points_are_hollow(drawn: dict[str, Chart]) -> None:
    chart = drawn["cpu_time"]
    shaded = {series for kind, series in _classes(chart) if kind == "s overhead"}
    assert shaded == {str(s.index) for s in chart.series if any(p.overhead for p in s.points)}
    uniform = next(s for s in chart.series if s.name == "uniform")
    assert uniform.plateau is not None
    assert uniform.plateau[:2] == (32, 512)


def test_a_wall_stands_where_memory_ended(drawn: dict[str, Chart]) -> None:
    chart = drawn["cpu_time"]
    assert {s.name: s.out_of_memory for s in chart.series if s.out_of_memory} == {"naive": 4096}
    naive = next(s for s in chart.series if s.name == "naive")
    assert {series for kind, series in _classes(chart) if kind == "s wall"} == {str(naive.index)}
    assert "naive out of memory" in chart.key_words


def test_a_limit_is_drawn_near_the_data_and_told_far_from_them(drawn: dict[str, Chart]) -> None:
    memory = drawn["peak_live_bytes"]
    assert memory.limit is not None
    assert memory.limit[0] == 8 << 30
    assert memory.drawn_limit is None  # 8.6 GB is far above: the line would flatten the data
    assert "device memory, 8.59 GB, is beyond the figure" in memory.key_words
    top = max(p.y for s in memory.series for p in s.points)
    assert replace(memory, limit=(2 * top, "device memory")).drawn_limit == 2 * top


def test_the_ratio_to_naive_is_of_exact_ones_and_has_the_usual_bound(drawn: dict[str, Chart]) -> None:
    ratio = drawn["error_ratio"]
    assert {"linear_elu", "uniform"}.isdisjoint(s.name for s in ratio.series)
    assert ratio.limit == (2.0, "2 × naive, the usual bound")
