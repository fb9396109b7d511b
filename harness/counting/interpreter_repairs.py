"""What Triton's interpreter gets wrong, put right: bfloat16, and an index that NumPy 2.4 refuses.

Stock interpreters (3.6 to 3.9) keep bfloat16 as raw uint16 and compute on the integers: 2.5 + 2.0 is
garbage. Their float32 → bfloat16 cast truncates where GPUs round to nearest even. Here operands are widened
to float32, computed, and rounded once. Triton 3.6 asks NumPy for `int(array)` of a one-element array, an
error since 2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.counting.patching import Method, originals, replace


class RepairMissing(RuntimeError):
    """The canary sang: the interpreter still does bfloat16 wrongly."""


def bfloat16_to_float32(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Exact: a bfloat16 is the upper half of a float32."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32)


def float32_to_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Bits of the nearest bfloat16, ties to even; NaN stays NaN, and quiet."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    last_kept = (bits >> np.uint32(16)) & np.uint32(1)
    with np.errstate(over="ignore"):  # only NaN patterns wrap, and they are replaced
        rounded = ((bits + np.uint32(0x7FFF) + last_kept) >> np.uint32(16)).astype(np.uint16)
    quiet = (bits >> np.uint32(16)).astype(np.uint16) | np.uint16(0x40)
    return np.where(np.isnan(values), quiet, rounded).reshape(np.shape(values))


_undo: list[Callable[[], None]] = []


def install_repairs() -> None:
    """Repair the interpreter of this process for good, and prove it. Does nothing the second time.

    Raises RepairMissing when the installed Triton does not take the repair.
    """
    if not _undo:
        _undo.extend(_install())
        check_repairs()


@contextmanager
def repaired() -> Iterator[None]:
    """The interpreter is right about bfloat16 within the context."""
    if _undo:
        yield
        return
    _undo.extend(_install())
    try:
        yield
    finally:
        while _undo:
            _undo.pop()()


def check_repairs() -> None:
    """The canary: a kernel adds 2.5 and 2.0 in bfloat16. Raises RepairMissing unless that is 4.5."""
    import torch

    from harness.counting import _canary_kernels as canaries

    x, y = (torch.full((1,), value, dtype=torch.bfloat16) for value in (2.5, 2.0))
    out = torch.zeros(1, dtype=torch.bfloat16)
    canaries.add_one_element[(1,)](x, y, out)
    if out.item() != 4.5:
        raise RepairMissing(
            f"Triton's interpreter computes 2.5 + 2.0 = {out.item():g} in bfloat16: the repair is not active"
        )


def _install() -> list[Callable[[], None]]:
    import triton.runtime.interpreter as stock

    return [
        replace(stock.InterpreterBuilder, _bfloat16_methods(stock)),
        replace(stock, {"_patch_lang_tensor": _with_scalar_index(stock._patch_lang_tensor)}),
    ]


def _with_scalar_index(patch_lang_tensor: Method) -> Method:
    def patch(tensor: Any, scope: Any) -> None:
        patch_lang_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(np.asarray(self.handle.data).squeeze()))

    return patch


def _bfloat16_methods(stock: Any) -> Mapping[str, Method]:
    """Methods of the interpreter's builder, by name."""
    wide = _Wide(stock)
    return {
        "cast_impl": lambda builder, source, target: wide.cast(builder, source, target),
        "create_fp_to_fp": lambda builder, *given: wide.convert(builder, *given),
        "create_dot": lambda builder, a, b, *rest: wide.dot(builder, a, b, *rest),
        "create_atomic_rmw": lambda builder, *given: wide.atomic(builder, *given),
        "binary_op": wide.computed("binary_op", 2),
        "unary_op": wide.computed("unary_op", 1),
        "ternary_op": wide.computed("ternary_op", 3),
        "create_fma": wide.computed("create_fma", 3),
    }


class _Wide:
    """Computes on bfloat16 in float32, with the stock interpreter's own methods."""

    def __init__(self, stock: Any) -> None:
        names = ("cast_impl", "create_fp_to_fp", "create_dot", "create_atomic_rmw",
                 "binary_op", "unary_op", "ternary_op", "create_fma")  # fmt: skip
        self.stock, self.language = stock, stock.tl
        self.bfloat16 = stock.tl.bfloat16
        self.old = originals(stock.InterpreterBuilder, names)

    def is_bfloat16(self, handle: Any) -> bool:
        pointer = isinstance(handle.dtype, self.language.pointer_type)
        return not pointer and bool(handle.get_element_ty() == self.bfloat16)

    def widened(self, handle: Any) -> Any:
        if not self.is_bfloat16(handle):
            return handle
        return self.stock.TensorHandle(bfloat16_to_float32(handle.data), self.language.float32)

    def rounded(self, values: Any) -> Any:
        return self.stock.TensorHandle(float32_to_bfloat16(values.astype(np.float32)), self.bfloat16)

    def cast(self, builder: Any, source: Any, target: Any) -> Any:
        from_, to = source.dtype.scalar, target.scalar
        if from_ == to == self.bfloat16:
            return source
        if to != self.bfloat16:
            return self.old["cast_impl"](builder, self.widened(source), target)
        if from_.primitive_bitwidth == 8 and from_.is_floating():
            source = self.old["create_fp_to_fp"](builder, source, self.language.float32, None)
        return self.rounded(source.data)

    def convert(self, builder: Any, source: Any, target: Any, rounding: Any) -> Any:
        from_, to = source.dtype.scalar, target.scalar
        if self.bfloat16 not in (from_, to):
            return self.old["create_fp_to_fp"](builder, source, target, rounding)
        if to == self.bfloat16 and rounding == self.stock._ir.ROUNDING_MODE.RTZ:
            bits = np.ascontiguousarray(source.data, dtype=np.float32).view(np.uint32)
            return self.stock.TensorHandle((bits >> np.uint32(16)).astype(np.uint16), self.bfloat16)
        if to.primitive_bitwidth == 8:
            return self.old["create_fp_to_fp"](builder, self.widened(source), target, rounding)
        return self.cast(builder, source, target)

    def dot(self, builder: Any, a: Any, b: Any, *rest: Any) -> Any:
        return self.old["create_dot"](builder, self.widened(a), self.widened(b), *rest)

    def atomic(self, builder: Any, operation: Any, pointer: Any, value: Any, *rest: Any) -> Any:
        if self.is_bfloat16(value) and operation == self.stock._ir.ATOMIC_OP.FADD:
            raise NotImplementedError("Triton's interpreter has no bfloat16 atomic addition")
        return self.old["create_atomic_rmw"](builder, operation, pointer, value, *rest)

    def computed(self, name: str, operands: int) -> Method:
        """The stock method on widened operands, its result rounded once; selects only move bits."""
        old = self.old[name]

        def method(builder: Any, *arguments: Any) -> Any:
            handles, rest = arguments[:operands], arguments[operands:]
            moves_bits = rest and getattr(rest[0], "__name__", "") == "where"
            if moves_bits or not any(self.is_bfloat16(handle) for handle in handles):
                return old(builder, *arguments)
            out = old(builder, *(self.widened(handle) for handle in handles), *rest)
            return out if out.data.dtype == np.bool_ else self.rounded(out.data)

        return method
