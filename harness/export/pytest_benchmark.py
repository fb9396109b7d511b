"""pytest-benchmark's JSON (`pytest-benchmark compare FILE`)."""

from __future__ import annotations

import json
import statistics
from typing import Any

from harness.export.benchmark import Benchmark, Exported
from harness.export.imported import Imported, number, required


def write(exported: Exported) -> str:
    """Statistics in seconds over the samples, the samples themselves, and our numbers as extra_info."""
    environment = exported.run.environment
    host = environment.host
    data = {
        "machine_info": {
            "node": "unknown",
            "machine": host.get("machine", "unknown"),
            "system": host.get("system", "unknown"),
            "python_version": host.get("python", "unknown"),
            "cpu": {"brand_raw": host.get("cpu", environment.device.name)},
        },
        "commit_info": {
            "id": environment.git_commit, "time": None, "author_time": None,
            "dirty": environment.git_dirty, "project": "attnbench", "branch": "unknown",
        },
        "benchmarks": [_benchmark(one) for one in exported.benchmarks],
        "datetime": exported.run.started,
        "version": "5.0.0",
    }  # fmt: skip
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _benchmark(one: Benchmark) -> dict[str, Any]:
    extra = {name: {"value": value, "unit": unit} for name, (value, unit) in one.extra.items()}
    return {
        "group": one.group,
        "name": one.name,
        "fullname": one.name,
        "params": dict(one.parameters),
        "param": None,
        "extra_info": {"quantity": one.quantity, "judged_seconds": one.value, **extra},
        "options": {
            "disable_gc": True, "timer": one.quantity, "min_rounds": 1, "max_time": 1.0, "min_time": 0.0,
            "warmup": True,
        },
        "stats": _statistics(one.samples),
    }  # fmt: skip


def _statistics(samples: tuple[float, ...]) -> dict[str, Any]:
    """As pytest-benchmark defines them; Tukey's fences decide what is an outlier."""
    ordered = sorted(samples)
    mean = statistics.fmean(samples)
    deviation = statistics.stdev(samples) if len(samples) > 1 else 0.0
    quarters = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else [mean] * 3
    spread = quarters[2] - quarters[0]
    fences = (quarters[0] - 1.5 * spread, quarters[2] + 1.5 * spread)
    inside = [x for x in ordered if fences[0] <= x <= fences[1]]
    far = sum(not fences[0] <= x <= fences[1] for x in samples)
    wide = sum(abs(x - mean) > deviation for x in samples)
    return {
        "min": ordered[0], "max": ordered[-1], "mean": mean, "stddev": deviation, "rounds": len(samples),
        "median": statistics.median(samples), "iqr": spread, "q1": quarters[0], "q3": quarters[2],
        "iqr_outliers": far, "stddev_outliers": wide, "outliers": f"{wide};{far}",
        "ld15iqr": inside[0], "hd15iqr": inside[-1], "ops": 1 / mean, "total": sum(samples),
        "iterations": 1, "data": list(samples),
    }  # fmt: skip


def read(data: Any, name: str) -> list[Imported]:
    """The benchmarks of a file. Raises UnreadableRun naming the file."""
    found = []
    for index, one in enumerate(required(data, "benchmarks", list, name)):
        place = f"{name}: benchmarks[{index}]"
        stats = required(one, "stats", dict, place)
        samples = [number(value, f"{place}.stats.data") for value in stats.get("data") or ()]
        value = number(stats.get("median"), f"{place}.stats.median")
        label = str(one.get("fullname") or required(one, "name", str, place))
        found.append(Imported(label, value, tuple(samples)))
    return found
