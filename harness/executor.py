"""Runs cases somewhere: the seam between the runner and the worker process.

`WorkerExecutor` keeps one child per lane (ordinary, and one in which Triton is interpreted). A child that
hangs, crashes or talks nonsense costs exactly the case that it touched last; the others run again in a
fresh child.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from pydantic import ValidationError

from harness import protocol
from harness.devices.workers import worker_environment
from harness.types import BenchError, Case, Result, Status

#: Called with what the worker is busy with: (case key, stage, live seconds per call or None).
Listen = Callable[[protocol.Touch], None]

START_SECONDS = 180.0
#: A longer line is no answer: what floods the pipe must not fill the runner's memory.
LONGEST_ANSWER = 1 << 22


class Executor(Protocol):
    """What the runner needs done."""

    def ready(self, interpreted: bool) -> protocol.Ready:
        """Start what is needed and say what environment it runs in."""

    def probe(self, case: Case, interpreted: bool, run: bool) -> protocol.Probed:
        """Predict a case; with `run`, call it to learn its cost."""

    def measure(
        self, cases: Sequence[Case], interpreted: bool, metrics: Sequence[str], listen: Listen
    ) -> Iterator[Result]:
        """Measure the cases of one problem together; one row for each, whatever happens."""

    def certify(
        self, case: Case, interpreted: bool, sizes: Mapping[str, tuple[int, ...]]
    ) -> protocol.Certified:
        """Exact polynomials of a case's counts over these sizes of law variables."""

    def close(self) -> None:
        """End the children."""


class WorkerDied(Exception):
    """The child ended, hung or answered nonsense; carries what the case at fault is told."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(slots=True)
class WorkerExecutor:
    """Executes in child processes.

    timeout  seconds that one step of one case may take
    log      file that receives what the children print
    command  starts a child; the number of its answer pipe is appended
    """

    device: str
    operation: str
    timeout: float
    log: Path
    plugins: tuple[str, ...] = ()
    command: tuple[str, ...] = (sys.executable, "-m", "harness.worker")
    _children: dict[bool, _Child] = field(default_factory=dict)

    def ready(self, interpreted: bool) -> protocol.Ready:
        """Start the lane's child, or find it started. Raises BenchError when it cannot start."""
        try:
            return self._child(interpreted).ready
        except WorkerDied as death:
            raise BenchError(f"the worker did not start: {death.reason}; see {self.log}") from None

    def probe(self, case: Case, interpreted: bool, run: bool) -> protocol.Probed:
        """Probe a case; a death of the child is the case's result."""
        try:
            for answer in self._ask(interpreted, protocol.ProbeRequest(case, run), lambda touch: None):
                if isinstance(answer, protocol.Probed):
                    return answer
            raise WorkerDied(Status.ERROR, "the worker ended the probe without an answer")
        except WorkerDied as death:
            self._discard(interpreted)
            return protocol.Probed(case, Result(case, death.status, death.reason), None, None, None, 0, 0)

    def certify(
        self, case: Case, interpreted: bool, sizes: Mapping[str, tuple[int, ...]]
    ) -> protocol.Certified:
        """Exact polynomials of a case's counts; a death of the child is the reason that there are none."""
        request = protocol.CertifyRequest(case, dict(sizes))
        try:
            for answer in self._ask(interpreted, request, lambda touch: None):
                if isinstance(answer, protocol.Certified):
                    return answer
            raise WorkerDied(Status.ERROR, "the worker ended without an answer")
        except WorkerDied as death:
            self._discard(interpreted)
            return protocol.Certified((), {"counts": death.reason})

    def measure(
        self, cases: Sequence[Case], interpreted: bool, metrics: Sequence[str], listen: Listen
    ) -> Iterator[Result]:
        """Measure a group; who kills the child loses its row to a reason, the others run again."""
        pending = {case.key: case for case in cases}
        touched: list[str] = []

        def note(touch: protocol.Touch) -> None:
            touched[:] = [touch.key]
            listen(touch)

        while pending:
            touched.clear()
            request = protocol.MeasureRequest(tuple(pending.values()), tuple(metrics))
            try:
                for answer in self._ask(interpreted, request, note):
                    if isinstance(answer, protocol.Measured):
                        yield answer.result
                        pending.pop(answer.result.case.key, None)
                for case in pending.values():
                    yield Result(case, Status.ERROR, "the worker finished without a row for this case")
                return
            except WorkerDied as death:
                self._discard(interpreted)
                if not pending:  # it died while it let go of tensors, after the last row
                    return
                guilty = touched[-1] if touched and touched[-1] in pending else next(iter(pending))
                yield Result(pending.pop(guilty), death.status, death.reason)

    def _ask(self, interpreted: bool, request: protocol.Request, listen: Listen) -> Iterator[protocol.Answer]:
        """Send a request and pass on its answers. Raises WorkerDied."""
        child = self._child(interpreted)
        child.send(request)
        for answer in child.answers(self.timeout):
            if isinstance(answer, protocol.Touch):
                listen(answer)
                continue
            yield answer
            if isinstance(answer, protocol.Done | protocol.Probed | protocol.Certified):
                return

    def _child(self, interpreted: bool) -> _Child:
        if interpreted not in self._children:
            start = protocol.Start(self.device, interpreted, self.plugins, self.operation)
            self._children[interpreted] = _Child.start(self.command, start, self.log)
        return self._children[interpreted]

    def _discard(self, interpreted: bool) -> None:
        if child := self._children.pop(interpreted, None):
            child.kill()

    def close(self) -> None:
        """End every child at once."""
        for interpreted in list(self._children):
            self._discard(interpreted)


@dataclass(slots=True)
class _Child:
    """One worker process and its answer pipe."""

    process: subprocess.Popen[bytes]
    pipe: int
    log: Path
    log_start: int
    ready: protocol.Ready = field(init=False)
    buffer: bytes = b""

    @classmethod
    def start(cls, command: Sequence[str], start: protocol.Start, log: Path) -> _Child:
        """Start a child in a session of its own: Ctrl-C reaches the runner alone."""
        read_end, write_end = os.pipe()
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as printed:
            log_start = printed.tell()
            process = subprocess.Popen(
                [*command, str(write_end)],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=subprocess.STDOUT,
                pass_fds=(write_end,),
                env=worker_environment(start.device.partition(":")[0], start.interpreted),
                start_new_session=True,
            )
        os.close(write_end)
        child = cls(process, read_end, log, log_start)
        try:
            child.send(start)
            child.ready = child._first_answer()
        except WorkerDied as death:
            child.kill()
            raise death from None
        return child

    def _first_answer(self) -> protocol.Ready:
        answer = next(self.answers(START_SECONDS))
        if not isinstance(answer, protocol.Ready):
            raise WorkerDied(Status.ERROR, f"the worker began with {answer!r}")
        return answer

    def send(self, request: protocol.Request) -> None:
        """Raises WorkerDied when the child is gone."""
        stdin: IO[bytes] | None = self.process.stdin
        assert stdin is not None
        try:
            stdin.write(protocol.write(request))
            stdin.flush()
        except BrokenPipeError:
            raise self._death() from None

    def answers(self, timeout: float) -> Iterator[protocol.Answer]:
        """Answers as they come; each may take `timeout` seconds. Raises WorkerDied."""
        while True:
            line = self._line(time.monotonic() + timeout, timeout)
            try:
                yield protocol.read_answer(line)
            except ValidationError:
                text = line[:80].decode("utf-8", "replace").strip()
                raise WorkerDied(Status.ERROR, f"unreadable answer from the worker: {text!r}") from None

    def _line(self, deadline: float, timeout: float) -> bytes:
        while b"\n" not in self.buffer:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self.pipe], [], [], left)
            if not ready or not left:
                raise WorkerDied(
                    Status.TIMEOUT, f"no sign of life for {timeout:g} s; raise `timeout` if it needs more"
                )
            chunk = os.read(self.pipe, 1 << 16)
            if not chunk:
                raise self._death()
            self.buffer += chunk
            if len(self.buffer) > LONGEST_ANSWER:
                raise WorkerDied(Status.ERROR, "unreadable answer from the worker: a line without an end")
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def _death(self) -> WorkerDied:
        """Why the child is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        code = self.process.returncode
        if code is None:
            return WorkerDied(Status.ERROR, "the worker closed its answers but lives on")
        if code == -signal.SIGKILL:
            return WorkerDied(
                Status.CRASHED,
                "killed by SIGKILL: someone, or the kernel for want of memory, ended the worker",
            )
        if code < 0:
            return WorkerDied(Status.CRASHED, f"crashed with {signal.Signals(-code).name}")
        if code == 0:
            return WorkerDied(Status.ERROR, "the worker exited with code 0 and without a result")
        last = _last_line(self.log, self.log_start)
        return WorkerDied(Status.ERROR, f"the worker exited with code {code} and without a result: {last}")

    def kill(self) -> None:
        """End the child and what it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        with contextlib.suppress(OSError):
            os.close(self.pipe)


def _last_line(log: Path, start: int) -> str:
    """The last line that a child printed; earlier children wrote the bytes before `start`."""
    printed = log.read_bytes()[start:] if log.exists() else b""
    lines = printed.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
