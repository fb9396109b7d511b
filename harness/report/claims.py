"""The claims of the reference document, where `bench verify --json RUN/claims.json` left its verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.report.grid import DASH, Cell, Grid, columns
from harness.report.planes import Group, Plane, Quantity, Spot
from harness.store import UnreadableRun

CLAIMS_FILE = "claims.json"
#: What every record has.
KEYS = frozenset({"section", "claim", "number", "bound", "verdict"})
HEAD = ("section", "claim", "number", "bound", "verdict", "the document")
WORDING = {"holds": "", "loose": "states it loosely", "wrong": "states it wrongly"}

Record = Mapping[str, Any]


def read_claims(folder: Path) -> tuple[Record, ...]:
    """The verdicts beside a run, none where it has no such file. Raises UnreadableRun for another file."""
    path = folder / CLAIMS_FILE
    if not path.exists():
        return ()
    try:
        records = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UnreadableRun(
            f"{path}: not JSON ({error}); write it again: bench verify --json {path}"
        ) from None
    if not isinstance(records, list) or not all(isinstance(r, dict) and r.keys() >= KEYS for r in records):
        raise UnreadableRun(
            f"{path}: not what bench verify writes; write it again: bench verify --json {path}"
        )
    return tuple(records)


def table(records: Sequence[Record]) -> Grid:
    """One row a claim."""
    failed = sum(record["verdict"] != "PASS" for record in records)
    return Grid(
        f"Claims of the reference document, each executed: {len(records) - failed} pass, {failed} fail",
        HEAD,
        tuple(_row(record) for record in records),
        columns(HEAD, "number"),
        "claims-table",
        row_heads=2,
        picks=columns(HEAD, "section", "verdict", "the document"),
    )


def _row(record: Record) -> tuple[Cell | str, ...]:
    number, passes = record["number"], record["verdict"] == "PASS"
    wording = WORDING.get(record.get("document", "holds"), "")
    return (
        record["section"],
        Cell(record["claim"], note=record.get("computed", "")),
        DASH if number is None else _plain(number),
        record["bound"],
        Cell(record["verdict"], "good" if passes else "bad"),
        Cell(wording, "doubt", "why", record.get("care", "")) if wording else "",
    )


def _plain(number: float) -> str:
    whole = number == int(number) and abs(number) < 1e15
    return f"{int(number):,}" if whole else f"{number:.4g}"


def drawings(records: Sequence[Record]) -> tuple[Plane, ...]:
    """The curves of the claims; both axes are logarithmic, so that what is 0 has no point."""
    figures = [figure for record in records for figure in record.get("figures", ())]
    return tuple(
        _plane(f"claim-{place}", figure) for place, figure in enumerate(figures) if _drawable(figure)
    )


def _drawable(figure: Record) -> bool:
    return all(len(_points(curve)) > 1 for curve in figure["curves"])


def _plane(key: str, figure: Record) -> Plane:
    groups = tuple(
        Group(
            curve["name"],
            index,
            tuple(Spot(x, y, f"{curve['name']}: {y:.3g} at {x:g}") for x, y in _points(curve)),
        )
        for index, curve in enumerate(figure["curves"])
    )
    unit = "s" if figure["y_label"] == "seconds" else "1"
    return Plane(
        key, figure["title"], "", Quantity(figure["x_label"], "1"), Quantity(figure["y_label"], unit), groups,
        joined=True,
    )  # fmt: skip


def _points(curve: Record) -> list[tuple[float, float]]:
    return [(x, y) for x, y in zip(curve["xs"], curve["ys"], strict=True) if x > 0 and y > 0]
