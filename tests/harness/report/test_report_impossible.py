"""What no device can do is called impossible, not fast, in the table, the choice and the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.report import choice, page
from harness.report.efficiency import table as efficiency
from harness.report.headline import answer
from harness.report.impossible import marked, why_impossible
from harness.report.peaks import PEAKS, limits, peak_of
from harness.report.records import Records, arrange
from harness.report.tables import complexity_table, tabulate
from harness.types import DeviceInfo, ImplementationCard, Measurement, Result, Run, Scalar

from . import synthetic

CLAIM = "n_log_n_exact"
CLAIMED = ImplementationCard(CLAIM, "a public claim", True, {"time": "batch*heads*n*log(n)*d"})
FLASH = ImplementationCard("sdpa_flash", "PyTorch SDPA, flash backend", True, synthetic.LAWS)
H100 = DeviceInfo("cuda", "NVIDIA H100 80GB HBM3", {"memory_bytes": 80 << 30, "sm_clock_max_mhz": 1830})
UNKNOWN = DeviceInfo("cuda", "Example GPU", {"memory_bytes": 80 << 30})
SIZES = (65536, 131072, 262144, 524288)


def _run(device: DeviceInfo = H100) -> Run:
    run = synthetic.description((CLAIMED, FLASH))
    return replace(run, device="cuda", environment=replace(run.environment, device=device))


def _work(n: float) -> float:
    """FLOPs of exact attention with 32 heads of 64."""
    return 4 * n * n * 64 * 32


def _timed(seconds: Callable[[str, float], float], result: Result) -> Result:
    n = float(str(result.case.problem["seq_len"]))
    flops, time = _work(n), seconds(result.case.implementation, n)
    metrics = {
        "gpu_time_cold": Measurement(time, "s", low=0.999 * time, high=1.001 * time, samples=(time,) * 5),
        "flop_rate": Measurement(flops / time, "FLOP/s", "higher"),
        # The claimant counts what it declares; an exact implementation owes the problem's FLOPs anyway.
        "flops": Measurement(flops if result.case.implementation != CLAIM else n * 17 * 64 * 32, "FLOP"),
    }
    return replace(result, metrics=metrics)


def _claim(name: str, n: float) -> float:
    """14.3 ms whatever the length; flash attention at 600 TFLOP/s."""
    return 14.3e-3 if name == CLAIM else _work(n) / 600e12


def _rows(
    seconds: Callable[[str, float], float] = _claim, sizes: tuple[int, ...] = SIZES, dtype: str = "float16"
) -> list[Result]:
    axes: dict[str, tuple[Scalar, ...]] = {"seq_len": sizes, "heads": (32,), "dtype": (dtype,)}
    return [_timed(seconds, result) for result in synthetic.rows(axes, (CLAIMED, FLASH), fail=False)]


def _impossible(rows: list[Result], device: DeviceInfo = H100) -> list[bool]:
    return [bool(why_impossible(r)) for r in marked(arrange(_run(device), rows)).results]


@pytest.fixture(scope="module")
def records() -> Records:
    return marked(arrange(_run(), _rows()))


def test_the_public_claim_is_impossible_in_the_table() -> None:
    found = {r.implementation: r for r in complexity_table(_run(), _rows()).rows if r.quantity == "time"}
    row = found[CLAIM]
    assert row.word == "impossible"
    # 4·n²·d FLOPs per head at n = 524288 in 989.4 TFLOP/s take 2.28 s
    assert "0.0143 s" in row.reason
    assert "2.28 s" in row.reason
    assert row.predictions == ()
    assert row.overhead_to is None
    assert found["sdpa_flash"].word not in ("impossible", "refuted")


def test_choose_does_not_name_it_fastest(records: Records) -> None:
    found = choice.fastest(records)
    assert [t.name for c in found for t in c.tied] == ["sdpa_flash"] * len(SIZES)
    assert CLAIM not in [t.name for c in found for t in c.others]
    assert [row[0] for row in efficiency(records).rows] == ["sdpa_flash"]
    assert answer(records, tabulate(records), found, ())[0].startswith(f"Impossible, not fast: {CLAIM};")


def test_the_page_says_so_and_flags_the_rows(records: Records) -> None:
    html = page(_run(), _rows())
    assert "Times that cannot be" in html
    assert "4 cases flagged as impossible" in html
    assert "overhead-bound" not in html.partition("Glossary")[0]
    assert f"impossible, not fast: {CLAIM}" in html
    assert "Times were held against the peaks of NVIDIA H100 80GB HBM3" in html
    assert sum(bool(why_impossible(r)) for r in records.results) == len(SIZES)


def test_without_a_known_peak_only_a_flat_time_is_impossible_and_the_page_says_so() -> None:
    short = complexity_table(_run(UNKNOWN), _rows())
    assert "No peak arithmetic and bandwidth are known for Example GPU" in short.checked
    assert "impossible" not in [r.word for r in short.rows]  # 8 × in n is not 16 ×
    wide = complexity_table(_run(UNKNOWN), _rows(sizes=(32768, *SIZES))).rows
    (row,) = [r for r in wide if r.word == "impossible"]
    assert row.implementation == CLAIM
    assert "while the arithmetic grows 256 times" in row.reason


def test_a_time_flat_in_heads_may_fill_an_idle_device() -> None:
    axes: dict[str, tuple[Scalar, ...]] = {
        "heads": (1, 2, 4, 8, 16, 32),
        "seq_len": (16384,),
        "dtype": ("float16",),
    }
    rows = [_timed(_claim, r) for r in synthetic.rows(axes, (CLAIMED,), fail=False)]
    assert not any(_impossible(rows, UNKNOWN))


def test_overhead_is_not_impossible_and_neither_is_the_peak_itself() -> None:
    def honest(name: str, n: float) -> float:
        return max(2e-5, _work(n) / 989.4e12)

    assert not any(_impossible(_rows(honest, (64, 128, 256, 512, 1024, 2048))))


def test_the_peak_is_that_of_the_dtype() -> None:
    def at_700(name: str, n: float) -> float:
        return _work(n) / 700e12

    assert not any(_impossible(_rows(at_700)))
    assert all(_impossible(_rows(at_700, dtype="float32")))


def test_traffic_counts_beyond_the_cache() -> None:
    def moved(result: Result, rate: float) -> Result:
        metrics = {"gpu_time_cold": Measurement(1e-3, "s"), "byte_rate": Measurement(rate, "B/s", "higher")}
        return replace(result, metrics=metrics)

    device = replace(H100, facts={"l2_bytes": 50 * 2**20})
    # 3.5 GB in 1 ms beat 3.35 TB/s by less than the slack; the cache may have held 52 MB of them.
    assert not any(_impossible([moved(r, 3.5e12) for r in _rows()], device))
    assert all(_impossible([moved(r, 4e12) for r in _rows()], device))


@pytest.mark.parametrize(
    ("name", "half", "bandwidth"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4e12, 3.35e12),
        ("NVIDIA H100 PCIe", 756e12, 2.04e12),
        ("NVIDIA H200", 989.4e12, 4.8e12),
        ("NVIDIA A100-SXM4-80GB", 312e12, 2.04e12),
        ("NVIDIA A100-PCIE-40GB", 312e12, 1.56e12),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 312e12, 1.56e12),
        ("Tesla T4", 65e12, 0.32e12),
        ("NVIDIA GeForce RTX 4090", 330.3e12, 1.008e12),
    ],
)
def test_devices_are_known_by_name(name: str, half: float, bandwidth: float) -> None:
    found = limits(DeviceInfo("cuda", name), "bfloat16")
    assert found is not None
    assert (found.flops, found.bandwidth) == pytest.approx((half, bandwidth))


@pytest.mark.parametrize("name", ["NVIDIA A10G", "NVIDIA GB200", "NVIDIA GeForce RTX 4090 Laptop GPU", "CPU"])
def test_others_are_not_guessed(name: str) -> None:
    assert peak_of(DeviceInfo("cuda", name)) is None
    assert limits(DeviceInfo("cpu", "NVIDIA H100"), "float16") is None


def test_peaks_are_in_their_units_and_cite_a_source() -> None:
    for peak in PEAKS:
        assert 1e13 < peak.half < 1e16
        assert peak.half >= peak.tf32 >= peak.float32 >= peak.float64
        assert 1e11 < peak.bandwidth < 1e13
        assert 1000 < peak.boost_mhz < 3000
        assert peak.source.startswith("NVIDIA ")


def test_a_higher_clock_raises_the_peak() -> None:
    fast = replace(H100, facts={"sm_clock_max_mhz": 1980})
    found, stated = limits(fast, "float16"), limits(H100, "float16")
    assert found is not None
    assert stated is not None
    assert found.flops == pytest.approx(stated.flops * 1980 / 1830)
