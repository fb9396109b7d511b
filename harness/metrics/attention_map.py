"""What the attention weights of a problem look like, for whoever asks: `metrics: [..., attention_map]`."""

from __future__ import annotations

from collections.abc import Sequence

from harness.devices.device import Device
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial
from harness.types import Measurement


@metric(
    "attention_map",
    quantities={
        "attention_entropy": Quantity(
            "1", "higher", "mean over heads of the weights' entropy over ln(kv_len); 1 is uniform"
        ),
        "attention_top_mass": Quantity("1", "lower", "mean over queries and heads of the largest weight"),
        "collapsed_heads": Quantity("1", "lower", "share of heads in which one key takes 90 % of all weight"),
    },
    stage=1,
)
def attention_map(group: Sequence[Trial], device: Device) -> None:
    """Diagnose the exact weights once for the problem: they are the inputs', whatever computes them.

    A diagnosis of the inputs that errors are seen on, not an explanation of what a model does.
    """
    first = group[0]
    with first.stage("attention map"):
        try:
            found, notes = _of_heads(first), {}
        except ValueError as reason:
            found, notes = {}, {"attention_map": str(reason)}
        for trial in group:
            trial.record(found, notes=notes)


def _of_heads(trial: Trial) -> dict[str, Measurement]:
    """Means over the heads of the trial's problem. Raises ValueError where there are no weights to show."""
    diagnose = trial.operation.diagnose
    if diagnose is None:
        raise ValueError(f"{trial.operation.name} has no attention weights")
    heads = diagnose(trial.problem, trial.inputs)
    sums = {
        "attention_entropy": sum(head.entropy for head in heads),
        "attention_top_mass": sum(head.top_mass for head in heads),
        "collapsed_heads": sum(head.collapsed for head in heads),
    }
    return {name: Measurement(value / len(heads), "1") for name, value in sums.items()}
