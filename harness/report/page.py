"""One self-contained page: `page(run, rows)` is its HTML, `render(folder, output)` writes it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.counting.certificates import CertifiedFamily
from harness.report import (
    accuracy,
    alldata,
    attention_map,
    choice,
    choosing,
    claims,
    crossing,
    efficiency,
    headline,
    illustrations,
    outcomes,
    runs,
    sections,
    traffic,
)
from harness.report.facts import facts
from harness.report.grid import NUMERIC_CSS, Grid, capped
from harness.report.impossible import checked
from harness.report.records import Records
from harness.report.runs import Source
from harness.report.tables import tabulate
from harness.types import Result, Run

_HERE = Path(__file__).parent
#: Rows that a derived table shows; beyond them a reader filters the full data instead.
MOST = 250


def render(run_folders: Path | Sequence[Path], output: Path) -> None:
    """Write the page of one run folder or several. Raises UnreadableRun, and BenchError if one is twice."""
    folders = [run_folders] if isinstance(run_folders, Path) else run_folders
    html = page_of(runs.read(folders))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(html, "utf-8")


def page(run: Run, rows: Iterable[Result], certified: Iterable[CertifiedFamily] = ()) -> str:
    """The page of a run: a pure function, the same bytes for the same input."""
    return page_of([Source("", run, tuple(rows), tuple(certified))])


def page_of(sources: Sequence[Source], regressions: Sequence[Grid] = ()) -> str:
    """The page of several runs; `regressions`: tables of a comparison with a baseline, the worst first."""
    records = runs.combined(sources)
    script = Markup((_HERE / "script.js").read_text("utf-8"))
    style = Markup((_HERE / "style.css").read_text("utf-8") + NUMERIC_CSS)
    template = _environment().get_template("template.html")
    return template.render(
        script=script,
        style=style,
        policy=_policy(script),
        regressions=regressions,
        **_content(records, sources),
        **facts(records, sources),
    )


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _policy(script: str) -> str:
    """A content security policy that lets the page's own script run and nothing else, and no network."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _content(records: Records, sources: Sequence[Source]) -> Mapping[str, Any]:
    """What was found, as tables, figures and sentences."""
    growth = tabulate(records)
    choices = choice.fastest(records)
    crossings = crossing.crossovers(records)
    drawings = illustrations.drawings(records)
    errors = accuracy.error_rows(records)
    verdicts = next((source.claims for source in sources if source.claims), ())
    return {
        "answer": headline.answer(records, growth, choices, errors),
        "growth": sections.complexity(records, growth, ("time", "peak memory")),
        "counts": sections.complexity(records, growth, ("FLOPs", "bytes", "depth")),
        "traffic": traffic.table(records),
        "growth_left_out": (*growth.terms, *growth.left_out),
        "growth_checked": " ".join(filter(None, dict.fromkeys(checked(s.records) for s in sources))),
        "impossible": capped(choosing.impossible(records), MOST),
        "fastest": capped(choosing.fastest(records, choices), MOST),
        "crossovers": capped(choosing.crossovers(records, crossings), MOST),
        "reaches": capped(choosing.reaches(records), MOST),
        "shown": {part: illustrations.drawn(getattr(drawings, part)) for part in illustrations.PARTS},
        "undrawn": drawings.undrawn,
        "errors": capped(sections.errors(records, errors), MOST),
        "attention_maps": capped(attention_map.table(records), MOST),
        "efficiency": capped(efficiency.table(records), MOST),
        "conventions": efficiency.CONVENTIONS,
        "unknown_peaks": efficiency.unknown_peaks(records),
        "claims": claims.table(verdicts),
        "claim_figures": illustrations.drawn(claims.drawings(verdicts)),
        "failures": capped(sections.failures(records), MOST),
        "omissions": capped(sections.omissions(records), MOST),
        "doubts": sections.doubts(records),
        "data": alldata.table(records),
        "downloads": alldata.downloads(records),
        "large": len(records.results) > alldata.LARGE,
        "warnings": outcomes.warnings(records, drawings.overhead_bound),
    }
