"""Pareto plots, rooflines and FLOP conventions against independent arithmetic."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from harness.report import efficiency, figures, planes
from harness.report.grid import Cell, Grid
from harness.report.records import Records, arrange
from harness.types import Case, DeviceInfo, ImplementationCard, Measurement, Result, Run, Scalar, Status

from . import synthetic

H100 = DeviceInfo("cuda", "NVIDIA H100 80GB HBM3", {"sm_clock_max_mhz": 1830})
PEAK, BANDWIDTH = 989.4e12, 3.35e12  # dense bfloat16 and HBM3, from NVIDIA's data sheet
CARDS = (
    ImplementationCard("naive", "", True, {}),
    ImplementationCard("flash", "", True, {}),
    ImplementationCard("linear_elu", "", False, {}),
    ImplementationCard("uniform", "", False, {}),
)


def described(device: DeviceInfo = H100) -> Run:
    run = synthetic.description(CARDS)
    return replace(run, environment=replace(run.environment, device=device))


def scattered(seed: int) -> list[Result]:
    """One problem, a dozen implementations with random time, memory and error."""
    draw = random.Random(seed)
    problem = next(synthetic.problems({"seq_len": (64,)}))
    names = [f"exact_{k}" for k in range(8)] + [f"approximate_{k}" for k in range(4)] + ["uniform"]
    return [
        Result(
            Case(name, "attention", "cpu", problem),
            Status.OK,
            metrics={
                "cpu_time": Measurement(draw.choice((1e-3, 2e-3, 3e-3, draw.random())), "s"),
                "peak_memory": Measurement(draw.choice((1e6, 2e6, draw.uniform(1e6, 9e6))), "B"),
                "error": Measurement(draw.random(), "1"),
            },
        )
        for name in names
    ]


def scattered_records(seed: int) -> Records:
    rows = scattered(seed)
    cards = tuple(
        ImplementationCard(r.case.implementation, "", r.case.implementation.startswith("exact"), {})
        for r in rows
    )
    return arrange(synthetic.description(cards), rows)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("other", ["peak_memory", "error"])
def test_the_front_is_what_nothing_beats(seed: int, other: str) -> None:
    plane = next(p for p in planes.pareto(scattered_records(seed)) if p.key == f"pareto-{other}")
    candidates = {
        r.case.implementation: (r.metrics["cpu_time"].value, r.metrics[other].value)
        for r in scattered(seed)
        if r.case.implementation.startswith("exact")
        or (other == "error" and r.case.implementation.startswith("approximate"))
    }
    unbeaten = {
        point
        for point in candidates.values()
        if not any(a <= point[0] and b <= point[1] and (a, b) != point for a, b in candidates.values())
    }
    assert set(plane.front) == unbeaten
    assert {group.name for group in plane.series if group.best} <= set(candidates)
    assert list(plane.front) == sorted(plane.front)


def test_the_floor_is_a_line_among_errors_and_approximations_are_hollow() -> None:
    records = scattered_records(3)
    plane = next(p for p in planes.pareto(records) if p.key == "pareto-error")
    floor = next(r for r in records.results if r.case.implementation == "uniform").metrics["error"].value
    assert plane.limit is not None
    assert plane.limit[0] == floor
    hollow = {group.name for group in plane.series if group.points[0].hollow}
    assert hollow == {name for name in records.cards if not name.startswith("exact")}


def test_every_point_is_drawn_once_with_its_title() -> None:
    for plane in planes.pareto(scattered_records(5)):
        root = ElementTree.fromstring(figures.draw(plane))
        titles = [t.text for u in root.iter("use") for t in u.iter("title")]
        assert sorted(filter(None, titles)) == sorted(s.title for g in plane.series for s in g.points)


def timed(axes: dict[str, tuple[Scalar, ...]], device: DeviceInfo = H100) -> Records:
    """Exact implementations with rates over the exact pairs, computed here pair by pair."""

    def row(name: str, problem: dict[str, Scalar]) -> Result:
        n, m = int(str(problem["seq_len"])), int(str(problem["kv_len"]))
        pairs = sum(1 for i in range(n) for j in range(m) if not problem["causal"] or j <= i + m - n)
        factor = {"forward": 1.0, "backward": 2.5, "forward_backward": 3.5}[str(problem["pass"])]
        flops, seconds = 4.0 * 4 * 64 * pairs * factor, (1e-5 if name == "flash" else 3e-5)
        metrics = {
            "cpu_time": Measurement(seconds, "s"),
            "flop_rate": Measurement(flops / seconds, "FLOP/s", "higher"),
            "byte_rate": Measurement(4.0 * 4 * n * 64 * 2 / seconds, "B/s", "higher"),
        }
        case = Case(name, "attention", "cuda", problem)
        return Result(case, Status.OK, metrics=metrics)

    def rows() -> Iterator[Result]:
        for problem in synthetic.problems({"dtype": ("bfloat16",), **axes}):
            yield from (row(name, dict(problem)) for name in ("naive", "flash"))

    return arrange(described(device), rows())


def cells(grid: Grid, row: int) -> dict[str, str]:
    texts = [cell.text if isinstance(cell, Cell) else cell for cell in grid.rows[row]]
    return dict(zip(grid.head, texts, strict=True))


def rates(records: Records) -> dict[str, float]:
    """GFLOP/s under each convention of the one setting's naive row."""
    row = cells(efficiency.table(records), 0)
    assert row["implementation"] == "naive"
    alike = row.get("FLOP/s")
    return {c.name: float((alike or row[f"FLOP/s, {c.name}"]).split()[0]) for c in efficiency.CONVENTIONS}


@pytest.mark.parametrize(("way", "factor"), [("forward", 1.0), ("backward", 2.5), ("forward_backward", 3.5)])
def test_conventions_differ_under_a_causal_mask_only(way: str, factor: float) -> None:
    square = 4 * 4 * 64 * 32 * 32 * factor / 3e-5 / 1e9
    full = rates(timed({"seq_len": (16, 32), "causal": (False,), "pass": (way,)}))
    assert full == pytest.approx(dict.fromkeys(full, square), rel=1e-2)
    causal = rates(timed({"seq_len": (16, 32), "causal": (True,), "pass": (way,)}))
    assert causal["PyTorch"] == pytest.approx(square, rel=1e-2)
    assert causal["flash-attention"] == pytest.approx(square / 2, rel=1e-2)
    assert causal["exact pairs"] == pytest.approx(square * (33 / 64), rel=1e-2)  # n(n+1)/2 of n²


def test_percent_of_peak_and_roof_are_those_of_the_data_sheet() -> None:
    records = timed({"seq_len": (16, 32)})
    row = cells(efficiency.table(records), 1)
    rate = 4 * 4 * 64 * 32 * 32 / 1e-5
    assert float(row["of peak"].rstrip("%")) == pytest.approx(100 * rate / PEAK, abs=0.06)
    moved = 4 * 4 * 32 * 64 * 2 / 1e-5
    assert float(row["of peak bandwidth"].rstrip("%")) == pytest.approx(100 * moved / BANDWIDTH, abs=0.06)
    roof = efficiency.roofline(records)[0].roof
    assert roof is not None
    assert roof.at(1.0) == pytest.approx(BANDWIDTH)
    assert roof.at(1e6) == pytest.approx(PEAK)
    assert efficiency.unknown_peaks(records) == ""


def test_points_of_the_roofline_lie_at_their_intensity() -> None:
    plane = efficiency.roofline(timed({"seq_len": (16, 32, 64)}))[0]
    for group in plane.series:
        for spot, n in zip(group.points, (16, 32, 64), strict=True):
            assert spot.x == pytest.approx(4 * n * n * 64 / (4 * n * 64 * 2))
            assert f"seq_len {n}" in spot.title


def test_an_unknown_peak_is_said_and_never_invented() -> None:
    records = timed({"seq_len": (16, 32)}, DeviceInfo("cuda", "Example GPU", {}))
    assert efficiency.unknown_peaks(records).startswith(
        "No peak arithmetic and bandwidth are known of Example GPU"
    )
    assert not [head for head in efficiency.table(records).head if "peak" in head]
    plane = efficiency.roofline(records)[0]
    assert plane.roof is None
    assert "no roof is drawn" in plane.words


def test_another_operation_has_its_own_convention_only() -> None:
    records = timed({"seq_len": (16, 32)})
    moved = tuple(replace(r, case=replace(r.case, operation="feedforward")) for r in records.results)
    row = cells(efficiency.table(arrange(described(), moved)), 0)
    assert row["FLOP/s, PyTorch"] == row["FLOP/s, flash-attention"] == "—"
    assert row["FLOP/s, exact pairs"] != "—"


def test_errors_are_drawn_against_every_other_axis() -> None:
    axes: dict[str, tuple[Scalar, ...]] = {
        "seq_len": (32, 64, 128, 256),
        "dtype": ("float16", "float32"),
        "head_dim": (32, 64),
    }
    records = arrange(synthetic.description(), synthetic.rows(axes, fail=False))
    found = {plane.key: plane for plane in planes.error_planes(records)}
    assert set(found) == {"error-against-dtype", "error-against-head_dim"}
    plane = found["error-against-dtype"]
    assert plane.x.names == ("float16", "float32")
    naive = next(group for group in plane.series if group.name == "naive")
    assert [(spot.at, spot.y) for spot in naive.points] == [("float16", 1e-3), ("float32", 1e-7)]
