"""Where a judgement goes: the terminal, and the files that were asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.gate import outputs
from harness.gate.findings import Judgement
from harness.types import BenchError

_HEAD = ("verdict", "quantity", "change", "before", "after", "ratio", "detects")


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a command line asks for; a path of "-" is standard output."""

    json: Path | None = None
    junit: Path | None = None
    markdown: Path | None = None
    github: bool = False
    everything: bool = False
    fail_on_undecided: bool = False

    def deliver(self, judgement: Judgement, console: Console) -> int:
        """Show and write everything; the exit code. Raises BenchError when a file cannot be written."""
        if self.json != Path("-"):
            show(judgement, console, self.everything)
        writers: tuple[tuple[Path | None, Callable[[Judgement, bool], str]], ...] = (
            (self.json, outputs.as_json),
            (self.junit, outputs.as_junit),
            (self.markdown, outputs.as_markdown),
        )
        for path, text in writers:
            if path is not None:
                _write(path, text(judgement, self.fail_on_undecided))
        if self.github:
            sys.stdout.write(outputs.as_annotations(judgement, self.fail_on_undecided))
        return judgement.exit_codes(self.fail_on_undecided)[0]


def _write(path: Path, text: str) -> None:
    if path == Path("-"):
        sys.stdout.write(text)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise BenchError(f"{path}: cannot be written ({error.strerror}); choose another file") from None


def show(judgement: Judgement, console: Console, everything: bool) -> None:
    """The judgement on the terminal: the most severe cases first, then counts, then what to do."""
    for finding_rows in outputs.rows(judgement, everything):
        verdict, case, *numbers, words = finding_rows
        console.print(Text.assemble((verdict, "bold"), f"  {case}"), soft_wrap=True)
        table = Table(*_HEAD[1:], box=None, padding=(0, 2, 0, 1))
        table.add_row(*numbers)
        console.print(table)
        console.print(Text(f" {words}"), soft_wrap=True)
    for label, lines in (
        ("not comparable", judgement.refusals), ("expired", judgement.expired), ("note", judgement.notes),
        ("next", judgement.advice),
    ):  # fmt: skip
        for line in lines:
            console.print(Text(f"{label}: {line}"), soft_wrap=True)
    facts = "; ".join(f"{name} {value}" for name, value in judgement.facts.items())
    if facts:
        console.print(Text(facts), soft_wrap=True)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in judgement.counts.items())
    console.print(f"against {judgement.baseline}: {counts or 'nothing was compared'}", soft_wrap=True)
