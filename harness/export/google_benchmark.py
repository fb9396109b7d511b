"""Google Benchmark's JSON (its `compare.py`, and whatever reads --benchmark_format=json)."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from harness.export.benchmark import Benchmark, Exported
from harness.export.imported import Imported, number, required
from harness.gate.units import stored


def write(exported: Exported) -> str:
    """One iteration entry per case in nanoseconds; other numbers are user counters."""
    host = exported.run.environment.host
    data = {
        "context": {
            "date": exported.run.started,
            "host_name": "unknown",
            "executable": "bench run",
            "num_cpus": host.get("hardware_threads", 0),
            "mhz_per_cpu": 0,
            "cpu_scaling_enabled": False,
            "caches": [],
            "library_build_type": "release",
        },
        "benchmarks": [_benchmark(index, one) for index, one in enumerate(exported.benchmarks)],
    }
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _benchmark(index: int, one: Benchmark) -> dict[str, Any]:
    """Where a clock of ours is missing the judged one stands for it: the format wants both."""
    nanoseconds = one.value * 1e9
    wall = one.extra.get("wall_time", (one.value, "s"))[0] * 1e9
    return {
        "name": one.name, "run_name": one.name, "run_type": "iteration", "family_index": index,
        "per_family_instance_index": 0, "repetitions": 1, "repetition_index": 0, "threads": 1,
        "iterations": len(one.samples), "real_time": wall, "cpu_time": nanoseconds, "time_unit": "ns",
        **{name: value for name, (value, unit) in one.extra.items() if name not in ("wall_time", "cpu_time")},
    }  # fmt: skip


def read(data: Any, name: str) -> list[Imported]:
    """The benchmarks of a file: repetitions of one become its samples, aggregates are left out.

    Raises UnreadableRun naming the file.
    """
    found: dict[str, list[float]] = {}
    for index, one in enumerate(required(data, "benchmarks", list, name)):
        place = f"{name}: benchmarks[{index}]"
        if (
            not isinstance(one, dict)
            or one.get("run_type", "iteration") != "iteration"
            or one.get("error_occurred")
        ):
            continue
        value, unit = number(one.get("cpu_time"), f"{place}.cpu_time"), str(one.get("time_unit", "ns"))
        label = str(one.get("run_name") or required(one, "name", str, place))
        found.setdefault(label, []).append(stored(value, unit)[0])
    return [Imported(label, median(samples), tuple(samples)) for label, samples in found.items()]
