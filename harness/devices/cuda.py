"""One CUDA device. `torch` is the module, or a fake of it: the only way to the device, with NVML."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch as real_torch

from harness.devices import statistics
from harness.devices.activity import attention_first, watch
from harness.devices.cuda_timer import CudaTimer
from harness.devices.device import Call, Sampling, Unknown
from harness.devices.nvml import Gpu
from harness.types import DeviceInfo, Measurement, Scalar
from implementations.registry import Target

SAMPLING = Sampling(min_samples=20, max_samples=2000, seconds=2.0, precision=0.005)
#: Bytes written between cold samples: twice the L2 cache, at least this.
FLUSH_BYTES = 64 * 2**20
#: The allocator's blocks and fragments need some room of their own.
USABLE_MEMORY = 0.95
#: The energy counter moves in steps of up to 0.1 s: a tenth of this.
ENERGY_SECONDS = 1.0


class Cuda:
    """The CUDA device of a name such as "cuda:0"."""

    kind = "cuda"

    def __init__(
        self,
        name: str,
        torch: Any = real_torch,
        nvml: Any = None,
        clock: Callable[[], float] = time.perf_counter,
        sampling: Sampling = SAMPLING,
    ) -> None:
        self.name, self.torch, self.clock, self.sampling = name, torch, clock, sampling
        self.index = int(name.partition(":")[2] or 0)
        torch.cuda.set_device(self.index)
        self.properties = torch.cuda.get_device_properties(self.index)
        self.gpu: Gpu | None = None
        self.no_gpu = ""
        try:
            self.gpu = Gpu(self.uuid, nvml)
        except Unknown as reason:
            self.no_gpu = str(reason)
        self._flush: Any = None

    @property
    def uuid(self) -> str:
        """As NVML spells it."""
        return f"GPU-{str(self.properties.uuid).removeprefix('GPU-')}"

    def info(self) -> DeviceInfo:
        """Name and facts; what NVML cannot tell is unknown, in words."""
        properties = self.properties
        facts: dict[str, Scalar] = {
            "uuid": self.uuid,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            "sm_count": properties.multi_processor_count,
            "cuda": self.torch.version.cuda,
            "cudnn": self.torch.backends.cudnn.version(),
            "float32_matmul_precision": self.torch.get_float32_matmul_precision(),
        }
        if self.gpu is None:
            names = ("driver", "sm_clock_max_mhz", "memory_clock_max_mhz", "power_cap_w")
            return DeviceInfo("cuda", properties.name, facts, dict.fromkeys(names, self.no_gpu))
        facts |= self.gpu.facts()
        missing = [name for name, value in facts.items() if value is None]
        told = {name: value for name, value in facts.items() if value is not None}
        return DeviceInfo("cuda", properties.name, told, dict.fromkeys(missing, "the GPU does not tell"))

    def target(self, interpreted: bool) -> Target:
        """This compute capability."""
        return Target("cuda", (self.properties.major, self.properties.minor), interpreted)

    def timer(self, call: Call) -> CudaTimer:
        """Warm up and return the timer."""
        return CudaTimer(call, self)

    def flush(self) -> None:
        """Push everything out of the L2 cache."""
        if self._flush is None:
            self._flush = self.torch.empty(self.flush_bytes, dtype=self.torch.int8, device=self.name)
        self._flush.zero_()

    @property
    def flush_bytes(self) -> int:
        """How much a flush writes."""
        return max(2 * int(self.properties.L2_cache_size), FLUSH_BYTES)

    def summarise(self, quantity: str, samples: tuple[float, ...]) -> Measurement:
        """The median."""
        return statistics.seconds(samples, self.sampling.quantile)

    def memory_available(self) -> int:
        """Free on the device, and cached by the allocator without being in use."""
        cuda = self.torch.cuda
        free, _ = cuda.mem_get_info(self.index)
        cached = cuda.memory_reserved(self.index) - cuda.memory_allocated(self.index)
        return int(USABLE_MEMORY * (free + cached))

    def peak_memory(self, call: Call) -> Mapping[str, Measurement]:
        """Peaks of PyTorch's allocator over one call; a call before it warms library workspaces.

        `peak_memory` is over what was live before the call, `peak_reserved` is everything.
        """
        cuda = self.torch.cuda
        call()
        self.release()
        cuda.reset_peak_memory_stats(self.index)
        live = cuda.memory_allocated(self.index)
        call()
        self.synchronize()
        peak = cuda.max_memory_allocated(self.index) - live
        reserved = cuda.max_memory_reserved(self.index)
        return {
            "peak_memory": Measurement(peak, "B", note="allocator peak over the live inputs"),
            "peak_reserved": Measurement(reserved, "B", note="allocator peak, live inputs included"),
        }

    def energy(self, call: Call) -> Measurement:
        """Joules of one call among many, from the GPU's own counter."""
        if self.gpu is None:
            raise Unknown(self.no_gpu)
        self.gpu.joules()
        self._seconds(call, 1)
        calls = max(1, math.ceil(ENERGY_SECONDS / max(self._seconds(call, 1), 1e-6)))
        before = self.gpu.joules()
        seconds = self._seconds(call, calls)
        joules = self.gpu.joules() - before
        if joules <= 0:
            raise Unknown(f"the energy counter did not move in {seconds:.2f} s")
        note = (
            f"{calls} calls back to back in {seconds:.2f} s, idle power included; the counter moves in steps"
        )
        return Measurement(joules / calls, "J", note=f"{note} of up to 0.1 s")

    def _seconds(self, call: Call, calls: int) -> float:
        """Wall seconds of so many calls."""
        self.synchronize()
        start = self.clock()
        for _ in range(calls):
            call()
        self.synchronize()
        return self.clock() - start

    def kernels(self, call: Call) -> tuple[str, ...]:
        """Names of the device kernels of one call; the call before it compiles what it compiles.

        Where the profiler may not look at the device, or there are only copies: the ATen operators.
        """
        profiler = self.torch.profiler
        call()
        self.synchronize()
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as session:
            call()
            self.synchronize()
        cuda = self.torch.autograd.DeviceType.CUDA
        events = sorted(session.events(), key=lambda event: float(event.time_range.start))
        names = [event.name for event in events if event.device_type == cuda]
        kernels = attention_first(name for name in names if not name.startswith(("Memcpy", "Memset")))
        return kernels or watch(call).operators

    def synchronize(self) -> None:
        """Wait for all streams."""
        self.torch.cuda.synchronize(self.index)

    def release(self) -> None:
        """Give cached blocks back to the device, the flush buffer with them."""
        self._flush = None
        self.synchronize()
        self.torch.cuda.empty_cache()
