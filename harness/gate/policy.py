"""Which differences between two environments forbid a comparison, and which begin a new epoch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from harness.types import Environment, Scalar

#: Facts of a device that must agree.
REFUSE = {
    "cuda": ("memory_bytes", "compute_capability", "mig", "sm_count"),
    "cpu": ("threads", "instruction_set"),
}
#: Facts that begin a new epoch: they may move every time by themselves.
EPOCH_FACTS = (
    "driver", "cuda", "cudnn", "sm_clock_max_mhz", "memory_clock_max_mhz", "clock_lock", "power_cap_w",
    "float32_matmul_precision", "governor",
)  # fmt: skip
EPOCH_PACKAGES = ("torch", "triton", "xformers", "flash-attn")


def refusals(before: Environment, after: Environment) -> tuple[str, ...]:
    """Why two environments cannot be compared, in words."""
    return tuple(_refusals(before, after))


def _refusals(before: Environment, after: Environment) -> Iterator[str]:
    old, new = before.device, after.device
    if old.kind != new.kind:
        yield f"the baseline was measured on {old.kind}, the candidate on {new.kind}"
        return
    if old.name != new.name:
        yield f"the baseline was measured on {old.name}, the candidate on {new.name}"
    for name in REFUSE.get(old.kind, ()):
        if old.facts.get(name) != new.facts.get(name):
            yield f"{_words(name)} differs: {old.facts.get(name)} before, {new.facts.get(name)} now"


def changes(before: Environment, after: Environment) -> tuple[str, ...]:
    """What begins a new epoch, in words."""
    old, new = _epoch_facts(before), _epoch_facts(after)
    return tuple(
        f"{_words(name)} {old.get(name)} → {new.get(name)}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )


def epoch(environment: Environment) -> str:
    """A short name of everything that begins a new epoch."""
    data = json.dumps(_epoch_facts(environment), sort_keys=True, default=str)
    return hashlib.sha256(data.encode()).hexdigest()[:12]


def _epoch_facts(environment: Environment) -> Mapping[str, Scalar]:
    facts: dict[str, Scalar] = {
        name: value for name, value in environment.device.facts.items() if name in EPOCH_FACTS
    }
    if "governor" in environment.host:
        facts["governor"] = environment.host["governor"]
    return facts | {name: v for name, v in environment.packages.items() if name in EPOCH_PACKAGES}


def _words(name: str) -> str:
    return name.replace("_", " ")
