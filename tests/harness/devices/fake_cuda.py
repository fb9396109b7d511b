"""A CUDA that runs on a clock of its own: streams, events, the allocator, the profiler and NVML.

A call does `cuda.launch(seconds)`: the host goes on at once, the stream is busy for that long. Only
`synchronize` lets the host's clock catch up, as on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

SUBMIT = 2e-6


class OutOfMemoryError(RuntimeError):
    pass


class FakeStream:
    def __init__(self) -> None:
        self.free_at = 0.0

    def wait_stream(self, other: FakeStream) -> None:
        self.free_at = max(self.free_at, other.free_at)


class FakeEvent:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.at = cuda, 0.0

    def record(self) -> None:
        self.at = max(self.cuda.now, self.cuda.current.free_at)

    def synchronize(self) -> None:
        self.cuda.now = max(self.cuda.now, self.at)

    def elapsed_time(self, end: FakeEvent) -> float:
        return (end.at - self.at) * 1e3


class Graph:
    def __init__(self) -> None:
        self.launches: list[float] = []


class FakeCuda:
    """Stands for the module torch.cuda."""

    OutOfMemoryError = OutOfMemoryError

    def __init__(self, capturable: bool = True, broken: bool = False) -> None:
        self.now = 0.0
        self.current, self.other = FakeStream(), FakeStream()
        self.capturable, self.broken = capturable, broken
        self.capturing: Graph | None = None
        self.allocated, self.peak = 1000, 0
        self.reserved, self.peak_reserved = 4096, 0
        self.caches_emptied = 0
        self.left_for_synchronize = 0.0
        self.launched: list[str] = []
        self.slow_down = 1.0
        self.properties = SimpleNamespace(
            name="Fake H200", uuid="0123-abcd", major=9, minor=0, total_memory=2**37,
            L2_cache_size=50 * 2**20, multi_processor_count=132,
        )  # fmt: skip

    def launch(self, seconds: float, stream: FakeStream | None = None, name: str = "kernel") -> None:
        """What a kernel launch does."""
        self.now += SUBMIT
        self.launched.append(name)
        seconds *= self.slow_down
        if self.capturing is not None and stream in (None, self.current):
            if not self.capturable:
                raise RuntimeError("operation not permitted when stream is capturing\nmore words")
            self.capturing.launches.append(seconds)
            return
        stream = stream or self.current
        stream.free_at = max(self.now, stream.free_at) + seconds

    def leave_for_synchronize(self, seconds: float) -> None:
        """Work that no stream shows and that only `synchronize` does."""
        self.left_for_synchronize += seconds

    @contextmanager
    def alive(self, size: int) -> Iterator[None]:
        """Memory held during a call. Raises OutOfMemoryError over 1 MB."""
        if size > 2**20:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate much")
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        self.reserved = max(self.reserved, self.allocated)
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        yield
        self.allocated -= size

    def set_device(self, index: int) -> None:
        self.index = index

    def get_device_properties(self, index: int) -> Any:
        return self.properties

    def Event(self, enable_timing: bool) -> FakeEvent:  # noqa: N802
        assert enable_timing
        return FakeEvent(self)

    def Stream(self) -> FakeStream:  # noqa: N802
        return FakeStream()

    def current_stream(self) -> FakeStream:
        return self.current

    @contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def CUDAGraph(self) -> Any:  # noqa: N802
        graph = Graph()

        def replay() -> None:
            self.now += SUBMIT
            self.current.free_at = max(self.now, self.current.free_at) + sum(graph.launches)

        return SimpleNamespace(graph=graph, replay=replay)

    @contextmanager
    def graph(self, graph: Any) -> Iterator[None]:
        """As in PyTorch, a capture that fails leaves its stream current. Work on other streams escapes it."""
        before, self.current = self.current, FakeStream()
        self.capturing = graph.graph
        try:
            yield
        finally:
            self.capturing = None
        self.current = before

    def synchronize(self, index: int) -> None:
        if self.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        self.now = max(self.now, self.current.free_at, self.other.free_at) + self.left_for_synchronize
        self.left_for_synchronize = 0.0

    def mem_get_info(self, index: int) -> tuple[int, int]:
        return 10_000, 2**37

    def memory_allocated(self, index: int) -> int:
        return self.allocated

    def memory_reserved(self, index: int) -> int:
        return self.reserved

    def max_memory_allocated(self, index: int) -> int:
        return self.peak

    def max_memory_reserved(self, index: int) -> int:
        return self.peak_reserved

    def reset_peak_memory_stats(self, index: int) -> None:
        self.peak, self.peak_reserved = self.allocated, self.reserved

    def empty_cache(self) -> None:
        self.caches_emptied += 1
        self.reserved = self.allocated


class FakeTorch:
    """Stands for the module torch."""

    int8 = "int8"
    version = SimpleNamespace(cuda="13.0")
    autograd = SimpleNamespace(DeviceType=SimpleNamespace(CUDA="cuda", CPU="cpu"))

    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda
        self.backends = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: None))
        self.profiler = SimpleNamespace(
            profile=self._profile, ProfilerActivity=SimpleNamespace(CUDA="cuda", CPU="cpu")
        )
        self.flushes: list[int] = []
        self.get_float32_matmul_precision = lambda: "highest"

    def empty(self, size: int, dtype: str, device: str) -> Any:
        """The flush buffer; writing it takes a while, on the stream."""

        def zero() -> None:
            self.flushes.append(size)
            self.cuda.launch(50e-6, name="fill")

        return SimpleNamespace(zero_=zero)

    @contextmanager
    def _profile(self, activities: list[str]) -> Iterator[Any]:
        assert activities == ["cuda"]
        self.cuda.launched.clear()
        session = SimpleNamespace(events=lambda: events)
        events: list[Any] = [
            SimpleNamespace(name="host", device_type="cpu", time_range=SimpleNamespace(start=0))
        ]
        yield session
        for at, name in enumerate(self.cuda.launched):
            when = SimpleNamespace(start=at)
            events.insert(0, SimpleNamespace(name=name, device_type="cuda", time_range=when))


class NVMLError(Exception):
    pass


class FakeNvml:
    """Stands for the module pynvml. `unsupported` names questions that this GPU does not answer."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, cuda: FakeCuda, watts: float = 500.0, unsupported: tuple[str, ...] = ()) -> None:
        self.cuda, self.watts, self.unsupported = cuda, watts, unsupported
        self.clocks: Callable[[], float] = lambda: 1980.0
        self.reasons = 0x1

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if "handle" in self.unsupported:
            raise NVMLError("Not Found")
        return uuid

    def nvmlSystemGetDriverVersion(self) -> Any:  # noqa: N802
        return self._answer("driver", b"580.1")

    def _answer(self, name: str, value: Any) -> Any:
        if name in self.unsupported:
            raise NVMLError("Not Supported")
        return value

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> Any:  # noqa: N802
        return self._answer("clock", self.clocks())

    def nvmlDeviceGetMaxClockInfo(self, handle: str, kind: int) -> Any:  # noqa: N802
        return self._answer("max_clock", {1: 1980, 2: 3201}[kind])

    def nvmlDeviceGetPowerUsage(self, handle: str) -> Any:  # noqa: N802
        return self._answer("power", self.watts * 1e3)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> Any:  # noqa: N802
        return self._answer("cap", 700_000)

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> Any:  # noqa: N802
        return self._answer("temperature", 50)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> Any:  # noqa: N802
        return self._answer("reasons", self.reasons)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> Any:  # noqa: N802
        return self._answer("energy", self.watts * self.cuda.now * 1e3)
