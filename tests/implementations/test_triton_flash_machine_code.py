"""The flash kernels as GPU machine code, compiled ahead of time: no GPU, and no Triton in this process.

Run as a program, this file compiles the kernels chosen for some GPUs and prints what it read as JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from implementations.attention._flash_tiles import KINDS, shared_bytes, shared_limit, tiles
from implementations.registry import KernelBuild

ROOT = Path(__file__).parents[2]
CAPABILITIES = (80, 90, 100, 120)
#: Instructions that make the tensor cores multiply.
TENSOR = {80: "HMMA", 90: "HGMMA", 100: "UTCHMMA", 120: "HMMA"}
#: Instructions per tile of keys in the unmasked loop of Triton 3.7.1's fused-attention tutorial, at our
#: tile, warps and stages: (capability, head_dim) -> (not causal, causal).
TUTORIAL = {
    (80, 64): (649, 658), (80, 128): (530, 542), (90, 64): (517, 514), (90, 128): (353, 353),
    (100, 64): (477, 475), (100, 128): (368, 369), (120, 64): (615, 613), (120, 128): (483, 477),
}  # fmt: skip
OPCODE = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]+)[A-Z0-9_.]*\b.*?;")


# ------------------------------------------------------------------------------------ the child process


def first_loop(sass: str, tensor: str) -> list[str]:
    """Opcodes (bare of modifiers) of the innermost loop that multiplies and comes first: the unmasked one.

    A loop is a label and the first branch back to it; waiting loops are too short to hold a product.
    """
    labels: dict[str, int] = {}
    lines = sass.splitlines()
    for i, line in enumerate(lines):
        if label := re.match(r"^(\.L_x_\d+):", line.strip()):
            labels[label[1]] = i
        back = re.search(r"\bBRA(?:\.\w+)*\s+(?:!?U?P\w+,\s*)?`\((\.L_x_\d+)\)", line)
        if back and back[1] in labels:
            body = lines[labels[back[1]] : i + 1]
            opcodes = [found[1] for found in map(OPCODE.match, body) if found]
            if tensor in opcodes:
                return opcodes
    return []


def read(cubin: bytes, tensor: str) -> dict[str, int]:
    """Registers, stack bytes (where spills go) and the unmasked loop's instructions."""
    import triton

    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage, sass = (
            subprocess.run(
                [tools / tool, option, file.name], capture_output=True, text=True, check=True
            ).stdout
            for tool, option in (("cuobjdump", "--dump-resource-usage"), ("nvdisasm", "-c"))
        )
    numbers = dict(re.findall(r"(REG|STACK):(\d+)", usage))
    loop = first_loop(sass, tensor)
    return {"registers": int(numbers["REG"]), "stack": int(numbers["STACK"]),
            "loop": len(loop), "tensor": loop.count(tensor), "waits": loop.count("WARPGROUP")}  # fmt: skip


def narrow_build() -> KernelBuild:
    """head_dim 40: strides that are multiples of 8 and not of 16, which Triton does not see by itself."""
    from implementations.attention._flash_builds import Form, build

    built = build("forward", tiles("forward", 80, 40, 2, descriptors=False)[0], 40, Form(causal=True))
    pointers = tuple(name for name in built.divisible_by_16 if built.signature[name].startswith("*"))
    return replace(built, divisible_by_16=pointers)


def child(capability: int) -> dict[str, Any]:
    """The kernels that are chosen for this GPU without masks, by name."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from implementations.attention._flash_builds import HEAD_DIMS, PLAIN, builds

    found = {}
    for build in [*builds(capability, PLAIN, HEAD_DIMS), *([narrow_build()] if capability == 80 else [])]:
        names = list(build.signature)
        attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in build.divisible_by_16}
        source = ASTSource(build.kernel, dict(build.signature), dict(build.constexprs), attributes)
        options = {"num_warps": build.num_warps, "num_stages": build.num_stages}
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        found[build.name] = {
            **read(compiled.asm["cubin"], TENSOR[capability]), "shared": compiled.metadata.shared,
        }  # fmt: skip
    return found


if __name__ == "__main__":
    print(json.dumps(child(int(sys.argv[1]))))
    sys.exit()


# --------------------------------------------------------------------------------------------- the tests


@pytest.fixture(scope="module", params=CAPABILITIES)
def machine_code(request: pytest.FixtureRequest) -> tuple[int, dict[str, dict[str, int]], str]:
    """Capability, what was read of each kernel, and what the assembler had to say."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": str(ROOT), "TRITON_DUMP_PTXAS_LOG": "1"}
    ran = subprocess.run(
        [sys.executable, __file__, str(request.param)],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return request.param, json.loads(ran.stdout.splitlines()[-1]), ran.stdout + ran.stderr


def test_no_kernel_spills(machine_code: tuple[int, dict[str, dict[str, int]], str]) -> None:
    assert {name: code["stack"] for name, code in machine_code[1].items() if code["stack"]} == {}


def test_every_kernel_multiplies_on_tensor_cores(
    machine_code: tuple[int, dict[str, dict[str, int]], str],
) -> None:
    assert len(machine_code[1]) == (13 if machine_code[0] == 80 else 12)
    assert [name for name, code in machine_code[1].items() if not code["tensor"]] == []


def test_asynchronous_products_are_not_serialised(
    machine_code: tuple[int, dict[str, dict[str, int]], str],
) -> None:
    """The assembler's warning is seen when it runs; from Triton's cache, a wait around each product is."""
    assert "C7515" not in machine_code[2]
    assert [name for name, code in machine_code[1].items() if code["waits"] >= code["tensor"]] == []


def test_shared_memory_fits(machine_code: tuple[int, dict[str, dict[str, int]], str]) -> None:
    assert max(code["shared"] for code in machine_code[1].values()) <= shared_limit(machine_code[0])


def test_the_unmasked_loop_is_no_longer_than_the_tutorials(
    machine_code: tuple[int, dict[str, dict[str, int]], str],
) -> None:
    """Although it takes any length, any head count ratio and both causal alignments."""
    capability, code, _ = machine_code
    longer = {}
    for head_dim in (64, 128):
        for causal, bound in zip((False, True), TUTORIAL[capability, head_dim], strict=True):
            loop = code[f"flash_forward[head_dim={head_dim}, causal={causal}]"]["loop"]
            if not 0 < loop <= bound:
                longer[head_dim, causal] = (loop, bound)
    assert longer == {}


def test_head_dim_40_is_read_16_bytes_at_a_time(
    machine_code: tuple[int, dict[str, dict[str, int]], str],
) -> None:
    """Read two bytes at a time, this loop has 1,429 instructions."""
    capability, code, _ = machine_code
    if capability == 80:
        assert code["flash_forward[head_dim=40, causal=True]"]["loop"] <= TUTORIAL[80, 64][1]


@pytest.mark.parametrize("capability", [80, 86, 89, 90, 100, 103, 120, 130])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_every_tile_fits_the_shared_memory(capability: int, itemsize: int) -> None:
    for kind in KINDS:
        for head_dim in (16, 40, 64, 80, 128, 160, 256):
            chosen = tiles(kind, capability, head_dim, itemsize, descriptors=True)
            assert chosen
            assert len({tile.descriptors for tile in chosen}) == 1  # tensors are passed in one form
            for tile in chosen:
                needed = shared_bytes(kind, tile, capability, head_dim, itemsize)
                assert needed <= shared_limit(capability)
