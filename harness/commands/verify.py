"""`bench verify`: the claims of the reference document, each executed, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.types import BenchError
from harness.verify.checking import FAIL, PASS, NotRun, Verdict, check
from harness.verify.claim import SECTIONS, Claim, claims, plain
from harness.verify.records import to_record


class ClaimFailed(BenchError):
    """A claim does not hold here."""

    exit_code = 1


def verify(only: Sequence[str], save: Path | None, console: Console) -> None:
    """Check, print each section as it is done, and keep. Raises ClaimFailed, and BenchError for no match."""
    chosen = choose(claims(), only)
    found: list[Verdict | NotRun] = []
    for section in dict.fromkeys(one.section for one in chosen):
        members = [check(one) for one in chosen if one.section == section]
        _show(section, members, console)
        found += members
    verdicts = [one for one in found if isinstance(one, Verdict)]
    if save:
        _save(verdicts, save)
    _remarks(found, console)
    _judge(verdicts, console)


def choose(known: Iterable[Claim], only: Sequence[str]) -> list[Claim]:
    """The claims that match one of the patterns. Raises BenchError for a pattern that matches none."""
    every = list(known)
    for pattern in only:
        if not any(_matches(one, pattern) for one in every):
            raise BenchError(
                f"--only {pattern}: matches no claim; give a section ({', '.join(SECTIONS)}) "
                "or a pattern of its words, such as '*rotary*'"
            )
    return [one for one in every if not only or any(_matches(one, pattern) for pattern in only)]


def _matches(one: Claim, pattern: str) -> bool:
    name = pattern.casefold()
    return name in (one.section.casefold(), one.section.casefold().lstrip("§")) or fnmatchcase(
        one.text.casefold(), name
    )


def _show(section: str, found: Iterable[Verdict | NotRun], console: Console) -> None:
    """A section: its heading, a row for each claim, and what claims print. It fits 80 columns."""
    console.print(Text.assemble((section, "bold"), f"  {SECTIONS[section]}"))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, width=min(console.width, 100))
    table.add_column("claim and what was computed", ratio=1)
    for head in ("number", "bound"):
        table.add_column(head, justify="right", max_width=15)
    table.add_column("", no_wrap=True)
    for one in found:
        table.add_row(*_cells(one))
    console.print(table)
    for one in found:
        for line in one.printed if isinstance(one, Verdict) else ():
            console.print(line, soft_wrap=True)
    console.print()


def _cells(one: Verdict | NotRun) -> tuple[Text | str, ...]:
    if isinstance(one, NotRun):
        return one.claim, "–", "–", Text("not run", "yellow")
    mark = {"holds": "", "loose": " [stated loosely]", "wrong": " [stated wrongly]"}[one.document]
    words = Text.assemble(one.claim, (mark, "yellow"), "\n", (one.computed, "dim"))
    number = "none" if one.number is None else plain(one.number)
    return words, number, one.bound, Text(one.verdict, "green" if one.verdict == PASS else "bold red")


def _remarks(found: Iterable[Verdict | NotRun], console: Console) -> None:
    """Where the document needs care, and what could not be checked."""
    for one in found:
        if isinstance(one, NotRun):
            console.print(f"{one.section} not run: {one.claim}: {one.reason}", soft_wrap=True)
        elif one.care:
            how = "stated loosely" if one.document == "loose" else "stated wrongly"
            console.print(
                Text.assemble((f"{one.section} {how}: ", "yellow"), f"{one.claim}. {one.care}"),
                soft_wrap=True,
            )


def _judge(verdicts: Sequence[Verdict], console: Console) -> None:
    failed = [one for one in verdicts if one.verdict == FAIL]
    careful = sum(bool(one.care) for one in verdicts)
    console.print(
        f"{len(verdicts)} claims: {len(verdicts) - len(failed)} PASS, {len(failed)} FAIL; "
        f"{careful} that the document states loosely or wrongly"
    )
    if failed:
        more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise ClaimFailed(f"{failed[0].section} {failed[0].claim}: {_figure(failed[0])}{more}")


def _figure(one: Verdict) -> str:
    return one.computed if one.number is None else f"{plain(one.number)}, not {one.bound}"


def _save(verdicts: Iterable[Verdict], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [to_record(one) for one in verdicts]
    path.write_text(json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
