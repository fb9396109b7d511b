"""Exact counts of PyTorch code: FLOPs, bytes touched, live and peak storage, on real or fake CPU tensors.

What the operators allocate inside themselves and free before they return is invisible here. For
`scaled_dot_product_attention` on the CPU that is a workspace of some tiles per thread; a kernel that
hides an n×n buffer inside one operator would be missed. Use CPU tensors: on meta tensors attention decomposes
into its plain formula, and fake CUDA tensors abort builds without CUDA.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from harness.counting import formulas


@dataclass(frozen=True, slots=True)
class OpCounts:
    """The calls of one ATen operator: FLOPs, bytes, exponentials and elements of the results, summed.

    live_bytes  the most storage that was alive right after one of them
    depth       the deepest result
    """

    name: str
    calls: int
    flops: int
    bytes_read: int
    bytes_written: int
    exponentials: int
    elements: int
    live_bytes: int
    depth: int


@dataclass(frozen=True, slots=True)
class EagerCounts:
    """What one call asked for; all figures exact, none estimated.

    flops          FLOPs of matrix products, convolutions and attention (see `formulas` for the convention)
    bytes_read     bytes of the operands of every operator, each distinct operand once per operator
    bytes_written  bytes of the results of every operator
    peak_bytes     the most storage that was alive at once beyond what existed before the call, in bytes;
                   outputs, saved tensors and gradients are included, the inputs are not
    exponentials   exponential evaluations (softmax, exp, sigmoid …)
    depth          the longest chain of operators of which each needs the previous one's result
    ops            the same per operator, in the order of first use
    """

    flops: int
    bytes_read: int
    bytes_written: int
    peak_bytes: int
    exponentials: int
    depth: int
    ops: tuple[OpCounts, ...]

    @classmethod
    def of(cls, ops: tuple[OpCounts, ...]) -> EagerCounts:
        """The whole from its operators."""
        return cls(
            flops=sum(op.flops for op in ops),
            bytes_read=sum(op.bytes_read for op in ops),
            bytes_written=sum(op.bytes_written for op in ops),
            peak_bytes=max((op.live_bytes for op in ops), default=0),
            exponentials=sum(op.exponentials for op in ops),
            depth=max((op.depth for op in ops), default=0),
            ops=ops,
        )

    @property
    def peak_op(self) -> str:
        """The operator after which the peak was reached."""
        return next((op.name for op in self.ops if op.live_bytes == self.peak_bytes), "")

    @property
    def bytes(self) -> int:
        """Bytes touched: traffic if nothing stayed in a cache from one operator to the next."""
        return self.bytes_read + self.bytes_written


class TooManyOperators(RuntimeError):
    """The call was longer than the counter was told to follow."""


def count(
    call: Callable[[], object],
    inputs: object = None,
    *,
    first: Callable[[], object] | None = None,
    max_calls: int | None = None,
) -> EagerCounts:
    """Count one call over tensors that exist already (`inputs` and whatever else the call closes over).

    `first` runs before it, within the same account of live storage, but is no part of the work: it builds
    the graph whose backward pass is counted, and what the graph saved is live.
    Raises formulas.NoFormula for attention without a FLOP formula, TooManyOperators beyond `max_calls`
    operator calls.
    """
    meter = _Meter(max_calls)
    meter.exclude(tensors_of(inputs))
    with _no_collection(), meter:
        if first is not None:
            first()
            meter.restart()
        result = call()
    counts = meter.counts()
    del result
    return counts


def tensors_of(tree: object) -> Iterator[Tensor]:
    """The tensors of nested dataclasses, mappings and sequences."""
    if isinstance(tree, Tensor):
        yield tree
    elif is_dataclass(tree):
        for branch in fields(tree):
            yield from tensors_of(getattr(tree, branch.name))
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from tensors_of(value)
    elif isinstance(tree, tuple | list):
        for value in tree:
            yield from tensors_of(value)


@contextmanager
def _no_collection() -> Iterator[None]:
    """When the collector runs must not decide what is alive: cyclic garbage counts as live throughout."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(slots=True)
class _Live:
    """Bytes of live storage."""

    now: int = 0


@dataclass(slots=True)
class _Storage:
    """One storage: its bytes while it lives (0 for those that existed before), and its depth in the chain."""

    size: int
    external: bool = False
    depth: int = 0


@dataclass(slots=True)
class _Tally:
    """Sums over the calls of one operator."""

    calls: int = 0
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    exponentials: int = 0
    elements: int = 0
    live_bytes: int = 0
    depth: int = 0


class _Meter(TorchDispatchMode):
    """Sees every operator that reaches a backend, those of autograd's backward included."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not wrapped against compilation: the wrapper imports the compiler (seconds) and slows each call."""
        return False

    def __init__(self, max_calls: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.max_calls = max_calls
        self.live = _Live()
        self.tallies: dict[str, _Tally] = {}
        self.storages: MutableMapping[Any, _Storage] = WeakIdKeyDictionary()
        self.calls = 0

    def exclude(self, tensors: Iterator[Tensor]) -> None:
        """Mark storages that existed before: they are not counted as live."""
        for tensor in tensors:
            self.storages.setdefault(tensor.untyped_storage(), _Storage(0, external=True))

    def restart(self) -> None:
        """Forget the work so far, but not what is alive."""
        self.tallies.clear()
        self.calls = 0
        for storage in self.storages.values():
            storage.depth = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        if formulas.is_composite(func):
            with self:  # composite operators arrive whole under inference_mode
                return func.decompose(*args, **kwargs)
        operands = formulas.tensors((args, list(kwargs.values())))
        if func is not torch.ops.aten.lift_fresh.default:  # torch.tensor(…): made a moment ago
            self.exclude(iter(operands))
        result = func(*args, **kwargs)
        self._account(func, args, kwargs, operands, result)
        return result

    def _account(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], operands: list[Tensor], result: Any
    ) -> None:
        self.calls += 1
        if self.max_calls is not None and self.calls > self.max_calls:
            raise TooManyOperators(f"more than {self.max_calls:,} operator calls")
        read, written = formulas.traffic(func, args, kwargs, result)
        results = formulas.tensors(result)
        tally = self.tallies.setdefault(formulas.name_of(func), _Tally())
        tally.calls += 1
        tally.flops += formulas.flops(func, args, kwargs, result)
        tally.exponentials += formulas.exponentials(func, args, kwargs, result)
        tally.bytes_read += read
        tally.bytes_written += written
        tally.elements += sum(tensor.numel() for tensor in results)
        depth = self._link(operands, results, works=read + written > 0)
        tally.depth = max(tally.depth, depth)
        tally.live_bytes = max(tally.live_bytes, self.live.now)

    def _link(self, operands: list[Tensor], results: list[Tensor], works: bool) -> int:
        """Account the storages of the results; their depth is one more than the deepest operand's."""
        depth = works + max((self._depth_of(tensor) for tensor in operands), default=0)
        for tensor in results:
            storage = self._see(tensor)
            storage.depth = max(storage.depth, depth)
        return depth

    def _depth_of(self, tensor: Tensor) -> int:
        storage = self.storages.get(tensor.untyped_storage())
        return storage.depth if storage else 0

    def _see(self, tensor: Tensor) -> _Storage:
        untyped = tensor.untyped_storage()
        size = untyped.nbytes()
        known = self.storages.get(untyped)
        if known is None:
            known = self.storages[untyped] = _Storage(size)
            self.live.now += size
            weakref.finalize(untyped, _release, self.live, known).atexit = False
        elif not known.external and known.size != size:  # resize_ grows a storage in place
            self.live.now += size - known.size
            known.size = size
        return known

    def counts(self) -> EagerCounts:
        """What was counted since the start, or the restart."""
        return EagerCounts.of(
            tuple(
                OpCounts(name, **{f.name: getattr(tally, f.name) for f in fields(tally)})
                for name, tally in self.tallies.items()
            )
        )


def _release(live: _Live, storage: _Storage) -> None:
    live.now -= storage.size
