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
    language = stock.tl
    names = ("cast_impl", "create_fp_to_fp", "create_dot", "create_atomic_rmw",
             "binary_op", "unary_op", "ternary_op", "create_fma")  # fmt: skip
    old = originals(stock.InterpreterBuilder, names)
    bfloat16 = language.bfloat16

    def is_bfloat16(handle: Any) -> bool:
        pointer = isinstance(handle.dtype, language.pointer_type)
        return not pointer and handle.get_element_ty() == bfloat16

    def widened(handle: Any) -> Any:
        if not is_bfloat16(handle):
            return handle
        return stock.TensorHandle(bfloat16_to_float32(handle.data), language.float32)

    def rounded(values: Any) -> Any:
        return stock.TensorHandle(float32_to_bfloat16(values.astype(np.float32)), bfloat16)

    def cast(builder: Any, source: Any, target: Any) -> Any:
        from_, to = source.dtype.scalar, target.scalar
        if from_ == to == bfloat16:
            return source
        if to != bfloat16:
            return old["cast_impl"](builder, widened(source), target)
        if from_.primitive_bitwidth == 8 and from_.is_floating():
            source = old["create_fp_to_fp"](builder, source, language.float32, None)
        return rounded(source.data)

    def convert(builder: Any, source: Any, target: Any, rounding: Any) -> Any:
        from_, to = source.dtype.scalar, target.scalar
        if bfloat16 not in (from_, to):
            return old["create_fp_to_fp"](builder, source, target, rounding)
        if to == bfloat16 and rounding == stock._ir.ROUNDING_MODE.RTZ:
            bits = np.ascontiguousarray(source.data, dtype=np.float32).view(np.uint32)
            return stock.TensorHandle((bits >> np.uint32(16)).astype(np.uint16), bfloat16)
        if to.primitive_bitwidth == 8:
            return old["create_fp_to_fp"](builder, widened(source), target, rounding)
        return cast(builder, source, target)

    def dot(builder: Any, a: Any, b: Any, *rest: Any) -> Any:
        return old["create_dot"](builder, widened(a), widened(b), *rest)

    def atomic(builder: Any, operation: Any, pointer: Any, value: Any, *rest: Any) -> Any:
        if is_bfloat16(value) and operation == stock._ir.ATOMIC_OP.FADD:
            raise NotImplementedError("Triton's interpreter has no bfloat16 atomic addition")
        return old["create_atomic_rmw"](builder, operation, pointer, value, *rest)

    def computed_wide(name: str, operands: int) -> Method:
        def method(builder: Any, *arguments: Any) -> Any:
            handles, rest = arguments[:operands], arguments[operands:]
            moves_bits = rest and getattr(rest[0], "__name__", "") == "where"
            if moves_bits or not any(is_bfloat16(handle) for handle in handles):
                return old[name](builder, *arguments)
            out = old[name](builder, *(widened(handle) for handle in handles), *rest)
            return out if out.data.dtype == np.bool_ else rounded(out.data)

        return method

    return {
        "cast_impl": cast,
        "create_fp_to_fp": convert,
        "create_dot": dot,
        "create_atomic_rmw": atomic,
        "binary_op": computed_wide("binary_op", 2),
        "unary_op": computed_wide("unary_op", 1),
        "ternary_op": computed_wide("ternary_op", 3),
        "create_fma": computed_wide("create_fma", 3),
    }
