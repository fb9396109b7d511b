"""Times one call on a CUDA device by events: cold, one call after an L2 flush; hot, many in a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.devices import nvml, statistics
from harness.devices.device import Call
from harness.types import Measurement, Scalar

if TYPE_CHECKING:
    from harness.devices.cuda import Cuda

#: Warm-up ends when the medians of the last and the previous `WINDOW` calls differ by less than `SETTLED`.
WINDOW, SETTLED, WARM_UP_SECONDS = 10, 0.01, 0.5
#: Below this, events and launches show in a cold time.
SHORT_SECONDS = 20e-6
#: Work that ends later than this after the call's own stream ran on another stream.
LATE_SECONDS = 100e-6
#: The host is the bottleneck when it takes this share of the time to submit the call.
OVERHEAD_BOUND = 0.8
#: Hot: a graph holds calls for about `GRAPH_SECONDS`, a block lasts about `BLOCK_SECONDS`.
GRAPH_SECONDS, MOST_CALLS, BLOCK_SECONDS = 200e-6, 50, 2e-3
BLOCKS, FEWEST_BLOCKS, HOT_SECONDS = 20, 3, 0.5
#: A block this long hides its own launch; a shorter one is launched while another run keeps the GPU busy.
LONG_SECONDS = 20e-3
HEALTH_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _Span:
    """What a stretch of work took, in seconds: the device; the host, to submit it; what ended late, after
    the current stream was done."""

    device: float
    submit: float
    late: float


class CudaTimer:
    """A warmed call with its events."""

    judged = "gpu_time_cold"

    def __init__(self, call: Call, device: Cuda) -> None:
        self.call, self.device = call, device
        self.cuda: Any = device.torch.cuda
        self.start, self.end = (self.cuda.Event(enable_timing=True) for _ in range(2))
        self.cold: list[_Span] = []
        self.readings: list[nvml.Reading] = []
        self.looked = -math.inf
        self.hot_how = ""
        self.in_graph = self.by_wall = False
        self.first = self._wall_of_first_call()
        self._warm_up()

    def _wall_of_first_call(self) -> float:
        """Whatever still has to be compiled or autotuned is, here."""
        clock = self.device.clock
        self.device.synchronize()
        start = clock()
        self.call()
        self.device.synchronize()
        return clock() - start

    def _warm_up(self) -> None:
        """Call until times settle; what is learnt on the way is who is late, and not the GPU waking up."""
        began = self.device.clock()
        spans: list[_Span] = []
        while self.device.clock() - began < WARM_UP_SECONDS and not _settled([s.device for s in spans]):
            spans.append(self._span(self.call))
        self.by_wall = _median(span.late for span in spans) > LATE_SECONDS
        self.readings.clear()
        self.looked = -math.inf

    def _span(self, work: Callable[[], object]) -> _Span:
        """Time some work.

        The events see the current stream alone. What still runs when that stream is done was started on
        another one: then the host's clock decides, from launch to idle, which no work can escape.
        """
        clock = self.device.clock
        if self.by_wall:
            self.device.synchronize()  # the flush is not the call's
        self.start.record()
        before = clock()
        work()
        submit = clock() - before
        self.end.record()
        self._look()
        self.end.synchronize()
        done = clock()
        self.device.synchronize()
        idle = clock()
        by_wall = self.by_wall or idle - done > LATE_SECONDS
        seconds = idle - before if by_wall else float(self.start.elapsed_time(self.end)) / 1e3
        return _Span(seconds, submit, idle - done)

    def _look(self) -> None:
        """Read the GPU's health now and then, while the call runs."""
        if self.device.gpu is not None and (now := self.device.clock()) - self.looked > HEALTH_SECONDS:
            self.looked = now
            self.readings.append(self.device.gpu.read())

    def sample(self) -> Mapping[str, float]:
        """One call after a flush of the L2 cache, which is not timed."""
        self.device.flush()
        self.cold.append(self._span(self.call))
        return {"gpu_time_cold": self.cold[-1].device}

    def finish(self) -> Mapping[str, Measurement]:
        """The hot time: replays of a CUDA graph, or calls back to back where it cannot be captured."""
        cold = max(self._cold, 1e-7)
        calls = min(MOST_CALLS, math.ceil(GRAPH_SECONDS / cold))
        run = self._captured(calls)
        times: list[float] = []
        began = self.device.clock()
        while len(times) < BLOCKS and (
            len(times) < FEWEST_BLOCKS or self.device.clock() - began < HOT_SECONDS
        ):
            times.append(self._block(run, math.ceil(BLOCK_SECONDS / (cold * calls))) / calls)
        found = statistics.seconds(tuple(times), 0.5)
        return {"gpu_time_hot": replace(found, note=f"{self.hot_how}; {found.note}")}

    def _captured(self, calls: int) -> Callable[[], object]:
        """Replays `calls` calls from a graph, or makes them one by one; `hot_how` says which and why."""
        if self.by_wall:  # capture would miss that work, and a replay leave it out
            self.hot_how = "calls back to back, by the wall; no CUDA graph: work on other streams"
            return lambda: self._call_often(calls)
        cuda = self.cuda
        try:
            side = cuda.Stream()
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                self.call()
            cuda.current_stream().wait_stream(side)
            graph = cuda.CUDAGraph()
            # A capture that fails leaves its own stream current: the outer context ends that.
            with cuda.stream(cuda.current_stream()), cuda.graph(graph):
                self._call_often(calls)
        except Exception as error:  # what capture forbids raises errors of many types
            self.device.synchronize()  # raises when the device itself is broken
            why = str(error).strip().partition("\n")[0]
            self.hot_how = f"calls back to back; no CUDA graph: {why or type(error).__name__}"
            return lambda: self._call_often(calls)
        self.in_graph = True
        self.hot_how = f"CUDA graph of {calls} calls"
        replay: Callable[[], object] = graph.replay
        return replay

    def _call_often(self, calls: int) -> None:
        for _ in range(calls):
            self.call()

    def _block(self, run: Callable[[], object], times: int) -> float:
        """Device seconds of one run among many in a row."""

        def runs() -> None:
            for _ in range(times):
                run()

        if self._cold < LONG_SECONDS:
            run()
        return self._span(runs).device / times

    @property
    def _cold(self) -> float:
        return _median(span.device for span in self.cold)

    @property
    def _short(self) -> bool:
        return self._cold < SHORT_SECONDS

    def omitted(self) -> Mapping[str, str]:
        """A short cold time is not reported without a hot one from a graph, which has no launches in it."""
        if not self._short or self.in_graph:
            return {}
        return {"gpu_time_cold": "under 20 µs events and launches show in it, and no CUDA graph confirms it"}

    def describe(self) -> Mapping[str, Scalar]:
        """How it timed, and the GPU's state meanwhile."""
        facts: dict[str, Scalar] = {
            "timer": "CUDA events",
            "judged": "gpu_time_hot" if self.omitted() else self.judged,
            "cache": f"cold: {self.device.flush_bytes} bytes written before each call; hot: {self.hot_how}",
            "calls_per_sample": 1,
            "first_warm_up_call_seconds": self.first,
            "submit_seconds": _median(span.submit for span in self.cold),
        }
        return facts | (nvml.summary(self.readings) if self.device.gpu else {"health": self.device.no_gpu})

    def flags(self) -> tuple[str, ...]:
        """Host-bound and short calls, other streams, and the GPU's health."""
        cold, submit, late = (
            _median(getattr(span, name) for span in self.cold) for name in ("device", "submit", "late")
        )
        found = []
        if submit > OVERHEAD_BOUND * cold:
            found.append(f"overhead-bound: submitting takes {submit:.2g} s, running {cold:.2g} s")
        if self._short:
            found.append("short: under 20 µs, where events and launches show in the cold time")
        if late > LATE_SECONDS:
            found.append(
                f"other streams: {late:.2g} s of work ended after the current stream; timed by the wall"
            )
        return (*found, *nvml.doubts(self.readings))


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def _settled(times: list[float]) -> bool:
    """Whether the last two windows of calls agree."""
    if len(times) < 2 * WINDOW:
        return False
    last, previous = _median(times[-WINDOW:]), _median(times[-2 * WINDOW : -WINDOW])
    return abs(last - previous) <= SETTLED * previous
