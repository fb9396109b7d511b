"""What one call does on the CPU, as PyTorch's profiler sees it: operators and allocations.

A TorchDispatchMode would see the operators too, but under one torch.compile'd code falls back to eager code
and stays broken afterwards; and it cannot see the workspace that a kernel allocates for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch.profiler import ProfilerActivity, profile

#: Operators that only describe or hold memory, wrap others, or are bookkeeping of the profiler.
_PLUMBING = re.compile(
    r"(as_strided|view|_?reshape|_?unsafe_view|_reshape_alias|expand|transpose|permute|m?T|t|detach|alias|slice"
    r"|select|narrow|split|chunk|squeeze|unsqueeze|unflatten|flatten|unbind|empty\w*|resolve_\w+|to|resize_|set_"
    r"|result_type|promote_types|can_cast|item|is_nonzero|lift_fresh|contiguous|zeros(_like)?|ones(_like)?)$"
)
_COMPILED = "Torch-Compiled Region"
_ATTENTION = re.compile(r"attention|flash|flex|fmha|mha", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Activity:
    """operators   those that computed, attention first, then in order, once each, e.g. ("aten::bmm", …)
    peak_bytes  the most that the call held at once of what it allocated through PyTorch's CPU allocator"""

    operators: tuple[str, ...]
    peak_bytes: int


def watch(call: Callable[[], object]) -> Activity:
    """Run a call once under the profiler."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as session:
        result = call()
    events = sorted(session.profiler.kineto_results.events(), key=lambda event: int(event.start_ns()))
    del result
    held = peak = 0
    names: list[str] = []
    for event in events:
        if event.name() == "[memory]":
            held += int(event.nbytes())
            peak = max(peak, held)
        else:
            names.append(event.name())
    return Activity(attention_first(filter(None, map(_operator, names))), peak)


def attention_first(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once: those of attention, then the others, as they ran."""
    return tuple(sorted(dict.fromkeys(names), key=lambda name: not _ATTENTION.search(name)))


def _operator(event: str) -> str | None:
    """The name of an operator that computes, or None."""
    if event.startswith(_COMPILED):
        return "torch.compile"
    namespace, found, name = event.partition("::")
    if not found or namespace == "autograd" or not namespace.isidentifier() or _PLUMBING.match(name):
        return None
    return event
