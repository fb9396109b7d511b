"""`bench selfcheck`: can the gate be trusted on this machine?"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.devices.select import resolve
from harness.format import quantity
from harness.gate.busy import refuse_if_busy
from harness.gate.findings import PASS, REGRESSION, UNDECIDED
from harness.gate.rates import Row
from harness.gate.selfcheck import FULL, QUICK, SelfCheck, Size, self_check

HEADS = ("slower", "same", "undecided", "quads", "to a verdict", "measured", "detects")


def check_self(
    device: str,
    quick: bool,
    size: Size | None,
    as_json: Path | None,
    fail_on_undecided: bool,
    console: Console,
) -> int:
    """Run, show; 0 when the gate can be trusted here, 1 when not, 5 when noise hides a slowdown."""
    resolved = resolve(device)
    load = refuse_if_busy(resolved, allow=True)
    began = time.monotonic()
    progress = Console(stderr=True, highlight=False)
    found = self_check(resolved, size or (QUICK if quick else FULL), progress.print)
    facts = _facts(load, time.monotonic() - began, found)
    for words in facts:
        console.print(Text(words), soft_wrap=True)
    _show(found, console)
    if as_json:
        _write(as_json, found, facts)
    if found.failures:
        return REGRESSION
    return UNDECIDED if found.undecided and fail_on_undecided else PASS


def _facts(load: tuple[str, ...], seconds: float, found: SelfCheck) -> list[str]:
    average = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return [
        f"{os.cpu_count()} CPUs; load {average} (1, 5, 15 min); {'; '.join(load) or 'otherwise idle'}",
        f"{seconds:.0f} s; controls of each session: {' | '.join(found.controls)}",
    ]


def _show(found: SelfCheck, console: Console) -> None:
    for one in found.rows:
        kind, *values = cells(one)
        words = "; ".join(f"{head} {value}" for head, value in zip(HEADS, values, strict=True))
        console.print(Text.assemble((kind, "bold"), f": {words}"), soft_wrap=True)
    for name, track in found.kernels.items():
        smallest = "unknown" if track.detectable is None else f"{track.detectable:.1%}"
        time_of_one = quantity(track.medians[0], "s") if track.medians else "unknown"
        console.print(
            Text(f"{name} ({time_of_one}) against itself: {track.decision}; detects {smallest}"),
            soft_wrap=True,
        )
    for name, words in found.faults.items():
        console.print(Text.assemble((name, "bold"), f": {words}"), soft_wrap=True)
    for words in found.undecided:
        console.print(Text(f"noise hides: {words}"), soft_wrap=True)
    for words in found.failures:
        console.print(Text(f"not to be trusted: {words}"), soft_wrap=True)


def cells(one: Row) -> tuple[str, ...]:
    """What is said of a kind: its name, then a value for each of `HEADS`."""
    smallest = "–" if one.detectable is None else f"{one.detectable:.1%}"
    return (
        one.kind, str(one.slower), str(one.same), str(one.undecided), f"{one.quads:g}",
        quantity(one.seconds, "s"), f"{math.expm1(one.measured):+.1%}", smallest,
    )  # fmt: skip


def _write(path: Path, found: SelfCheck, facts: list[str]) -> None:
    data = {
        "facts": facts,
        "rows": [
            {
                "kind": one.kind, "change": one.change, "slower": one.slower.count, "same": one.same.count,
                "faster": one.faster.count, "undecided": one.undecided.count, "of": one.same.of,
                "quads": one.quads, "seconds": one.seconds, "detectable": one.detectable,
            }
            for one in found.rows
        ],
        "faults": found.faults,
        "failures": list(found.failures),
        "undecided": found.undecided,
    }  # fmt: skip
    text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    if path == Path("-"):
        sys.stdout.write(text)
    else:
        path.write_text(text, "utf-8")
