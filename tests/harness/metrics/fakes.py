"""Trials, operations and devices that the metrics are tested with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from harness.devices import statistics
from harness.devices.device import Call, Sampling, Unknown
from harness.metrics.trial import Trial
from harness.types import Case, DeviceInfo, Measurement, Result, Scalar, Status
from implementations.operation import Errors, Operation
from implementations.registry import Implementation, Target


class Problem:
    dtype = "float32"
    pass_ = "forward"

    def flops(self) -> int:
        return 1000

    def min_bytes(self) -> int:
        return 10


def implementation(name: str, exact: bool = True) -> Implementation:
    return Implementation(
        name, "fake", name, lambda problem: lambda inputs: None, exact, {},
        lambda target: None, lambda problem, target: None,
    )  # fmt: skip


def operation(*errors: Errors) -> Operation:
    return Operation("fake", Problem, {}, "counted somehow", lambda *given: errors)


def trial(
    name: str = "one",
    *,
    call: Callable[[], object] = lambda: None,
    errors: Sequence[Errors] = (),
    exact: bool = True,
    interpreted: bool = False,
) -> Trial:
    case = Case(name, "fake", "cpu", {"n": 1})

    def outputs() -> tuple[torch.Tensor, tuple[()]]:
        call()
        return torch.zeros(1), ()

    return Trial(
        case, operation(*errors), implementation(name, exact), Problem(), interpreted,
        Result(case, Status.OK), inputs=SimpleNamespace(grad_output=None),
        call=call, outputs=outputs,
    )  # fmt: skip


@dataclass
class FakeTimer:
    """Reads the next time from an iterator, after running the call."""

    call: Call
    times: Iterator[float]
    judged: str = "cpu_time"
    hot: Mapping[str, Measurement] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    def sample(self) -> Mapping[str, float]:
        self.call()
        seconds = next(self.times)
        return {"cpu_time": seconds, "wall_time": 2 * seconds}

    def finish(self) -> Mapping[str, Measurement]:
        return self.hot

    def omitted(self) -> Mapping[str, str]:
        return self.hidden

    def describe(self) -> Mapping[str, Scalar]:
        return {"timer": "fake", "judged": self.judged}

    def flags(self) -> tuple[str, ...]:
        return self.doubts


class FakeDevice:
    name = "cpu"
    kind = "cpu"

    def __init__(self, make_timer: Callable[[Call], Any] | None = None, **sampling: Any) -> None:
        given: dict[str, Any] = {"min_samples": 20, "max_samples": 40, "seconds": 100.0, "precision": 0.05}
        self.sampling = Sampling(**given | sampling)
        self.timer: Callable[[Call], Any] = make_timer or (lambda call: FakeTimer(call, constant(1.0)))
        self.peak: Mapping[str, Measurement] | Unknown = {"peak_memory": Measurement(7, "B")}
        self.joules: Measurement | Unknown = Measurement(3.0, "J")

    def info(self) -> DeviceInfo:
        return DeviceInfo("cpu", "fake")

    def target(self, interpreted: bool) -> Target:
        return Target("cpu", None, interpreted)

    def summarise(self, quantity: str, samples: tuple[float, ...]) -> Measurement:
        return statistics.seconds(samples, 0.5)

    def memory_available(self) -> int:
        return 1

    def peak_memory(self, call: Call) -> Mapping[str, Measurement]:
        call()
        if isinstance(self.peak, Unknown):
            raise self.peak
        return self.peak

    def energy(self, call: Call) -> Measurement:
        if isinstance(self.joules, Unknown):
            raise self.joules
        return self.joules

    def kernels(self, call: Call) -> tuple[str, ...]:
        return ()

    def synchronize(self) -> None:
        pass

    def release(self) -> None:
        pass


def constant(seconds: float) -> Iterator[float]:
    while True:
        yield seconds
