"""Facts of the host that no library gives: the CPU's model, its governor, the limits of control groups."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import psutil

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def cpu_name() -> str:
    """The model as the kernel names it."""
    for line in _text(PROC / "cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def governor() -> str | None:
    """The frequency governor of the first core, or None where the kernel does not tell."""
    return _text(GOVERNOR).strip() or None


def memory_limit() -> int:
    """Bytes of memory this process may have: the machine's, or its control groups' if that is less."""
    return min([psutil.virtual_memory().total, *(limit for limit, _ in _cgroup_limits())])


def memory_free() -> int:
    """Bytes that this process could still get, from the machine and within its control groups."""
    groups = (limit - used for limit, used in _cgroup_limits())
    return max(0, min([psutil.virtual_memory().available, *groups]))


def _cgroup_limits() -> Iterator[tuple[int, int]]:
    """(limit, bytes in use that cannot be reclaimed) of each control group with a limit, v1 or v2."""
    for folder in _cgroup_folders():
        v2 = (folder / "memory.max").exists()
        limit = _text(folder / ("memory.max" if v2 else "memory.limit_in_bytes")).strip()
        used = _text(folder / ("memory.current" if v2 else "memory.usage_in_bytes")).strip()
        if limit.isdigit() and used.isdigit():
            cached = _stat(folder / "memory.stat", "inactive_file" if v2 else "total_inactive_file")
            yield int(limit), int(used) - cached


def _cgroup_folders() -> Iterator[Path]:
    """This process's memory control group and those above it; a container may see only its own root."""
    for line in _text(PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root = CGROUPS / "memory" if controllers else CGROUPS
        folder = root / path.lstrip("/")
        yield from (f for f in (folder, *folder.parents) if f.is_relative_to(root))


def _stat(path: Path, field: str) -> int:
    fields = dict(line.split() for line in _text(path).splitlines() if line.count(" ") == 1)
    return int(fields.get(field, 0))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
