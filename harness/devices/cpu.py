"""The CPU: one thread, wall and process CPU time, exact live-storage peaks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import psutil
import torch

from harness.counting import eager
from harness.counting.formulas import NoFormula
from harness.devices.device import Call, Sampling, Unknown
from harness.devices.hosts import cpu_name, memory_limit
from harness.devices.spy import operators
from harness.devices.statistics import quantile_interval
from harness.types import DeviceInfo, Measurement, Scalar
from implementations.registry import Target

#: A sample lasts at least this long, so that the clocks' resolution and the loop do not show.
SAMPLE_SECONDS = 2e-3
#: Contention only adds time, so a low quantile is judged; 0.2 varies 1–3 % where medians vary 25–50 %.
JUDGED_QUANTILE = 0.2
CONTENDED = 1.1


class Cpu:
    """The CPU with a given number of threads."""

    name = "cpu"
    kind = "cpu"

    def __init__(self, threads: int = 1, sampling: Sampling | None = None) -> None:
        torch.set_num_threads(threads)
        self.threads = threads
        self.sampling = sampling or Sampling(min_samples=20, max_samples=20, seconds=2.0, precision=0.0)

    def info(self) -> DeviceInfo:
        """Model and what a reader needs to compare."""
        return DeviceInfo("cpu", cpu_name(), {"threads": self.threads, "memory_bytes": memory_limit()})

    def target(self, interpreted: bool) -> Target:
        """The CPU, perhaps with Triton interpreted."""
        return Target("cpu", None, interpreted)

    def timer(self, call: Call) -> CpuTimer:
        """Warm up, then choose how many calls make a sample."""
        first = _clocked(call, 1)
        again = _clocked(call, 1)
        calls = max(1, int(np.ceil(SAMPLE_SECONDS / max(again.wall, 1e-7))))
        if calls > 1:  # the second call of a short function is still far from its steady pace
            calls = max(1, int(np.ceil(SAMPLE_SECONDS / max(_clocked(call, calls).wall, 1e-7))))
        return CpuTimer(call, calls, first.wall, self.threads)

    def summarise(self, quantity: str, samples: tuple[float, ...]) -> Measurement:
        """CPU time by its 0.2 quantile, wall time by its median, each with a 95 % interval."""
        quantile = JUDGED_QUANTILE if quantity == "cpu_time" else 0.5
        value, low, high = quantile_interval(np.array(samples), quantile)
        return Measurement(value, "s", "lower", low, high, samples, f"{quantile} quantile of the samples")

    def memory_available(self) -> int:
        """Free memory, within the limit of the control group."""
        return min(psutil.virtual_memory().available, memory_limit())

    def peak_memory(self, call: Call) -> Mapping[str, Measurement]:
        """Peak bytes of live tensor storage that one call allocates over its inputs.

        Counted from PyTorch's operators: workspace that a kernel allocates by itself is invisible.
        """
        try:
            peak = eager.count(call).peak_bytes
        except NoFormula as error:
            raise Unknown(str(error)) from error
        return {"peak_memory": Measurement(peak, "B", note="live tensor storage; workspaces are invisible")}

    def kernels(self, call: Call) -> tuple[str, ...]:
        """The ATen operators of one call."""
        return operators(call)

    def synchronize(self) -> None:
        """Nothing runs behind our back."""

    def release(self) -> None:
        """Nothing is cached."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """Seconds per call."""

    wall: float
    cpu: float


def _clocked(call: Call, calls: int) -> _Clock:
    cpu = time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID)
    wall = time.perf_counter_ns()
    for _ in range(calls):
        call()
    wall = time.perf_counter_ns() - wall
    cpu = time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID) - cpu
    return _Clock(wall / calls / 1e9, cpu / calls / 1e9)


class CpuTimer:
    """Times blocks of calls by both clocks."""

    judged = "cpu_time"

    def __init__(self, call: Call, calls: int, first: float, threads: int) -> None:
        self.call, self.calls, self.first, self.threads = call, calls, first, threads
        self.wall = self.cpu = 0.0

    def sample(self) -> Mapping[str, float]:
        """One block of calls."""
        clock = _clocked(self.call, self.calls)
        self.wall += clock.wall
        self.cpu += clock.cpu
        return {"cpu_time": clock.cpu, "wall_time": clock.wall}

    def finish(self) -> Mapping[str, Measurement]:
        """Nothing is measured after the rounds."""
        return {}

    def describe(self) -> Mapping[str, Scalar]:
        """How it timed."""
        return {
            "timer": "CLOCK_PROCESS_CPUTIME_ID and the monotonic clock",
            "threads": self.threads,
            "cache": "hot",
            "calls_per_sample": self.calls,
            "first_call_seconds": self.first,
        }

    def flags(self) -> tuple[str, ...]:
        """Contention shows as wall time beyond CPU time."""
        ratio = self.wall / self.cpu if self.cpu else 0.0
        if ratio <= CONTENDED:
            return ()
        return (f"contended: wall time is {ratio:.2f} × CPU time",)
