"""`bench inspect` as people meet it: kernels without a GPU, and the gate's exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.counting.inspection import Refused, compare
from harness.counting.machine_code import MachineCode

BENCH = Path(sys.executable).with_name("bench")

PLUGIN = """\
import triton
import triton.language as tl
from implementations.registry import KernelBuild, implementation

@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

def builds(capability):
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    yield KernelBuild("twice[BLOCK=128]", twice, signature, {"BLOCK": 128}, 4, 1)

@implementation("doubling", operation="attention", exact=True, laws={}, kernel_builds=builds)
def doubling(problem):
    \"\"\"Not attention, but a kernel.\"\"\"
    return lambda inputs: inputs.q
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    (folder / "doubling.py").write_text(PLUGIN)
    inspect(folder, "--save", "base.json")
    return folder


def inspect(folder: Path, *options: str, expect: int = 0, **environment: str) -> str:
    """Standard output and error of inspecting the plugin's kernel for one target."""
    done = subprocess.run(
        [BENCH, "inspect", "--plugin", "doubling.py", "--only", "doubling", "--target", "sm_80", *options],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "200", **environment},
    )  # fmt: skip
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def edited(here: Path, **changes: Any) -> str:
    """A baseline that differs from today's in some figures."""
    (record,) = json.loads((here / "base.json").read_text())
    (here / "edited.json").write_text(json.dumps([record | changes]))
    return "edited.json"


def test_a_users_kernel_is_shown_with_its_figures(here: Path) -> None:
    shown = inspect(here)
    (line,) = [line for line in shown.splitlines() if "twice[BLOCK=128]" in line]
    assert "sm_80" in line
    assert "0 B" in line


def test_json_is_the_baseline(here: Path) -> None:
    assert json.loads(inspect(here, "--json")) == json.loads((here / "base.json").read_text())


def test_the_same_kernel_passes(here: Path) -> None:
    assert "1 kernels: none became worse" in inspect(here, "--baseline", "base.json")


def test_an_interpreting_environment_changes_nothing(here: Path) -> None:
    assert "none became worse" in inspect(here, "--baseline", "base.json", TRITON_INTERPRET="1")


def test_a_lost_tensor_core_fails(here: Path) -> None:
    (record,) = json.loads((here / "base.json").read_text())
    better = edited(here, overall=record["overall"] | {"tensor_core": 8})
    assert "tensor-core instructions" in inspect(here, "--baseline", better, expect=1)


def test_a_change_is_shown_and_passes(here: Path) -> None:
    assert "registers 99 →" in inspect(here, "--baseline", edited(here, registers=99))


def test_another_triton_is_not_comparable(here: Path) -> None:
    assert "not comparable" in inspect(here, "--baseline", edited(here, triton="1.0"), expect=4)


def test_another_triton_is_not_comparable_whatever_the_kernels_are_called(here: Path) -> None:
    assert "not comparable" in inspect(here, "--baseline", edited(here, triton="1.0", kernel="x"), expect=4)


def test_kernels_that_were_not_asked_for_are_not_gone(here: Path) -> None:
    (record,) = json.loads((here / "base.json").read_text())
    (here / "all.json").write_text(json.dumps([record, record | {"kernel": "another"}]))
    assert "gone" not in inspect(here, "--baseline", "all.json")


def test_a_target_that_the_baseline_lacks_is_not_comparable(here: Path) -> None:
    assert "nothing for sm_80" in inspect(here, "--baseline", edited(here, target="sm_90"), expect=4)


def test_a_kernel_that_the_compiler_now_refuses_fails(here: Path) -> None:
    (before,) = TypeAdapter(list[MachineCode]).validate_json((here / "base.json").read_bytes())
    refused = Refused(before.kernel, before.target, "shapes must be powers of two")
    (found,) = compare([before], [refused])
    assert found.failures == ("the compiler refuses it: shapes must be powers of two",)
    (new,) = compare([], [refused])
    assert not new.failures


def test_no_baseline_and_no_such_thing(here: Path) -> None:
    assert "write one with --save" in inspect(here, "--baseline", "none.json", expect=4)
    (here / "junk.json").write_text("[{}]")
    assert "not a baseline" in inspect(here, "--baseline", "junk.json", expect=2)
    assert "known: sm_80" in inspect(here, "--target", "sm_1", expect=2)
