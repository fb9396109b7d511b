"""Error against float64, and the verdict `incorrect`: no speed without correctness."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.devices.device import Device
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial
from harness.types import Measurement, Status
from implementations.operation import Errors

#: An exact implementation may be twice as far off as the plain formula in the same dtype (the rule of
#: flash-attention's tests), and never needs to be closer than a few roundings.
RATIO = 2.0
ROUNDINGS = 4.0


@metric(
    "accuracy",
    quantities={
        "error": Quantity("1", "lower", "‖out − ref‖ / ‖ref‖ against float64 from the rounded inputs"),
        "max_abs_error": Quantity("1", "lower", "max |out − ref|"),
        "error_ratio": Quantity("1", "lower", "error over that of the plain formula in the same dtype"),
        "grad_q_error": Quantity("1", "lower", "relative error of the gradient by q"),
        "grad_k_error": Quantity("1", "lower", "relative error of the gradient by k"),
        "grad_v_error": Quantity("1", "lower", "relative error of the gradient by v"),
    },
    stage=1,
)
def accuracy(group: Sequence[Trial], device: Device) -> None:
    """Judge one call of every trial; an exact implementation that is too far off ends as incorrect."""
    for trial in group:
        with trial.stage("accuracy"):
            output, gradients = trial.outputs()
            for errors in trial.operation.judge(trial.problem, trial.inputs, output, gradients):
                _record(trial, errors)
                _convict(trial, errors)
            if not trial.implementation.exact:
                trial.record(notes={"accuracy": "approximation: its error is a property, not a fault"})


def _record(trial: Trial, errors: Errors) -> None:
    prefix = "" if errors.name == "output" else f"grad_{errors.name}_"
    found = {f"{prefix}error": errors.relative, f"{prefix}max_abs_error": errors.max_abs}
    if errors.relative is not None and errors.naive:
        found[f"{prefix}error_ratio"] = errors.relative / errors.naive
    trial.record({name: Measurement(value, "1") for name, value in found.items() if value is not None})


def _convict(trial: Trial, errors: Errors) -> None:
    """End the trial when the result is not finite, or an exact implementation is too far off."""
    what = "output" if errors.name == "output" else f"gradient by {errors.name}"
    if not errors.finite or errors.relative is None:
        trial.end(Status.INCORRECT, f"the {what} is not finite")
        return
    bound = allowed_error(errors, trial.problem.dtype)
    if trial.implementation.exact and errors.relative > bound:
        trial.end(
            Status.INCORRECT,
            f"the {what} is off by {errors.relative:.2e}; {bound:.2e} is allowed "
            f"(the plain formula in {trial.problem.dtype} is off by {errors.naive or 0.0:.2e})",
        )


def allowed_error(errors: Errors, dtype: str) -> float:
    """The largest relative error of an exact implementation in a dtype."""
    eps = torch.finfo(getattr(torch, dtype)).eps
    return max(RATIO * (errors.naive or 0.0), ROUNDINGS * eps)
