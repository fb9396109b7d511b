"""`bench check` as a process: each known way to go wrong, its verdict and its exit code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main

from .made import Row, bench, changed, environment, row, rows, verdicts, write

NO = "--no-confirm"


def judged(
    candidate: Path, baseline: Path | str, *more: object, expect: int, capsys: pytest.CaptureFixture[str]
) -> Any:
    """The JSON of a check in this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["check", str(candidate), "--baseline", str(baseline), NO, "--json", "-", *map(str, more)])
    out = capsys.readouterr().out
    assert (ended.value.code or 0) == expect, out

    def strict(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(out, parse_constant=strict)


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Judge rows against rows."""

    def run(after: list[Row], before: list[Row], *more: object, expect: int, **environments: Any) -> Any:
        baseline = write(tmp_path / "before", before, environments.get("old"))
        candidate = write(tmp_path / "after", after, environments.get("new"))
        return judged(candidate, baseline, *more, expect=expect, capsys=capsys)

    return run


def test_the_same_run_against_itself_passes(check: Callable[..., Any]) -> None:
    found = check(rows(), rows(), expect=0)
    assert verdicts(found) == {}
    assert found["counts"] == {"same": 12}
    assert (found["exit_code"], found["exit_codes"], found["refusals"]) == (0, [0], [])


def test_a_case_less_fails_and_is_named(check: Callable[..., Any]) -> None:
    found = check(rows()[:-1], rows(), expect=3)
    (missing,) = (finding for finding in found["findings"] if finding["verdict"] == "missing")
    assert "triton_flash" in missing["case"]
    assert "seq_len=2048" in missing["case"]


def test_a_case_more_is_new(check: Callable[..., Any]) -> None:
    found = check([*rows(), row("naive", 4096, 1e-1)], rows(), expect=0)
    assert verdicts(found) == {"new": 1}
    assert "bench baseline accept" in found["advice"][0]


def test_zero_matches_are_an_error(check: Callable[..., Any]) -> None:
    found = check([row("naive", 7, 1e-3)], rows(), expect=4)
    assert found["refusals"] == ["no case of the candidate is in the baseline"]


def test_only_restricts_both_sides(check: Callable[..., Any]) -> None:
    naive = [line for line in rows() if line["case"]["implementation"] == "naive"]
    assert verdicts(check(naive, rows(), expect=3)) == {"missing": 8}
    assert verdicts(check(naive, rows(), "--only", "naive", expect=0)) == {}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_no_data_is_a_verdict(check: Callable[..., Any], bad: float | None) -> None:
    def spoil(line: Row) -> None:
        line["metrics"]["cpu_time"]["value"] = bad

    found = check(changed(rows(), 3, spoil), rows(), expect=3)
    (failed,) = (finding for finding in found["findings"] if finding["verdict"] == "newly-failed")
    assert "no data" in failed["words"]
    assert check(rows(), changed(rows(), 3, spoil), expect=4)["counts"]["incomparable"] == 1


@pytest.mark.parametrize("cut", ["rows.jsonl", "run.json"])
def test_a_file_cut_at_half_is_named_and_stays(tmp_path: Path, cut: str) -> None:
    good = write(tmp_path / "good", rows())
    torn = write(tmp_path / "torn", rows())
    data = (torn / cut).read_bytes()[: (torn / cut).stat().st_size // 2]
    (torn / cut).write_bytes(data)
    for candidate, baseline in ((torn, good), (good, torn)):
        done = bench("check", candidate, "--baseline", baseline, expect=2)
        assert str(torn / cut) in done.stderr
    assert (torn / cut).read_bytes() == data


def test_no_such_baseline(tmp_path: Path) -> None:
    run = write(tmp_path / "run", rows())
    for where in (tmp_path / "none", "git:HEAD:no/such/folder", "git:no-such-ref", "git:HEAD:../x", "git:"):
        done = bench("check", run, "--baseline", where, expect=4)
        assert "--baseline" in done.stderr
    bench("check", tmp_path / "none", "--baseline", run, expect=2)


def test_units_are_read(check: Callable[..., Any]) -> None:
    def in_ms(line: Row) -> None:
        line["metrics"]["cpu_time"] |= {"value": 1.05, "unit": "ms", "samples": []}

    def in_us(line: Row) -> None:
        line["metrics"]["cpu_time"] |= {"value": 950, "unit": "µs", "samples": []}

    found = check(changed(rows(), 0, in_ms), changed(rows(), 0, in_us), expect=0)
    (breach,) = (finding for finding in found["findings"] if finding["verdict"] == "ambiguous")
    assert breach["change"] == pytest.approx(0.10526, abs=1e-4)
    assert breach["unit"] == "s"
    assert "+10.5%" in breach["words"]


def test_one_process_has_no_spread_and_a_breach_is_undecided(check: Callable[..., Any]) -> None:
    found = check(rows(scale=1.3), rows(), expect=0)
    assert {finding["spread"] for finding in found["findings"]} == {None}
    assert verdicts(found) == {"ambiguous": 12}
    assert found["undecided"]
    assert "holds 1 of 5 processes" in found["findings"][0]["words"]
    assert check(rows(scale=1.3), rows(), "--fail-on-undecided", expect=5)["exit_codes"] == [5]
    assert any("suspect the machine" in words for words in found["warnings"])


def test_improvements_pass_and_say_how_to_accept(check: Callable[..., Any]) -> None:
    found = check(rows(scale=0.5), rows(), "--fail-on-undecided", expect=0)
    assert verdicts(found) == {"faster": 12}
    assert found["advice"][0].startswith("bench baseline accept")


STATUSES = [
    ("ok", "crashed", "newly-failed", 3),
    ("ok", "unsupported", "newly-failed", 3),
    ("ok", "incorrect", "newly-failed", 3),
    ("crashed", "ok", "fixed", 0),
    ("crashed", "timeout", "still-failed", 0),
    ("unsupported", "oom", "newly-failed", 3),
    ("unsupported", "skipped", "same", 0),
]


@pytest.mark.parametrize(("old", "new", "verdict", "code"), STATUSES)
def test_statuses(check: Callable[..., Any], old: str, new: str, verdict: str, code: int) -> None:
    def become(status: str) -> Callable[[Row], None]:
        def change(line: Row) -> None:
            if status != "ok":
                line.update(status=status, reason=f"it is {status}", metrics={})

        return change

    found = check(changed(rows(), 5, become(new)), changed(rows(), 5, become(old)), expect=code)
    (finding,) = (f for f in found["findings"] if "sdpa_flash" in f["case"] and "=512" in f["case"]
                  and f["metric"] in ("status", "accuracy"))  # fmt: skip
    assert finding["verdict"] == verdict
    if new not in ("ok", "skipped"):
        assert f"it is {new}" in finding["words"]


def test_memory(check: Callable[..., Any]) -> None:
    def more(factor: float) -> Callable[[Row], None]:
        def change(line: Row) -> None:
            line["metrics"]["peak_memory"]["value"] *= factor

        return change

    large = 3  # 32 MiB; row 0 holds 512 KiB
    assert verdicts(check(changed(rows(), large, more(1.2)), rows(), expect=1)) == {"slower": 1}
    assert verdicts(check(changed(rows(), large, more(1.009)), rows(), expect=0)) == {}
    assert verdicts(check(changed(rows(), 0, more(1.9)), rows(), expect=0)) == {}  # not 1 MiB more
    assert verdicts(check(changed(rows(), large, more(0.5)), rows(), expect=0)) == {"faster": 1}


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [(3e-7, 0, ""), (5e-7, 3, "twice"), (2e-2, 3, "beyond"), (math.nan, 3, "no data"), (1e-9, 0, "")],
)
def test_accuracy(check: Callable[..., Any], error: float, code: int, words: str) -> None:
    def spoil(line: Row) -> None:
        line["metrics"]["error"]["value"] = error

    found = check(changed(rows(), 2, spoil), rows(), expect=code)
    failed = [finding for finding in found["findings"] if finding["verdict"] == "newly-failed"]
    assert [finding["metric"] for finding in failed] == ["accuracy"] * (code == 3)
    assert not failed or words in failed[0]["words"]


def test_another_kernel_is_flagged_and_not_gated(check: Callable[..., Any]) -> None:
    def fall_back(line: Row) -> None:
        line["kernels"] = ["aten::bmm"]
        line["metrics"]["cpu_time"]["value"] *= 3

    found = check(changed(rows(), 4, fall_back), rows(), expect=0)
    (flagged,) = (finding for finding in found["findings"] if finding["verdict"] == "ambiguous")
    assert "flash_fwd before, aten::bmm now" in flagged["flags"][0]


def test_bimodal_and_drifting_samples_are_flagged(check: Callable[..., Any]) -> None:
    def two_modes(line: Row) -> None:
        line["metrics"]["cpu_time"]["samples"] = ([20e-6] * 24 + [0.1]) * 41 + [20e-6] * 16

    def slow_down(line: Row) -> None:
        rates = [1450 + (1237 - 1450) * i / 99 for i in range(100)]
        line["metrics"]["cpu_time"]["samples"] = [1e9 / rate for rate in rates]

    def flags(change: Callable[[Row], None]) -> str:
        found = check(changed(rows(), 0, change), rows(), expect=0)
        return " ".join(flag for finding in found["findings"] for flag in finding["flags"])

    assert "bimodal: 1000 samples near 2e-05 s and 41 near 0.1 s" in flags(two_modes)
    assert "drift: +1" in flags(slow_down)
    assert flags(lambda line: None) == ""


def test_an_older_baseline_without_a_metric(check: Callable[..., Any]) -> None:
    old = rows()
    for line in old:
        del line["metrics"]["peak_memory"]
    found = check(rows(), old, expect=0)
    lacking = [finding for finding in found["findings"] if finding["metric"] == "peak_memory"]
    assert {finding["words"] for finding in lacking} == {"not comparable: the baseline has no peak memory"}
    assert verdicts(check(old, rows(), expect=4)) == {"incomparable": 12}


def test_event_mode_against_graph_mode(check: Callable[..., Any]) -> None:
    def in_graph(line: Row) -> None:
        line["metrics"]["gpu_time_hot"] = line["metrics"].pop("gpu_time_cold")
        line["timing"] |= {"judged": "gpu_time_hot", "cache": "cold: 1; hot: CUDA graph of 9 calls"}

    gpu = rows("cuda:0")
    same = {"old": environment("cuda"), "new": environment("cuda")}
    found = check(changed(gpu, 1, in_graph), gpu, expect=4, **same)
    assert verdicts(found) == {"incomparable": 1}


def test_a_table_shows_the_worst_first(tmp_path: Path) -> None:
    before = write(tmp_path / "before", rows())
    after = write(
        tmp_path / "after", changed(rows(scale=1.2)[1:], 2, lambda r: r.update(status="oom", reason="full"))
    )
    done = bench("check", after, "--baseline", before, NO, expect=3)
    words = [
        line.split()[0] for line in done.stdout.splitlines() if line.startswith(("newly", "missing", "ambig"))
    ]
    assert words == ["newly-failed", "missing", *["ambiguous"] * 10]


def test_a_thousand_cases_without_torch(tmp_path: Path) -> None:
    run = write(tmp_path / "run", [row("naive", n, 1e-8 * n * n) for n in range(100, 1100)])
    assert "1000 same" in bench("check", run, "--baseline", run).stdout


def test_a_failing_run_is_still_stored(tmp_path: Path) -> None:
    before = write(tmp_path / "before", rows())
    after = write(
        tmp_path / "after", changed(rows(), 0, lambda r: r.update(status="oom", reason="full", metrics={}))
    )
    kept = {path.name: path.read_bytes() for path in after.iterdir()}
    bench("check", after, "--baseline", before, "--json", tmp_path / "found.json", expect=3)
    assert json.loads((tmp_path / "found.json").read_text())["exit_code"] == 3
    assert {path.name: path.read_bytes() for path in after.iterdir()} == kept
    bench("baseline", "accept", after, "--reason", "it is known", "--into", tmp_path / "baselines")
    found = bench("check", after, "--baseline", tmp_path / "baselines").stdout
    assert "1 still-failed, 11 same" in found
