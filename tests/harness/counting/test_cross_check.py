"""Machine code against the interpreter: a loop of the compiled kernels does the work of a tile, to the byte.

The machine code is that of the committed baseline; tests/test_machine_code_baseline.py keeps it true.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import pytest

from implementations.registry import KernelBuild, load, lookup

ROOT = Path(__file__).parents[3]
RECORDS = json.loads((ROOT / "results" / "reference-machine-code.json").read_text("utf-8"))
KINDS = {"flash_forward": "forward", "flash_backward_keys": "keys", "flash_backward_queries": "queries"}
#: Their tensor-core instructions and loads say in their names how much they do; TMA loads do not, nor sm_100.
TARGETS = {"sm_80": 80, "sm_86": 86, "sm_89": 89, "sm_90": 90, "sm_120": 120}

pytestmark = pytest.mark.skipif(
    {record["triton"] for record in RECORDS} != {version("triton")},
    reason="the tiles are those of the baseline's Triton",
)


def builds(capability: int) -> list[KernelBuild]:
    """The kernels without masks."""
    load("attention")
    chosen = lookup("triton_flash").kernel_builds
    assert chosen is not None
    return [b for b in chosen(capability) if b.name.partition("[")[0] in KINDS and _plain(b)]


def _plain(build: KernelBuild) -> bool:
    return not any(build.constexprs.get(name) for name in ("CAUSAL", "WINDOW", "LENGTHS")) and (
        build.constexprs.get("MASK", "none") == "none"
    )


def shape(build: KernelBuild) -> str:
    constants = build.constexprs
    return f"{constants['BLOCK_M']}x{constants['BLOCK_N']}x{constants['HEAD_DIM']}"


@pytest.fixture(scope="module")
def interpreted() -> dict[str, dict[str, tuple[int, int]]]:
    """Tile -> kernel -> FLOPs and streamed bytes of one more tile."""
    wanted = sorted({shape(build) for capability in TARGETS.values() for build in builds(capability)})
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    script = Path(__file__).with_name("interpreted_tiles.py")
    done = subprocess.run(
        [sys.executable, script, *wanted], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return cast("dict[str, dict[str, tuple[int, int]]]", json.loads(done.stdout))


@pytest.mark.parametrize("target", TARGETS)
def test_a_step_of_the_loop_is_a_tile(
    target: str, interpreted: dict[str, dict[str, tuple[int, int]]]
) -> None:
    records = {record["kernel"]: record for record in RECORDS if record["target"] == target}
    checked = 0
    for build in builds(TARGETS[target]):
        loop: dict[str, Any] = records[build.name]["loop"]
        kind = KINDS[build.name.partition("[")[0]]
        flops, streamed = interpreted[shape(build)][kind]
        assert loop["mma_flops"] * build.num_warps == flops, build.name
        if loop["global_bytes"] is not None:
            asked = loop["global_bytes"] * build.num_warps * 32
            # Beside the tiles the kernel that owns keys reads two numbers a row, each by several threads.
            assert asked == streamed if kind != "keys" else streamed < asked < 2 * streamed, build.name
        checked += 1
    assert checked == 2 * len(KINDS)
