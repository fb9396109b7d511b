"""From the name a user gives to a device."""

from __future__ import annotations

import re

import torch

from harness.devices.device import Device
from harness.types import BenchError


def resolve(name: str) -> str:
    """ "auto" → "cuda:0" or "cpu"; "cuda" → "cuda:0". Creates no CUDA context.

    Raises BenchError for an unknown device, and for CUDA where there is none: never silently the CPU.
    """
    match = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", name)
    if match is None:
        raise BenchError(f"--device {name}: no such device; use auto, cpu, cuda or cuda:1")
    if name == "cpu":
        return "cpu"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return "cuda:0" if count else "cpu"
    index = int(match[1] or 0)
    if index >= count:
        raise BenchError(f"--device {name}: {_why_not(count)}; use --device cpu to measure the CPU")
    return f"cuda:{index}"


def _why_not(count: int) -> str:
    if count:
        return f"this machine has {count} CUDA device{'s' if count > 1 else ''}, numbered from 0"
    if torch.version.cuda is None:
        return f"the installed PyTorch {torch.__version__} is built without CUDA"
    return "CUDA finds no device here"


def open_device(name: str, threads: int = 1) -> Device:
    """The device of that name (see `resolve`), on so many CPU threads where it is the CPU."""
    resolved = resolve(name)
    if resolved == "cpu":
        from harness.devices.cpu import Cpu

        return Cpu(threads)
    from harness.devices.cuda import Cuda

    return Cuda(resolved)
