"""The environment of a run, captured once: device, host, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from harness.devices import hosts
from harness.devices.device import Device
from harness.types import Environment, Scalar

PACKAGES = (
    "attnbench", "torch", "triton", "xformers", "numpy", "scipy", "flash-attn", "nvidia-ml-py",
)  # fmt: skip
CHECKOUT = Path(__file__).parent


def capture(device: Device) -> Environment:
    """Everything that a reader needs to compare two runs.

    What cannot be read is absent, with the reason in words in the device's `unknown`.
    """
    told, unknown = host()
    commit, dirty = _commit()
    if commit is None:
        unknown["git_commit"] = "the code is not a git checkout, or there is no git"
    info = device.info()
    return Environment(
        device=replace(info, unknown={**info.unknown, **unknown}),
        host=told,
        packages=packages(),
        git_commit=commit,
        git_dirty=dirty,
    )


def host() -> tuple[dict[str, Scalar], dict[str, str]]:
    """(facts of the machine, what it does not tell and why)."""
    facts: dict[str, Scalar] = {
        "cpu": hosts.cpu_name(),
        "cores": psutil.cpu_count(logical=False),
        "hardware_threads": os.cpu_count(),
        "usable_threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "governor": hosts.governor(),
        "memory_bytes": hosts.memory_limit(),
        "memory_total_bytes": psutil.virtual_memory().total,
        "load_1min": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release()}",
        "distribution": _distribution(),
        "libc": " ".join(platform.libc_ver()) or None,
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    told: dict[str, Scalar] = {name: value for name, value in facts.items() if value is not None}
    return told, {name: "the system does not tell" for name in facts if name not in told}


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def packages(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Installed versions; a package that is not installed is absent."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit(checkout: Path = CHECKOUT) -> tuple[str | None, bool | None]:
    """(commit, whether tracked files differ from it), or Nones where there is no checkout or no git."""
    commit = _git(checkout, "rev-parse", "HEAD")
    changes = _git(checkout, "status", "--porcelain", "--untracked-files=no") if commit else None
    return commit, None if changes is None else bool(changes)


def _git(checkout: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
