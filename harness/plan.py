"""What a run will cost, and what of it fits the budget: pure functions over probes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.devices.device import Sampling
from harness.format import seconds as in_words
from harness.protocol import Probed
from harness.types import Case, Result, Status

#: A probe of one call may be predicted to take this share of the whole budget, not more.
PROBE_SHARE = 0.05
#: Growth assumed between two sizes until two probes show it: cost ∝ work, doubted by this factor.
DOUBT = 1.5
STEEPEST = 1.2
#: Calls beside the samples: kernels, counts and accuracy; a timed case adds warm-up and memory.
UNTIMED_CALLS, TIMED_CALLS = 4, 6
#: Rates for predictions before anything ran; deliberately modest. FLOP/s and B/s by kind of device.
NOMINAL_FLOPS = {"cpu": 2e10, "cuda": 1e13}
NOMINAL_BYTES = {"cpu": 5e9, "cuda": 5e11}
#: Seconds that a sample lasts at least.
SHORTEST_SAMPLE = 2e-3


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted seconds of measuring one case: `seconds` in all, `call` of one call."""

    case: Case
    call: float
    seconds: float


def measuring_seconds(call: float, sampling: Sampling, timed: bool) -> float:
    """Seconds that measuring a case takes at most: its samples, and a few further calls for the checks."""
    if not timed:
        return UNTIMED_CALLS * call
    longest = sampling.max_samples * max(call, SHORTEST_SAMPLE)
    return TIMED_CALLS * call + min(longest, max(sampling.seconds, sampling.fewest * call))


def predicted_call(history: Sequence[tuple[int, float]], flops: int) -> float | None:
    """Seconds of a call of `flops` work, extrapolated from (flops, seconds) of smaller problems.

    The exponent is the one the last two probes show, within what caches can add to growth with the work;
    with a single probe cost grows with work. None without history or growth.
    """
    if not history or flops <= history[-1][0]:
        return None
    work, seconds = history[-1]
    exponent = 1.0
    if len(history) > 1 and history[-2][0] < work and history[-2][1] > 0:
        shown = math.log(seconds / history[-2][1]) / math.log(work / history[-2][0])
        exponent = min(max(shown, 0.0), STEEPEST)
    return float(seconds * (flops / work) ** exponent)


def too_costly_to_probe(call: float, budget: float) -> bool:
    """Whether even one call is predicted to eat too much of the budget."""
    return call * DOUBT > PROBE_SHARE * budget


def skipped(case: Case, seconds: float, budget: float) -> Result:
    """The row of a case that does not fit the budget."""
    return Result(
        case,
        Status.SKIPPED,
        f"predicted {in_words(seconds)} of measuring does not fit the budget of {in_words(budget)}; "
        "raise --budget to measure it",
    )


def within(estimates: Iterable[Estimate], budget: float) -> tuple[list[Estimate], list[Estimate]]:
    """Split into what fits the budget and what does not, the cheapest cases first."""
    fits: list[Estimate] = []
    rest: list[Estimate] = []
    spent = 0.0
    for estimate in sorted(estimates, key=lambda e: e.seconds):
        spent += estimate.seconds
        (fits if spent <= budget else rest).append(estimate)
    return fits, rest


def nominal_seconds(probe: Probed, kind: str) -> float:
    """Seconds of a call that was not run: its counted work at the nominal rates of a kind of device."""
    return max(probe.flops / NOMINAL_FLOPS[kind], probe.bytes / NOMINAL_BYTES[kind])


def remaining_seconds(estimates: Mapping[str, float], done: Iterable[str]) -> float:
    """Predicted seconds of the cases not yet done."""
    finished = set(done)
    return sum(seconds for key, seconds in estimates.items() if key not in finished)
