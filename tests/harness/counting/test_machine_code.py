"""Kernels compiled for GPUs that are not here: figures against what the kernel must do, cache, comparison."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.counting.inspection import Refused, compare, inspect_all
from harness.counting.machine_code import CannotCompile, MachineCode, _warnings, inspect, recall
from implementations import registry
from implementations.registry import KernelBuild, load, lookup

from . import kernels_under_test as kernels

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Triton compiles on Linux")


def matmul(m: int = 64, n: int = 64, k: int = 64, **changes: Any) -> KernelBuild:
    """Tiles of C = A·B over a loop along K, in float16."""
    signature = {"A": "*fp16", "B": "*fp16", "C": "*fp32", "k_len": "i32"}
    build = KernelBuild(
        name="matmul", kernel=kernels.matmul,
        signature={**signature, "M": "constexpr", "N": "constexpr", "K": "constexpr"},
        constexprs={"M": m, "N": n, "K": k}, num_warps=4, num_stages=2,
        divisible_by_16=("A", "B", "C", "k_len"),
    )  # fmt: skip
    return replace(build, **changes)


@cache
def compiled(target: str) -> MachineCode:
    return inspect(matmul(), target)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_the_loop_does_the_work_of_one_tile(target: str) -> None:
    """Cross-check: FLOPs and bytes of the machine code's loop are those of a tile."""
    code = compiled(target)
    assert code.loop is not None
    assert code.loop.mma_flops is not None
    assert code.loop.mma_flops * code.warps == 2 * 64 * 64 * 64
    threads = code.warps * (64 if target.startswith("gfx") else 32)
    assert code.loop.global_bytes is not None
    assert code.loop.global_bytes * threads == 2 * 64 * 64 * 2
    assert code.spill_bytes == code.loop.local_memory == 0
    assert 0 < code.occupancy.ratio <= 1
    assert code.dynamic_shared_bytes >= 64 * 64 * 2
    assert 0 < code.registers <= 512


def test_too_many_live_registers_spill() -> None:
    code = inspect(matmul(128, 256, 16, num_warps=2, num_stages=1), "sm_80")
    assert code.spill_bytes > 0
    assert code.overall.local_memory > 0


def test_records_round_trip() -> None:
    code = compiled("sm_80")
    assert MachineCode.from_record(code.to_record()) == code


def test_the_cache_is_by_content(tmp_path: Path) -> None:
    assert recall(matmul(), "sm_80", tmp_path) is None
    first = inspect(matmul(), "sm_80", tmp_path)
    assert recall(matmul(), "sm_80", tmp_path) == first == compiled("sm_80")  # deterministic, too
    assert recall(matmul(num_warps=8), "sm_80", tmp_path) is None
    assert recall(matmul(n=32), "sm_80", tmp_path) is None
    assert recall(matmul(), "sm_86", tmp_path) is None
    assert len(list(tmp_path.iterdir())) == 1


def test_figures_do_not_depend_on_the_folder_or_the_line(tmp_path: Path) -> None:
    shifted = tmp_path / "elsewhere.py"
    source = Path(str(kernels.__file__)).read_text("utf-8")
    shifted.write_text(source.replace("import triton\n", "import triton\n" + "\n" * 7, 1), "utf-8")
    spec = importlib.util.spec_from_file_location("elsewhere", shifted)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert inspect(matmul(kernel=module.matmul), "sm_80") == compiled("sm_80")


def test_what_the_compiler_refuses_carries_its_words() -> None:
    with pytest.raises(CannotCompile, match=r"\w+"):
        inspect(matmul(m=48), "sm_80")  # not a power of two


def test_an_unknown_target_is_named() -> None:
    with pytest.raises(KeyError, match="sm_81"):
        inspect(matmul(), "sm_81")


def test_interpreted_processes_are_refused() -> None:
    code = "from harness.counting.machine_code import require_compiler as r; r()"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TRITON_INTERPRET": "1"},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert "unset TRITON_INTERPRET" in done.stderr


def test_serialisation_warnings_are_kept() -> None:
    log = (
        "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized "
        "due to insufficient register resources in function 'f'\n"
        "ptxas /tmp/x.ptx, line 7; warning : unused\nptxas info    : Used 8 registers\n"
    )
    first, second = _warnings(log)
    assert "(C7515)" in first
    assert "unused" in second
    assert "/tmp" not in second


def test_what_became_worse_fails_and_what_changed_is_shown() -> None:
    before = compiled("sm_80")
    assert before.loop is not None
    worse = replace(
        before, registers=before.registers + 8, spill_bytes=16, warnings=("(C7515) serialized",),
        loop=replace(before.loop, tensor_core=before.loop.tensor_core - 1),
    )  # fmt: skip
    (found,) = compare([before], [worse])
    assert len(found.failures) == 3
    assert any("registers" in change for change in found.changes)
    (same,) = compare([before], [before])
    assert not same.failures
    assert not same.changes
    (better,) = compare([worse], [before])
    assert not better.failures
    (other,) = compare([before], [replace(before, triton="0.0")])
    assert not other.comparable
    assert [c.changes for c in compare([before], [])] == [("kernel is gone",)]


def test_the_suites_own_kernel_against_its_tile() -> None:
    """The flash kernel's loop: two products of BM × BN × d, and the K and V tiles, by every thread."""
    load("attention")
    builds = lookup("triton_flash").kernel_builds
    assert builds is not None
    build = next(b for b in builds(80) if "flash_forward" in b.name)
    code = inspect(build, "sm_80")
    assert code.loop is not None
    assert code.loop.mma_flops is not None
    assert code.loop.global_bytes is not None
    m, n, d = (build.constexprs[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_D"))
    assert code.loop.mma_flops * code.warps == 4 * m * n * d
    assert code.loop.global_bytes * code.warps * 32 == 2 * n * d * 2


PLUGIN = """
import sys
sys.path.insert(0, {here!r})
from dataclasses import replace
from implementations.registry import KernelBuild, implementation
import kernels_under_test as kernels

def builds(capability):
    types = {{"X": "*fp32", "OUT": "*fp32", "n": "i32", "BLOCK": "constexpr", "MASKED": "constexpr"}}
    yield KernelBuild("copy", kernels.copy, types, {{"BLOCK": 128, "MASKED": True}}, 4, 1, ("X", "OUT"))
    yield KernelBuild("odd", kernels.copy, types, {{"BLOCK": 100, "MASKED": True}}, 4, 1, ("X", "OUT"))

@implementation("made_here", operation="attention", exact=True, laws={{}}, kernel_builds=builds)
def made_here(problem):
    return None
"""


def test_a_plugin_is_inspected_in_processes_and_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))  # the plugin leaves no trace
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN.format(here=str(Path(__file__).parent)), "utf-8")
    options: dict[str, Any] = {"names": ["made_here"], "plugins": [plugin], "cache": tmp_path / "cache"}
    found = inspect_all(["sm_80", "sm_90"], jobs=2, **options)
    assert [(code.kernel, code.target) for code in found] == [
        ("copy", "sm_80"), ("odd", "sm_80"), ("copy", "sm_90"), ("odd", "sm_90")
    ]  # fmt: skip
    assert [isinstance(code, Refused) for code in found] == [False, True, False, True]
    copied = found[0]
    assert isinstance(copied, MachineCode)
    assert copied.loop is None
    assert (copied.overall.global_memory, copied.overall.tensor_core) == (2, 0)
    again = inspect_all(["sm_80", "sm_90"], jobs=1, **options)
    assert again == found
