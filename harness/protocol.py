"""What the runner and its worker say to each other: one JSON object a line.

The worker reads requests from its standard input and answers on a pipe of its own, so that whatever
the code under test prints can never be taken for an answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, TypeAdapter

from harness.devices.device import Sampling
from harness.types import Case, Environment, Result


@dataclass(frozen=True, slots=True)
class Start:
    """First request: which device, and the plugins to import."""

    device: str
    interpreted: bool
    plugins: tuple[str, ...]
    operation: str
    kind: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Predict a case; `run` also calls it twice to learn its set-up and call time."""

    case: Case
    run: bool
    kind: Literal["probe"] = "probe"


@dataclass(frozen=True, slots=True)
class MeasureRequest:
    """Measure the cases of one problem together."""

    cases: tuple[Case, ...]
    metrics: tuple[str, ...]
    kind: Literal["measure"] = "measure"


@dataclass(frozen=True, slots=True)
class CertifyRequest:
    """Count a case at these sizes of law variables, and find the exact polynomials."""

    case: Case
    sizes: dict[str, tuple[int, ...]]
    kind: Literal["certify"] = "certify"


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """Judge the cases of one problem by these metrics, warm them up, and keep them for samples.

    release  let go of what was held before
    """

    cases: tuple[Case, ...]
    metrics: tuple[str, ...]
    release: bool
    kind: Literal["hold"] = "hold"


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """Take a sample of a held case.

    move  first move its tensors to other memory, and call once
    turn  both sides run on the same CPU in the same turn, and on another in the next
    """

    key: str
    move: bool
    turn: int
    kind: Literal["sample"] = "sample"


Request = Start | ProbeRequest | MeasureRequest | CertifyRequest | HoldRequest | SampleRequest


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker is up: its environment, and how many samples it takes of a case."""

    environment: Environment
    sampling: Sampling
    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class Touch:
    """The worker now works on this case; what kills it next is this case's doing."""

    key: str
    stage: str
    live: float | None = None
    kind: Literal["touch"] = "touch"


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe found; `result` is set when the case ends here (unsupported, out of memory …).

    setup, call  seconds of preparing with the first call, and of a later call; None when not run
    peak_bytes   predicted peak over nothing, inputs included; None when it cannot be predicted
    flops, bytes counted or declared work of one call, for predictions without running
    """

    case: Case
    result: Result | None
    setup: float | None
    call: float | None
    peak_bytes: int | None
    flops: int
    bytes: int
    kind: Literal["probed"] = "probed"


@dataclass(frozen=True, slots=True)
class Measured:
    """A finished row."""

    result: Result
    kind: Literal["measured"] = "measured"


@dataclass(frozen=True, slots=True)
class Certified:
    """Certificates as records (counting.certificates), and quantity -> why there is none."""

    certificates: tuple[dict[str, Any], ...]
    uncertified: dict[str, str]
    kind: Literal["certified"] = "certified"


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sample of a held case in seconds per call: what is judged by, and by the wall where that is known."""

    judged: float
    wall: float | None
    kind: Literal["sampled"] = "sampled"


@dataclass(frozen=True, slots=True)
class Done:
    """The request is finished."""

    kind: Literal["done"] = "done"


Answer = Ready | Touch | Probed | Measured | Certified | Sampled | Done

_REQUEST: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Discriminator("kind")])
_ANSWER: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Discriminator("kind")])
# One adapter a type: serialising through a union tries its members leniently and turns False into 0.
_WRITERS: dict[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in get_args(Request) + get_args(Answer)
}


def write(message: Request | Answer) -> bytes:
    """One line of strict JSON."""
    data = _WRITERS[type(message)].dump_python(message, mode="json")
    return json.dumps(data, allow_nan=False).encode() + b"\n"


def read_request(line: bytes) -> Request:
    """Raises pydantic.ValidationError on anything else."""
    return _REQUEST.validate_json(line)


def read_answer(line: bytes) -> Answer:
    """Raises pydantic.ValidationError on anything else."""
    return _ANSWER.validate_json(line)
