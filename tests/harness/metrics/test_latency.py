"""Interleaved rounds, the stop rule, failures in the middle, doubts and what is unusable."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import torch

from harness.devices.cpu import Cpu
from harness.devices.device import Call, Sampling
from harness.metrics.energy import energy
from harness.metrics.latency import doubts, latency, unusable
from harness.metrics.throughput import throughput
from harness.types import Measurement, Status
from implementations.registry import Unsupported

from .fakes import FakeDevice, FakeTimer, constant, trial

SAMPLING = Sampling(20, 40, 2.0, 0.01)


class OutOfMemoryError(RuntimeError):
    pass


def noisy(seed: int, spread: float) -> Iterator[float]:
    rng = np.random.default_rng(seed)
    while True:
        yield float(rng.lognormal(0.0, spread))


def test_every_trial_gets_the_same_number_of_samples_in_shuffled_rounds() -> None:
    order: list[str] = []
    group = [trial(name, call=partial(order.append, name)) for name in "abc"]
    latency(group, FakeDevice())
    rounds = [tuple(order[i : i + 3]) for i in range(0, len(order), 3)]
    assert len(rounds) == 20, "constant times are precise at once"
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len(set(rounds)) > 1
    for one in group:
        assert one.alive
        assert one.result.metrics["cpu_time"].samples == (1.0,) * 20
        assert one.result.metrics["wall_time"].value == 2.0
        assert one.result.timing["timer"] == "fake"


def test_the_order_is_reproducible() -> None:
    def order() -> list[str]:
        seen: list[str] = []
        latency([trial(name, call=partial(seen.append, name)) for name in "abc"], FakeDevice())
        return seen

    assert order() == order()


def test_noisy_trials_hold_the_others_back_until_the_most_samples() -> None:
    times = {0: constant(1.0), 1: noisy(0, 0.3)}
    count = itertools.count()
    group = [trial("calm"), trial("noisy")]
    latency(group, FakeDevice(lambda call: FakeTimer(call, times[next(count)])))
    assert [len(one.result.metrics["cpu_time"].samples) for one in group] == [40, 40]


def test_precise_trials_stop_early() -> None:
    one = trial()
    latency([one], FakeDevice(lambda call: FakeTimer(call, noisy(0, 0.05)), max_samples=2000))
    assert 20 < len(one.result.metrics["cpu_time"].samples) < 400


def test_when_the_time_is_up_a_few_samples_are_enough_and_flagged() -> None:
    one = trial()
    latency([one], FakeDevice(seconds=0.0))
    assert len(one.result.metrics["cpu_time"].samples) == 8
    assert one.result.flags == ("few samples: 8 of 20, time for these cases ran out",)


def test_interpreted_trials_are_not_timed_and_say_so() -> None:
    one = trial(interpreted=True)
    latency([one], FakeDevice())
    assert one.alive
    assert one.result.metrics == {}
    assert one.result.notes == {"latency": "not timed: interpreted"}


def test_no_speed_without_correctness() -> None:
    wrong = trial("wrong")
    wrong.end(Status.INCORRECT, "far off")
    latency([wrong, trial("right")], FakeDevice())
    assert wrong.result.metrics == {}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("boom"), Status.ERROR),
        (OutOfMemoryError("CUDA out of memory"), Status.OOM),
        (MemoryError(), Status.OOM),
        (Unsupported("no such mask"), Status.UNSUPPORTED),
    ],
)
def test_a_trial_that_fails_in_a_round_ends_alone(error: Exception, status: Status) -> None:
    calls = itertools.count()

    def fail() -> None:
        if next(calls) == 5:
            raise error

    bad, good = trial("bad", call=fail), trial("good")
    latency([bad, good], FakeDevice())
    assert bad.result.status is status
    assert bad.result.reason
    assert bad.result.metrics == {}
    assert len(good.result.metrics["cpu_time"].samples) == 20


def test_a_trial_that_fails_in_warm_up_ends_alone() -> None:
    def broken(call: Call) -> FakeTimer:
        call()
        return FakeTimer(call, constant(1.0))

    bad, good = trial("bad", call=lambda: 1 // 0), trial("good")
    latency([bad, good], FakeDevice(broken))
    assert bad.result.status is Status.ERROR
    assert "ZeroDivisionError during warm-up" in bad.result.reason
    assert good.alive
    assert "cpu_time" in good.result.metrics


def test_a_poisoned_device_ends_the_worker() -> None:
    def poison() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        latency([trial(call=poison)], FakeDevice())


def test_after_an_out_of_memory_nothing_keeps_the_tensors_alive() -> None:
    kept: list[weakref.ref[torch.Tensor]] = []
    graph = torch.zeros(1000)
    kept.append(weakref.ref(graph))

    def fill(held: torch.Tensor = graph) -> None:
        scores = held + 1
        kept.append(weakref.ref(scores))
        raise OutOfMemoryError("CUDA out of memory")

    group = [trial("greedy", call=fill), trial("modest")]
    del fill, graph
    gc.disable()
    try:
        latency(group, FakeDevice())
        assert [ref() for ref in kept] == [None, None]
    finally:
        gc.enable()
    assert group[0].result.status is Status.OOM
    assert group[1].alive


def test_a_failed_trial_lets_go_of_its_tensors_while_the_others_go_on() -> None:
    """Those that its call holds: the graph of a backward pass, what a factory prepared."""
    held = torch.zeros(1000)
    kept = weakref.ref(held)
    calls = itertools.count()
    seen: list[bool] = []

    def fill(held: torch.Tensor = held) -> None:
        if next(calls) == 3:
            raise OutOfMemoryError("CUDA out of memory")

    group = [
        trial("greedy", call=fill),
        trial("modest", call=lambda: seen.append(kept() is None)),
    ]
    del fill, held
    gc.disable()
    try:
        latency(group, FakeDevice())
    finally:
        gc.enable()
    assert group[0].result.status is Status.OOM
    assert len(seen) == 20
    assert not seen[0]
    assert all(seen[5:])


@pytest.mark.parametrize("status", [Status.INCORRECT, Status.OOM, Status.ERROR, Status.CRASHED])
def test_who_ends_badly_after_being_timed_has_no_speed(status: Status) -> None:
    one = trial()
    one.record({"error": Measurement(1e-6, "1"), "flops": Measurement(8, "FLOP")})
    latency([one], FakeDevice())
    throughput([one], FakeDevice())
    energy([one], FakeDevice())
    assert {"cpu_time", "wall_time", "flop_rate", "byte_rate", "energy"} < set(one.result.metrics)
    one.end(status, "too late")
    assert set(one.result.metrics) == {"error", "flops"}


def test_what_must_not_be_reported_is_a_note() -> None:
    one = trial()
    hot = {"gpu_time_hot": Measurement(0.5, "s")}
    latency(
        [one], FakeDevice(lambda call: FakeTimer(call, constant(1.0), hot=hot, hidden={"cpu_time": "short"}))
    )
    assert set(one.result.metrics) == {"wall_time", "gpu_time_hot"}
    assert one.result.notes == {"cpu_time": "short"}


def test_an_interval_wider_than_the_time_is_unstable_and_keeps_its_samples() -> None:
    one = trial()
    latency([one], FakeDevice(lambda call: FakeTimer(call, noisy(0, 3.0), doubts=("contended",))))
    assert one.result.status is Status.UNSTABLE
    assert "wider than the time" in one.result.reason
    assert len(one.result.metrics["cpu_time"].samples) == 40
    assert one.result.flags[0] == "contended"


def test_a_clock_that_stands_still_is_unstable() -> None:
    one = trial()
    latency([one], FakeDevice(lambda call: FakeTimer(call, constant(0.0))))
    assert (one.result.status, one.result.reason) == (Status.UNSTABLE, "the clock saw no time pass")


def test_usable_times_have_no_reason() -> None:
    assert unusable(Measurement(1.0, "s", low=0.6, high=1.5)) is None


def test_drift_and_spread_are_flagged_and_calm_is_not() -> None:
    calm = np.linspace(1.0, 1.05, 30)
    assert doubts(calm, SAMPLING) == ()
    assert doubts(np.linspace(1.0, 1.4, 30), SAMPLING)[0].startswith("drift: +26% from the first third")
    spread = np.tile([1.0, 1.0, 2.0], 10)
    assert doubts(spread, SAMPLING) == ("noisy: the middle 80 % of samples span 100% of the median",)
    assert doubts(np.zeros(30), SAMPLING) == ()


def test_progress_is_announced() -> None:
    seen: list[tuple[str, float | None]] = []
    one = trial()
    one.touch = lambda stage, live=None: seen.append((stage, live))
    latency([one], FakeDevice())
    assert ("timing", 1.0) in seen
    assert sum(live is not None for _, live in seen) < 20, "not at every sample"


def test_on_the_real_cpu() -> None:
    group = [trial("short", call=lambda: sum(range(3000))), trial("long", call=lambda: sum(range(30_000)))]
    latency(group, Cpu(sampling=Sampling(8, 12, 1.0, 0.05, quantile=0.2)))
    short, long = (one.result.metrics["cpu_time"].value for one in group)
    assert 0 < short < long


def test_the_same_case_first_middle_and_last_agrees_in_cpu_time() -> None:
    """Within 10 %. A machine that is busy enough to fool CPU time gets five attempts."""
    device = Cpu()
    matrix = torch.full((128, 128), 0.5)

    def busy() -> None:
        for _ in range(20):
            matrix @ matrix

    def spread() -> float:
        group = [trial(name, call=busy) for name in ("first", "middle", "last")]
        times = []
        for one in group:
            latency([one], device)
            times.append(one.result.metrics["cpu_time"].value)
        return max(times) / min(times) - 1

    assert any(spread() < 0.1 for _ in range(5))
