"""The fakes answer to the names and arguments of the real modules, which need no GPU to be looked at."""

from __future__ import annotations

import inspect
from typing import Any

import pynvml
import pytest
import torch

from harness.devices import nvml
from harness.devices.device import Unknown

from . import fake_cuda as fake

#: What only the fake has: the test's side of it.
OWN = {
    "launch", "alive", "leave_for_synchronize", "now", "current", "other", "capturable", "broken",
    "capturing", "allocated", "peak", "reserved", "peak_reserved", "caches_emptied", "launched", "slow_down",
    "properties", "left_for_synchronize", "flushes", "cuda", "watts", "unsupported", "clocks", "reasons",
}  # fmt: skip


def public(thing: object) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_") and name not in OWN]


def arguments(function: Any) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None  # written in C


CUDA = fake.FakeCuda()
PAIRS = [
    *((CUDA, torch.cuda, name) for name in public(CUDA)),
    *((fake.FakeTorch(CUDA), torch, name) for name in public(fake.FakeTorch(CUDA))),
    *((fake.FakeNvml(CUDA), pynvml, name) for name in public(fake.FakeNvml(CUDA))),
]


@pytest.mark.parametrize(("pretended", "real", "name"), PAIRS, ids=[name for _, _, name in PAIRS])
def test_the_real_module_has_the_name_and_takes_the_arguments(
    pretended: object, real: object, name: str
) -> None:
    assert hasattr(real, name)
    ours, theirs = getattr(pretended, name), arguments(getattr(real, name))
    if not inspect.ismethod(ours) or theirs is None:
        return
    inspect.Signature(theirs).bind(*([None] * len(arguments(ours) or [])))


def test_what_the_device_touches_inside_them_is_there() -> None:
    assert getattr(torch.autograd, "DeviceType").CUDA  # noqa: B009 (exported, but not declared so)
    assert torch.profiler.ProfilerActivity.CUDA
    for name in ("wait_stream",):
        assert hasattr(torch.cuda.Stream, name)
    for name in ("record", "synchronize", "elapsed_time"):
        assert hasattr(torch.cuda.Event, name)
    assert hasattr(torch.cuda.CUDAGraph, "replay")


def test_the_bits_of_throttling_are_nvmls() -> None:
    names = {
        "SwPowerCap": "software power cap",
        "HwSlowdown": "hardware slowdown",
        "SwThermalSlowdown": "software thermal slowdown",
        "HwThermalSlowdown": "hardware thermal slowdown",
        "HwPowerBrakeSlowdown": "hardware power brake",
    }
    real = {getattr(pynvml, f"nvmlClocksThrottleReason{name}"): words for name, words in names.items()}
    assert real == dict(nvml.THROTTLING)


def test_without_a_driver_the_real_nvml_is_unknown_in_words() -> None:
    with pytest.raises(Unknown, match=r"NVML does not tell of GPU-0"):
        nvml.Gpu("GPU-0")
