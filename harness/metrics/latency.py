"""Latency: all implementations of a problem in interleaved rounds, so that drift is shared."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.devices.device import Device, Sampling, Timer
from harness.devices.statistics import relative_width
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial

#: Spread between the 10 and 90 % quantiles, over the median, from which samples are called noisy.
NOISY = 0.5
#: Change of the median between the first and the last third of the samples that is called drift.
DRIFT = 0.1


@dataclass(slots=True)
class _Series:
    """The samples of one trial."""

    trial: Trial
    timer: Timer
    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self) -> None:
        """Take one sample."""
        for quantity, seconds in self.timer.sample().items():
            self.samples[quantity].append(seconds)

    @property
    def judged(self) -> list[float]:
        """The samples that decide."""
        return self.samples[self.timer.judged]


@metric(
    "latency",
    quantities={
        "cpu_time": Quantity("s", "lower", "process CPU time of one call"),
        "wall_time": Quantity("s", "lower", "wall time of one call"),
        "gpu_time_cold": Quantity("s", "lower", "device time of one call, L2 cache flushed before"),
        "gpu_time_hot": Quantity("s", "lower", "device time of one call among many, caches warm"),
    },
    stage=2,
)
def latency(group: Sequence[Trial], device: Device) -> None:
    """Time every trial; interpreted ones are not timed, and say so."""
    for trial in group:
        if trial.interpreted:
            trial.record(notes={"latency": "not timed: interpreted"})
    series = [s for trial in group if not trial.interpreted and (s := _warmed(trial, device))]
    _rounds(series, device.sampling)
    for one in series:
        if one.trial.alive:
            _record(one, device)


def _warmed(trial: Trial, device: Device) -> _Series | None:
    with trial.stage("warm-up"):
        return _Series(trial, device.timer(trial.call))
    return None


def _rounds(series: list[_Series], sampling: Sampling) -> None:
    """One sample of each trial per round, in an order shuffled anew, until all have enough."""
    shuffle = random.Random(0).shuffle
    started = time.monotonic()
    for done in range(sampling.max_samples):
        running = [one for one in series if one.trial.alive]
        if not running or (done >= sampling.min_samples and _enough(running, sampling, started)):
            return
        shuffle(running)
        for one in running:
            with one.trial.stage("timing"):
                one.add()
                one.trial.touch("timing", float(np.median(one.judged)))


def _enough(running: list[_Series], sampling: Sampling, started: float) -> bool:
    out_of_time = time.monotonic() - started > sampling.seconds * len(running)
    return out_of_time or all(relative_width(np.array(s.judged), 0.5) < sampling.precision for s in running)


def _record(one: _Series, device: Device) -> None:
    trial = one.trial
    with trial.stage("hot timing"):
        trial.record({q: device.summarise(q, tuple(s)) for q, s in one.samples.items()})
        trial.record(
            one.timer.finish(),
            flags=one.timer.flags() + _doubts(np.array(one.judged)),
            timing=one.timer.describe(),
        )


def _doubts(samples: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[str, ...]:
    """What the samples themselves say against their summary."""
    flags = []
    low, median, high = np.quantile(samples, [0.1, 0.5, 0.9])
    if median > 0 and (high - low) / median > NOISY:
        flags.append(f"noisy: the middle 80 % of samples span {(high - low) / median:.0%} of the median")
    third = len(samples) // 3
    if third >= 5:
        drift = float(np.median(samples[-third:]) / np.median(samples[:third]) - 1)
        if abs(drift) > DRIFT:
            flags.append(f"drift: {drift:+.0%} from the first third of the samples to the last")
    return tuple(flags)
