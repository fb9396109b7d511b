"""Messages arrive as they were sent."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from harness import protocol
from harness.devices.device import Sampling
from harness.types import Case, DeviceInfo, Environment, Measurement, Result, Status

CASE = Case(
    "naive", "attention", "cpu", {"causal": False, "seq_len": 0, "scale": 1.0, "mask": None, "s": "0"}
)
ROW = Result(
    CASE, Status.OK, metrics={"cpu_time": Measurement(1e-3, "s", samples=(1e-3,))}, timing={"hot": True}
)
ENVIRONMENT = Environment(DeviceInfo("cpu", "a CPU"), {"cores": 2, "smt": False}, {}, None, True)

REQUESTS = [
    protocol.Start("cpu", True, ("a.py",), "attention"),
    protocol.ProbeRequest(CASE, run=False),
    protocol.MeasureRequest((CASE, CASE), ("latency",)),
    protocol.CertifyRequest(CASE, {"n": (128, 256), "d": (16,)}),
]
ANSWERS = [
    protocol.Ready(ENVIRONMENT, Sampling(20, 60, 2.0, 0.01)),
    protocol.Touch(CASE.key, "timing", None),
    protocol.Touch(CASE.key, "timing", 1e-3),
    protocol.Probed(CASE, None, None, 1e-3, None, 2**60, 1),
    protocol.Probed(CASE, ROW, 1.0, 1e-3, 2**60, 1, 1),
    protocol.Measured(ROW),
    protocol.Certified(({"text": "bytes = 4n²", "confirmed_at": [[512]]},), {"depth": "no polynomial"}),
    protocol.Done(),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda m: m.kind)
def test_requests_arrive_as_sent(request_: protocol.Request) -> None:
    assert protocol.read_request(protocol.write(request_)) == request_


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda m: m.kind)
def test_answers_arrive_as_sent(answer: protocol.Answer) -> None:
    line = protocol.write(answer)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert protocol.read_answer(line) == answer
    assert json.loads(line)["kind"] == answer.kind


def test_a_flag_stays_a_flag() -> None:
    """False must not come back as 0: the key of the case would change and its row be lost."""
    read = protocol.read_answer(protocol.write(protocol.Measured(ROW)))
    assert isinstance(read, protocol.Measured)
    assert read.result.case.key == CASE.key
    assert read.result.case.problem["causal"] is False


@pytest.mark.parametrize("line", [b"", b"{}", b"junk", b'{"kind": "other"}', b"[1]"])
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(ValidationError):
        protocol.read_answer(line)
