"""A worker that holds cases warm and samples them one by one. Imported in the worker's process alone."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from harness import protocol
from harness.counting.eager import tensors_of
from harness.devices.cpu import CpuTimer
from harness.devices.device import Timer
from harness.metrics.registry import metrics
from harness.metrics.trial import Trial
from harness.worker import JUDGE, Worker

#: Padding between the places that tensors move to, in bytes.
SMALLEST, LARGEST = 64, 1 << 20


@dataclass(frozen=True, slots=True)
class Held:
    """A case kept warm.

    fresh  bytes that a move must fault in, lest the next sample does; 0 where a call that is not timed
           comes before each sample, as with short ones
    """

    trial: Trial
    timer: Timer
    fresh: int


class HoldingWorker(Worker):
    """One build's cases, held with their timers."""

    def __init__(self, start: protocol.Start, answers: int) -> None:
        self.held: dict[str, Held] = {}
        self.random = random.Random(os.getpid())
        self.padding: torch.Tensor | None = None
        super().__init__(start, answers)

    def handle(self, request: protocol.Request) -> None:
        """Answer a request."""
        if isinstance(request, protocol.HoldRequest):
            self.hold(request)
        elif isinstance(request, protocol.SampleRequest):
            self.sample(request)
        else:
            raise TypeError(f"a holding worker does not {request.kind}")

    def hold(self, request: protocol.HoldRequest) -> None:
        """Judge, warm up, keep. Answers a row for each case, then Done."""
        if request.release:
            self._release(*(held.trial for held in self.held.values()))
            self.held = {}
        trials = [self._trial(case) for case in request.cases]
        self._set_up([trial for trial in trials if trial.alive])
        for metric in metrics([*request.metrics, JUDGE]):
            if alive := [trial for trial in trials if trial.alive]:
                metric.measure(alive, self.device)
        for trial in trials:
            if trial.alive and not self.interpreted:
                self._keep(trial)
            self.say(protocol.Measured(trial.result))
        self.say(protocol.Done())

    def _keep(self, trial: Trial) -> None:
        """Warm the case up and keep its timer."""
        with trial.stage("warm-up"):
            timer = self.device.timer(trial.call)
            fresh = 0
            if isinstance(timer, CpuTimer) and timer.calls == 1:
                timer.evict()
                fresh = int(self.device.peak_memory(trial.call)["peak_memory"].value)
            timer.sample()
            threads = {
                "threads_in_use": torch.get_num_threads(),
                "usable_threads": len(os.sched_getaffinity(0)),
            }
            trial.record(timing={**timer.describe(), **threads})
            self.held[trial.case.key] = Held(trial, timer, fresh)

    def sample(self, request: protocol.SampleRequest) -> None:
        """Sample a held case; what it raises ends this process, as a crash would."""
        held = self.held[request.key]
        with undisturbed(request.turn if self.device.kind == "cpu" else None):
            if request.move:
                self._move(held)
            found = held.timer.sample()
        self.say(protocol.Sampled(found[held.timer.judged], found.get("wall_time")))

    def _move(self, held: Held) -> None:
        """Other addresses and other pages: where tensors lie changes a CPU's time by several percent."""
        if self.device.kind == "cpu":
            room = self.random.randrange(SMALLEST, LARGEST, SMALLEST)
            self.padding = torch.empty(room, dtype=torch.uint8)
            self.device.release()
            for tensor in tensors_of(held.trial.inputs):
                tensor.data = tensor.data.clone()
            torch.empty(held.fresh, dtype=torch.uint8).fill_(0)


@contextlib.contextmanager
def undisturbed(turn: int | None) -> Iterator[None]:
    """Stay on the turn's CPU, and keep others from preempting this thread where the system lets us.

    CPUs that share a core with a busy one are slower; what is preempted finds its caches cold. A sample lasts
    milliseconds. Linux lets root, and those with CAP_SYS_NICE, have a real-time priority.
    """
    usable = os.sched_getaffinity(0)
    if turn is not None:
        os.sched_setaffinity(0, {sorted(usable)[turn % len(usable)]})
    urgent = False
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        urgent = True
    try:
        yield
    finally:
        if urgent:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, usable)
