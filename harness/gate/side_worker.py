"""The worker of one build: this harness measures the implementations of another checkout.

`python -m harness.gate.side_worker ROOT FD`: as `harness.worker`, but `implementations` comes from ROOT,
and cases can be held warm and sampled one by one. Both builds are measured by the same instrument.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def build_worker(start: Any, answers: int) -> Callable[[Any], None]:
    """A worker that also holds and samples; what it does with a request."""
    import torch

    from harness import protocol
    from harness.counting.eager import tensors_of
    from harness.devices.device import Timer
    from harness.metrics.registry import metrics
    from harness.metrics.trial import Trial
    from harness.worker import JUDGE, Worker

    class SideWorker(Worker):
        """One build's cases, held with their timers."""

        held: dict[str, tuple[Trial, Timer]]
        random: random.Random
        padding: torch.Tensor

        def hold(self, request: protocol.HoldRequest) -> None:
            """Judge, warm up, keep. Answers a row for each case, then Done."""
            if request.release:
                self._release(*(trial for trial, _ in self.held.values()))
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
            with trial.stage("warm-up"):
                timer = self.device.timer(trial.call)
                timer.sample()
                trial.record(
                    timing={
                        **timer.describe(),
                        "threads_in_use": torch.get_num_threads(),
                        "usable_threads": len(os.sched_getaffinity(0)),
                    }
                )
                self.held[trial.case.key] = (trial, timer)

        def sample(self, request: protocol.SampleRequest) -> None:
            """Sample a held case; what it raises ends this process, as a crash would."""
            trial, timer = self.held[request.key]
            with undisturbed(request.turn if self.device.kind == "cpu" else None):
                if request.move:
                    self._move(trial)
                found = timer.sample()
            self.say(protocol.Sampled(found[timer.judged], found.get("wall_time")))

        def _move(self, trial: Trial) -> None:
            """Other addresses and other pages: where tensors lie changes a CPU's time by several percent."""
            if self.device.kind == "cpu":
                self.padding = torch.empty(self.random.randrange(64, 1 << 20, 64), dtype=torch.uint8)
                self.device.release()
                for tensor in tensors_of(trial.inputs):
                    tensor.data = tensor.data.clone()
                trial.call()

    worker = SideWorker(start, answers)
    worker.held = {}
    worker.random = random.Random(os.getpid())
    handlers: dict[type, Callable[[Any], None]] = {
        protocol.HoldRequest: worker.hold,
        protocol.SampleRequest: worker.sample,
        protocol.MeasureRequest: worker.measure,
        protocol.ProbeRequest: worker.probe,
    }
    return lambda request: handlers[type(request)](request)


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


def main() -> None:
    """Serve requests until standard input ends."""
    root, answers = Path(sys.argv[1]), int(sys.argv[2])
    if "implementations" in sys.modules:
        raise RuntimeError("implementations was imported before its checkout was chosen")
    sys.path.insert(0, str(root))
    from harness.worker import die_with_parent, requests

    die_with_parent()
    random.seed(0)
    incoming = requests()
    handle = build_worker(next(incoming), answers)
    found = Path(sys.modules["implementations"].__path__[0])
    if found.resolve().parent != root.resolve():
        raise RuntimeError(f"{root} holds no package `implementations`; {found} was imported")
    for request in incoming:
        handle(request)


if __name__ == "__main__":
    main()
