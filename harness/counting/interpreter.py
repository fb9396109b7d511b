"""Exact counts of Triton kernels, from running them in Triton's interpreter.

Counted is what the launched programs ask for: bytes of global-memory requests (not DRAM traffic: caches
serve a part of them), matrix-product FLOPs, and elements of every other operation. Masked-off lanes ask for
nothing. Needs TRITON_INTERPRET=1 in the environment before Triton is imported: a process of its own.
Works on Triton 3.6 to 3.9 by replacing methods of the builder's class, which every version calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from harness.counting import interpreter_guard as guards
from harness.counting.interpreter_counts import InterpreterCounts, Launch, Recorder
from harness.counting.interpreter_repairs import install_repairs as _repair
from harness.counting.interpreter_repairs import repaired
from harness.counting.patching import Method, originals, replaced

__all__ = ["InterpreterCounts", "Launch", "check_hooks", "count", "counting", "install_repairs", "repaired"]

#: Elementwise methods that take the NumPy function as their last argument, and those that are one.
_GENERIC = ("binary_op", "unary_op", "ternary_op")
_SPECIFIC = ("create_fma", "create_fabs", "create_erf", "create_rsqrt", "create_idiv", "create_umulhi",
             "cast_impl", "create_fp_to_fp")  # fmt: skip


class HooksMissing(RuntimeError):
    """The canary sang: kernels run without being counted."""


def install_repairs() -> None:
    """Repair this process's interpreter for good and prove that repairs and hooks work.

    Raises interpreter_repairs.RepairMissing or HooksMissing.
    """
    require_interpreter()
    _repair()
    check_hooks()


def require_interpreter() -> None:
    """Raise RuntimeError unless Triton runs interpreted in this process."""
    import triton

    if not triton.knobs.runtime.interpret:
        raise RuntimeError("set TRITON_INTERPRET=1 before Triton is imported, in a process of its own")


def check_hooks() -> None:
    """The other canary: one addition of two elements. Raises HooksMissing unless it is counted exactly."""
    import torch

    from harness.counting import _canary_kernels as canaries

    x, y, out = torch.ones(1), torch.ones(1), torch.zeros(1)
    counts = count(lambda: canaries.add_one_element[(1,)](x, y, out))
    found = (counts.loads, counts.bytes_loaded, counts.stores, counts.bytes_stored, counts.elementwise)
    if found != (2, 8, 1, 4, {"add": 1}):
        raise HooksMissing(f"the interpreter's hooks do not count: {counts}")


def count(
    call: Callable[[], object], tensors: Mapping[str, Any] | None = None, *, guard: bool = True
) -> InterpreterCounts:
    """Counts of one call that launches Triton kernels."""
    with counting(tensors, guard=guard) as recorder:
        call()
    return recorder.counts()


@contextmanager
def counting(tensors: Mapping[str, Any] | None = None, *, guard: bool = True) -> Iterator[Recorder]:
    """Count every kernel launched within; `tensors` names memory for the figures per tensor.

    With `guard`, raises OutOfBounds, DoubleStore or GridTooLarge (interpreter_guard) from the launch.
    """
    require_interpreter()
    import triton.runtime.interpreter as stock

    recorder = Recorder(tensors or {}, guard)
    builder, executor = stock.InterpreterBuilder, stock.GridExecutor
    with replaced(
        (builder, _memory_hooks(recorder, builder)),
        (builder, _arithmetic_hooks(recorder, builder, stock.tl.pointer_type)),
        (stock.ReduceOps, {"apply_impl": _combining_hook(recorder.reductions, recorder, stock.ReduceOps)}),
        (stock.ScanOps, {"apply_impl": _combining_hook(recorder.scans, recorder, stock.ScanOps)}),
        (executor, _launch_hooks(recorder, executor)),
    ):
        yield recorder


def _memory_hooks(recorder: Recorder, builder: type) -> dict[str, Method]:
    """Loads, stores and atomics all pass through these, block pointers and descriptors included."""
    old = originals(builder, ("create_masked_load", "create_masked_store", "create_atomic_rmw",
                              "create_atomic_cas", "set_grid_dim", "set_grid_idx"))  # fmt: skip

    def load(self: Any, pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        recorder.access("load", pointers, mask)
        return old["create_masked_load"](self, pointers, mask, *rest, **named)

    def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        recorder.access("store", pointers, mask)
        return old["create_masked_store"](self, pointers, value, mask, *rest, **named)

    def atomic(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        recorder.access("atomic", pointers, mask)
        return old["create_atomic_rmw"](self, operation, pointers, value, mask, *rest)

    def compare_and_swap(self: Any, pointers: Any, *rest: Any) -> Any:
        recorder.access("atomic", pointers, None)
        return old["create_atomic_cas"](self, pointers, *rest)

    def set_grid(self: Any, nx: int, ny: int, nz: int) -> Any:
        recorder.launch((nx, ny, nz))
        return old["set_grid_dim"](self, nx, ny, nz)

    def set_program(self: Any, x: int, y: int, z: int) -> Any:
        recorder.enter((x, y, z))
        return old["set_grid_idx"](self, x, y, z)

    return {"create_masked_load": load, "create_masked_store": store, "create_atomic_rmw": atomic,
            "create_atomic_cas": compare_and_swap, "set_grid_dim": set_grid,
            "set_grid_idx": set_program}  # fmt: skip


def _arithmetic_hooks(recorder: Recorder, builder: type, pointer_type: type) -> dict[str, Method]:
    old = originals(builder, ("create_dot", *_GENERIC, *_SPECIFIC))

    def dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        recorder.dots += 1
        recorder.dot_flops += 2 * a.data.size * b.data.shape[-1]
        return old["create_dot"](self, a, b, *rest)

    def floating(handle: Any) -> bool:
        return not isinstance(handle.dtype, pointer_type) and bool(handle.get_element_ty().is_floating())

    def elementwise(name: str, generic: bool) -> Method:
        def method(self: Any, *arguments: Any) -> Any:
            outermost, recorder.muted = not recorder.muted, True  # one method may call another
            try:
                out = old[name](self, *arguments)
            finally:
                recorder.muted = not outermost
            # a select has the type of what it chooses from, not of its condition
            operand = arguments[1] if name == "ternary_op" else arguments[0]
            is_float = floating(operand) or (not generic and floating(out))
            recorder.operation(arguments[-1].__name__ if generic else name, is_float, out.data.size)
            return out

        return method

    return {"create_dot": dot} | {
        name: elementwise(name, name in _GENERIC) for name in old if name != "create_dot"
    }


def _combining_hook(counter: Counter[str], recorder: Recorder, owner: type) -> Method:
    """Reductions and scans. The elementwise operations of the interpreter's slow path are not counted."""
    old: Method = originals(owner, ("apply_impl",))["apply_impl"]

    def apply(self: Any, operands: Any) -> Any:
        first = operands[0] if isinstance(operands, tuple) else operands
        counter[recorder.combiner(self.combine_fn)] += first.handle.data.size
        before, recorder.muted = recorder.muted, True
        try:
            return old(self, operands)
        finally:
            recorder.muted = before

    return apply


def _launch_hooks(recorder: Recorder, executor: type) -> dict[str, Method]:
    old = originals(executor, ("_init_args_hst", "__call__"))

    def to_host(self: Any, positional: Any, named: Any) -> Any:
        host, host_named = old["_init_args_hst"](self, positional, named)
        recorder.receive(zip(self.arg_names, host, strict=False), host_named.items())
        return host, host_named

    def call(self: Any, *positional: Any, **named: Any) -> Any:
        recorder.kernel = self.fn.__name__
        try:
            return old["__call__"](self, *positional, **named)
        except Exception as error:
            if found := _guard_error(error):
                raise found from None
            raise

    return {"_init_args_hst": to_host, "__call__": call}


def _guard_error(error: BaseException | None) -> guards.GuardError | None:
    """The guard's error that the interpreter wrapped in its own."""
    while error is not None:
        if isinstance(error, guards.GuardError):
            return error
        error = error.__cause__
    return None
