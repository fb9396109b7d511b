"""The machine-code gate on the suite's own kernels: no change may make one of them worse unnoticed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
BENCH = Path(sys.executable).with_name("bench")
BASELINE = ROOT / "results" / "reference-machine-code.json"


def test_no_kernel_is_worse_than_its_baseline() -> None:
    """Another Triton than the baseline's is not comparable, and said to be so."""
    made_by = {record["triton"] for record in json.loads(BASELINE.read_text("utf-8"))}
    done = subprocess.run(
        [BENCH, "inspect", "--target", "sm_90", "--baseline", BASELINE],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    expected = 0 if made_by == {version("triton")} else 4
    assert done.returncode == expected, done.stderr
    assert ("none became worse" in done.stdout) is (expected == 0)


def test_the_baseline_has_no_spills_and_every_product_on_tensor_cores() -> None:
    """Of 27 kernels on seven targets; the one that merges split keys multiplies no matrices."""
    records = json.loads(BASELINE.read_text("utf-8"))
    assert len({(r["kernel"], r["target"]) for r in records}) == len(records) == 27 * 7
    assert not [r["kernel"] for r in records if r["spill_bytes"] or r["stack_bytes"] or r["warnings"]]
    scalar = {r["kernel"].partition("[")[0] for r in records if not r["loop"]["tensor_core"]}
    assert scalar == {"flash_merge"}
