"""One results file of airspeed velocity (format 2), as `asv compare` reads it from results/MACHINE/."""

from __future__ import annotations

import datetime
import json
from typing import Any

from harness.export.benchmark import Benchmark, Exported

_COLUMNS = (
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
)  # fmt: skip


def write(exported: Exported) -> str:
    """Each case is a benchmark without parameters: times in seconds with samples.

    asv names its intervals after 99 %; ours are of 95 % and are given as they are.
    """
    run = exported.run
    started = int(datetime.datetime.fromisoformat(run.started).timestamp() * 1000)
    data = {
        "commit_hash": run.environment.git_commit or "0" * 40,
        "env_name": "existing",
        "date": started,
        "params": {
            "machine": "attnbench", "arch": str(run.environment.host.get("machine", "unknown")),
            "cpu": run.environment.device.name, "os": str(run.environment.host.get("system", "unknown")),
        },
        "python": ".".join(str(run.environment.host.get("python", "3.11")).split(".")[:2]),
        "requirements": {},
        "env_vars": {},
        "result_columns": list(_COLUMNS),
        "results": {f"attention.time_case('{one.name}')": _row(one, started) for one in exported.benchmarks},
        "durations": {},
        "version": 2,
    }  # fmt: skip
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _row(one: Benchmark, started: int) -> list[Any]:
    ordered = sorted(one.samples)
    at = [ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.25, 0.75)]
    low, high = (one.value if bound is None else bound for bound in (one.low, one.high))
    return [
        [one.value], [], "attnbench-1", started, sum(one.samples), [low], [high], [at[0]], [at[1]],
        [1], [len(one.samples)], [list(one.samples)], None,
    ]  # fmt: skip
