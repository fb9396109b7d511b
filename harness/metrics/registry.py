"""The registry of metrics. A metric is a file here with one decorated function:

@metric("memory", quantities={"peak_memory": Quantity("B", "lower", "…")})
def memory(group: Sequence[Trial], device: Device) -> None:
    for trial in group: ... trial.record({...})

It receives the trials of one problem that are still alive and records what it finds on each. It must
leave a note where it could not measure. Metrics run in the order of `stage`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from implementations.registry import UnknownName

if TYPE_CHECKING:
    from harness.devices.device import Device
    from harness.metrics.trial import Trial

    Measure = Callable[[Sequence[Trial], Device], None]


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a number means: unit, whether lower or higher is better, and one line for people."""

    unit: str
    better: str
    summary: str


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: `stage` orders the metrics of a group (counts 0, accuracy 1, time 2, memory 3, derived 4)."""

    name: str
    quantities: Mapping[str, Quantity]
    stage: int
    measure: Measure


_METRICS: dict[str, Metric] = {}


def metric(name: str, *, quantities: Mapping[str, Quantity], stage: int) -> Callable[[Measure], Measure]:
    """Register the decorated function as the metric of that name."""

    def register(measure: Measure) -> Measure:
        _METRICS[name] = Metric(name, quantities, stage, measure)
        return measure

    return register


def load() -> None:
    """Import every metric."""
    package = importlib.import_module("harness.metrics")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name not in ("drawn", "registry", "trial"):
            importlib.import_module(f"harness.metrics.{module.name}")


def metrics(names: Sequence[str] | None = None) -> list[Metric]:
    """The metrics of those names (all by default) in the order they run. Raises UnknownName."""
    load()
    for name in names or ():
        if name not in _METRICS:
            raise UnknownName("metric", name, _METRICS)
    chosen = [m for m in _METRICS.values() if names is None or m.name in names]
    return sorted(chosen, key=lambda m: (m.stage, m.name))
