"""Bencher Metric Format, for `bencher run --adapter json`; its latency is in nanoseconds by definition."""

from __future__ import annotations

import json
from typing import Any

from harness.export.benchmark import Exported
from harness.export.imported import Imported, number, required

#: Other quantities as measures: slug -> the quantity of a row.
MEASURES = {"peak-memory-bytes": "peak_memory", "relative-error": "error"}


def write(exported: Exported) -> str:
    """Latency with its interval, and memory and error where they were measured."""
    data = {}
    for one in exported.benchmarks:
        latency = {"value": one.value * 1e9}
        if one.low is not None and one.high is not None:
            latency |= {"lower_value": one.low * 1e9, "upper_value": one.high * 1e9}
        others = {slug: {"value": one.extra[q][0]} for slug, q in MEASURES.items() if q in one.extra}
        data[one.name] = {"latency": latency, **others}
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def read(data: Any, name: str) -> list[Imported]:
    """The benchmarks with a latency. Raises UnreadableRun naming the file."""
    if not isinstance(data, dict):
        required(None, "an object of benchmarks", dict, name)
    found = []
    for label, measures in data.items():
        if isinstance(measures, dict) and "latency" in measures:
            place = f"{name}: {label}.latency"
            value = number(required(measures, "latency", dict, place).get("value"), place)
            found.append(Imported(label, value * 1e-9, ()))
    return found
