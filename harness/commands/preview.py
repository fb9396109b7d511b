"""`bench run --dry-run`: every case with its predicted memory and time."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness import format
from harness.commands.choice import Choice
from harness.plan import NOMINAL_FLOPS, measuring_seconds, nominal_seconds
from harness.progress import label
from harness.protocol import Probed, Ready
from harness.runner import dry_run, environment_of, runs_interpreted


def preview(choice: Choice, console: Console) -> None:
    """Show every case with its predicted memory and time; nothing is measured."""
    with tempfile.TemporaryDirectory() as scratch:
        executor = choice.executor(Path(scratch) / "worker.log")
        try:
            ready = environment_of(executor, choice.suite, choice.device)
            table = Table("case", "predicted memory", "predicted time", "note")
            total = 0.0
            for probed in dry_run(choice.suite, choice.device, executor):
                spent = _predicted_seconds(choice, ready, probed)
                table.add_row(*_preview_row(choice, probed, spent))
                total += spent or 0.0
        finally:
            executor.close()
    console.print(table)
    console.print(
        f"In all about {format.seconds(total)} of timing, of a budget of "
        f"{format.seconds(choice.suite.budget)}; counting, checking and what is not predicted come on top."
    )
    console.print(
        "Predicted memory: counted on fake tensors. Predicted time: counted work at nominal rates of "
        f"{format.quantity(NOMINAL_FLOPS[_kind(choice)], 'FLOP/s')}; a run predicts from real calls.",
    )


def _kind(choice: Choice) -> str:
    return choice.device.partition(":")[0]


def _predicted_seconds(choice: Choice, ready: Ready, probed: Probed) -> float | None:
    """What timing the case takes; None where it is not timed."""
    if probed.result is not None or runs_interpreted(probed.case):
        return None
    return measuring_seconds(nominal_seconds(probed, _kind(choice)), ready.sampling, timed=True)


def _preview_row(choice: Choice, probed: Probed, spent: float | None) -> tuple[str, str, str, str]:
    name = label(probed.case.implementation, dict(probed.case.problem), choice.swept)
    memory = format.quantity(probed.peak_bytes, "B") if probed.peak_bytes is not None else "unknown"
    if probed.result is not None:
        return name, memory, "–", f"{probed.result.status}: {probed.result.reason}"
    if spent is None:
        return name, memory, "unknown", "not timed: interpreted"
    return name, memory, format.seconds(spent), ""
