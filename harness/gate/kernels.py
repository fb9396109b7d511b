"""Kernels as machine code against a baseline of them: spills and tensor-core instructions are exact."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from harness.counting.inspection import Comparison, compare
from harness.counting.machine_code import MachineCode
from harness.gate.findings import Finding, Verdict
from harness.gate.reading import NotComparable
from harness.store import UnreadableRun

METRIC = "machine code"


def kernel_findings(baseline: Path, candidate: Path) -> tuple[Finding, ...]:
    """A finding for each kernel. Raises NotComparable without a baseline, UnreadableRun for damage."""
    if not baseline.exists():
        raise NotComparable(f"{baseline}: no such file; write it with bench inspect --save")
    return tuple(_finding(one) for one in compare(_read(baseline), _read(candidate)))


def _read(path: Path) -> Iterable[MachineCode]:
    try:
        return [MachineCode.from_record(record) for record in json.loads(path.read_text("utf-8"))]
    except OSError as error:
        raise UnreadableRun(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableRun(f"{path}: not a file of bench inspect --save: {error}") from None


def _finding(one: Comparison) -> Finding:
    case = f"kernel {one.kernel} on {one.target}"
    words = "; ".join((*one.failures, *one.changes)) or "as before"
    if not one.comparable:
        return Finding(case, METRIC, Verdict.INCOMPARABLE, words)
    if one.failures:
        return Finding(case, METRIC, Verdict.SLOWER, words)
    if one.changes == ("kernel is gone",):
        return Finding(case, METRIC, Verdict.MISSING, words)
    if one.changes == ("new kernel",):
        return Finding(case, METRIC, Verdict.NEW, words)
    return Finding(case, METRIC, Verdict.SAME, words)
