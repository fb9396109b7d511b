"""From a name to a device, without a CUDA context and never silently the CPU."""

from __future__ import annotations

import pytest
import torch

from harness.devices.cpu import Cpu
from harness.devices.select import open_device, resolve
from harness.types import BenchError


def pretend(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_auto_is_the_first_gpu_or_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 2)
    assert resolve("auto") == "cuda:0"
    assert resolve("cuda") == "cuda:0"
    assert resolve("cuda:1") == "cuda:1"
    pretend(monkeypatch, 0)
    assert resolve("auto") == resolve("cpu") == "cpu"


def test_cuda_without_cuda_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 0)
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(BenchError, match=r"built without CUDA; use --device cpu"):
        open_device("cuda")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(BenchError, match="finds no device here"):
        resolve("cuda:0")
    pretend(monkeypatch, 1)
    with pytest.raises(BenchError, match="this machine has 1 CUDA device, numbered from 0"):
        resolve("cuda:1")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "CPU", "", "cuda:-1"])
def test_an_unknown_device_is_an_error(name: str) -> None:
    with pytest.raises(BenchError, match="no such device; use auto, cpu, cuda or cuda:1"):
        resolve(name)


def test_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 0)
    device = open_device("auto")
    assert isinstance(device, Cpu)
    pretend(monkeypatch, 2)
    opened: list[str] = []
    monkeypatch.setattr("harness.devices.cuda.Cuda", opened.append)
    open_device("cuda:1")
    assert opened == ["cuda:1"]
