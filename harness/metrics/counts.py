"""Exact counts beside every timing: FLOPs, bytes, live storage, exponentials, sequential depth.

PyTorch code is followed on fake CPU tensors: the real inputs are not touched, and nothing is computed. Triton
kernels in the interpreter are counted from one real run. What neither sees inside gets a note, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.counting import eager
from harness.counting.formulas import NoFormula
from harness.counting.predict import Prediction, Untraceable, predicted_peak_bytes, trace
from harness.devices.device import Device
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial
from harness.types import Measurement

__all__ = ["counts", "predicted_peak_bytes"]

UNITS = {"flops": "FLOP", "bytes_touched": "B", "bytes_requested": "B", "peak_live_bytes": "B",
         "exponentials": "1", "depth": "1"}  # fmt: skip
PRODUCTS = "matrix products, a multiply-add is 2; a causal fused operator counts its exact pairs"
OPERANDS = "every operand read and every result written once per operator, as if nothing stayed in a cache"
REQUESTS = "global-memory requests of the kernels, not DRAM traffic; PyTorch operators beside them excluded"
LIVE = "tensor storage beyond the inputs; workspaces that operators keep to themselves are invisible"


@metric(
    "counts",
    quantities={
        "flops": Quantity("FLOP", "lower", "FLOPs carried out by matrix products, counted"),
        "bytes_touched": Quantity("B", "lower", "bytes of operands and results of every operator, counted"),
        "bytes_requested": Quantity("B", "lower", "bytes that Triton kernels ask of global memory, counted"),
        "peak_live_bytes": Quantity("B", "lower", "most storage alive at once over the inputs, counted"),
        "exponentials": Quantity("1", "lower", "exponential evaluations, counted"),
        "depth": Quantity("1", "lower", "longest chain of operators that need one another's results"),
    },
    stage=0,
)
def counts(group: Sequence[Trial], device: Device) -> None:
    """Count one call of every trial, by the interpreter or on fake tensors."""
    for trial in group:
        with trial.stage("counts"):
            if trial.interpreted and trial.implementation.runs_interpreted(device.kind):
                _count_interpreted(trial)
            else:
                _count_eager(trial)


def _count_eager(trial: Trial) -> None:
    try:
        prediction = trace(trial.implementation, trial.problem)
    except Untraceable as reason:
        trial.record(notes={"counts": str(reason)})
        return
    trial.record(eager_measurements(prediction))
    for name in sorted(prediction.unconfirmed):
        quantity = "peak_live_bytes" if name == "peak_bytes" else name
        trial.record(notes={quantity: "no polynomial holds at the sizes that can be followed"})


def eager_measurements(prediction: Prediction) -> dict[str, Measurement]:
    """What was followed on fake tensors; figures that no polynomial confirms are left out."""
    counted = prediction.counts
    figures = {
        "flops": (counted.flops, PRODUCTS),
        "bytes_touched": (counted.bytes, OPERANDS),
        "exponentials": (counted.exponentials, ""),
    }
    if "peak_bytes" not in prediction.unconfirmed:
        figures["peak_live_bytes"] = (counted.peak_bytes, LIVE)
    if "depth" not in prediction.unconfirmed:
        figures["depth"] = (counted.depth, "in operators")
    return _measurements(figures, prediction.extrapolated)


def _count_interpreted(trial: Trial) -> None:
    """Kernels by the interpreter's hooks; what PyTorch does beside them by the eager counter."""
    from harness.counting import interpreter

    with interpreter.counting() as recorder:
        try:
            beside = eager.count(trial.call, trial.inputs)
        except NoFormula as reason:
            trial.record(notes={"counts": str(reason)})
            return
    kernels = recorder.counts()
    if not kernels.launches:
        trial.record(notes={"counts": "no Triton kernel was launched"})
        return
    figures = {
        "flops": (kernels.dot_flops + beside.flops, "tl.dot as issued, whole tiles; a multiply-add is 2"),
        "bytes_requested": (kernels.bytes_requested, REQUESTS),
        "peak_live_bytes": (beside.peak_bytes, LIVE),
        "exponentials": (kernels.exponentials + beside.exponentials, ""),
    }
    trial.record(_measurements(figures, "in Triton's interpreter"), kernels=kernels.kernels)


def _measurements(figures: Mapping[str, tuple[int, str]], how: str) -> dict[str, Measurement]:
    def measurement(name: str, value: Any, note: str) -> Measurement:
        return Measurement(value, UNITS[name], note="; ".join(part for part in (note, how) if part))

    return {name: measurement(name, value, note) for name, (value, note) in figures.items()}
