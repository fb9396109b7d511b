"""What a Triton kernel costs as GPU machine code, compiled ahead of time where there is no GPU.

NVIDIA targets are compiled with the ptxas that Triton ships and read with its disassembler; AMD targets, best
effort, from the assembly Triton emits. Run in a process without TRITON_INTERPRET. The figures are the same in
every process, folder and line of the file; they belong to one version of Triton.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.counting import assembly
from harness.counting.assembly import InstructionCounts
from harness.counting.occupancy import MULTIPROCESSORS, Occupancy, occupancy
from implementations.registry import KernelBuild

TARGETS = tuple(MULTIPROCESSORS)
#: Raised when the figures or their meaning change, so that cached ones are not taken for them.
FORMAT = 1


class CannotCompile(RuntimeError):
    """The compiler refuses the kernel for this target; the message is its own."""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """One kernel on one target.

    registers             per thread (AMD: vector and accumulation registers together)
    spill_bytes           stored to and loaded from local memory for want of registers, per thread
    static_shared_bytes   of the code itself, without what the system reserves
    dynamic_shared_bytes  asked for at launch
    tensor_memory_columns  of Blackwell's tensor memory; 0 elsewhere
    loop, overall         instructions of the hottest loop (None without a loop) and of the whole kernel
    warnings              codes and words of the assembler, such as C7515: serialised tensor-core products
    """

    kernel: str
    target: str
    triton: str
    warps: int
    registers: int
    spill_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    tensor_memory_columns: int
    occupancy: Occupancy
    loop: InstructionCounts | None
    overall: InstructionCounts
    warnings: tuple[str, ...]

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory per block."""
        return self.static_shared_bytes + self.dynamic_shared_bytes

    def to_record(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> MachineCode:
        """From plain data. Raises TypeError for a record of another format."""
        loop = record["loop"]
        nested = {
            "occupancy": Occupancy(**record["occupancy"]),
            "loop": InstructionCounts(**loop) if loop else None,
            "overall": InstructionCounts(**record["overall"]),
            "warnings": tuple(record["warnings"]),
        }
        return cls(**{**record, **nested})


def capability(target: str) -> int:
    """What kernel builds are asked for: 90 of sm_90; AMD takes those of sm_80, without descriptors."""
    return int(target[3:]) if target.startswith("sm_") else 80


def inspect(build: KernelBuild, target: str, cache: Path | None = None) -> MachineCode:
    """Compile one kernel for a target such as "sm_90" or "gfx942" and read what came out.

    With a cache folder, a kernel that was inspected before is not compiled again: entries are keyed by the
    kernel's source, signature, options, target and Triton's version.
    Raises CannotCompile, KeyError for an unknown target, RuntimeError under TRITON_INTERPRET.
    """
    require_compiler()
    if known := recall(build, target, cache):
        return known
    source, gpu, options = _source(build, target)
    compiled, log = _compile(source, gpu, options)
    read = _read_nvidia if target.startswith("sm_") else _read_amd
    code = read(build.name, target, compiled, log)
    if cache:
        cache.mkdir(parents=True, exist_ok=True)
        _write_whole(cache / f"{_key(source, target, options)}.json", json.dumps(code.to_record()))
    return code


def require_compiler() -> None:
    """Raise RuntimeError when Triton interprets in this process."""
    import triton

    if triton.knobs.runtime.interpret:
        raise RuntimeError("unset TRITON_INTERPRET: interpreted kernels cannot be compiled")


def recall(build: KernelBuild, target: str, cache: Path | None) -> MachineCode | None:
    """What the cache knows of a kernel. Raises KeyError for an unknown target."""
    if target not in MULTIPROCESSORS:
        raise KeyError(f"unknown target {target!r}; known: {', '.join(TARGETS)}")
    if cache is None:
        return None
    source, _, options = _source(build, target)
    entry = cache / f"{_key(source, target, options)}.json"
    if not entry.exists():
        return None
    known = MachineCode.from_record(json.loads(entry.read_text("utf-8")))
    return replace(known, kernel=build.name)


def _write_whole(path: Path, text: str) -> None:
    """Readers never see a half-written file."""
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(text, "utf-8")
    partial.replace(path)


def _source(build: KernelBuild, target: str) -> tuple[Any, Any, dict[str, int]]:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = list(build.signature)
    # Without the divisibility a launch would find, loads come out narrower than they are.
    divisible = {(names.index(name),): [["tt.divisibility", 16]] for name in build.divisible_by_16}
    source = ASTSource(
        build.kernel, dict(build.signature), constexprs=dict(build.constexprs), attrs=divisible
    )
    options = {"num_warps": build.num_warps, "num_stages": build.num_stages}
    if target.startswith("sm_"):
        return source, GPUTarget("cuda", capability(target), 32), options
    return source, GPUTarget("hip", target, 64), options


def _key(source: Any, target: str, options: Mapping[str, int]) -> str:
    import triton

    parts = (FORMAT, triton.__version__, source.hash(), target, sorted(options.items()))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _compile(source: Any, gpu: Any, options: dict[str, int]) -> tuple[Any, str]:
    """The compiled kernel and the assembler's log, which only a compilation from scratch prints."""
    import triton
    from triton import knobs

    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for knob in (knobs.cache, knobs.compilation, knobs.nvidia):
            stack.enter_context(knob.scope())
        knobs.cache.dir, knobs.compilation.always_compile, knobs.nvidia.dump_ptxas_log = folder, True, True
        stack.enter_context(contextlib.redirect_stdout(printed))
        try:
            compiled = triton.compile(source, target=gpu, options=options)
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            raise CannotCompile(words.strip()[:2000]) from error
    return compiled, printed.getvalue()


def _read_nvidia(name: str, target: str, compiled: Any, log: str) -> MachineCode:
    with _on_disk(compiled.asm["cubin"]) as cubin:
        usage = _tool("cuobjdump", "--dump-resource-usage", cubin)
        sass = assembly.read_sass(_tool("nvdisasm", "-c", cubin))
    # The log names "unused" and system shared memory differently per version; the code object does not.
    resources = dict(re.findall(r"\b(REG|STACK|SHARED):(\d+)", usage[usage.rindex("Function") :]))
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", log)
    if not spills:
        raise CannotCompile(f"{name}: ptxas printed no resource usage for {target}")
    chip = MULTIPROCESSORS[target]
    static = int(resources["SHARED"])
    if capability(target) >= 90:  # here ptxas counts what the system reserves
        static = max(0, static - chip.reserved_shared)
    return _machine_code(
        name, target, compiled, sass, assembly.SASS,
        registers=int(resources["REG"]), stack_bytes=int(resources["STACK"]), static_shared_bytes=static,
        spill_bytes=sum(map(int, spills)), warnings=_warnings(log),
    )  # fmt: skip


def _read_amd(name: str, target: str, compiled: Any, log: str) -> MachineCode:
    text = compiled.asm["amdgcn"]
    found = {key: int(value) for key, value in re.findall(r"\.(\w+):\s+(\d+)", text)}
    return _machine_code(
        name, target, compiled, assembly.read_amdgcn(text), assembly.AMDGCN,
        registers=found["vgpr_count"], stack_bytes=found.get("private_segment_fixed_size", 0),
        static_shared_bytes=max(0, found.get("group_segment_fixed_size", 0) - compiled.metadata.shared),
        spill_bytes=4 * found.get("vgpr_spill_count", 0), warnings=(),
    )  # fmt: skip


def _machine_code(
    name: str, target: str, compiled: Any, items: list[assembly.Item], dialect: assembly.Dialect, **read: Any
) -> MachineCode:
    import triton

    metadata = compiled.metadata
    columns = int(getattr(metadata, "tmem_size", 0) or 0)
    loop = assembly.hottest_loop(items, dialect)
    return MachineCode(
        kernel=name,
        target=target,
        triton=triton.__version__,
        warps=metadata.num_warps,
        dynamic_shared_bytes=metadata.shared,
        tensor_memory_columns=columns,
        occupancy=occupancy(
            MULTIPROCESSORS[target],
            warps=metadata.num_warps,
            registers=read["registers"],
            shared_bytes=read["static_shared_bytes"] + metadata.shared,
            tensor_columns=columns,
        ),
        loop=assembly.count_instructions(loop, dialect) if loop else None,
        overall=assembly.count_instructions(assembly.instructions(items), dialect),
        **read,
    )


def _warnings(log: str) -> tuple[str, ...]:
    """The assembler's warnings and its notes with a code (C7515 …), each once, without places in files."""
    lines = re.findall(r"(?m)^.*(?:warning\s*:|\(C\d{4}\)).*$", log)
    cleaned = [re.sub(r"^\S*ptxas\S*(?: \S+;? line \d+;?)?\s*", "", line).strip() for line in lines]
    return tuple(dict.fromkeys(cleaned))


@contextlib.contextmanager
def _on_disk(content: bytes) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(content)
        file.flush()
        yield file.name


def _tool(name: str, *arguments: str) -> str:
    """Output of a tool that ships inside Triton."""
    import triton

    program = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True)
    return done.stdout
