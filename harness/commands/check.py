"""`bench check`: a run against a baseline."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from harness.gate.compare import Options, judge
from harness.gate.delivery import Outputs
from harness.gate.findings import Finding, Judgement
from harness.gate.reading import merged, run_side
from harness.gate.side import Side
from harness.gate.sources import baseline_side
from harness.types import BenchError


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What a command line asks for."""

    run_folders: tuple[Path, ...]
    baseline: str
    options: Options
    confirm: bool = True
    machine_code: Path | None = None
    machine_code_baseline: Path | None = None
    report: Path | None = None


def check_run(request: CheckRequest, outputs: Outputs, console: Console) -> int:
    """Judge, confirm what is suspected, deliver; the exit code. Raises BenchError for what is unreadable."""
    candidate = merged([run_side(folder) for folder in request.run_folders])
    baseline, quarantine = baseline_side(request.baseline, candidate, _today())
    judgement = judge(candidate, baseline, request.options, quarantine)
    if request.confirm:
        judgement = _confirmed(judgement, candidate, baseline, console)
    if request.machine_code or request.machine_code_baseline:
        judgement = replace(judgement, findings=(*judgement.findings, *_kernels(request)))
    if request.report:
        _report(request, judgement)
    return outputs.deliver(judgement, console)


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _confirmed(judgement: Judgement, candidate: Side, baseline: Side, console: Console) -> Judgement:
    """Measure the breaches again where that is possible; nothing is imported where there is none."""
    from harness.gate.confirming import suspects

    if not suspects(judgement):
        return judgement
    from harness.commands.confirm import confirmed

    return confirmed(judgement, candidate, baseline, console)


def _kernels(request: CheckRequest) -> Sequence[Finding]:
    """Findings of the machine code. Raises BenchError when only one file is given."""
    if request.machine_code is None or request.machine_code_baseline is None:
        raise BenchError("--machine-code and --machine-code-baseline: give both, or neither")
    from harness.gate.kernels import kernel_findings

    return kernel_findings(request.machine_code_baseline, request.machine_code)


def _report(request: CheckRequest, judgement: Judgement) -> None:
    from harness.gate.page import regressions
    from harness.report.page import page_of
    from harness.report.runs import read

    assert request.report is not None
    html = page_of(read(list(request.run_folders)), regressions(judgement))
    request.report.parent.mkdir(parents=True, exist_ok=True)
    request.report.write_text(html, "utf-8")
