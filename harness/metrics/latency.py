"""Latency: all implementations of a problem in interleaved rounds, so that drift is shared."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.devices.device import Device, Sampling, Timer
from harness.devices.statistics import Samples, relative_width
from harness.metrics.registry import Quantity, metric
from harness.metrics.trial import Trial
from harness.types import Measurement, Status

#: Spread between the 10 and 90 % quantiles, over the median, from which samples are called noisy.
NOISY = 0.5
#: Change of the median between the first and the last third of the samples that is called drift.
DRIFT = 0.1
#: Width of the 95 % interval of the judged quantity, over its value, from which it says nothing.
UNUSABLE = 1.0
#: Seconds between two announcements of the median so far, and rounds between two looks at the intervals
#: once there are many samples.
LIVE_SECONDS, LOOK_EVERY = 0.2, 8


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
    """Time every trial that still is right; interpreted ones are not timed, and say so."""
    for trial in group:
        if trial.interpreted:
            trial.record(notes={"latency": "not timed: interpreted"})
    timed = [trial for trial in group if trial.alive and not trial.interpreted]
    # No name for the list: it would keep the tensors of a failed trial until the others are done.
    for one in _rounds([one for trial in timed for one in _warmed(trial, device)], device.sampling):
        _record(one, device)


@dataclass(slots=True)
class _Series:
    """The samples of one trial."""

    trial: Trial
    timer: Timer
    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    announced: float = 0.0

    @property
    def judged(self) -> Samples:
        """The samples that decide."""
        return np.array(self.samples[self.timer.judged])

    def add(self) -> None:
        """Take one sample."""
        for quantity, seconds in self.timer.sample().items():
            self.samples[quantity].append(seconds)

    def announce(self) -> None:
        """Show the median so far, now and then."""
        if (now := time.monotonic()) - self.announced > LIVE_SECONDS:
            self.announced = now
            self.trial.touch("timing", float(np.median(self.judged)))


def _warmed(trial: Trial, device: Device) -> Iterator[_Series]:
    """The trial with its timer; nothing when warming up fails."""
    with trial.stage("warm-up"):
        yield _Series(trial, device.timer(trial.call))


def _rounds(series: list[_Series], sampling: Sampling) -> list[_Series]:
    """One sample of each trial per round, in an order shuffled anew, until all have enough.

    Returns those that are still alive; what failed is dropped at once, so that its tensors go.
    """
    shuffle = random.Random(0).shuffle
    started = time.monotonic()
    for done in range(sampling.max_samples):
        if not series or _enough(series, sampling, done, time.monotonic() - started):
            break
        shuffle(series)
        for one in series:
            with one.trial.stage("timing"):
                one.add()
                one.announce()
        series = [one for one in series if one.trial.alive]
    return series


def _enough(series: list[_Series], sampling: Sampling, done: int, seconds: float) -> bool:
    if done >= sampling.fewest and seconds > sampling.seconds * len(series):
        return True
    if done < sampling.min_samples or (done > 4 * sampling.min_samples and done % LOOK_EVERY):
        return False
    return all(relative_width(one.judged, sampling.quantile) < sampling.precision for one in series)


def _record(one: _Series, device: Device) -> None:
    trial, timer = one.trial, one.timer
    with trial.stage("hot timing"):
        times = {q: device.summarise(q, tuple(s)) for q, s in one.samples.items()} | dict(timer.finish())
        omitted = timer.omitted()
        trial.record(
            {quantity: found for quantity, found in times.items() if quantity not in omitted},
            notes=omitted,
            flags=timer.flags() + doubts(one.judged, device.sampling),
            timing=timer.describe(),
        )
        if words := unusable(times[timer.judged]):
            trial.end(Status.UNSTABLE, words)


def unusable(judged: Measurement) -> str | None:
    """Why a time says nothing, in words, or None."""
    if judged.value <= 0:
        return "the clock saw no time pass"
    assert judged.low is not None
    assert judged.high is not None
    width = (judged.high - judged.low) / judged.value
    if width <= UNUSABLE:
        return None
    return f"the 95 % interval of the time, {judged.low:.3g} to {judged.high:.3g} s, is wider than the time"


def doubts(samples: Samples, sampling: Sampling) -> tuple[str, ...]:
    """What the samples themselves say against their summary."""
    flags = []
    if len(samples) < sampling.min_samples:
        flags.append(f"few samples: {len(samples)} of {sampling.min_samples}, time for these cases ran out")
    low, median, high = np.quantile(samples, [0.1, 0.5, 0.9])
    if median > 0 and (high - low) / median > NOISY:
        flags.append(f"noisy: the middle 80 % of samples span {(high - low) / median:.0%} of the median")
    third = len(samples) // 3
    if third >= 5 and (early := np.median(samples[:third])) > 0:
        drift = float(np.median(samples[-third:]) / early - 1)
        if abs(drift) > DRIFT:
            flags.append(f"drift: {drift:+.0%} from the first third of the samples to the last")
    return tuple(flags)
