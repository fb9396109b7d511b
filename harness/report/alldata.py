"""The full data: one row per case on the page, and every stored number in the downloads."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from harness.report.grid import Cell, Grid, capped, columns
from harness.report.outcomes import STATUS_WORDS
from harness.report.records import Records, words
from harness.report.units import Scale, scale_for
from harness.report.units import name as name_of
from harness.types import Result, Scalar, Status

#: Beyond so many rows the page keeps to the main quantities, and the download is compressed.
LARGE = 1500
MAIN = ("error", "error_ratio")
#: Bytes of a table and of a download that a page of 3 MB has room for.
MOST_TABLE, MOST_DOWNLOAD = 1_450_000, 900_000
#: Columns without which a large run's values are still whole: intervals, how many samples, remarks.
ASIDE = r"\.(low|high|samples)( \[|$)|^(kernels|notes|operation)$"


@dataclass(frozen=True, slots=True)
class Download:
    """A link that carries its file, compressed: it works offline and without a script.

    kind  the media type of what is inside
    """

    name: str
    kind: str
    href: str
    words: str


def frame(records: Records) -> pd.DataFrame:
    """One row per case: the whole problem, status, and every metric with its interval, in s, B and FLOP."""
    return pd.DataFrame([_flat(result) for result in records.results])


def csv(records: Records) -> str:
    """Those rows as a CSV file."""
    return written(frame(records))


def written(rows: pd.DataFrame) -> str:
    """A table as CSV with every digit."""
    return str(rows.to_csv(index=False, lineterminator="\n"))


def _flat(result: Result) -> dict[str, object]:
    case = result.case
    row: dict[str, object] = {"implementation": case.implementation, "operation": case.operation}
    row |= {"device": case.device} | dict(case.problem)
    row |= {"status": str(result.status), "reason": result.reason}
    for name, m in result.metrics.items():
        row[f"{name} [{m.unit}]"] = m.value
        row |= {
            f"{name}.{end} [{m.unit}]": v for end, v in (("low", m.low), ("high", m.high)) if v is not None
        }
        if m.samples:
            row[f"{name}.samples"] = len(m.samples)
    row["kernels"] = " ".join(result.kernels)
    row["flags"] = "; ".join(result.flags)
    row["notes"] = "; ".join(f"{key}: {why}" for key, why in result.notes.items())
    return row


def table(records: Records) -> Grid:
    """Every case: what varies, how it ended, and what was measured, one unit per column."""
    axes = [axis for axis in records.axes if axis != records.sweep]
    axes = [records.sweep, *axes] if records.sweep else axes
    metrics = shown_metrics(records)
    scales = {metric: _scale(records, metric) for metric in metrics}
    heads = [scales[metric].head(name_of(metric)) for metric in metrics]
    head = ("implementation", *axes, "status", *heads, "remarks")
    grid = Grid(
        f"All {len(records.results)} cases",
        head,
        tuple(_row(r, axes, metrics, scales) for r in sorted(records.results, key=_standing)),
        columns(head, *heads, *([records.sweep] if records.sweep else [])),
        key="data-table",
        picks=columns(head, "implementation", *axes, "status"),
    )
    size = len(grid.html.encode())
    return grid if size <= MOST_TABLE else capped(grid, len(grid.rows) * MOST_TABLE // size)


def _standing(result: Result) -> int:
    """What was measured first, then what went wrong, then what was not tried."""
    untried = result.status in (Status.UNSUPPORTED, Status.SKIPPED)
    return 2 if untried else int(result.status is not Status.OK)


def shown_metrics(records: Records) -> Sequence[str]:
    """All metrics, or the main ones where there are too many rows for all."""
    if len(records.results) <= LARGE:
        return records.metrics
    main = (records.time, records.memory, *MAIN)
    return [metric for metric in records.metrics if metric in main]


def _scale(records: Records, metric: str) -> Scale:
    found = [r.metrics[metric] for r in records.results if metric in r.metrics]
    return scale_for((m.value for m in found), found[0].unit)


def _row(
    result: Result, axes: Sequence[str], metrics: Sequence[str], scales: dict[str, Scale]
) -> tuple[Cell | str, ...]:
    problem = result.case.problem
    good = result.status is Status.OK
    return (
        result.case.implementation,
        *(_value(a, problem.get(a)) for a in axes),
        "ok" if good else Cell(STATUS_WORDS[result.status], "muted" if result.status == "skipped" else "bad"),
        *(scales[m].show(result.metrics[m].value) if m in result.metrics else "" for m in metrics),
        "; ".join([result.reason, *result.flags] if result.reason else result.flags),
    )


def _value(axis: str, value: Scalar) -> str:
    """A value of an axis; of runs with different axes a row may lack one."""
    if value is None:
        return "—"
    return words(axis, value) if isinstance(value, bool) else str(value)


def downloads(records: Records) -> tuple[Download, ...]:
    """Every stored number but the raw samples: CSV, and JSON unless the run is large.

    Of a very large run the values alone, or nothing where even they are too many for a page.
    """
    name = str(records.run.suite.get("name", "run"))
    rows_of = frame(records)
    values = rows_of[[column for column in rows_of if not re.search(ASIDE, str(column))]]
    both = (("CSV", rows_of), ("CSV of the values alone", values))
    found = (_download(f"{name}.csv", "text/csv", written(part), label) for label, part in both)
    links = [link for link in found if len(link.href) <= MOST_DOWNLOAD][:1]
    if len(records.results) <= LARGE:
        rows = [{k: v for k, v in _flat(r).items() if v is not None} for r in records.results]
        text = json.dumps(rows, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        links.append(_download(f"{name}.json", "application/json", text, "JSON"))
    return tuple(links)


def _download(name: str, kind: str, text: str, words: str) -> Download:
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return Download(f"{name}.gz", kind, f"data:application/gzip;base64,{packed}", words)
