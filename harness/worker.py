"""The child process: the only place where devices are touched.

`python -m harness.worker FD` reads requests on standard input and answers on the file descriptor FD.
It lives on from group to group; when it dies, the runner replaces it and blames the case it touched last.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import environment, passes, protocol
from harness.counting.certificates import Certificate, Uncertified
from harness.counting.certifying import certify_eager, certify_interpreted
from harness.counting.predict import Untraceable, predict
from harness.devices.device import Device
from harness.devices.select import open_device
from harness.metrics.drawn import changed, decoys, fill
from harness.metrics.registry import metrics
from harness.metrics.trial import Trial
from harness.types import Case, Result, Status
from implementations.operation import operation
from implementations.registry import load, load_plugin, lookup

#: The metric that every case is judged by, asked for or not: no speed without correctness.
JUDGE = "accuracy"
#: An interpreted first call that takes longer is hardly import and set-up any more: it is not repeated.
UNREPEATED_SECONDS = 5.0


class Worker:
    """Answers requests for one device."""

    def __init__(self, start: protocol.Start, answers: int) -> None:
        self.answers, self.interpreted = answers, start.interpreted
        if start.interpreted:
            from harness.counting.interpreter import install_repairs

            install_repairs()
        self._loaded: set[str] = set()
        self._load(start.operation)
        for plugin in start.plugins:
            load_plugin(Path(plugin))
        self.device: Device = open_device(start.device)
        gc.freeze()  # what was imported stays: collections after a case then look at the case alone
        self.say(protocol.Ready(environment.capture(self.device), self.device.sampling))

    def say(self, answer: protocol.Answer) -> None:
        """Answer the runner."""
        os.write(self.answers, protocol.write(answer))

    def probe(self, request: protocol.ProbeRequest) -> None:
        """Predict one case and, when asked, call it."""
        trial = self._trial(request.case)
        work = predict(trial.implementation, trial.problem) if trial.alive else None
        peak = work.peak_bytes if work else None
        if trial.alive and peak is not None and peak > (free := self.device.memory_available()):
            trial.end(
                Status.SKIPPED,
                f"predicted peak memory {peak:,} B exceeds the {free:,} B available",
            )
        setup = call = None
        if trial.alive and request.run:
            setup, call = self._try_out(trial)
        self.say(
            protocol.Probed(
                case=request.case,
                result=None if trial.alive else trial.result,
                setup=setup,
                call=call,
                peak_bytes=peak,
                flops=work.flops if work else trial.problem.flops(),
                bytes=work.bytes if work else trial.problem.min_bytes(),
            )
        )
        self._release(trial)

    def _try_out(self, trial: Trial) -> tuple[float | None, float | None]:
        """Seconds of preparing with the first call, and of a second call."""
        setup = call = None
        with trial.stage("inputs"):
            trial.inputs = decoys(trial.problem, self.device.name)
        if trial.alive:
            with trial.stage("first call"):
                setup = self._seconds(lambda: self._first_call(trial))
                slow = trial.interpreted and setup > UNREPEATED_SECONDS
                call = setup if slow else self._seconds(trial.call)
        return setup, call

    def _first_call(self, trial: Trial) -> None:
        self._prepare(trial)
        trial.call()

    def _seconds(self, call: Any) -> float:
        start = time.perf_counter()
        call()
        self.device.synchronize()
        return time.perf_counter() - start

    def certify(self, request: protocol.CertifyRequest) -> None:
        """Count a case at several sizes, and answer its exact polynomials."""
        trial = self._trial(request.case)
        found: list[Certificate | Uncertified] = []
        if trial.alive:
            with trial.stage("counting"):
                found = self._certificates(trial, request.sizes)
        certificates = tuple(one.to_record() for one in found if isinstance(one, Certificate))
        uncertified = {one.quantity: one.reason for one in found if isinstance(one, Uncertified)}
        if not trial.alive:
            uncertified = {"counts": trial.result.reason}
        self.say(protocol.Certified(certificates, uncertified))

    def _certificates(
        self, trial: Trial, sizes: Mapping[str, tuple[int, ...]]
    ) -> list[Certificate | Uncertified]:
        certify = certify_interpreted if self.interpreted else certify_eager
        try:
            return certify(trial.implementation, trial.problem, sizes, lambda: trial.touch("counting"))
        except Untraceable as reason:
            return [Uncertified(trial.implementation.name, "counts", str(reason))]

    def measure(self, request: protocol.MeasureRequest) -> None:
        """Measure the cases of one problem on the same inputs, and answer a row for each."""
        trials = [self._trial(case) for case in request.cases]
        self._set_up([trial for trial in trials if trial.alive])
        for metric in metrics([*request.metrics, JUDGE]):
            if alive := [trial for trial in trials if trial.alive]:
                metric.measure(alive, self.device)
        for trial in trials:
            self.say(protocol.Measured(trial.result))
        self._release(*trials)
        self.say(protocol.Done())

    def _set_up(self, trials: Sequence[Trial]) -> None:
        """Prepare every trial on decoys, then write the true inputs into the same tensors and call again."""
        inputs = None
        for trial in trials:
            with trial.stage("inputs"):
                inputs = inputs or decoys(trial.problem, self.device.name)
                trial.inputs = inputs
            if trial.alive:
                with trial.stage("set-up"):
                    rebind = self._prepare(trial)
                    if not trial.interpreted:  # it gets no speed that a kept answer could falsify
                        trial.call()
                    rebind()
        for trial in trials:
            if trial.alive:
                with trial.stage("set-up"):
                    self._meet_true_inputs(trial)

    def _meet_true_inputs(self, trial: Trial) -> None:
        """Call on the inputs that are judged; who changes them is incorrect; the others see none of it."""
        inputs = trial.inputs
        fill(inputs, trial.problem.inputs(self.device.name))
        try:
            trial.record(kernels=self._kernels(trial))
        finally:
            drawn = trial.problem.inputs(self.device.name)
            if changed(inputs, drawn):
                fill(inputs, drawn)
                trial.end(Status.INCORRECT, "it changes its inputs, which the other implementations share")

    def _kernels(self, trial: Trial) -> tuple[str, ...]:
        """What really runs: Triton's kernels where they are interpreted, else what the device sees."""
        if trial.interpreted:
            from harness.counting import interpreter

            return interpreter.count(trial.call).kernels
        return self.device.kernels(trial.call)

    def _prepare(self, trial: Trial) -> Callable[[], None]:
        """Bind the pass to the inputs; the answer binds it again, with a graph yet to be built."""
        run = trial.implementation.prepare(trial.problem)

        def bind() -> None:
            bound = passes.bind(trial.problem.pass_, run, trial.inputs)
            trial.call, trial.outputs = bound.call, bound.outputs

        bind()
        return bind

    def _load(self, name: str) -> None:
        """Import the implementations of an operation, once."""
        if name not in self._loaded:
            load(name)
            self._loaded.add(name)

    def _trial(self, case: Case) -> Trial:
        found = operation(case.operation)
        self._load(case.operation)
        implementation = lookup(case.implementation)
        problem = found.problem.from_axes(case.problem)
        trial = Trial(
            case=case,
            operation=found,
            implementation=implementation,
            problem=problem,
            interpreted=self.interpreted,
            result=Result(case, Status.OK, notes=_origin(problem)),
        )

        def touch(stage: str, live: float | None = None) -> None:
            self.say(protocol.Touch(case.key, stage, live))

        trial.touch = touch
        with trial.stage("support check"):
            reason = implementation.reason_against(problem, self.device.target(self.interpreted))
            if reason:
                trial.end(Status.UNSUPPORTED, reason)
        return trial

    def _release(self, *trials: Trial) -> None:
        """Let go of every tensor, so that the next case finds the memory free."""
        for trial in trials:
            trial.inputs, trial.call, trial.outputs = None, _nothing, _no_outputs
        gc.collect()
        self.device.release()


def _origin(problem: Any) -> dict[str, str]:
    """Where the inputs come from, for the row, if they are not drawn at random."""
    words: str = getattr(problem, "origin", "")
    return {"inputs": words} if words else {}


def _nothing() -> None:
    return None


def _no_outputs() -> tuple[None, tuple[Any, ...]]:
    return None, ()


def requests() -> Iterator[protocol.Request]:
    """The requests on standard input, until the runner closes it."""
    for line in sys.stdin.buffer:
        yield protocol.read_request(line)


def die_with_parent() -> None:
    """On Linux, be killed when the runner dies: a killed run leaves no process behind."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> None:
    """Serve requests until standard input ends."""
    die_with_parent()
    random.seed(0)
    incoming = requests()
    start = next(incoming)
    assert isinstance(start, protocol.Start)
    worker = Worker(start, int(sys.argv[1]))
    for request in incoming:
        if isinstance(request, protocol.ProbeRequest):
            worker.probe(request)
        elif isinstance(request, protocol.MeasureRequest):
            worker.measure(request)
        elif isinstance(request, protocol.CertifyRequest):
            worker.certify(request)


if __name__ == "__main__":
    main()
