"""The CPU: one thread, wall and process CPU time, peaks of PyTorch's allocator."""

from __future__ import annotations

import ctypes
import gc
import math
import platform
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from harness.devices import hosts, statistics
from harness.devices.activity import watch
from harness.devices.device import Call, Sampling, Unknown
from harness.types import DeviceInfo, Measurement, Scalar
from implementations.registry import Target

#: A sample lasts at least this long, so that the clocks' resolution and the loop do not show.
SAMPLE_SECONDS = 2e-3
#: Contention only adds time, so a low quantile is judged; 0.2 varies 1–3 % where medians vary 25–50 %.
SAMPLING = Sampling(min_samples=20, max_samples=60, seconds=2.0, precision=0.01, quantile=0.2)
#: Warm-up ends when a call faults in fewer new pages than this, or after so many calls and seconds.
NEW_PAGES, WARM_UP_CALLS, WARM_UP_SECONDS = 8, 12, 0.5
#: Filling the caches again after other calls takes some 0.2 ms, 5 to 25 % of a sample of small calls that
#: lasts 2 ms: a sample of shorter calls than this is preceded by a call that is not timed.
REFILLED_SECONDS = 20e-3
#: The state of the caches: of short calls, otherwise, and after `CpuTimer.evict`.
HOT = "hot"
LONG_CALLS = "hot from warm-up; other implementations ran in between"
EVICTED = "full of other data"
#: More than the caches that belong to one core hold; reading them takes a third of a millisecond.
EVICTING_FLOATS = 1 << 20
CONTENDED = 1.1
#: A page fault with zeroing costs about half a microsecond; flagged when that is 5 % of the time.
FAULT_SECONDS, FAULT_SHARE = 5e-7, 0.05
#: A case may not take the last of the memory: PyTorch, the inputs' copies and the kernel need some.
USABLE_MEMORY = 0.9


class Cpu:
    """The CPU with a given number of threads."""

    name = "cpu"
    kind = "cpu"

    def __init__(self, threads: int = 1, sampling: Sampling = SAMPLING) -> None:
        torch.set_num_threads(threads)
        self.threads = threads
        self.sampling = sampling

    @property
    def judged(self) -> str:
        """CPU time adds the threads up, so that several are judged by the wall."""
        return "cpu_time" if self.threads == 1 else "wall_time"

    def info(self) -> DeviceInfo:
        """Model and what a reader needs to compare."""
        facts: dict[str, Scalar] = {
            "threads": self.threads,
            "memory_bytes": hosts.memory_limit(),
            "instruction_set": torch.backends.cpu.get_cpu_capability(),
        }
        return DeviceInfo("cpu", hosts.cpu_name(), facts)

    def target(self, interpreted: bool) -> Target:
        """The CPU, perhaps with Triton interpreted."""
        return Target("cpu", None, interpreted)

    def timer(self, call: Call) -> CpuTimer:
        """Warm the call up, then choose how many calls make a sample."""
        first = run_block(call, 1)
        _warm_up(call)
        calls, seconds = _calls_per_sample(call)
        return CpuTimer(call, calls, first.wall, self, HOT if seconds < REFILLED_SECONDS else LONG_CALLS)

    def summarise(self, quantity: str, samples: tuple[float, ...]) -> Measurement:
        """The judged quantity by its 0.2 quantile, the other by its median, with a 95 % interval."""
        return statistics.seconds(samples, self.sampling.quantile if quantity == self.judged else 0.5)

    def memory_available(self) -> int:
        """Nine tenths of the free memory, within the limits of the control groups."""
        return int(USABLE_MEMORY * hosts.memory_free())

    def peak_memory(self, call: Call) -> Mapping[str, Measurement]:
        """The most that one call holds at once of what it allocates over its live inputs, in bytes.

        PyTorch's CPU allocator reports every block: tensors and the workspace of its own kernels. What a
        library allocates by itself (MKL's and oneDNN's packing buffers) is invisible.
        """
        note = "blocks of PyTorch's CPU allocator; buffers inside MKL and oneDNN are invisible"
        return {"peak_memory": Measurement(watch(call).peak_bytes, "B", note=note)}

    def energy(self, call: Call) -> Measurement:
        """Unknown: a package counter, where there is one, is not for ordinary processes."""
        raise Unknown("the CPU has no energy counter that an ordinary process may read")

    def kernels(self, call: Call) -> tuple[str, ...]:
        """The ATen operators of one call."""
        call()
        return watch(call).operators

    def synchronize(self) -> None:
        """Nothing runs behind our back."""

    def release(self) -> None:
        """Give freed blocks back to the system: workers keep them between calls (see workers.py)."""
        if platform.libc_ver()[0] == "glibc":
            ctypes.CDLL(None).malloc_trim(0)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of calls: wall and process CPU seconds, and page faults, per call."""

    wall: float
    cpu: float
    faults: float


@contextmanager
def _no_collection() -> Iterator[None]:
    """The collector's pauses belong to no call."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run_block(call: Call, calls: int) -> Block:
    """Run a call so many times between two readings of the clocks."""
    with _no_collection():
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        cpu = time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID)
        wall = time.perf_counter_ns()
        for _ in range(calls):
            call()
        wall = time.perf_counter_ns() - wall
        cpu = time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID) - cpu
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    return Block(wall / calls / 1e9, cpu / calls / 1e9, faults / calls)


def _warm_up(call: Call) -> None:
    """Call until the allocator has all the pages that a call needs."""
    started = time.monotonic()
    for _ in range(WARM_UP_CALLS):
        if run_block(call, 1).faults < NEW_PAGES or time.monotonic() - started > WARM_UP_SECONDS:
            return


def _calls_per_sample(call: Call) -> tuple[int, float]:
    """How many calls last `SAMPLE_SECONDS` of CPU time, or four times that by the wall (it may wait).

    With the seconds that they last.
    """
    calls = 1
    while True:
        block = run_block(call, calls)
        pace = max(block.cpu, block.wall / 4, 1e-9)
        if calls * pace >= SAMPLE_SECONDS:
            return calls, calls * pace
        # At most tenfold: the first calls of a short function are far from its steady pace.
        calls = min(10 * calls, math.ceil(1.1 * SAMPLE_SECONDS / pace))


class CpuTimer:
    """Times blocks of calls by both clocks.

    calls  in each block     cache  state in which a block finds the caches: HOT, after a call that is not
    timed, or LONG_CALLS, or EVICTED
    """

    def __init__(self, call: Call, calls: int, first: float, device: Cpu, cache: str = LONG_CALLS) -> None:
        self.call, self.calls, self.first, self.cache = call, calls, first, cache
        self.threads, self.judged = device.threads, device.judged
        self.blocks: list[Block] = []
        self._before: Call | None = call if cache == HOT else None

    def evict(self) -> None:
        """Fill the caches with other data before each block from now on.

        Every block then begins alike, whoever ran before it, for less than another call of some milliseconds.
        """
        self.cache, self._before = EVICTED, torch.zeros(EVICTING_FLOATS).sum

    def sample(self) -> Mapping[str, float]:
        """One block of calls, after what the state of the caches asks for."""
        if self._before:
            self._before()
        block = run_block(self.call, self.calls)
        self.blocks.append(block)
        return {"cpu_time": block.cpu, "wall_time": block.wall}

    def finish(self) -> Mapping[str, Measurement]:
        """Nothing is measured after the rounds."""
        return {}

    def omitted(self) -> Mapping[str, str]:
        """Both clocks are always reported."""
        return {}

    def describe(self) -> Mapping[str, Scalar]:
        """How it timed. A long call finds the caches as the round's other implementations left them."""
        return {
            "timer": "CLOCK_PROCESS_CPUTIME_ID and the monotonic clock",
            "judged": self.judged,
            "threads": self.threads,
            "cache": self.cache,
            "calls_per_sample": self.calls,
            "first_warm_up_call_seconds": self.first,
        }

    def flags(self) -> tuple[str, ...]:
        """Contention shows as wall time beyond CPU time, a cold heap as page faults."""
        wall, cpu, faults = (sum(getattr(b, name) for b in self.blocks) for name in ("wall", "cpu", "faults"))
        found = []
        if wall * self.threads > CONTENDED * cpu:
            ratio = f"{wall / cpu:.2f} × CPU time" if cpu > 0 else "spent without CPU time"
            found.append(f"contended: wall time is {ratio}")
        if faults * FAULT_SECONDS > FAULT_SHARE * cpu:
            found.append(f"page faults: {faults / len(self.blocks):.0f} in each call")
        return tuple(found)
