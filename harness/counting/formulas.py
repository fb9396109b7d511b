"""What an ATen operator costs: FLOPs, exponentials, and which operands it really reads and writes.

FLOPs are those of matrix products and convolutions (a multiply-add is 2), the convention of
`torch.utils.flop_counter`, whose formulas are used where it has one; elementwise work is not FLOPs.

Fused attention with `is_causal` counts the exact attended pairs: the kernel skips what the diagonal masks,
up to its own tiles, and how much of a tile it wastes is not visible from here. An unfused causal
attention multiplies the whole square, and that is what its matrix products count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten
Arguments = Mapping[str, Any]
Formula = Callable[[Arguments, Any], int]

#: Operators of these namespaces are known here; a foreign one without a formula is an error.
KNOWN_NAMESPACES = ("aten", "prim", "prims", "profiler")


class NoFormula(LookupError):
    """An operator whose FLOPs are unknown, for which 0 would be a lie."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no FLOP formula for the operator {name}; add one to harness/counting/formulas.py, "
            "where 0 would be wrong"
        )


def causal_pairs(queries: int, keys: int) -> int:
    """Attended pairs of a top-left causal mask, the one `is_causal` means: Σ min(i + 1, keys)."""
    ramp = min(queries, keys)
    return ramp * (ramp + 1) // 2 + (queries - ramp) * keys


def attended_pairs(arguments: Arguments) -> int:
    """(query, key) pairs of a fused attention over batch and query heads."""
    query, key = arguments["query"], arguments["key"]
    *outer, queries, _ = query.shape
    keys = key.shape[-2]
    pairs = causal_pairs(queries, keys) if arguments.get("is_causal") else queries * keys
    return int(math.prod(outer)) * pairs


def _fused_forward(arguments: Arguments, result: Any) -> int:
    """QKᵀ and PV: 2 FLOPs per pair and element of each head dimension."""
    widths = arguments["query"].shape[-1] + arguments["value"].shape[-1]
    return 2 * attended_pairs(arguments) * int(widths)


def _fused_backward(arguments: Arguments, result: Any) -> int:
    """QKᵀ again, dP, dQ, dK (each over one head dimension) and dV: 2.5 × the forward."""
    query, value = arguments["query"].shape[-1], arguments["value"].shape[-1]
    return 2 * attended_pairs(arguments) * int(3 * query + 2 * value)


def _matrix_vector(name: str) -> Formula:
    return lambda arguments, result: 2 * int(arguments[name].numel())


def _fourier(arguments: Arguments, result: Tensor) -> int:
    """5·N·log₂ N per complex transform of N points, half of it when one side is real (radix-2 convention)."""
    source: Tensor = arguments["self"]
    wide = source if source.numel() >= result.numel() else result
    points = math.prod(wide.shape[axis] for axis in arguments["dim"])
    complex_flops = round(5 * wide.numel() * math.log2(points)) if points > 1 else 0
    both_complex = source.is_complex() and result.is_complex()
    return complex_flops if both_complex else complex_flops // 2


_FUSED = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention",
          "fused_attention_overrideable")  # fmt: skip

#: Operators counted by their named arguments; others fall back to torch's own table.
FLOPS: dict[Any, Formula] = {
    aten.mv: _matrix_vector("self"),
    aten.addmv: _matrix_vector("mat"),
    aten.dot: _matrix_vector("self"),
    aten.vdot: _matrix_vector("self"),
    aten._fft_r2c: _fourier,
    aten._fft_c2r: _fourier,
    aten._fft_c2c: _fourier,
}
for _name in _FUSED:
    FLOPS[getattr(aten, f"_scaled_dot_product_{_name}")] = _fused_forward
    FLOPS[getattr(aten, f"_scaled_dot_product_{_name}_backward")] = _fused_backward

#: Operators that raise e to each element of their result.
_EXP_OF_RESULT = frozenset(
    ("exp", "exp_", "exp2", "exp2_", "expm1", "expm1_", "_softmax", "_safe_softmax", "_log_softmax",
     "sigmoid", "sigmoid_", "tanh", "tanh_", "silu", "silu_", "gelu", "gelu_", "elu", "elu_", "softplus",
     "log_sigmoid_forward")
)  # fmt: skip


#: In the names of operators that hide products: without a formula they would count as 0.
FUSED_PRODUCTS = ("attention", "transformer", "_rnn")


def flops(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> int:
    """FLOPs of one operator call. Raises NoFormula for fused products and foreign operators without one."""
    packet = _out_of_place(func._overloadpacket)
    if packet in FLOPS:
        return FLOPS[packet](named(func, args, kwargs), result)
    if packet in flop_registry:
        return int(flop_registry[packet](*args, **kwargs, out_val=result))
    if any(words in func.name() for words in FUSED_PRODUCTS) or func.namespace not in KNOWN_NAMESPACES:
        raise NoFormula(str(func))
    return 0


@cache
def _out_of_place(packet: Any) -> Any:
    """baddbmm for baddbmm_: the same work, and torch's table names only the one."""
    name = packet.__name__
    return getattr(aten, name[:-1], packet) if name.endswith("_") and not name.endswith("__") else packet


def exponentials(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> int:
    """Exponentials of one call: one per element, and per attended pair of a fused attention."""
    packet = func._overloadpacket
    if FLOPS.get(packet) in (_fused_forward, _fused_backward):
        return attended_pairs(named(func, args, kwargs))
    name = packet.__name__
    if name == "logsumexp":
        return int(args[0].numel())
    first = result[0] if isinstance(result, tuple) else result
    return int(first.numel()) if name in _EXP_OF_RESULT else 0


def named(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of its schema, defaults included."""
    schema = func._schema.arguments
    values = {a.name: a.default_value for a in schema if a.has_default_value()}
    values |= {a.name: value for a, value in zip(schema, args, strict=False)}
    return values | dict(kwargs)


def touched(tensor: Tensor) -> int:
    """Bytes of the distinct elements a view addresses: a broadcast dimension counts once."""
    if tensor.numel() == 0:
        return 0
    sizes_strides = [
        (s, abs(st)) for s, st in zip(tensor.shape, tensor.stride(), strict=True) if s > 1 and st
    ]
    elements = math.prod(size for size, _ in sizes_strides)
    span = 1 + sum((size - 1) * stride for size, stride in sizes_strides)  # overlapping windows share
    return min(elements, span) * tensor.element_size()


#: They make tensors or views and move nothing.
_FREE = frozenset(
    ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "detach",
     "alias", "_unsafe_view", "_reshape_alias", "lift_fresh", "resize_", "set_", "_conj", "device")
)  # fmt: skip
#: They overwrite their first operand without reading it.
_OVERWRITE = frozenset(("fill_", "zero_", "copy_", "normal_", "uniform_", "bernoulli_", "random_"))
#: They make a tensor of the first operand's shape without reading it.
_LIKE = frozenset(("zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_ones",
                   "new_full"))  # fmt: skip
#: They read of the first operand only what they select.
_GATHER = frozenset(("index", "index_select", "gather", "embedding", "take"))
#: They write of the first operand only what they are given.
_SCATTER = frozenset(("index_put_", "_index_put_impl_", "scatter_", "index_copy_", "index_add_",
                      "scatter_add_"))  # fmt: skip


def traffic(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> tuple[int, int]:
    """(bytes read, bytes written) of one call: each distinct operand read once, each result written once."""
    name = func._overloadpacket.__name__
    if name in _FREE or _is_view(func):
        return 0, 0
    operands, results = tensors((args, _read_keywords(func, kwargs))), tensors(result)
    written = _bytes(results)
    if name in _OVERWRITE or name in _LIKE:
        return _bytes(operands[1:]), written
    if name in _GATHER:
        return _bytes(operands[1:]) + written, written
    if name in _SCATTER:
        source = touched(operands[-1])
        accumulates = name.endswith("add_") or (len(args) > 3 and args[3] is True)
        return _bytes(operands[1:]) + (source if accumulates else 0), source
    return _bytes(operands), written


@cache
def name_of(func: Any) -> str:
    """An operator's full name, such as aten.mm.default."""
    return str(func)


@cache
def is_composite(func: Any) -> bool:
    """Whether an operator is a composition of others and has no formula of its own."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    composed = key in func.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)
    return bool(composed) and func._overloadpacket not in flop_registry


@cache
def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _read_keywords(func: Any, kwargs: Mapping[str, Any]) -> list[Any]:
    """Keyword operands but `out=`, which is written without being read."""
    if not kwargs:
        return []
    written = {a.name for a in func._schema.arguments if a.kwarg_only and a.is_write}
    return [value for name, value in kwargs.items() if name not in written]


def tensors(tree: Any) -> list[Tensor]:
    """The tensors of nested arguments (operators take tuples and lists, nothing else)."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, tuple | list):
        return [tensor for branch in tree for tensor in tensors(branch)]
    return []


def _bytes(tensors: list[Tensor]) -> int:
    """Bytes of distinct tensors: x·x reads x once."""
    distinct = {
        (id(t.untyped_storage()), t.storage_offset(), tuple(t.shape), tuple(t.stride())): t for t in tensors
    }
    return sum(touched(tensor) for tensor in distinct.values())
