"""What a person sees: a bar with the case, its live median and the time left; plain lines elsewhere."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from harness.progress import BarProgress, PlainProgress, progress_for
from harness.protocol import Touch
from harness.types import Case, Measurement, Result, Status

CASE = Case("naive", "attention", "cpu", {"seq_len": 64, "heads": 2})
TIMED = Result(CASE, Status.OK, metrics={"cpu_time": Measurement(2e-3, "s")})


def console(terminal: bool) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=200,
        markup=False,
        highlight=False,
        color_system=None,
    )


def printed(where: Console) -> str:
    """What was written, without the codes that move the cursor."""
    assert isinstance(where.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", where.file.getvalue())


def test_a_terminal_gets_a_bar_and_a_log_gets_lines() -> None:
    assert isinstance(progress_for(console(True), []), BarProgress)
    assert isinstance(progress_for(console(False), []), PlainProgress)


def test_the_bar_shows_the_case_its_live_median_and_the_time_left() -> None:
    where = console(True)
    progress = BarProgress(where, ["seq_len"])
    progress.begin(3)
    progress.probe(CASE)
    progress.bar.refresh()
    assert "predicting naive seq_len=64" in printed(where)
    progress.touch(Touch(CASE.key, "timing", 1.5e-3))
    progress.row(TIMED, 42.0)
    progress.bar.refresh()
    progress.end()
    shown = printed(where)
    assert "naive seq_len=64: timing 1.50 ms" in shown
    assert "1/3" in shown
    assert "(42 s left)" in shown


def test_a_median_that_comes_between_two_refreshes_is_shown_at_the_next() -> None:
    where = console(True)
    progress = BarProgress(where, ["seq_len"])
    progress.begin(1)
    progress.probe(CASE)
    progress.touch(Touch(CASE.key, "timing"))
    progress.touch(Touch(CASE.key, "timing", 1.5e-3))  # within a tenth of a second: not drawn
    progress.refreshed = 0.0
    progress.touch(Touch(CASE.key, "timing"))
    progress.bar.refresh()
    progress.end()
    assert "timing 1.50 ms" in printed(where)


def test_a_failure_is_told_above_the_bar_with_its_reason() -> None:
    where = console(True)
    progress = BarProgress(where, ["seq_len"])
    progress.begin(1)
    progress.row(Result(CASE, Status.CRASHED, "killed by [SIGKILL]"), 0.0)
    progress.end()
    assert "naive seq_len=64: crashed: killed by [SIGKILL]" in printed(where)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (TIMED, "naive seq_len=64: 2.00 ms"),
        (Result(CASE, Status.OOM, "1 TB is too much"), "naive seq_len=64: oom: 1 TB is too much"),
        (
            Result(CASE, Status.OK, notes={"latency": "not timed: interpreted"}),
            "naive seq_len=64: ok, not timed: interpreted",
        ),
    ],
    ids=["timed", "failed", "interpreted"],
)
def test_a_log_gets_one_line_a_row(result: Result, words: str) -> None:
    where = console(False)
    progress = PlainProgress(where, ["seq_len"])
    progress.begin(2)
    progress.touch(Touch(CASE.key, "timing", 1e-3))
    progress.row(result, 7.0)
    progress.end()
    assert printed(where).splitlines()[1:] == [f"[1/2] {words} (7 s left)"]


def test_what_cannot_run_is_said_once_and_counted() -> None:
    where = console(False)
    progress = PlainProgress(where, ["seq_len"])
    progress.begin(4)
    missing = Result(CASE, Status.UNSUPPORTED, "needs CUDA")
    for result in (missing, TIMED, missing, missing):
        progress.row(result, 0.0)
    progress.end()
    assert printed(where).splitlines()[1:] == [
        "[1/4] naive seq_len=64: unsupported: needs CUDA",
        "[2/4] naive seq_len=64: 2.00 ms",
        "naive: 3 cases unsupported: needs CUDA",
    ]
