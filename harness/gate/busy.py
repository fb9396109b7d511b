"""Is the machine too busy to measure? What others do to the CPU, and who else is on the GPU."""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.gate.findings import NOT_COMPARABLE
from harness.types import BenchError

PRESSURE = Path("/proc/pressure/cpu")
#: Share of the last ten seconds in which some task waited for a CPU: said from the first on. With more than
#: so many tasks for each CPU nothing is begun.
SAID, TASKS_PER_CPU = 25.0, 8.0


class Busy(BenchError):
    """The machine is busy beyond measuring."""

    exit_code = NOT_COMPARABLE


def refuse_if_busy(device: str, allow: bool) -> tuple[str, ...]:
    """What a reader must know of the load, in words. Raises Busy where measuring is hopeless.

    Times of a CPU are CPU time, which others inflate but do not own: they are refused only when more than
    eight tasks for each CPU want to run. Times of a GPU are refused when anyone else computes on it.
    """
    kind, _, index = device.partition(":")
    words, hopeless = _cpu() if kind == "cpu" else _gpu(int(index or 0))
    if hopeless and not allow:
        raise Busy(f"{'; '.join(words)}; wait, or measure all the same with --allow-busy")
    return words


def _cpu() -> tuple[tuple[str, ...], bool]:
    pressure = stalled(PRESSURE)
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    words = []
    if pressure is not None and pressure > SAID:
        words.append(f"others use the CPU: tasks waited in {pressure:.0f} % of the last 10 s")
    if load > TASKS_PER_CPU * cpus:
        words.append(f"the machine is busy beyond measuring: {load:.0f} tasks on {cpus} CPUs")
    return tuple(words), load > TASKS_PER_CPU * cpus


def stalled(path: Path) -> float | None:
    """Percent of the last 10 s in which some task waited for a CPU; None where the kernel does not tell."""
    try:
        found = re.search(r"some avg10=([0-9.]+)", path.read_text("utf-8"))
    except OSError:
        return None
    return float(found[1]) if found else None


def _gpu(index: int) -> tuple[tuple[str, ...], bool]:
    """Processes of others on the GPU, as far as NVML tells."""
    try:
        import pynvml
    except ImportError:
        return ("nvidia-ml-py is not installed: who else uses the GPU is unknown",), False
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        others = [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle) if p.pid != os.getpid()]
    except pynvml.NVMLError as error:
        return (f"NVML does not tell who else uses the GPU: {error}",), False
    if not others:
        return (), False
    return (f"other processes compute on the GPU: {', '.join(map(str, others))}",), True
