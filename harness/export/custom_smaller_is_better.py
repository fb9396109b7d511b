"""The customSmallerIsBetter input of github-action-benchmark: a list of named values."""

from __future__ import annotations

import json

from harness.export.benchmark import Exported


def write(exported: Exported) -> str:
    """One entry for each time, in nanoseconds with the half width of its interval, and for each peak."""
    entries = []
    for one in exported.benchmarks:
        entry = {"name": one.name, "unit": "ns", "value": one.value * 1e9, "extra": one.quantity}
        if one.low is not None and one.high is not None:
            entry["range"] = f"± {(one.high - one.low) / 2 * 1e9:.0f}"
        entries.append(entry)
        if "peak_memory" in one.extra:
            value = one.extra["peak_memory"][0]
            entries.append({"name": f"{one.name} (peak memory)", "unit": "B", "value": value})
    return json.dumps(entries, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
