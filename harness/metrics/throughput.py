"""Rates derived from the judged time: useful FLOPs and least bytes per second."""

from __future__ import annotations

from collections.abc import Sequence

from harness.devices.device import Device
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial
from harness.types import Measurement

#: Where the judged time is not reported, the next of these is taken.
TIMES = ("gpu_time_cold", "gpu_time_hot", "cpu_time", "wall_time")


@metric(
    "throughput",
    quantities={
        "flop_rate": Quantity("FLOP/s", "higher", "useful FLOPs per second of the judged time"),
        "byte_rate": Quantity("B/s", "higher", "inputs read and outputs written once, per second"),
    },
    stage=4,
)
def throughput(group: Sequence[Trial], device: Device) -> None:
    """Divide the problem's work by the measured time, where there is one."""
    for trial in group:
        with trial.stage("throughput"):
            name = _judged(trial)
            if name is None:
                trial.record(notes={"throughput": "no time was measured"})
                continue
            time = trial.result.metrics[name]
            convention = trial.operation.flop_convention
            least = "every input read and every output written once"
            trial.record(
                {"byte_rate": _rate(trial.problem.min_bytes(), "B/s", time, f"{least}; over {name}")}
            )
            if trial.implementation.exact:
                rate = _rate(trial.problem.flops(), "FLOP/s", time, f"{convention}; over {name}")
                trial.record({"flop_rate": rate})
            else:
                trial.record(notes={"flop_rate": "an approximation does other work than the problem's FLOPs"})


def _judged(trial: Trial) -> str | None:
    """The quantity that the case is judged by, among those that were reported."""
    metrics = trial.result.metrics
    names = (str(trial.result.timing.get("judged")), *TIMES)
    return next((name for name in names if name in metrics and metrics[name].value > 0), None)


def _rate(work: int, unit: str, time: Measurement, note: str) -> Measurement:
    """Work over time; the ends of the time's interval give those of the rate."""
    low = work / time.high if time.high else None
    high = work / time.low if time.low else None
    return Measurement(work / time.value, unit, "higher", low, high, note=note)
