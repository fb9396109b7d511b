"""One self-contained page: `page(run, rows)` is its HTML, `render(folder, output)` writes it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.counting.certificates import CertifiedFamily
from harness.report import (
    accuracy,
    alldata,
    choice,
    choosing,
    crossing,
    efficiency,
    headline,
    illustrations,
    outcomes,
    sections,
    units,
)
from harness.report.glossary import GLOSSARY
from harness.report.grid import NUMERIC_CSS, capped
from harness.report.impossible import marked
from harness.report.records import Records, arrange, words
from harness.report.tables import tabulate
from harness.store import read_certificates, read_rows, read_run
from harness.types import Result, Run, Scalar

#: Facts of a device that stand at the top of the page where they are known.
HEADLINES = ("driver", "cuda", "sm_clock_max_mhz", "memory_clock_max_mhz", "power_cap_w", "threads")
_HERE = Path(__file__).parent
#: Rows that a derived table shows; beyond them a reader filters the full data instead.
MOST = 250


def render(run_folder: Path, output: Path) -> None:
    """Write the page of a run folder. Raises UnreadableRun."""
    html = page(read_run(run_folder), read_rows(run_folder), read_certificates(run_folder))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(html, "utf-8")


def page(run: Run, rows: Iterable[Result], certified: Iterable[CertifiedFamily] = ()) -> str:
    """The page of a run: a pure function, the same bytes for the same input."""
    records = marked(arrange(run, rows, certified))
    script = Markup((_HERE / "script.js").read_text("utf-8"))
    style = Markup((_HERE / "style.css").read_text("utf-8") + NUMERIC_CSS)
    template = _environment().get_template("template.html")
    return template.render(
        script=script, style=style, policy=_policy(script), **_content(records), **_facts(records)
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


def _content(records: Records) -> Mapping[str, Any]:
    """What was found, as tables, figures and sentences."""
    growth = tabulate(records)
    choices = choice.fastest(records)
    crossings = crossing.crossovers(records)
    drawings = illustrations.drawings(records)
    errors = accuracy.error_rows(records)
    return {
        "answer": headline.answer(records, growth, choices, errors),
        "growth": sections.complexity(records, growth, ("time", "peak memory")),
        "counts": sections.complexity(records, growth, ("FLOPs", "bytes")),
        "growth_left_out": growth.left_out,
        "growth_checked": growth.checked,
        "impossible": capped(choosing.impossible(records), MOST),
        "fastest": capped(choosing.fastest(records, choices), MOST),
        "crossovers": capped(choosing.crossovers(records, crossings), MOST),
        "reaches": capped(choosing.reaches(records), MOST),
        "shown": {part: illustrations.drawn(getattr(drawings, part)) for part in illustrations.PARTS},
        "undrawn": drawings.undrawn,
        "errors": capped(sections.errors(records, errors), MOST),
        "efficiency": capped(efficiency.table(records), MOST),
        "conventions": efficiency.CONVENTIONS,
        "unknown_peaks": efficiency.unknown_peaks(records),
        "failures": capped(sections.failures(records), MOST),
        "omissions": capped(sections.omissions(records), MOST),
        "doubts": sections.doubts(records),
        "data": alldata.table(records),
        "downloads": alldata.downloads(records),
        "large": len(records.results) > alldata.LARGE,
        "warnings": outcomes.warnings(records, drawings.overhead_bound),
    }


def _facts(records: Records) -> Mapping[str, Any]:
    """What is known of the run and the machine."""
    run = records.run
    return {
        "run": run,
        "title": str(run.suite.get("name", "run")),
        "coverage": outcomes.coverage(records),
        "constants": [words(axis, value) for axis, value in records.constants.items()],
        "axes": [records.words_for(axis) for axis in records.axes],
        "cards": list(records.cards.values()),
        "timing": _timing(records),
        "machine": _machine(records),
        "headlines": _headlines(records),
        "metric_notes": outcomes.metric_notes(records),
        "glossary": GLOSSARY,
    }


def _machine(records: Records) -> Mapping[str, str]:
    """Facts of device and host, sizes in readable units, unknown ones with the reason."""
    environment = records.run.environment
    facts = {**environment.device.facts, **environment.host}
    known = {
        name.removesuffix("_bytes").replace("_", " "): _fact(name, value) for name, value in facts.items()
    }
    unknown = {name: f"unknown: {why}" for name, why in environment.device.unknown.items()}
    return known | unknown | dict(environment.packages)


def _headlines(records: Records) -> Mapping[str, str]:
    """The facts that stand at the top: driver, clocks, versions."""
    environment = records.run.environment
    facts = {name: environment.device.facts.get(name) for name in HEADLINES}
    versions = {name: environment.packages.get(name) for name in ("torch", "triton", "xformers")}
    return {
        name.replace("_", " "): str(value) for name, value in (facts | versions).items() if value is not None
    }


def _fact(name: str, value: Scalar) -> str:
    if name.endswith("_bytes") and isinstance(value, int | float):
        return units.shown(value, "B")
    return "unknown" if value is None else str(value)


def _timing(records: Records) -> Mapping[str, str]:
    """How cases were timed: each fact with the values it took."""
    facts: dict[str, dict[str, None]] = {}
    for result in records.results:
        for name, value in result.timing.items():
            facts.setdefault(name, {})[str(value)] = None
    return {name: _few(list(values)) for name, values in facts.items()}


def _few(values: list[str]) -> str:
    if len(values) <= 4:
        return ", ".join(values)
    return f"{len(values)} different values, from {values[0]} to {values[-1]}"
