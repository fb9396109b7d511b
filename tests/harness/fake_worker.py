"""A worker that speaks the protocol and misbehaves as the implementation's name says."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from harness import protocol
from harness.devices.device import Sampling
from harness.types import Case, DeviceInfo, Environment, Measurement, Result, Status

ENVIRONMENT = Environment(DeviceInfo("cpu", "fake"), {}, {}, None, None)


def misbehave(name: str, answers: int) -> None:
    """What the case's implementation does to its worker."""
    if name == "sleeps":
        time.sleep(3600)
    elif name == "segfaults":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "exits":
        os._exit(0)
    elif name == "fails":
        os._exit(3)
    elif name == "babbles":
        os.write(answers, b"Traceback: no answer at all\n")
        time.sleep(3600)
    elif name == "floods":
        with contextlib.suppress(OSError):
            while True:
                os.write(answers, b"x" * 65536)
    elif name == "prints":
        print('{"kind": "done"} junk on standard output', flush=True)
        print("and on standard error", file=sys.stderr, flush=True)


def row(case: Case) -> Result:
    """An ok row."""
    return Result(case, Status.OK, metrics={"cpu_time": Measurement(1e-3, "s")})


def main() -> None:
    """Answer requests."""
    answers = int(sys.argv[-1])

    def say(answer: protocol.Answer) -> None:
        os.write(answers, protocol.write(answer))

    for line in sys.stdin.buffer:
        request = protocol.read_request(line)
        if isinstance(request, protocol.Start):
            say(protocol.Ready(ENVIRONMENT, Sampling(20, 60, 1.0, 0.01)))
        elif isinstance(request, protocol.ProbeRequest):
            misbehave(request.case.implementation, answers)
            say(protocol.Probed(request.case, None, 1e-3, 1e-3, 100, 100, 100))
        elif isinstance(request, protocol.MeasureRequest):
            for case in request.cases:
                say(protocol.Touch(case.key, "time", 1e-3))
                misbehave(case.implementation, answers)
            for case in request.cases:
                say(protocol.Measured(row(case)))
            if request.cases[-1].implementation == "dies_after_its_row":
                os._exit(9)
            say(protocol.Done())


if __name__ == "__main__":
    main()
