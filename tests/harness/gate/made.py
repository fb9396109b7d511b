"""Run folders made up row by row, to be damaged at will."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
Row = dict[str, Any]
NAMES = ("naive", "sdpa_flash", "triton_flash")
SIZES = (256, 512, 1024, 2048)
#: The command, then a failure if anything on the way imported torch.
CODE = """
import sys
from harness.cli import main
try:
    main(sys.argv[1:])
finally:
    assert "torch" not in sys.modules
"""


def bench(*arguments: object, expect: int | None = 0, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`bench` in a process that may not import torch."""
    command = [sys.executable, "-c", CODE, *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "240", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cwd)
    assert expect is None or done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def environment(kind: str = "cpu", **facts: Any) -> dict[str, Any]:
    """The environment of a run; `facts` of its device, or `name`, `host` and `torch`."""
    name = facts.pop("name", "AMD EPYC" if kind == "cpu" else "NVIDIA H200")
    torch = facts.pop("torch", "2.13.0")
    host = facts.pop("host", "one")
    usual = (
        {"threads": 1, "instruction_set": "AVX512", "memory_bytes": 2**34}
        if kind == "cpu"
        else {
            "memory_bytes": 150_000_000_000, "compute_capability": "9.0", "uuid": "GPU-1", "driver": "580.1",
            "sm_count": 132, "power_cap_w": 700.0,
        }
    )  # fmt: skip
    return {
        "device": {"kind": kind, "name": name, "facts": {**usual, **facts}, "unknown": {}},
        "host": {"cpu": host},
        "packages": {"torch": torch, "triton": "3.7.1"},
        "git_commit": "a" * 40,
        "git_dirty": False,
    }


def row(name: str, seq_len: int, seconds: float, device: str = "cpu") -> Row:
    """A row that is ok."""
    time = "cpu_time" if device == "cpu" else "gpu_time_cold"
    problem = {
        "seq_len": seq_len,
        "heads": 4,
        "head_dim": 64,
        "dtype": "float32",
        "pass": "forward",
        "seed": 0,
    }
    samples = [seconds * (1 + 0.01 * ((7 * i) % 5 - 2)) for i in range(20)]
    return {
        "case": {"implementation": name, "operation": "attention", "device": device, "problem": problem},
        "status": "ok",
        "reason": "",
        "metrics": {
            time: {"value": seconds, "unit": "s", "better": "lower", "samples": samples},
            "peak_memory": {"value": 8.0 * seq_len**2, "unit": "B"},
            "error": {"value": 2e-7, "unit": "1"},
        },
        "kernels": ["aten::matmul" if name == "naive" else "flash_fwd"],
        "notes": {},
        "flags": [],
        "timing": {"judged": time, "timer": "clock", "threads": 1, "cache": "hot",
                   "first_warm_up_call_seconds": 0.1},
    }  # fmt: skip


def rows(device: str = "cpu", scale: float = 1.0) -> list[Row]:
    """Twelve rows that are ok."""
    return [
        row(name, n, scale * 1e-8 * n * n * (1 + i), device) for i, name in enumerate(NAMES) for n in SIZES
    ]


def write(
    folder: Path,
    lines: Sequence[Row],
    where: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A run folder of these rows; `changes` to run.json. NaN is written as Python writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    run = {
        "schema": 1, "suite": {"name": "made"}, "question": "", "operation": "attention",
        "variables": {"n": "seq_len"}, "flop_convention": "4·pairs·head_dim", "device": "cpu",
        "started": "2026-01-01T00:00:00+00:00",
        "command": "run made.yaml", "environment": where or environment(),
        "implementations": [{"name": n, "summary": n, "exact": True, "laws": {}} for n in NAMES],
        "finished": "2026-01-01T00:01:00+00:00", **changes,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run), "utf-8")
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return folder


def changed(lines: Sequence[Row], at: int, change: Callable[[Row], object]) -> list[Row]:
    """A deep copy of the rows with one changed in place."""
    copied = deepcopy(list(lines))
    change(copied[at])
    return copied


def verdicts(judged: Mapping[str, Any]) -> dict[str, int]:
    """Verdict -> number of findings that are not advisory, but for what stayed the same."""
    counts: dict[str, int] = {}
    for finding in judged["findings"]:
        if not finding["advisory"] and finding["verdict"] != "same":
            counts[finding["verdict"]] = counts.get(finding["verdict"], 0) + 1
    return counts
