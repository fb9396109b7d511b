"""What the interpreter's hooks count, and how it adds up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from harness.counting import interpreter_guard as guards

#: NumPy's and Triton's names, which drift between versions -> ours.
NAMES: Mapping[str, str] = MappingProxyType(
    {"maximum": "fmax", "minimum": "fmin", "multiply": "mul", "subtract": "sub", "negative": "sub",
     "divide": "div", "true_divide": "div", "where": "select", "clip": "clamp", "absolute": "abs",
     "greater": "compare", "greater_equal": "compare", "less": "compare", "less_equal": "compare",
     "equal": "compare", "not_equal": "compare", "create_fma": "fma", "create_fabs": "abs",
     "create_erf": "erf", "create_rsqrt": "rsqrt", "create_idiv": "div", "create_umulhi": "mul",
     "cast_impl": "cast", "create_fp_to_fp": "cast",
     "_sum_combine": "sum", "_elementwise_max": "max", "_elementwise_min": "min", "_prod_combine": "prod",
     "_argmax_combine_tie_break_left": "argmax", "_argmin_combine_tie_break_left": "argmin",
     "_argmax_combine_tie_break_fast": "argmax", "_argmin_combine_tie_break_fast": "argmin",
     "_xor_combine": "xor", "_or_combine": "or"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch; `blocks` are its constants that by their name are sizes of tiles ("BLOCK_M", 64)."""

    kernel: str
    grid: tuple[int, int, int]
    blocks: tuple[tuple[str, int], ...] = ()

    @property
    def programs(self) -> int:
        """Programs launched."""
        return math.prod(self.grid)


@dataclass(frozen=True, slots=True)
class InterpreterCounts:
    """What the kernels asked for.

    load_bytes, store_bytes, atomic_bytes   bytes requested, by tensor: the name given to `counting`, or
                                            else the kernel's argument; overlapping tensors as "q+k"
    loads, stores, atomics                  block instructions
    masked_off_bytes                        bytes that masks kept from being requested
    dots, dot_flops                         tl.dot calls, and 2·M·N·K each
    elementwise                             float operations by name, in result elements ("exp2", "fmax", …)
    integer_ops                             integer and boolean operations, in result elements
    reductions, scans                       by name, in input elements
    """

    load_bytes: Mapping[str, int]
    store_bytes: Mapping[str, int]
    atomic_bytes: Mapping[str, int]
    loads: int
    stores: int
    atomics: int
    masked_off_bytes: int
    dots: int
    dot_flops: int
    elementwise: Mapping[str, int]
    integer_ops: int
    reductions: Mapping[str, int]
    scans: Mapping[str, int]
    launches: tuple[Launch, ...]

    @property
    def bytes_loaded(self) -> int:
        """Bytes of all load requests."""
        return sum(self.load_bytes.values())

    @property
    def bytes_stored(self) -> int:
        """Bytes of all store requests."""
        return sum(self.store_bytes.values())

    @property
    def bytes_requested(self) -> int:
        """Bytes of all global-memory requests; an atomic is one of its width."""
        return self.bytes_loaded + self.bytes_stored + sum(self.atomic_bytes.values())

    @property
    def exponentials(self) -> int:
        """Exponential evaluations of either base."""
        return self.elementwise.get("exp", 0) + self.elementwise.get("exp2", 0)

    @property
    def blocks(self) -> str:
        """Sizes of the kernels' tiles in words: "BLOCK_M=64, BLOCK_N=64"; empty where none are named so."""
        named = dict.fromkeys(f"{name}={size}" for launch in self.launches for name, size in launch.blocks)
        return ", ".join(named)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels in the order of their first launch."""
        return tuple(dict.fromkeys(launch.kernel for launch in self.launches))


class Recorder:
    """Adds up while kernels run; `counts()` at any time is what was seen so far."""

    def __init__(self, tensors: Mapping[str, Any], guard: bool) -> None:
        self.named, self.guard = [guards.span_of(name, t) for name, t in tensors.items()], guard
        self.memory = guards.MemoryMap(self.named)
        self.program = guards.Program("?", (0, 0, 0), 0)
        self.blocks: tuple[tuple[str, int], ...] = ()
        self.bytes: dict[str, Counter[str]] = {kind: Counter() for kind in ("load", "store", "atomic")}
        self.instructions: Counter[str] = Counter()
        self.masked_off = self.dots = self.dot_flops = self.integer_ops = 0
        self.elementwise: Counter[str] = Counter()
        self.reductions: Counter[str] = Counter()
        self.scans: Counter[str] = Counter()
        self.launches: list[Launch] = []
        self.kernel = "?"
        self.muted = False

    def counts(self) -> InterpreterCounts:
        """The counts so far."""
        return InterpreterCounts(
            load_bytes=_fixed(self.bytes["load"]),
            store_bytes=_fixed(self.bytes["store"]),
            atomic_bytes=_fixed(self.bytes["atomic"]),
            loads=self.instructions["load"],
            stores=self.instructions["store"],
            atomics=self.instructions["atomic"],
            masked_off_bytes=self.masked_off,
            dots=self.dots,
            dot_flops=self.dot_flops,
            elementwise=_fixed(self.elementwise),
            integer_ops=self.integer_ops,
            reductions=_fixed(self.reductions),
            scans=_fixed(self.scans),
            launches=tuple(self.launches),
        )

    def access(self, kind: str, pointers: Any, mask: Any) -> None:
        """One block load, store or atomic of the lanes whose mask is true, before it happens."""
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        addresses = np.asarray(pointers.data)
        if mask is not None:
            lanes = mask if isinstance(mask, np.ndarray) else np.asarray(mask.data)
            if not lanes.all():
                addresses = addresses[np.broadcast_to(lanes.astype(bool), addresses.shape)]
        self.instructions[kind] += 1
        self.masked_off += (np.asarray(pointers.data).size - addresses.size) * size
        if not addresses.size:
            return
        for span, part in self.memory.split(addresses, size):
            if span is None and self.guard:
                raise guards.out_of_bounds(kind, self.program, part, size, self.memory)
            if span is not None and self.guard and kind == "store":
                guards.check_store(span, part, size, self.program)
            self.bytes[kind][span.name if span else "?"] += part.size * size

    def receive(self, *arguments: Iterable[tuple[str, Any]]) -> None:
        """A launch's arguments: their tensors are the memory it may touch."""
        received = [pair for pairs in arguments for pair in pairs]
        self.blocks = tuple((n, v) for n, v in received if n.startswith("BLOCK") and type(v) is int)
        spans = [span for name, value in received for span in _spans(name, value)]
        unnamed = [span for span in spans if not any(span.within(named) for named in self.named)]
        self.memory = guards.MemoryMap([*self.named, *unnamed])

    def combiner(self, function: Any) -> str:
        """The name of what a reduction or scan combines with."""
        name = str(getattr(function, "__name__", "") or function.fn.__name__)
        return NAMES.get(name, name.strip("_").removesuffix("_combine"))

    def operation(self, name: str, floating: bool, elements: int) -> None:
        """One elementwise operation."""
        if self.muted:
            return
        if floating:
            self.elementwise[NAMES.get(name, name)] += elements
        else:
            self.integer_ops += elements

    def launch(self, grid: tuple[int, int, int]) -> None:
        """A launch begins."""
        self.launches.append(Launch(self.kernel, grid, self.blocks))
        if self.guard:
            guards.check_grid(self.kernel, grid)

    def enter(self, index: tuple[int, int, int]) -> None:
        """A program begins."""
        _, ny, nz = self.launches[-1].grid
        x, y, z = index
        self.program = guards.Program(self.kernel, index, (x * ny + y) * nz + z)


def _fixed(counter: Counter[str]) -> Mapping[str, int]:
    return MappingProxyType(dict(counter))


def _spans(name: str, value: Any) -> Iterator[guards.Span]:
    """The memory of a kernel argument: a tensor, a descriptor or wrapper of one, or a tuple of arguments."""
    if isinstance(value, tuple):
        for item in value:
            yield from _spans(name, item)
    elif hasattr(value, "untyped_storage"):
        yield guards.span_of(name, value)
    elif hasattr(value, "base"):
        yield from _spans(name, value.base)
