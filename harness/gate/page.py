"""A judgement as tables for the report's page and summary."""

from __future__ import annotations

from harness.format import quantity
from harness.gate.findings import Finding, Judgement, Verdict
from harness.gate.outputs import smallest
from harness.report.grid import DASH, Cell, Grid, columns

HEAD = ("verdict", "case", "quantity", "change", "before", "after", "smallest change it detects", "what")
_KINDS = {
    Verdict.NEWLY_FAILED: "bad", Verdict.MISSING: "bad", Verdict.SLOWER: "bad", Verdict.INCOMPARABLE: "doubt",
    Verdict.AMBIGUOUS: "doubt", Verdict.QUARANTINED: "doubt", Verdict.FASTER: "good", Verdict.FIXED: "good",
}  # fmt: skip


def regressions(judgement: Judgement) -> tuple[Grid, ...]:
    """What changed, the worst first; and what a reader must know of the comparison."""
    counts = (
        ", ".join(f"{count} {verdict}" for verdict, count in judgement.counts.items()) or "nothing compared"
    )
    caption = f"Against {judgement.baseline}: {counts}"
    changed = Grid(
        caption,
        HEAD,
        tuple(_row(finding) for finding in judgement.changed),
        numeric=columns(HEAD, "change", "before", "after", "smallest change it detects"),
        key="regressions-table",
        picks=columns(HEAD, "verdict", "quantity"),
    )
    said = (
        *(("not comparable", words) for words in judgement.refusals),
        *(("expired", words) for words in judgement.expired),
        *(("note", words) for words in judgement.notes),
    )
    notes = Grid("Of this comparison", ("kind", "what"), tuple(said))
    return tuple(grid for grid in (notes, changed) if grid.rows) or (changed,)


def _row(finding: Finding) -> tuple[Cell | str, ...]:
    kind = "muted" if finding.advisory else _KINDS.get(finding.verdict, "")
    label = f"{finding.verdict} (advisory)" if finding.advisory else str(finding.verdict)
    change: Cell | str = DASH if finding.change is None else f"{finding.change:+.1%}"
    return (
        Cell(label, kind),
        finding.case,
        finding.metric,
        change,
        _side(finding.before, finding),
        _side(finding.after, finding),
        smallest(finding),
        Cell(finding.words, note="; ".join(finding.flags)),
    )


def _side(value: float | None, finding: Finding) -> Cell | str:
    return DASH if value is None else quantity(value, finding.unit or "1")
