"""The interface between the harness and a device. `cpu.py` and `cuda.py` implement it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from harness.types import DeviceInfo, Measurement, Scalar
from implementations.registry import Target

Call = Callable[[], object]


class Unknown(Exception):
    """The device cannot tell; the message says why, in words."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """When the timers of a group have enough. All its cases take the same number of samples.

    At least `min_samples`; then once the 95 % interval of the judged `quantile` is narrower than `precision`
    of it in every case; at most `max_samples`. When `seconds` per case are used up, `fewest` are enough.
    """

    min_samples: int
    max_samples: int
    seconds: float
    precision: float
    quantile: float = 0.5
    fewest: int = 8


class Timer(Protocol):
    """Times one warmed-up call."""

    #: The quantity that decides when there are enough samples, e.g. "cpu_time" or "gpu_time_cold".
    judged: str

    def sample(self) -> Mapping[str, float]:
        """One sample of each quantity, in seconds per call; the same keys every time."""

    def finish(self) -> Mapping[str, Measurement]:
        """Quantities that are measured once after the rounds (hot time), or nothing."""

    def omitted(self) -> Mapping[str, str]:
        """Quantities that must not be reported, with the reason in words; asked after `finish`."""

    def describe(self) -> Mapping[str, Scalar]:
        """How it timed: timer, threads, cache state, calls per sample, first warm-up call."""

    def flags(self) -> tuple[str, ...]:
        """Doubts about the samples, in words."""


class Device(Protocol):
    """One device that cases run on."""

    #: As torch names it: "cpu", "cuda:0".
    name: str
    #: "cpu" or "cuda".
    kind: str
    sampling: Sampling

    def info(self) -> DeviceInfo:
        """Name and facts, for the environment."""

    def target(self, interpreted: bool) -> Target:
        """What implementations are asked about."""

    def timer(self, call: Call) -> Timer:
        """Warm the call up (compiling what it compiles), and return its timer."""

    def summarise(self, quantity: str, samples: tuple[float, ...]) -> Measurement:
        """The stored value of timing samples: which quantile, and its 95 % interval."""

    def memory_available(self) -> int:
        """Bytes that a case may allocate now."""

    def peak_memory(self, call: Call) -> Mapping[str, Measurement]:
        """Peak bytes over the live inputs of one warmed call. Raises Unknown where the device cannot tell."""

    def energy(self, call: Call) -> Measurement:
        """Joules of one call among many. Raises Unknown where the device cannot tell."""

    def kernels(self, call: Call) -> tuple[str, ...]:
        """The names of the device kernels, or ATen operators, that one call runs, once each.

        Attention comes first, then the order in which they ran. The call is run twice: the first may compile.
        """

    def synchronize(self) -> None:
        """Wait for all work."""

    def release(self) -> None:
        """Give cached memory back, after the caller dropped its tensors."""
