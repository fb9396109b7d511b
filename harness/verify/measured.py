"""Timing over a sweep, shortly: CPU time on one thread, all sizes in turns, and the law that fits."""

from __future__ import annotations

import ctypes
import math
import platform
import random
from collections.abc import Callable, Mapping

import torch

from harness.complexity import Fit, infer
from harness.devices.cpu import Cpu
from harness.verify.claim import Curve, Figure

Call = Callable[[], object]
#: Rounds over all sizes: enough for a quartile with an error, and short.
ROUNDS = 14
#: glibc's mallopt: the free top that is given back, and how many blocks may be mapped.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def sweep(calls: Mapping[int, Call]) -> Fit:
    """How the CPU time of calls grows with their size; each round visits all sizes in another order."""
    device = Cpu(threads=1)
    _keep_freed_pages()
    with torch.inference_mode():
        timers = {size: device.timer(call) for size, call in calls.items()}
        order = list(timers)
        for turn in range(ROUNDS):
            random.Random(turn).shuffle(order)
            for size in order:
                timers[size].sample()
    device.release()
    samples = [[block.cpu for block in timers[size].blocks] for size in calls]
    return infer(list(calls), samples, kind="cpu_time")


def _keep_freed_pages() -> None:
    """As workers are started (harness/devices/workers.py): else each call faults its pages in afresh."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def words(fit: Fit, law: str) -> str:
    """The exponent's interval and what may be said of a law, as growth and as an upper bound."""
    if fit.interval is None:
        return "insufficient data"
    verdict = fit.verdict(law)
    low, high = fit.interval
    return f"leading power {low:.2f} to {high:.2f}; O({law}): {verdict.bound}, grows as {law}: {verdict.word}"


def mean_exponent(fit: Fit) -> float:
    """The slope of ln time in ln n from the smallest to the largest size: what the sweep as a whole shows.

    A sum of n and n² lies between 1 and 2 by it, whichever leads. NaN without data.
    """
    sizes, log_cost = fit.summary.sizes, fit.summary.log_cost
    if len(sizes) < 2:
        return float("nan")
    return float((log_cost[-1] - log_cost[0]) / math.log(sizes[-1] / sizes[0]))


def figure(fit: Fit, title: str) -> Figure:
    """The measured times against the size."""
    summary = fit.summary
    sizes = tuple(float(size) for size in summary.sizes)
    seconds = tuple(float(value) for value in torch.tensor(summary.log_cost).exp())
    curve = Curve("0.25 quantile of CPU time", sizes, seconds)
    return Figure(title, "n", "seconds", (curve,), log_y=True)
