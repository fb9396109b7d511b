"""`bench count`: the costs of a suite's implementations as exact polynomials in the sizes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.commands.choice import Choice
from harness.counting.certificates import Certificate, CertifiedFamily
from harness.families import families
from harness.runner import certified_family
from harness.types import BenchError


class NothingCertified(BenchError):
    """Not one count came out as a polynomial."""

    exit_code = 1


def certify_suite(choice: Choice, save: Path | None, console: Console) -> None:
    """Count, print each family as it is done, and keep. Raises NothingCertified."""
    found: list[CertifiedFamily] = []
    with tempfile.TemporaryDirectory() as scratch:
        executor = choice.executor(Path(scratch) / "worker.log")
        try:
            for family in families(choice.suite):
                found.append(certified_family(executor, family))
                _show(found[-1], console)
        finally:
            executor.close()
    if save:
        _save(found, save)
    if not any(family.certificates for family in found):
        raise NothingCertified("no count could be certified; the reasons are above")


def _save(found: Iterable[CertifiedFamily], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [family.to_record() for family in found]
    path.write_text(json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")


def _show(family: CertifiedFamily, console: Console) -> None:
    """A family: what is fixed, its polynomials, and what has none."""
    fixed = family.certificates[0].conditions if family.certificates else str(family.case.problem["dtype"])
    console.print(Text.assemble((family.case.implementation, "bold"), "  ", fixed), soft_wrap=True)
    if family.certificates:
        table = Table(
            "quantity", "exact count", "in " + family.certificates[0].variables[0], "equal at", box=None
        )
        for certificate in family.certificates:
            table.add_row(*_cells(certificate, fixed))
        console.print(table)
    for reason in dict.fromkeys(family.missing.values()):
        quantities = ", ".join(quantity for quantity, why in family.missing.items() if why == reason)
        console.print(Text(f" {quantities}: not certified: {reason}"), soft_wrap=True)
    console.print()


def _cells(found: Certificate, fixed: str) -> tuple[str, str, str, str]:
    """Quantity, polynomial with what limits it, its power, and where equality was seen."""
    unit = "" if found.unit == "1" else f" {found.unit}"
    stated = [found.domain, found.conditions if found.conditions != fixed else ""]
    where = "".join(f"; {words}" for words in stated if words)
    return found.quantity, f"{found.polynomial}{unit}{where}", found.growth, confirmed(found)


def confirmed(found: Certificate) -> str:
    """At which sizes equality was seen, in a few words."""
    largest = max(sizes[0] for sizes in found.confirmed_at)
    return f"{len(found.confirmed_at)} sizes, to {largest:,}"
