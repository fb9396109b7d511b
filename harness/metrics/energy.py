"""Energy of one call, where the device counts it."""

from __future__ import annotations

from collections.abc import Sequence

from harness.devices.device import Device, Unknown
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial


@metric("energy", quantities={"energy": Quantity("J", "lower", "energy of one call")}, stage=3)
def energy(group: Sequence[Trial], device: Device) -> None:
    """Joules of one call among many; what the device cannot tell is a note, never 0."""
    for trial in group:
        if trial.interpreted:
            trial.record(notes={"energy": "not measured: interpreted"})
            continue
        with trial.stage("energy"):
            try:
                trial.record({"energy": device.energy(trial.call)})
            except Unknown as reason:
                trial.record(notes={"energy": f"unknown: {reason}"})
