"""What the flash kernels are compared on, and the float64 truth they are compared with."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, get_args

from implementations.attention.problem import Alignment, AttentionInputs, AttentionProblem

if TYPE_CHECKING:
    from torch import Tensor

HALF = ("float16", "bfloat16")
DTYPES = ("float32", *HALF)


@dataclass(frozen=True)
class Case:
    """One comparison. `guard` places q, k, v inside larger buffers of NaN; `v_transposed` stores v with
    its length innermost; `channels` zeroes q and k below that channel; `descriptors` reads through them;
    `mask_layout` "line" gives every query of a head the same mask, "blind" hides all from the first,
    "transposed" stores queries innermost."""

    n: int
    m: int = 0
    d: int = 64
    heads: int = 1
    kv_heads: int = 1
    batch: int = 1
    causal: bool = False
    alignment: str = "bottom_right"
    window: int | None = None
    mask: str = "none"
    lengths: str | None = None
    dtype: str = "float32"
    guard: bool = False
    v_transposed: bool = False
    channels: int = 0
    descriptors: bool = False
    mask_layout: str = ""

    def __str__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return "-".join(f"{name}={value}" for name, value in given.items())

    @property
    def problem(self) -> AttentionProblem:
        return AttentionProblem.from_axes({
            "seq_len": self.n, "kv_len": self.m or self.n, "head_dim": self.d, "heads": self.heads,
            "batch": self.batch, "kv_heads": self.kv_heads, "causal": self.causal, "dtype": self.dtype,
            "alignment": self.alignment, "window": self.window, "mask": self.mask, "lengths": self.lengths,
            "pass": "forward_backward", "seed": self.n + self.d,
        })  # fmt: skip


LENGTHS = [Case(n, causal=causal, d=32) for n in (1, 15, 17, 63, 65, 129) for causal in (False, True)]
HEAD_DIMS = [Case(33, 37, d=d, causal=True) for d in (16, 24, 40, 72, 80, 96, 128, 160, 256)]
RECTANGLES = [
    Case(n, m, d=16, heads=2, kv_heads=1, causal=True, alignment=alignment, batch=2)
    for n, m in ((2, 5), (5, 2), (1, 7), (70, 130), (130, 70))
    for alignment in get_args(Alignment)
]
LAYOUTS = [
    Case(17, 65, d=40, heads=6, kv_heads=2, causal=True, batch=2),
    Case(65, 129, d=64, heads=6, kv_heads=2, guard=True, batch=2),
    Case(129, 65, d=40, heads=2, kv_heads=1, causal=True, guard=True),
    Case(65, 65, d=64, causal=True, v_transposed=True),
    Case(129, d=128, channels=64),
    Case(65, 129, d=64, heads=6, kv_heads=2, causal=True, descriptors=True, batch=2),
    Case(129, 65, d=80, heads=2, descriptors=True, guard=True),
]
DRIFT = [
    Case(256, d=d, causal=causal, dtype=dtype)
    for dtype in DTYPES
    for d in (64, 128)
    for causal in (False, True)
]
MASKS = [
    Case(40, 70, d=16, heads=4, kv_heads=2, batch=2, mask=mask, mask_layout=layout)
    for mask in ("boolean", "additive")
    for layout in ("", "line", "transposed")
] + [
    Case(70, 130, d=40, heads=2, kv_heads=1, batch=2, mask="padding", guard=True),
    Case(130, 70, d=16, causal=True, mask="boolean", descriptors=True),
    Case(65, 129, d=16, causal=True, mask="additive", window=40),
]  # fmt: skip
WINDOWS = [
    Case(n, m, d=16, heads=2, kv_heads=1, causal=causal, window=window, alignment=alignment)
    for n, m, window, alignment in (
        (200, 200, 70, "bottom_right"), (150, 70, 2, "top_left"), (70, 200, 33, "top_left"),
        (70, 200, 129, "bottom_right"), (200, 70, 20, "bottom_right"),
    )
    for causal in (False, True)
]  # fmt: skip
PACKED = [
    Case(139, d=16, heads=2, kv_heads=1, lengths="1+70+64+4", causal=causal, window=window)
    for causal, window in ((False, None), (True, None), (False, 9))
]
#: The queries are few and the keys many: decoded with the keys split.
DECODED = [
    Case(1, 500, d=64, heads=2, kv_heads=1, causal=True, batch=2),
    Case(3, 400, d=40, heads=6, kv_heads=2, causal=True, mask="boolean", guard=True, mask_layout="blind"),
    Case(16, 300, d=16, heads=4, kv_heads=1, mask="additive"),
    Case(2, 900, d=16, causal=True, window=300),
    Case(5, 400, d=16, window=280, mask="padding", batch=2),
    Case(16, 400, d=80, heads=2, kv_heads=1, causal=True, mask="additive", mask_layout="transposed"),
]
HALVES = [
    Case(130, 140, d=32, causal=causal, window=window, mask=mask, dtype=dtype)
    for dtype in HALF
    for causal, window, mask in ((False, None, "additive"), (True, 50, "none"), (False, None, "padding"))
] + [Case(2, 512, d=64, heads=2, kv_heads=1, causal=True, dtype=dtype) for dtype in HALF]  # fmt: skip
HALVES += [
    Case(96, d=d, causal=d % 16 == 0, dtype=dtype) for dtype in HALF for d in (16, 40, 72, 80, 96, 160, 256)
] + [
    Case(70, 110, d=d, heads=4, kv_heads=2, causal=True, alignment=alignment, dtype=dtype)
    for dtype in HALF
    for d, alignment in ((40, "bottom_right"), (80, "top_left"))
] + [Case(111, d=72, lengths="1+70+40", causal=True, dtype=dtype) for dtype in HALF]  # fmt: skip
CASES = {
    str(case): case
    for case in (*LENGTHS, *HEAD_DIMS, *RECTANGLES, *LAYOUTS, *DRIFT, *MASKS, *WINDOWS, *PACKED, *DECODED,
                 *HALVES)
}  # fmt: skip


def visible(problem: AttentionProblem, inputs: AttentionInputs) -> Tensor:
    """(batch, heads, seq_len, kv_len), True where a query may look: the rules spelled out pair by pair."""
    import torch

    n, m, rules = problem.seq_len, problem.n_keys, []
    stands = torch.arange(n)[:, None] + (m - n if problem.alignment == "bottom_right" else 0)
    keys = torch.arange(m)
    if problem.causal:
        rules.append(keys <= stands)
    if problem.window is not None:
        rules.append((stands - keys).abs() < problem.window)
    if problem.lengths is not None:
        parts = [int(part) for part in problem.lengths.split("+")]
        number = torch.tensor(list(itertools.chain(*([i] * length for i, length in enumerate(parts)))))
        rules.append(number[:, None] == number)
    if inputs.mask is not None:
        rules.append(inputs.mask)
    if inputs.bias is not None:
        rules.append(inputs.bias > -math.inf)
    seen = torch.ones(problem.batch, problem.heads, n, m, dtype=torch.bool)
    for rule in rules:
        seen = seen & rule
    return seen


def truth(problem: AttentionProblem, inputs: AttentionInputs, seen: Tensor) -> list[Tensor]:
    """Output and gradients in float64 from the textbook formulas."""
    import torch

    q, k, v = (x.detach().double() for x in inputs.differentiable)
    d_out = inputs.grad_output.double()
    k, v = (x.repeat_interleave(problem.group_size, 1) for x in (k, v))
    scores = q @ k.mT * problem.scale
    if inputs.bias is not None:
        scores = scores + inputs.bias.double()
    top = scores.masked_fill(~seen, -1e300).amax(-1, keepdim=True)
    weights = torch.where(seen, (scores - top).exp(), 0.0)
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    d_weights = d_out @ v.mT
    d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True)) * problem.scale
    per_kv_head = (problem.batch, problem.n_kv_heads, problem.group_size, problem.n_keys, problem.head_dim)
    dk, dv = d_scores.mT @ q, weights.mT @ d_out
    return [weights @ v, d_scores @ k, dk.view(per_kv_head).sum(2), dv.view(per_kv_head).sum(2)]


def theirs(problem: AttentionProblem, inputs: AttentionInputs, seen: Tensor) -> list[Tensor]:
    """PyTorch's own attention in the same dtype; rows that see nothing are set to 0 by hand."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    blind = ~seen.any(-1, keepdim=True)
    mask = seen | blind
    if inputs.bias is not None:
        mask = inputs.bias.masked_fill(blind, 0).masked_fill(~mask, -math.inf)
    plain = bool(seen.all()) and inputs.bias is None
    leaves = [x.detach().clone().requires_grad_() for x in inputs.differentiable]
    shared = problem.group_size > 1
    q, k, v = leaves
    out = scaled_dot_product_attention(q, k, v, None if plain else mask, enable_gqa=shared)
    out = out.masked_fill(blind, 0)
    return [out.detach(), *torch.autograd.grad(out, leaves, inputs.grad_output)]


def placed(tensor: Tensor) -> Tensor:
    """The tensor inside a larger buffer of NaN."""
    import torch

    b, h, n, d = tensor.shape
    buffer = torch.full((b + 1, h + 1, n + 80, d + 16), math.nan, dtype=tensor.dtype)
    inside = buffer[1:, 1:, 40 : 40 + n, 8 : 8 + d]
    inside.copy_(tensor)
    return inside


def drawn(case: Case) -> AttentionInputs:
    """The inputs, laid out as the case says."""
    inputs = case.problem.inputs("cpu")
    q, k, v, mask, bias = inputs.q, inputs.k, inputs.v, inputs.mask, inputs.bias
    if case.channels:
        q[..., : case.channels] = 0
        k[..., : case.channels] = 0
    if case.guard:
        q, k, v = map(placed, (q, k, v))
    if case.v_transposed:
        v = v.mT.contiguous().mT
    if case.mask_layout == "line":
        mask, bias = (x if x is None else x[:, :, 2:3] for x in (mask, bias))
    elif case.mask_layout == "blind" and mask is not None:
        mask[:, :, 0] = False
    elif case.mask_layout == "transposed":
        mask, bias = (x if x is None else x.mT.contiguous().mT for x in (mask, bias))
    if bias is not None:
        bias[..., 0] = -math.inf  # hides a key as well as a boolean mask does
    return AttentionInputs(q, k, v, inputs.grad_output, mask, bias)
