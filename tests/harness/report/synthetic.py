"""Run folders made up through harness.types and harness.store: exact laws, every status, hostile names."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness import SCHEMA_VERSION
from harness.store import RunFolder
from harness.types import (
    Case,
    DeviceInfo,
    Environment,
    ImplementationCard,
    Measurement,
    Result,
    Run,
    Scalar,
    Status,
)

HOSTILE = "<img src=x onerror=alert(1)>$\\frac$"
HOSTILE_WORDS = "</script><script>alert(2)</script> & \"quoted\" 'words'"
LAWS = {"time": "batch*heads*n^2*d", "memory": "batch*heads*n^2"}
LINEAR = {"time": "batch*heads*n*d^2", "memory": "batch*heads*n*d"}
CARDS = (
    ImplementationCard("naive", "the formula, term by term", True, LAWS),
    ImplementationCard("sdpa_math", "PyTorch SDPA, math backend", True, LAWS),
    ImplementationCard(
        "sdpa_flash", "PyTorch SDPA, flash backend", True, LAWS | {"memory": LINEAR["memory"]}
    ),
    ImplementationCard("flex", "flex attention, compiled", True, LAWS | {"memory": LINEAR["memory"]}),
    ImplementationCard("triton_flash", "our Triton kernel", True, LAWS | {"memory": LINEAR["memory"]}),
    ImplementationCard("linear_elu", "linear attention", False, LINEAR),
    ImplementationCard("uniform", "mean of V", False, LINEAR),
    ImplementationCard(HOSTILE, HOSTILE_WORDS, True, {}),
)
SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
CUBIC = {"naive": 4e-11, "sdpa_math": 4.1e-11, "sdpa_flash": 1.1e-11, "flex": 1.6e-11, HOSTILE: 9e-11}


def seconds(name: str, problem: Mapping[str, Any]) -> float:
    """Exact laws: overhead + c·n²·d, or c·n·d² for the linear ones."""
    n, d, heads = problem["seq_len"], problem["head_dim"], problem["heads"]
    if name in ("linear_elu", "uniform"):
        return float(
            (6e-5 if name == "linear_elu" else 9e-6) + 2e-11 * heads * n * d * (d if name != "uniform" else 1)
        )
    return float(2e-5 + CUBIC.get(name, 2e-11) * heads * n * n * d)


def peak(name: str, problem: Mapping[str, Any]) -> float:
    n, d, heads = problem["seq_len"], problem["head_dim"], problem["heads"]
    scores = 2 * heads * n * n * 4 if name in ("naive", "sdpa_math", HOSTILE) else 0
    return float(scores + 4 * heads * n * d * 4)


def metrics(
    name: str, problem: Mapping[str, Any], noise: random.Random, samples: int
) -> dict[str, Measurement]:
    cost = seconds(name, problem)
    drawn = tuple(cost * noise.lognormvariate(0, 0.02) for _ in range(samples))
    ordered = sorted(drawn)
    value = ordered[len(drawn) // 5]
    eps = {"float16": 1e-3, "bfloat16": 8e-3}.get(str(problem["dtype"]), 1e-7)
    error = {"linear_elu": 0.7, "uniform": 0.9}.get(name, eps * (0.3 if "sdpa" in name else 1.0))
    counts = 4.0 * problem["heads"] * problem["seq_len"] ** 2 * problem["head_dim"]
    timed = {
        "cpu_time": Measurement(
            value, "s", low=ordered[samples // 10], high=ordered[samples // 3], samples=drawn
        ),
        "wall_time": Measurement(value * 1.03, "s", samples=tuple(v * 1.03 for v in drawn)),
        "flop_rate": Measurement(counts / value, "FLOP/s", "higher"),
    }
    return (timed if name != "triton_flash" else {}) | {
        "peak_live_bytes": Measurement(peak(name, problem), "B", note="counted on fake tensors"),
        "flops": Measurement(counts, "FLOP", "none"),
        "bytes_touched": Measurement(6.0 * peak(name, problem), "B"),
        "error": Measurement(error, "1"),
        "max_abs_error": Measurement(error * 3, "1"),
        "error_ratio": Measurement(error / eps, "1"),
    }


#: (implementation, seq_len) → the status it ends with.
FAILURES = {
    ("naive", 4096): (Status.OOM, "MemoryError during call: 4,294,967,296 B"),
    ("sdpa_math", 2048): (Status.TIMEOUT, "120 s passed during latency"),
    ("sdpa_math", 4096): (Status.SKIPPED, "predicted 80 s of measuring does not fit the budget of 60 s"),
    ("flex", 256): (Status.CRASHED, "the worker died of signal 11 (SIGSEGV) during call"),
    ("flex", 32): (Status.ERROR, HOSTILE_WORDS),
    (HOSTILE, 128): (Status.INCORRECT, "output differs: relative error 0.3, naive 1e-7"),
    ("linear_elu", 64): (Status.UNSTABLE, "medians differ by 14 %"),
    ("sdpa_flash", 32): (Status.UNSUPPORTED, "needs seq_len of at least 64"),
}


def result(
    name: str, problem: Mapping[str, Scalar], noise: random.Random, samples: int, fail: bool
) -> Result:
    case = Case(name, "attention", "cpu", dict(problem))
    key = (name, int(str(problem["seq_len"])))
    if fail and key in FAILURES:
        status, reason = FAILURES[key]
        return Result(case, status, reason)
    return Result(
        case,
        Status.OK,
        metrics=metrics(name, problem, noise, samples),
        kernels=(f"aten::{name}",),
        notes={"latency": "not timed: interpreted"} if name == "triton_flash" else {},
        flags=("contended: wall time is 1.3 × CPU time",) if key == ("naive", 512) else (),
        timing={
            "timer": "CLOCK_PROCESS_CPUTIME_ID",
            "threads": 1,
            "warmup": "until medians agree within 1 %",
        },
    )


def problems(axes: Mapping[str, tuple[Scalar, ...]]) -> Iterator[dict[str, Scalar]]:
    base: dict[str, Scalar] = {
        "seq_len": 512, "batch": 1, "heads": 4, "head_dim": 64, "dtype": "float32", "causal": False,
        "alignment": "bottom_right", "pass": "forward", "distribution": "randn", "seed": 0,
    }  # fmt: skip
    for values in itertools.product(*axes.values()):
        problem = base | dict(zip(axes, values, strict=True))
        yield problem | {"kv_len": problem["seq_len"], "kv_heads": problem["heads"]}


def description(cards: tuple[ImplementationCard, ...] = CARDS) -> Run:
    host: dict[str, Scalar] = {"cpu": "Example CPU @ 2.0 GHz", "cores": 2, "threads": 1, "system": "Linux"}
    environment = Environment(
        device=DeviceInfo("cpu", "Example CPU", {"memory_bytes": 8 << 30}, {"governor": "not readable here"}),
        host=host,
        packages={"torch": "2.13.0", "triton": "3.7.1", "numpy": "2.4.6"},
        git_commit="0123456789abcdef0123456789abcdef01234567",
        git_dirty=False,
    )
    return Run(
        schema=SCHEMA_VERSION,
        suite={"name": "synthetic", "metrics": ["latency"], "budget": 60.0},
        question="How do time, memory and error of each attention grow with sequence length?",
        operation="attention",
        variables={"n": "seq_len", "d": "head_dim", "heads": "heads", "batch": "batch"},
        flop_convention="4·pairs·head_dim per head over the exact attended pairs",
        device="cpu",
        started="2026-01-02T03:04:05+00:00",
        command="run suites/synthetic.yaml",
        environment=environment,
        implementations=cards,
        finished="2026-01-02T03:14:05+00:00",
    )


def rows(
    axes: Mapping[str, tuple[Scalar, ...]] | None = None,
    cards: tuple[ImplementationCard, ...] = CARDS,
    *,
    samples: int = 20,
    fail: bool = True,
) -> Iterator[Result]:
    """One row per implementation and problem."""
    noise = random.Random(1)
    for problem in problems(axes or {"seq_len": SIZES}):
        for card in cards:
            yield result(card.name, problem, noise, samples, fail)


def write(folder: Path, run: Run, results: Iterator[Result] | list[Result]) -> Path:
    """A run folder as `bench run` leaves it."""
    into = RunFolder(folder)
    into.write_run(run)
    for row in results:
        into.append(row)
    return folder
