"""The environment of a worker process, by kind of device. Imports no torch."""

from __future__ import annotations

import os

#: By default glibc returns large blocks to the system on every free, so each call would fault its pages
#: in afresh and naive attention would look cubic. The thresholds keep what is freed; without mmap, blocks
#: of every size come from the one heap that they keep. `Cpu.release` gives it back between cases.
_KEEP = str(1 << 40)
_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": _KEEP,
    "MALLOC_TRIM_THRESHOLD_": _KEEP,
    "MALLOC_TOP_PAD_": str(1 << 26),
    "MALLOC_MMAP_MAX_": "0",
}
#: Unbuffered logs, and none of the profiler's own lines in them.
_QUIET = {"PYTHONUNBUFFERED": "1", "KINETO_LOG_LEVEL": "10"}
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


def worker_environment(kind: str, interpreted: bool) -> dict[str, str]:
    """The environment variables of a worker for "cpu" or "cuda".

    `interpreted` sets TRITON_INTERPRET, which Triton reads when it is imported: an interpreted worker
    must be a process of its own.
    """
    environment = {**os.environ, **_QUIET}
    environment.pop("TRITON_INTERPRET", None)
    if kind == "cpu":
        environment |= _MALLOC | _ONE_THREAD
    if interpreted:
        environment["TRITON_INTERPRET"] = "1"
    return environment
