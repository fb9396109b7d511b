"""Facts of the host that no library gives: the CPU's model and the memory limit of the control group."""

from __future__ import annotations

import platform
from pathlib import Path

import psutil

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def cpu_name() -> str:
    """The model as the kernel names it."""
    for line in _text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory_limit() -> int:
    """Bytes of memory this process may have: the machine's, or its control group's if that is less."""
    limits = [int(text) for path in _CGROUP_LIMITS if (text := _text(path).strip()).isdigit()]
    return min([psutil.virtual_memory().total, *limits])


def governor() -> str | None:
    """The frequency governor of the first core, or None where the kernel does not tell."""
    return _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        return ""
