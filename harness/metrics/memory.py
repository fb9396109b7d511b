"""Peak memory of one call over its live inputs."""

from __future__ import annotations

from collections.abc import Sequence

from harness.devices.device import Device, Unknown
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial


@metric(
    "memory",
    quantities={
        "peak_memory": Quantity("B", "lower", "peak bytes allocated over the live inputs"),
        "peak_reserved": Quantity("B", "lower", "peak bytes the allocator reserved from the device"),
    },
    stage=3,
)
def memory(group: Sequence[Trial], device: Device) -> None:
    """Measure the peak of one warmed call; what the device cannot tell is a note, never 0."""
    for trial in group:
        if trial.interpreted:
            trial.record(notes={"memory": "not measured: interpreted"})
            continue
        with trial.stage("memory"):
            try:
                trial.record(device.peak_memory(trial.call))
            except Unknown as reason:
                trial.record(notes={"memory": f"unknown: {reason}"})
