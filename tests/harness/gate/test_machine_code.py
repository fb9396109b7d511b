"""`bench check --machine-code`: what became worse in compiled kernels, its verdict and exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from .made import ROOT, bench, rows, write

Records = list[dict[str, Any]]
REFERENCE: Records = json.loads((ROOT / "results" / "reference-machine-code.json").read_text("utf-8"))[:2]


def worse(**changes: Any) -> Callable[[Records], None]:
    return lambda records: records[0].update(changes)


def no_tensor_cores(records: Records) -> None:
    for part in ("loop", "overall"):
        records[0][part]["tensor_core"] = 0


def named_anew(records: Records) -> None:
    records.append({**deepcopy(records[0]), "kernel": "another"})


def check(tmp_path: Path, change: Callable[[Records], object], expect: int) -> Any:
    """The findings about machine code after a change to the first of two kernels."""
    candidate = deepcopy(REFERENCE)
    change(candidate)
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(REFERENCE))
    after.write_text(json.dumps(candidate))
    run = write(tmp_path / "run", rows())
    found = bench(
        "check", run, "--baseline", run, "--machine-code", after, "--machine-code-baseline", before,
        "--json", "-", expect=expect,
    )  # fmt: skip
    findings = json.loads(found.stdout[found.stdout.index("{") :])["findings"]
    return [finding for finding in findings if finding["metric"] == "machine code"]


@pytest.mark.parametrize(
    ("change", "code", "verdict", "words"),
    [
        (lambda records: None, 0, "same", "as before"),
        (worse(registers=1), 0, "same", "registers"),
        (worse(spill_bytes=8), 1, "slower", "spill"),
        (no_tensor_cores, 1, "slower", "tensor"),
        (worse(warnings=["C7515: wgmma serialised"]), 1, "slower", "C7515"),
        (named_anew, 0, "new", "new kernel"),
        (lambda records: records.pop(0), 3, "missing", "gone"),
        (worse(triton="9.9.9"), 4, "incomparable", "9.9.9"),
    ],
)
def test_each_change_of_a_kernel_has_its_verdict(
    tmp_path: Path, change: Callable[[Records], object], code: int, verdict: str, words: str
) -> None:
    found = check(tmp_path, change, code)
    (said,) = [finding for finding in found if finding["verdict"] == verdict and words in finding["words"]][
        :1
    ]
    assert ("another" in said["case"]) is (verdict == "new")
    assert {finding["verdict"] for finding in found} <= {verdict, "same"}


def test_one_file_alone_or_a_damaged_one_is_named(tmp_path: Path) -> None:
    run = write(tmp_path / "run", rows())
    whole, cut = tmp_path / "whole.json", tmp_path / "cut.json"
    whole.write_text(json.dumps(REFERENCE))
    cut.write_text(json.dumps(REFERENCE)[:-40])
    told = ("check", run, "--baseline", run, "--machine-code")
    assert "give both" in bench(*told, whole, expect=2).stderr
    assert "cut.json" in bench(*told, cut, "--machine-code-baseline", whole, expect=2).stderr
    assert (
        "no such file" in bench(*told, whole, "--machine-code-baseline", tmp_path / "none", expect=4).stderr
    )
