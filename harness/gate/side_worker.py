"""The worker of one build: this harness measures the implementations of another checkout.

`python -m harness.gate.side_worker ROOT FD`: as `harness.worker`, but `implementations` comes from ROOT,
and cases can be held warm and sampled one by one. Both builds are measured by the same instrument.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path


def main() -> None:
    """Serve requests until standard input ends."""
    root, answers = Path(sys.argv[1]), int(sys.argv[2])
    if "implementations" in sys.modules:
        raise RuntimeError("implementations was imported before its checkout was chosen")
    sys.path.insert(0, str(root))
    from harness import protocol
    from harness.gate.holding import HoldingWorker
    from harness.worker import die_with_parent, requests

    die_with_parent()
    random.seed(0)
    incoming = requests()
    start = next(incoming)
    assert isinstance(start, protocol.Start)
    worker = HoldingWorker(start, answers)
    found = Path(sys.modules["implementations"].__path__[0])
    if found.resolve().parent != root.resolve():
        raise RuntimeError(f"{root} holds no package `implementations`; {found} was imported")
    for request in incoming:
        worker.handle(request)


if __name__ == "__main__":
    main()
