"""Rates derived from the judged time: useful FLOPs and least bytes per second."""

from __future__ import annotations

from collections.abc import Sequence

from harness.devices.device import Device
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial
from harness.types import Measurement

TIMES = ("gpu_time_cold", "gpu_time_hot", "cpu_time")


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
        name = next((name for name in TIMES if name in trial.result.metrics), None)
        if name is None:
            trial.record(notes={"throughput": "no time was measured"})
            continue
        seconds = trial.result.metrics[name].value
        with trial.stage("throughput"):
            trial.record(
                {
                    "flop_rate": Measurement(
                        trial.problem.flops() / seconds,
                        "FLOP/s",
                        "higher",
                        note=f"{trial.operation.flop_convention}; over {name}",
                    ),
                    "byte_rate": Measurement(
                        trial.problem.min_bytes() / seconds,
                        "B/s",
                        "higher",
                        note=f"every input read and output written once; over {name}",
                    ),
                }
            )
