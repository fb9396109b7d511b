"""The CUDA device against a fake CUDA with a clock of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.devices.cuda import Cuda
from harness.devices.device import Unknown
from harness.devices.nvml import Reading, doubts

from . import fake_cuda as fake


def make(
    cuda: Any = None, nvml: Any = None, name: str = "cuda:0", unsupported: tuple[str, ...] = ()
) -> tuple[Cuda, Any, Any]:
    cuda = cuda or fake.FakeCuda()
    nvml = nvml or fake.FakeNvml(cuda, unsupported=unsupported)
    return Cuda(name, torch=fake.FakeTorch(cuda), nvml=nvml, clock=lambda: float(cuda.now)), cuda, nvml


def test_info_tells_the_gpu_and_what_is_unknown() -> None:
    device, cuda, _ = make(name="cuda:1")
    info = device.info()
    assert (info.kind, info.name, cuda.index) == ("cuda", "Fake H200", 1)
    assert info.facts["uuid"] == "GPU-0123-abcd"
    assert info.facts["compute_capability"] == "9.0"
    assert info.facts["driver"] == "580.1"
    assert info.facts["power_cap_w"] == 700
    assert info.facts["sm_clock_max_mhz"] == 1980
    assert info.facts["memory_clock_max_mhz"] == 3201
    assert info.facts["sm_count"] == 132
    assert info.facts["float32_matmul_precision"] == "highest"
    assert info.facts["l2_bytes"] == 50 * 2**20
    assert dict(info.unknown) == {"cudnn": "the GPU does not tell"}


def test_unsupported_questions_are_unknown_not_zero() -> None:
    device, _, _ = make(unsupported=("cap", "power", "clock", "temperature", "reasons"))
    assert "power_cap_w" in device.info().unknown
    assert device.gpu is not None
    assert device.gpu.read() == Reading(None, None, None, ())


def test_without_nvml_the_reason_is_kept_in_words() -> None:
    device, cuda, _ = make(unsupported=("handle",))
    assert device.gpu is None
    assert "Not Found" in device.info().unknown["driver"]
    timer = device.timer(lambda: cuda.launch(1e-3))
    timer.sample()
    timer.finish()
    assert "Not Found" in str(timer.describe()["health"])
    with pytest.raises(Unknown, match="Not Found"):
        device.energy(lambda: None)


def test_a_driver_without_a_version_is_unknown() -> None:
    assert "driver" in make(unsupported=("driver",))[0].info().unknown


def test_a_missing_nvml_package_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    device = Cuda("cuda:0", torch=fake.FakeTorch(fake.FakeCuda()))
    assert device.no_gpu == "nvidia-ml-py is not installed"


def test_the_target_carries_the_capability() -> None:
    target = make()[0].target(interpreted=False)
    assert (target.device, target.capability, target.interpreted) == ("cuda", (9, 0), False)


def test_cold_times_exclude_the_flush() -> None:
    device, cuda, _ = make()
    timer = device.timer(lambda: cuda.launch(1e-3))
    flushes = device.torch.flushes
    assert flushes == []
    for _ in range(20):
        assert timer.sample()["gpu_time_cold"] == pytest.approx(1e-3)
    assert flushes == [100 * 2**20] * 20
    assert timer.omitted() == {}
    assert timer.describe()["judged"] == "gpu_time_cold"
    assert timer.flags() == ()


def test_a_small_cache_is_flushed_with_at_least_64_mib() -> None:
    device, cuda, _ = make()
    cuda.properties.L2_cache_size = 2**20
    assert device.flush_bytes == 64 * 2**20


LATE: dict[str, Callable[[Any], None]] = {
    "on its own stream": lambda cuda: cuda.launch(20e-3),
    "on another stream": lambda cuda: cuda.launch(20e-3, cuda.other),
    "inside synchronize": lambda cuda: cuda.leave_for_synchronize(20e-3),
}


@pytest.mark.parametrize("where", LATE)
def test_a_call_that_returns_at_once_and_ends_20_ms_later_reads_20_ms(where: str) -> None:
    device, cuda, _ = make()
    timer = device.timer(lambda: LATE[where](cuda))
    assert timer.sample()["gpu_time_cold"] >= 20e-3
    assert timer.finish()["gpu_time_hot"].value >= 20e-3
    assert any(flag.startswith("other streams") for flag in timer.flags()) is (where != "on its own stream")


@pytest.mark.parametrize("capturable", [True, False])
def test_work_on_other_streams_does_not_escape_the_hot_time(capturable: bool) -> None:
    device, cuda, _ = make(fake.FakeCuda(capturable))
    timer = device.timer(lambda: cuda.launch(20e-3, cuda.other))
    timer.sample()
    hot = timer.finish()["gpu_time_hot"]
    assert hot.value >= 20e-3, "a graph would replay nothing at all"
    assert "work on other streams" in hot.note


def test_work_on_other_streams_is_timed_without_the_flush() -> None:
    device, cuda, _ = make()
    timer = device.timer(lambda: cuda.launch(1e-3, cuda.other))
    assert 1e-3 <= timer.sample()["gpu_time_cold"] < 1.01e-3


def test_a_late_end_after_a_calm_warm_up_is_timed_too() -> None:
    device, cuda, _ = make()
    streams = [cuda.current]
    timer = device.timer(lambda: cuda.launch(20e-3, streams[-1]))
    streams.append(cuda.other)
    assert timer.sample()["gpu_time_cold"] >= 20e-3


def test_the_hot_time_replays_a_graph() -> None:
    device, cuda, _ = make()
    timer = device.timer(lambda: cuda.launch(10e-6))
    for _ in range(20):
        timer.sample()
    hot = timer.finish()["gpu_time_hot"]
    assert hot.value == pytest.approx(10e-6)
    assert "CUDA graph of 20 calls" in hot.note
    assert len(hot.samples) == 20
    assert timer.omitted() == {}
    assert any(flag.startswith("short") for flag in timer.flags())


def test_what_cannot_be_captured_is_timed_back_to_back_and_says_why() -> None:
    device, cuda, _ = make(fake.FakeCuda(capturable=False))
    before = cuda.current
    timer = device.timer(lambda: cuda.launch(1e-3))
    timer.sample()
    hot = timer.finish()["gpu_time_hot"]
    assert hot.value == pytest.approx(1e-3)
    assert "no CUDA graph: operation not permitted when stream is capturing;" in hot.note
    assert cuda.current is before, "PyTorch leaves the capture's own stream behind"
    assert timer.omitted() == {}


def test_a_short_cold_time_alone_is_not_reported() -> None:
    device, cuda, _ = make(fake.FakeCuda(capturable=False))
    timer = device.timer(lambda: cuda.launch(10e-6))
    timer.sample()
    timer.finish()
    assert "20 µs" in timer.omitted()["gpu_time_cold"]
    assert timer.describe()["judged"] == "gpu_time_hot"


def test_a_device_broken_by_capture_is_not_hidden() -> None:
    device, cuda, _ = make(fake.FakeCuda(capturable=False))
    timer = device.timer(lambda: cuda.launch(1e-3))
    timer.sample()
    cuda.broken = True
    with pytest.raises(RuntimeError, match="illegal memory access"):
        timer.finish()


def test_long_calls_take_few_hot_blocks() -> None:
    device, cuda, _ = make()
    timer = device.timer(lambda: cuda.launch(0.4))
    timer.sample()
    before = cuda.now
    assert len(timer.finish()["gpu_time_hot"].samples) == 3
    assert cuda.now - before < 4.1 * 0.4, "one call for the graph, one a block"


def test_a_call_that_the_host_cannot_feed_is_flagged() -> None:
    device, cuda, _ = make()

    def call() -> None:
        for _ in range(20):
            cuda.launch(1e-6)

    timer = device.timer(call)
    timer.sample()
    assert any(flag.startswith("overhead-bound") for flag in timer.flags())


def test_warm_up_waits_until_times_settle() -> None:
    device, cuda, _ = make()
    calls: list[float] = []

    def call() -> None:
        cuda.launch(1e-3 if len(calls) >= 30 else 2e-3)
        calls.append(cuda.now)

    timer = device.timer(call)
    assert 20 <= len(calls) - 1 <= 60
    assert timer.first == pytest.approx(2e-3, rel=0.01)


def test_warm_up_stops_after_half_a_second() -> None:
    device, cuda, _ = make()
    speed = iter(range(1, 10_000))
    device.timer(lambda: cuda.launch(1e-3 * next(speed)))
    assert 0.5 <= cuda.now < 0.6


def test_throttling_and_moving_clocks_are_flagged() -> None:
    device, cuda, nvml = make()
    timer = device.timer(lambda: cuda.launch(30e-3))
    clocks = iter([1980.0, 1500.0, 1400.0] + [1300.0] * 1000)
    nvml.clocks = lambda: next(clocks)
    nvml.reasons = 0x1 | 0x4 | 0x40
    for _ in range(8):
        timer.sample()
    throttled, moved = timer.flags()
    assert "software power cap, hardware thermal slowdown" in throttled
    assert "1300 to 1980 MHz" in moved
    facts = timer.describe()
    assert (facts["sm_clock_mhz_max"], facts["power_w_max"], facts["temperature_c_max"]) == (1980, 500, 50)


def test_a_gpu_that_wakes_up_during_warm_up_is_not_flagged() -> None:
    device, cuda, nvml = make()
    nvml.clocks = lambda: 345.0
    timer = device.timer(lambda: cuda.launch(1e-3))
    nvml.clocks = lambda: 1980.0
    timer.sample()
    assert timer.flags() == ()
    assert timer.describe()["sm_clock_mhz_max"] == 1980


def test_an_idle_gpu_is_not_throttled() -> None:
    assert doubts([Reading(1980.0, 500.0, 50.0, ())] * 3) == ()


def test_peak_memory_is_over_the_live_inputs() -> None:
    device, cuda, _ = make()

    def call() -> None:
        with cuda.alive(5000):
            pass

    found = device.peak_memory(call)
    assert found["peak_memory"].value == 5000
    assert found["peak_reserved"].value == 6000
    assert device.peak_memory(call)["peak_memory"].value == 5000, "reset for each case"


def test_out_of_memory_passes_through() -> None:
    device, cuda, _ = make()

    def call() -> None:
        with cuda.alive(2**30):
            pass

    with pytest.raises(fake.OutOfMemoryError):
        device.peak_memory(call)


def test_available_memory_counts_what_the_allocator_caches() -> None:
    assert make()[0].memory_available() == int(0.95 * (10_000 + 4096 - 1000))


def test_energy_is_the_counters_difference_per_call() -> None:
    device, cuda, _ = make()
    found = device.energy(lambda: cuda.launch(1e-3))
    assert found.value == pytest.approx(0.5, rel=0.01)
    assert (found.unit, found.better) == ("J", "lower")
    assert cuda.now > 1.0


def test_energy_without_a_counter_is_unknown() -> None:
    device, cuda, _ = make(unsupported=("energy",))
    with pytest.raises(Unknown, match="Not Supported"):
        device.energy(lambda: cuda.launch(1e-3))


def test_an_energy_counter_that_stands_still_is_unknown_and_never_0() -> None:
    device, cuda, nvml = make()
    nvml.watts = 0.0
    with pytest.raises(Unknown, match="did not move"):
        device.energy(lambda: cuda.launch(1e-3))


def test_kernels_are_those_of_the_device_attention_first() -> None:
    device, cuda, _ = make()

    def call() -> None:
        for name in ("elementwise", "Memcpy DtoD", "flash_fwd_kernel", "elementwise", "Memset"):
            cuda.launch(1e-6, name=name)

    assert device.kernels(call) == ("flash_fwd_kernel", "elementwise")


def test_operators_stand_in_for_kernels_where_the_profiler_sees_no_device() -> None:
    device, _, _ = make()
    x = torch.ones(4)
    assert device.kernels(lambda: x + x) == ("aten::add",)


def test_release_empties_the_cache_and_drops_the_flush_buffer() -> None:
    device, cuda, _ = make()
    device.flush()
    assert device._flush is not None
    device.release()
    assert device._flush is None
    assert cuda.caches_emptied == 1


def test_the_median_is_stored() -> None:
    found = make()[0].summarise("gpu_time_cold", tuple(float(x) for x in range(1, 22)))
    assert found.value == 11
    assert found.note.startswith("median of 21 samples")
