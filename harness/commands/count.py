"""`bench count`: the costs of a suite's implementations as exact polynomials in the length."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.commands.choice import Choice
from harness.protocol import Certified
from harness.runner import runs_interpreted
from harness.types import BenchError, Case

#: Multiples of every tile and chunk in use, so that each count is one polynomial. The larger ones confirm.
TRACED = (256, 512, 768, 1024, 1536, 2048, 4096)
INTERPRETED = (128, 256, 384, 512, 640)
#: The axis that certificates are polynomials of.
LENGTH = "seq_len"


class NothingCertified(BenchError):
    """Not one count came out as a polynomial."""

    exit_code = 1


def certify_suite(choice: Choice, save: Path | None, console: Console) -> None:
    """Count, print and keep. Raises NothingCertified."""
    with tempfile.TemporaryDirectory() as scratch:
        executor = choice.executor(Path(scratch) / "worker.log")
        table = Table("implementation", "quantity", "exact count", "grows as", "equal at", "fixed")
        records: list[dict[str, Any]] = []
        try:
            for case in families(choice):
                interpreted = runs_interpreted(case)
                found = executor.certify(case, interpreted, INTERPRETED if interpreted else TRACED)
                _add(table, case, found)
                records += found.certificates
        finally:
            executor.close()
    console.print(table)
    if save:
        save.parent.mkdir(parents=True, exist_ok=True)
        save.write_text(json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    if not records:
        raise NothingCertified("no count could be certified; the reasons are in the table")


def families(choice: Choice) -> Iterator[Case]:
    """One case of each implementation for every setting of the other axes, one head to keep it short."""
    axes = {**choice.suite.axes, LENGTH: (TRACED[0],), "heads": (1,)}
    for follower in ("kv_len", "kv_heads"):
        axes.pop(follower, None)
    for group in replace(choice.suite, axes=axes).groups("cpu"):
        yield from group.cases


def _add(table: Table, case: Case, found: Certified) -> None:
    for record in found.certificates:
        polynomial = str(record["text"]).partition(" = ")[2].partition(" (")[0]
        sizes = ", ".join(str(at[0]) for at in record["confirmed_at"])
        power = record["exponents"]["n"]
        table.add_row(
            case.implementation, record["quantity"], f"{polynomial} {record['unit']}".removesuffix(" 1"),
            {0: "1", 1: "n"}.get(power, f"n^{power}"), f"n = {sizes}", record["conditions"],
        )  # fmt: skip
    for quantity, reason in found.uncertified.items():
        table.add_row(case.implementation, quantity, "not certified", "–", "–", reason)
