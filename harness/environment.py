"""The environment of a run, captured once: device, host, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from harness.devices import hosts
from harness.devices.device import Device
from harness.types import Environment, Scalar

PACKAGES = ("attnbench", "torch", "triton", "xformers", "numpy", "scipy", "flash-attn")


def capture(device: Device) -> Environment:
    """Everything that a reader needs to compare two runs. What cannot be read is absent."""
    commit = _git("rev-parse", "HEAD")
    changes = _git("status", "--porcelain", "--untracked-files=no") if commit else None
    return Environment(
        device=device.info(),
        host=host(),
        packages=packages(),
        git_commit=commit,
        git_dirty=None if changes is None else bool(changes),
    )


def host() -> dict[str, Scalar]:
    """Facts of the machine."""
    facts: dict[str, Scalar] = {
        "cpu": hosts.cpu_name(),
        "cores": os.cpu_count(),
        "memory_bytes": hosts.memory_limit(),
        "memory_total_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    if governor := hosts.governor():
        facts["governor"] = governor
    return facts


def packages() -> dict[str, str]:
    """Installed versions; a package that is not installed is absent."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _git(*arguments: str) -> str | None:
    """Output of git in the checkout, or None where there is no checkout or no git."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
