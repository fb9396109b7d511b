"""What a GPU would do with a kernel and the interpreter would not say: stray accesses, races, huge grids.

The memory a launch may touch is that of the tensors it was given, from each one's first to its last
element. A stray access that lands inside another tensor of the same launch is not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Addresses = npt.NDArray[np.uint64]

#: CUDA's limits on the three dimensions of a grid.
GRID_LIMITS = (2**31 - 1, 65_535, 65_535)


class GuardError(RuntimeError):
    """A kernel does what a GPU would refuse or get wrong."""


class OutOfBounds(GuardError):
    """An access outside every tensor of the launch."""


class DoubleStore(GuardError):
    """Two lanes or two programs store to one address: the result is whichever came last."""


class GridTooLarge(GuardError):
    """More programs along a dimension than CUDA launches."""


def check_grid(kernel: str, grid: tuple[int, ...]) -> None:
    """Raise GridTooLarge for a grid that a GPU refuses."""
    for axis, size, limit in zip("xyz", grid, GRID_LIMITS, strict=False):
        if size > limit:
            raise GridTooLarge(
                f"{kernel}: the grid has {size:,} programs along {axis}; CUDA allows {limit:,}"
            )


@dataclass(slots=True)
class Span:
    """The memory of one tensor, or of several that overlap: [start, end) in bytes.

    owners  element size -> for each element, 1 + the program that stored to it (0: none yet)
    """

    name: str
    start: int
    end: int
    owners: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)

    def within(self, other: Span) -> bool:
        """Whether it is a part of the other."""
        return other.start <= self.start and self.end <= other.end


def span_of(name: str, tensor: Any) -> Span:
    """From a tensor's first element to its last, whatever the strides (never negative in torch)."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    extent = (last + 1) * tensor.element_size() if tensor.numel() else 0
    return Span(name, tensor.data_ptr(), tensor.data_ptr() + extent)


class MemoryMap:
    """The tensors of one launch, by address. Overlapping ones share a name: "q+k+v"."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans: list[Span] = []
        for span in sorted((s for s in spans if s.end > s.start), key=lambda s: (s.start, s.end)):
            last = self.spans[-1] if self.spans else None
            if last is None or span.start >= last.end:
                self.spans.append(Span(span.name, span.start, span.end))
                continue
            last.end = max(last.end, span.end)
            if span.name not in last.name.split("+"):
                last.name += f"+{span.name}"
        self.starts = np.array([span.start for span in self.spans], dtype=np.uint64)

    def find(self, address: int) -> Span | None:
        """The span that holds the address."""
        at = int(np.searchsorted(self.starts, np.uint64(address), side="right")) - 1
        return self.spans[at] if at >= 0 and address < self.spans[at].end else None

    def split(self, addresses: Addresses, size: int) -> Iterable[tuple[Span | None, Addresses]]:
        """The addresses by the span that holds all `size` bytes; None for those that are nowhere."""
        first, last = int(addresses.min()), int(addresses.max())
        span = self.find(first)
        if span is not None and last + size <= span.end:
            yield span, addresses
            return
        at = np.searchsorted(self.starts, addresses, side="right") - 1
        ends = np.array([span.end for span in self.spans] + [0], dtype=np.uint64)
        nowhere = (at < 0) | (addresses + np.uint64(size) > ends[at])
        at = np.where(nowhere, -1, at)
        for index in np.unique(at):
            yield (self.spans[index] if index >= 0 else None), addresses[at == index]

    def nearest(self, address: int) -> str:
        """Where an address lies beside the tensors, in words."""
        if not self.spans:
            return "the launch has no tensors"
        distances = {
            span.name: (span.start - address if address < span.start else address - span.end + 1)
            for span in self.spans
        }
        name = min(distances, key=lambda n: distances[n])
        span = next(s for s in self.spans if s.name == name)
        if address < span.start:
            return f"{span.start - address:,} B before the start of {name}"
        return f"{address - span.end:,} B past the end of {name}"


@dataclass(frozen=True, slots=True)
class Program:
    """The program that is running: kernel name, grid position, and its number in the launch."""

    kernel: str
    index: tuple[int, int, int]
    number: int


def out_of_bounds(kind: str, program: Program, stray: Addresses, size: int, memory: MemoryMap) -> OutOfBounds:
    """The error of an access to addresses that belong to no tensor of the launch."""
    address = int(stray.min())
    return OutOfBounds(
        f"{program.kernel}: a {kind} of {size} B at 0x{address:x} by program {program.index} lies outside "
        f"every tensor of the launch ({memory.nearest(address)}; {stray.size} such lanes): mask it"
    )


def check_store(span: Span, addresses: Addresses, size: int, program: Program) -> None:
    """Raise DoubleStore when another lane or program of this launch stores to the same element."""
    elements = ((addresses - np.uint64(span.start)) // np.uint64(size)).astype(np.int64).ravel()
    if size not in span.owners:
        span.owners[size] = np.zeros(-(-(span.end - span.start) // size), dtype=np.int64)
    owners = span.owners[size]
    before = owners[elements]
    taken = (before != 0) & (before != program.number + 1)
    if taken.any():
        culprit, other = int(elements[taken][0]), int(before[taken][0]) - 1
        raise _double(program, span, culprit, size, f"program {other} of the launch")
    owners[elements] = program.number + 1
    if elements.size > 1:
        ordered = np.sort(elements)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if twice.size:
            raise _double(program, span, int(twice[0]), size, "another lane of the same store")


def _double(program: Program, span: Span, element: int, size: int, other: str) -> DoubleStore:
    address = span.start + element * size
    return DoubleStore(
        f"{program.kernel}: program {program.index} stores {size} B at 0x{address:x} (element {element} of "
        f"{span.name}), which {other} stores to as well; use an atomic or separate outputs"
    )
