"""Memory, energy and throughput, and what they say when they cannot tell."""

from __future__ import annotations

import pytest

from harness.devices.device import Unknown
from harness.metrics.energy import energy
from harness.metrics.memory import memory
from harness.metrics.throughput import throughput
from harness.metrics.trial import failure, poisons
from harness.types import Measurement, Status

from .fakes import FakeDevice, trial


def test_memory_is_what_the_device_found() -> None:
    one = trial()
    memory([one], FakeDevice())
    assert one.result.metrics["peak_memory"].value == 7


def test_unknown_memory_is_a_note_and_never_0() -> None:
    device = FakeDevice()
    device.peak = Unknown("no allocator")
    one = trial()
    memory([one], device)
    assert one.alive
    assert one.result.metrics == {}
    assert one.result.notes == {"memory": "unknown: no allocator"}


def test_interpreted_memory_and_energy_are_not_measured() -> None:
    one = trial(interpreted=True)
    memory([one], FakeDevice())
    energy([one], FakeDevice())
    assert one.result.metrics == {}
    assert set(one.result.notes) == {"memory", "energy"}


def test_out_of_memory_ends_the_case_alone() -> None:
    def fill() -> None:
        raise MemoryError

    bad, good = trial("bad", call=fill), trial("good")
    memory([bad, good], FakeDevice())
    assert bad.result.status is Status.OOM
    assert good.alive


def test_energy_is_joules_or_words() -> None:
    device = FakeDevice()
    one, other = trial(), trial()
    energy([one], device)
    assert one.result.metrics["energy"].value == 3.0
    device.joules = Unknown("no counter")
    energy([other], device)
    assert other.result.notes == {"energy": "unknown: no counter"}


def test_rates_divide_by_the_judged_time_under_a_stated_convention() -> None:
    one = trial()
    one.record(
        {"cpu_time": Measurement(2.0, "s", low=1.0, high=4.0), "wall_time": Measurement(9.0, "s")},
        timing={"judged": "cpu_time"},
    )
    throughput([one], FakeDevice())
    flops = one.result.metrics["flop_rate"]
    assert (flops.value, flops.low, flops.high) == (500.0, 250.0, 1000.0)
    assert (flops.unit, flops.better) == ("FLOP/s", "higher")
    assert flops.note == "counted somehow; over cpu_time"
    assert one.result.metrics["byte_rate"].value == 5.0
    assert one.result.metrics["byte_rate"].note.endswith("over cpu_time")


@pytest.mark.parametrize(
    ("judged", "told", "used"),
    [
        ("gpu_time_cold", ("gpu_time_cold", "gpu_time_hot"), "gpu_time_cold"),
        ("gpu_time_cold", ("gpu_time_hot",), "gpu_time_hot"),
        ("wall_time", ("cpu_time", "wall_time"), "wall_time"),
        (None, ("wall_time",), "wall_time"),
    ],
)
def test_where_the_judged_time_is_not_reported_the_next_is_taken(
    judged: str | None, told: tuple[str, ...], used: str
) -> None:
    one = trial()
    one.record({name: Measurement(2.0, "s") for name in told}, timing={"judged": judged})
    throughput([one], FakeDevice())
    assert one.result.metrics["flop_rate"].note.endswith(f"over {used}")


def test_without_a_time_there_is_no_rate() -> None:
    untimed, still = trial(), trial()
    still.record({"cpu_time": Measurement(0.0, "s")})
    throughput([untimed, still], FakeDevice())
    for one in (untimed, still):
        assert "flop_rate" not in one.result.metrics
        assert one.result.notes == {"throughput": "no time was measured"}


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: an illegal memory access was encountered",
        "Triton Error [CUDA]: misaligned address",
        "CUDA error: device-side assert triggered",
    ],
)
def test_a_destroyed_context_is_recognised(text: str) -> None:
    assert poisons(RuntimeError(text))


@pytest.mark.parametrize("text", ["CUDA error: invalid argument", "CUDA out of memory", "misaligned address"])
def test_other_errors_leave_the_context_alone(text: str) -> None:
    assert not poisons(RuntimeError(text))


def test_failures_have_words() -> None:
    assert failure(ValueError(), "timing") == (Status.ERROR, "ValueError during timing: no message")
    assert failure(RuntimeError("DefaultCPUAllocator: can't allocate memory"), "x")[0] is Status.OOM
