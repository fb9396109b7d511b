"""Reading GPU assembly: which instructions there are, and which loop is the hottest.

Two dialects: NVIDIA's SASS as `nvdisasm -c` prints it, and AMD's as Triton's `amdgcn` text. A loop is a
natural loop of the control-flow graph, not the span of a backward jump: waits for the copy engine live behind
the kernel's end and jump back from there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

#: A natural loop shorter than this waits for a barrier and computes nothing.
SPIN = 8


@dataclass(frozen=True, slots=True)
class Instruction:
    """opcode as printed ("HMMA.16816.F32"); `target` is the label it may jump to; `always` says it does."""

    opcode: str
    target: str | None = None
    always: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True)
class InstructionCounts:
    """Instructions by what they do, for one thread (warp); `total` is without padding.

    special_function  exponentials, reciprocals and the like
    mma_flops         FLOPs of the tensor-core instructions per warp; None where their shape is not printed
    global_bytes      bytes of global loads per thread; None where the copy engine (TMA) does them
    """

    total: int
    tensor_core: int
    global_memory: int
    shared_memory: int
    local_memory: int
    special_function: int
    mma_flops: int | None
    global_bytes: int | None


@dataclass(frozen=True, slots=True)
class Dialect:
    """Patterns of opcodes, each matched at the start."""

    tensor_core: re.Pattern[str]
    global_memory: re.Pattern[str]
    shared_memory: re.Pattern[str]
    local_memory: re.Pattern[str]
    special_function: re.Pattern[str]
    padding: re.Pattern[str]


SASS = Dialect(
    tensor_core=re.compile(r"[A-Z]*MMA\b"),
    global_memory=re.compile(r"(LDG|STG|LDGSTS|UTMA(LDG|STG|REDG)|UBLKCP|RED|ATOM|ATOMG|REDG)\b"),
    shared_memory=re.compile(r"(LDS|STS|LDSM|STSM|ATOMS)\b"),
    local_memory=re.compile(r"(LDL|STL)\b"),
    special_function=re.compile(r"MUFU\b"),
    padding=re.compile(r"NOP\b"),
)
AMDGCN = Dialect(
    tensor_core=re.compile(r"v_s?(mfma|wmma|mfmac)"),
    global_memory=re.compile(r"(global|buffer|flat)_(load|store|atomic)"),
    shared_memory=re.compile(r"ds_"),
    local_memory=re.compile(r"scratch_"),
    special_function=re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_"),
    padding=re.compile(r"s_nop"),
)

_SASS_LINE = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s+(@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)(.*?);")
_SASS_LABEL = re.compile(r"^(\.L_x_\d+):")
_SASS_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_AMD_LINE = re.compile(r"^\s+([a-z][a-z0-9_]+)\b(.*)")
_AMD_LABEL = re.compile(r"^(\.LBB\d+_\d+):")
_AMD_TARGET = re.compile(r"(\.LBB\d+_\d+)")

Item = Instruction | str
"""An instruction, or the label in front of the next one."""


def read_sass(text: str) -> list[Item]:
    """Labels and instructions of `nvdisasm -c`. The jumps of a predicate other than true may not happen."""
    items: list[Item] = []
    for line in text.splitlines():
        if label := _SASS_LABEL.match(line.strip()):
            items.append(label.group(1))
        elif found := _SASS_LINE.match(line):
            predicate, opcode, operands = found.groups()
            jump = _SASS_TARGET.search(operands) if opcode.startswith(("BRA", "BRX", "JMP")) else None
            # BRA.U and "BRA P0, …" carry their predicate among the operands.
            free = not predicate and jump is not None and not operands[: jump.start()].strip()
            ends = opcode.startswith(("EXIT", "RET")) and not predicate
            items.append(Instruction(opcode, jump and jump.group(1), free, ends))
    return items


def read_amdgcn(text: str) -> list[Item]:
    """Labels and instructions of Triton's `amdgcn`, up to the end of the code."""
    items: list[Item] = []
    for line in text.splitlines():
        if line.lstrip().startswith(".Lfunc_end"):
            break
        if label := _AMD_LABEL.match(line):
            items.append(label.group(1))
        elif found := _AMD_LINE.match(line):
            opcode, operands = found.groups()
            jump = _AMD_TARGET.search(operands) if "branch" in opcode else None
            always, ends = opcode == "s_branch", opcode.startswith("s_endpgm")
            items.append(Instruction(opcode, jump and jump.group(1), always, ends))
    return items


def instructions(items: Iterable[Item]) -> list[Instruction]:
    """Without the labels."""
    return [item for item in items if isinstance(item, Instruction)]


def count_instructions(code: Sequence[Instruction], dialect: Dialect) -> InstructionCounts:
    """Counts by kind."""

    def matching(pattern: re.Pattern[str]) -> int:
        return sum(pattern.match(instruction.opcode) is not None for instruction in code)

    return InstructionCounts(
        total=len(code) - matching(dialect.padding),
        tensor_core=matching(dialect.tensor_core),
        global_memory=matching(dialect.global_memory),
        shared_memory=matching(dialect.shared_memory),
        local_memory=matching(dialect.local_memory),
        special_function=matching(dialect.special_function),
        mma_flops=_sum(_mma_flops(i.opcode) for i in code if dialect.tensor_core.match(i.opcode)),
        global_bytes=_sum(_load_bytes(i.opcode) for i in code if _is_load(i.opcode)),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _mma_flops(opcode: str) -> int | None:
    """FLOPs of a tensor-core instruction per warp: HMMA.16816 is 16×8×16; HGMMA spans four warps."""
    if found := re.match(r"[HIQ]GMMA\.(\d+)x(\d+)x(\d+)", opcode):
        m, n, k = map(int, found.groups())
        return 2 * m * n * k // 4
    if found := re.match(r"[HIQ]MMA\.(?:SP\.)?(16)(8)(16|32|64|8|4)\b", opcode):
        m, n, k = map(int, found.groups())
        return 2 * m * n * k
    if found := re.match(r"v_s?mfmac?_\w+?_(\d+)x(\d+)x(\d+)", opcode):
        m, n, k = map(int, found.groups())
        return 2 * m * n * k
    return None


def _is_load(opcode: str) -> bool:
    return re.match(r"(LDG|LDGSTS|UTMALDG|UBLKCP)\b|(global|buffer)_load", opcode) is not None


def _load_bytes(opcode: str) -> int | None:
    """Bytes that a load brings to one thread, from the width in its name."""
    if opcode.startswith(("UTMALDG", "UBLKCP")):
        return None
    if opcode.startswith("LD"):
        widths = {"128": 16, "64": 8, "U8": 1, "S8": 1, "U16": 2, "S16": 2, "256": 32}
        return next((widths[part] for part in opcode.split(".") if part in widths), 4)
    found = re.search(r"dwordx(\d)|(dword|b32)|b(64|96|128)|(short|u16|b16)|(byte|u8)", opcode)
    if found is None:
        return None
    many, _, bits, half, byte = found.groups()
    return 4 * int(many) if many else int(bits) // 8 if bits else 2 if half else 1 if byte else 4


@dataclass(frozen=True, slots=True)
class _Block:
    code: tuple[Instruction, ...]
    successors: tuple[int, ...]


def hottest_loop(items: Sequence[Item], dialect: Dialect) -> tuple[Instruction, ...]:
    """The innermost loop with the most tensor-core instructions; of equals, the leanest.

    A causal kernel has one loop over tiles that need no mask and one over those on the diagonal: the leaner
    is the former, which long sequences spend their time in. Without tensor cores, the longest loop.
    """
    blocks = _blocks(items)
    loops = [body for body in _natural_loops(blocks) if _size(blocks, body) >= SPIN]
    inner = [body for body in loops if not any(other < body for other in loops)]

    def heat(body: frozenset[int]) -> tuple[int, int]:
        code = [instruction for at in body for instruction in blocks[at].code]
        tensor = sum(dialect.tensor_core.match(i.opcode) is not None for i in code)
        return (tensor, -len(code)) if tensor else (0, len(code) - 10**9)

    if not inner:
        return ()
    hottest = max(inner, key=heat)
    return tuple(instruction for at in sorted(hottest) for instruction in blocks[at].code)


def _size(blocks: Sequence[_Block], body: frozenset[int]) -> int:
    return sum(len(blocks[at].code) for at in body)


def _blocks(items: Sequence[Item]) -> list[_Block]:
    """Basic blocks in the order of the text."""
    codes: list[list[Instruction]] = [[]]
    starts: dict[str, int] = {}
    for item in items:
        if isinstance(item, str):
            if codes[-1]:
                codes.append([])
            starts[item] = len(codes) - 1
            continue
        codes[-1].append(item)
        if item.target or item.ends:
            codes.append([])
    blocks = []
    for at, code in enumerate(codes):
        last = code[-1] if code else Instruction("")
        follows = [at + 1] if at + 1 < len(codes) and not (last.always or last.ends) else []
        jumps = [starts[last.target]] if last.target in starts else []
        blocks.append(_Block(tuple(code), tuple(follows + jumps)))
    return blocks


def _natural_loops(blocks: Sequence[_Block]) -> Iterator[frozenset[int]]:
    """Bodies of the loops: a jump back to a block that dominates it closes one; same heads are merged."""
    dominators = _dominators(blocks)
    before: dict[int, set[int]] = {at: set() for at in range(len(blocks))}
    for at, block in enumerate(blocks):
        for successor in block.successors:
            before[successor].add(at)
    bodies: dict[int, set[int]] = {}
    for at, block in enumerate(blocks):
        for head in block.successors:
            if at in dominators and head in dominators[at]:
                bodies.setdefault(head, {head}).update(_reaching(at, head, before))
    yield from map(frozenset, bodies.values())


def _reaching(tail: int, head: int, before: dict[int, set[int]]) -> set[int]:
    body, open_ = {head, tail}, [tail]
    while open_:
        at = open_.pop()
        if at == head:
            continue
        new = before[at] - body
        body |= new
        open_.extend(new)
    return body


def _dominators(blocks: Sequence[_Block]) -> dict[int, set[int]]:
    """For each block that can be reached from the first, the blocks on every path to it."""
    order = _reachable(blocks)
    before: dict[int, list[int]] = {at: [] for at in order}
    for at in order:
        for successor in blocks[at].successors:
            before[successor].append(at)
    everything = set(order)
    found = {at: ({at} if at == 0 else set(everything)) for at in order}
    changed = True
    while changed:
        changed = False
        for at in order:
            if at == 0:
                continue
            new = set.intersection(*(found[p] for p in before[at])) | {at}
            if new != found[at]:
                found[at], changed = new, True
    return found


def _reachable(blocks: Sequence[_Block]) -> list[int]:
    seen, open_ = Counter([0]), [0]
    while open_:
        for successor in blocks[open_.pop()].successors:
            if successor not in seen:
                seen[successor] += 1
                open_.append(successor)
    return sorted(seen)
