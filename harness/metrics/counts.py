"""Exact counts of one pass: operators followed on fake tensors, Triton kernels in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from harness.counting.predict import Untraceable, trace
from harness.devices.device import Device
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial
from harness.types import Measurement


@metric(
    "counts",
    quantities={
        "flops": Quantity("FLOP", "lower", "FLOPs of matrix products and attention"),
        "exponentials": Quantity("1", "lower", "evaluations of exp or exp2"),
        "bytes_touched": Quantity("B", "lower", "operands read and results written, once per operator"),
        "bytes_requested": Quantity(
            "B", "lower", "global-memory requests of Triton kernels, not DRAM traffic"
        ),
        "peak_live_bytes": Quantity("B", "lower", "peak live tensor storage over the inputs"),
    },
    stage=0,
)
def counts(group: Sequence[Trial], device: Device) -> None:
    """Count every trial; one that cannot be followed says why, and has no figure."""
    for trial in group:
        with trial.stage("counting"):
            _interpreted(trial) if trial.interpreted else _traced(trial)


def _traced(trial: Trial) -> None:
    try:
        found = trace(trial.implementation, trial.problem).counts
    except Untraceable as reason:
        trial.record(notes={"counts": f"not counted: {reason}"})
        return
    trial.record(
        {
            "flops": Measurement(
                found.flops, "FLOP", note="2 per multiply–add; causal attention by its exact pairs"
            ),
            "exponentials": Measurement(found.exponentials, "1"),
            "bytes_touched": Measurement(found.bytes, "B", note="once per operator, on fake tensors"),
            "peak_live_bytes": Measurement(found.peak_bytes, "B", note="workspaces are invisible"),
        }
    )


def _interpreted(trial: Trial) -> None:
    from harness.counting import interpreter

    found = interpreter.count(trial.call)
    note = "counted in Triton's interpreter"
    trial.record(
        {
            "flops": Measurement(found.dot_flops, "FLOP", note=f"tl.dot, {note}"),
            "exponentials": Measurement(found.exponentials, "1", note=note),
            "bytes_requested": Measurement(
                found.bytes_requested, "B", note=f"requests, not DRAM traffic; {note}"
            ),
        }
    )
