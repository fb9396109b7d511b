"""Error against float64, and the verdict `incorrect`: no speed without correctness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from harness.devices.device import Device
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial
from harness.passes import bind
from harness.types import Measurement, Status
from implementations.operation import Errors
from implementations.registry import lookup

#: An exact implementation may be twice as far off as the plain formula in the same dtype (the rule of
#: flash-attention's tests). It never needs to be closer than one rounding of its output and what sums of
#: thousands of terms and a fast exponential amount to in the precision that it computes in.
RATIO = 2.0
COMPUTED_ROUNDINGS = 32.0

#: Prefix of the quantities -> what they are about.
JUDGED = {"": "output"} | {f"grad_{name}_": f"gradient by {name}" for name in ("q", "k", "v", "x", "weights")}


def _quantities() -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for prefix, what in JUDGED.items():
        found |= {
            f"{prefix}error": Quantity(
                "1", "lower", f"‖x − ref‖ / ‖ref‖ of the {what}; ref is float64 of the rounded inputs"
            ),
            f"{prefix}max_abs_error": Quantity("1", "lower", f"max |x − ref| of the {what}"),
            f"{prefix}error_ratio": Quantity(
                "1", "lower", f"error of the {what} over that of the plain formula in the same dtype"
            ),
            f"{prefix}error_over_floor": Quantity(
                "1",
                "lower",
                f"error of the {what} over that of the floor, which knows nothing (uniform: the "
                "mean of V), on the same inputs",
            ),
        }
    return found


@metric("accuracy", quantities=_quantities(), stage=1)
def accuracy(group: Sequence[Trial], device: Device) -> None:
    """Judge one call of every trial; an exact implementation that is too far off ends as incorrect."""
    for trial in group:
        with trial.stage("accuracy"), _judged_inputs(trial):
            output, gradients = trial.outputs()
            _check_dtypes(trial, output, gradients)
            found = trial.operation.judge(trial.problem, trial.inputs, output, gradients)
            del output, gradients
            for errors in found:
                _record(trial, errors)
            if reasons := [words for errors in found if (words := fault(trial, errors))]:
                trial.end(Status.INCORRECT, "; ".join(reasons))
            if not trial.implementation.exact:
                trial.record(notes={"accuracy": "approximation: its error is a property, not a fault"})
    _against_the_floor(group)


def _against_the_floor(group: Sequence[Trial]) -> None:
    """The errors of approximations in units of what knowing nothing errs on the same inputs.

    The floor's error is its own trial's, where the group has one; otherwise it is called once for all.
    """
    floor = group[0].operation.floor
    beside = [t for t in group if t.alive and not t.implementation.exact and t.implementation.name != floor]
    if not floor or not beside:
        return
    with beside[0].stage("accuracy of the floor"):
        known = next((_errors(t) for t in group if t.implementation.name == floor), None)
        lowest = known or _errors_of_floor(beside[0], floor)
        for trial in beside:
            over = {f"{name}_over_floor": error / lowest[name] for name, error in _errors(trial).items()
                    if lowest.get(name)}  # fmt: skip
            trial.record({name: Measurement(value, "1") for name, value in over.items()})


def _errors(trial: Trial) -> dict[str, float]:
    """Name of the quantity -> relative error, of a trial that was judged."""
    names = [f"{prefix}error" for prefix in JUDGED]
    return {name: trial.result.metrics[name].value for name in names if name in trial.result.metrics}


def _errors_of_floor(trial: Trial, floor: str) -> dict[str, float]:
    """The same of the floor, on a trial's problem and inputs."""
    run = lookup(floor).prepare(trial.problem)
    with _judged_inputs(trial):
        output, gradients = bind(trial.problem.pass_, run, trial.inputs).outputs()
        found = trial.operation.judge(trial.problem, trial.inputs, output, gradients)
    return {f"{_prefix(errors)}error": errors.relative for errors in found if errors.relative is not None}


@contextmanager
def _judged_inputs(trial: Trial) -> Iterator[None]:
    """Where only some rows are judged, the gradient is sent back from those rows alone.

    Written into the tensor itself, since the bound pass holds it, and restored afterwards.
    """
    choose: Any = getattr(trial.operation, "judged_inputs", None)
    if choose is None or trial.problem.pass_ == "forward":
        yield
        return
    gradient = trial.inputs.grad_output
    kept, judged = gradient.clone(), choose(trial.problem, trial.inputs).grad_output
    gradient.copy_(judged)
    try:
        yield
    finally:
        gradient.copy_(kept)


def _check_dtypes(trial: Trial, *results: Any) -> None:
    """A wider result would be judged by the error of work that was not asked for. Raises TypeError."""
    output, gradients = results
    for tensor in (output, *gradients):
        if getattr(tensor, "dtype", None) is not getattr(torch, trial.problem.dtype):
            found = getattr(tensor, "dtype", type(tensor).__name__)
            raise TypeError(f"the result is {found}, not a tensor of {trial.problem.dtype}")


def _prefix(errors: Errors) -> str:
    return "" if errors.name == "output" else f"grad_{errors.name.removeprefix('grad_')}_"


def _record(trial: Trial, errors: Errors) -> None:
    prefix = _prefix(errors)
    found = {f"{prefix}error": errors.relative, f"{prefix}max_abs_error": errors.max_abs}
    if errors.relative is not None and errors.naive:
        found[f"{prefix}error_ratio"] = errors.relative / errors.naive
    trial.record({name: Measurement(value, "1") for name, value in found.items() if value is not None})


def fault(trial: Trial, errors: Errors) -> str | None:
    """Why a result is incorrect, with the figures, or None.

    Nothing excuses a result that is not finite; an approximation is never at fault for approximating.
    """
    what = JUDGED.get(_prefix(errors), errors.name)
    if not errors.finite or errors.relative is None:
        return f"the {what} is not finite"
    bound = allowed_error(errors, trial.problem.dtype)
    if not trial.implementation.exact or errors.relative <= bound:
        return None
    dtype = trial.problem.dtype
    naive = "" if errors.naive is None else f" (the plain formula in {dtype} is off by {errors.naive:.2e})"
    return f"the {what} is off by {errors.relative:.2e}, {bound:.2e} is allowed{naive}"


def allowed_error(errors: Errors, dtype: str) -> float:
    """The largest relative error of an exact implementation in a dtype."""
    rounded = torch.finfo(getattr(torch, dtype)).eps
    computed = min(rounded, torch.finfo(torch.float32).eps)  # half precision is computed in float32
    return max(RATIO * (errors.naive or 0.0), rounded + COMPUTED_ROUNDINGS * computed)
