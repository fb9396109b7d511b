"""The attention problem: shapes, dtype, mask and pass; its inputs, useful FLOPs and bytes.

Layouts are (batch, heads, length, head_dim). Query head h reads key/value head h // (heads // kv_heads),
the interleaved repeat of grouped-query attention.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Alignment = Literal["top_left", "bottom_right"]
Pass = Literal["forward", "backward", "forward_backward"]
Distribution = Literal["randn", "uniform"]

#: The spellings people use -> torch's name.
DTYPES: Mapping[str, str] = {
    "fp16": "float16", "float16": "float16", "half": "float16",
    "bf16": "bfloat16", "bfloat16": "bfloat16",
    "fp32": "float32", "float32": "float32",
    "fp64": "float64", "float64": "float64",
}  # fmt: skip
ITEMSIZE: Mapping[str, int] = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}

#: FLOPs of each pass in units of the forward's: the backward recomputes QKᵀ and does four more products.
PASS_FLOPS: Mapping[str, float] = {"forward": 1.0, "backward": 2.5, "forward_backward": 3.5}


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """q (batch, heads, seq_len, head_dim); k, v (batch, kv_heads, kv_len, head_dim); mask broadcastable
    to (batch, heads, seq_len, kv_len), True where a query may look; grad_output of q's shape."""

    q: Tensor
    k: Tensor
    v: Tensor
    grad_output: Tensor
    mask: Tensor | None = None

    @property
    def differentiable(self) -> tuple[Tensor, Tensor, Tensor]:
        """The tensors a backward pass differentiates by."""
        return self.q, self.k, self.v


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionProblem:
    """One attention computation. `kv_len` and `kv_heads` default to `seq_len` and `heads`.

    Raises ValueError, beginning with the axis at fault, for sizes below 1 and indivisible heads.
    """

    seq_len: int
    batch: int = 1
    heads: int = 4
    kv_heads: int | None = None
    head_dim: int = 64
    kv_len: int | None = None
    dtype: str = "float32"
    causal: bool = False
    alignment: Alignment = "bottom_right"
    pass_: Pass = "forward"
    distribution: Distribution = "randn"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kv_heads", self.heads if self.kv_heads is None else self.kv_heads)
        object.__setattr__(self, "kv_len", self.seq_len if self.kv_len is None else self.kv_len)
        for name in ("seq_len", "batch", "heads", "kv_heads", "head_dim", "kv_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if self.heads % self.n_kv_heads:
            raise ValueError(
                f"kv_heads: {self.heads} query heads are not divisible by {self.kv_heads} "
                "key/value heads; use a divisor of heads"
            )
        if self.dtype not in ITEMSIZE:
            raise ValueError(f"dtype: {self.dtype!r} is not one of {', '.join(ITEMSIZE)}")
        if not self.causal or self.seq_len == self.kv_len:  # both alignments are the same mask
            object.__setattr__(self, "alignment", "bottom_right")

    @property
    def n_kv_heads(self) -> int:
        """Key/value heads, resolved."""
        assert self.kv_heads is not None
        return self.kv_heads

    @property
    def n_keys(self) -> int:
        """Key/value length, resolved."""
        assert self.kv_len is not None
        return self.kv_len

    @property
    def group_size(self) -> int:
        """Query heads that share one key/value head."""
        return self.heads // self.n_kv_heads

    @property
    def scale(self) -> float:
        """1/√head_dim."""
        return 1.0 / math.sqrt(self.head_dim)

    @property
    def causal_offset(self) -> int:
        """Query i attends keys j ≤ i + offset: 0 for top-left, kv_len − seq_len for bottom-right."""
        return self.n_keys - self.seq_len if self.alignment == "bottom_right" else 0

    def attended_pairs(self) -> int:
        """Exact number of (query, key) pairs per head that the mask lets through."""
        n, m = self.seq_len, self.n_keys
        if not self.causal:
            return n * m
        # Row i attends clip(i + 1 + offset, 0, m) keys: a run of zeros, a ramp, then m.
        first, last = 1 + self.causal_offset, n + self.causal_offset
        below = _ramp(min(last, m)) - _ramp(min(first - 1, m))
        return below + m * max(0, last - max(m, first - 1))

    def flops(self) -> int:
        """2 products × 2 FLOPs × head_dim per attended pair; backward 2.5 × that (FlashAttention-2)."""
        forward = 4 * self.batch * self.heads * self.attended_pairs() * self.head_dim
        return int(PASS_FLOPS[self.pass_] * forward)

    def min_bytes(self) -> int:
        """Q, K, V read and O written once; backward reads O and dO as well and writes dQ, dK, dV."""
        queries = self.batch * self.heads * self.seq_len * self.head_dim
        keys = self.batch * self.n_kv_heads * self.n_keys * self.head_dim
        forward = 2 * queries + 2 * keys
        backward = 4 * queries + 4 * keys
        elements = {
            "forward": forward,
            "backward": backward,
            "forward_backward": forward + backward,
        }
        return elements[self.pass_] * ITEMSIZE[self.dtype]

    def variables(self) -> dict[str, int]:
        """n and d of the complexity table, with the heads and the batch."""
        return {"n": self.seq_len, "m": self.n_keys, "d": self.head_dim,
                "heads": self.heads, "batch": self.batch}  # fmt: skip

    @classmethod
    def from_axes(cls, axes: Mapping[str, Any]) -> Self:
        """Build from suite axes: "pass" for `pass_`, and dtypes in any of their usual spellings."""
        values = {("pass_" if key == "pass" else key): value for key, value in axes.items()}
        if "dtype" in values:
            values["dtype"] = DTYPES.get(values["dtype"], values["dtype"])
        return cls(**values)

    def axes(self) -> dict[str, str | int | float | bool | None]:
        """The problem as data."""
        return {("pass" if key == "pass_" else key): value for key, value in asdict(self).items()}

    def inputs(self, device: str) -> AttentionInputs:
        """Draw q, k, v and the output's gradient from the problem's distribution and seed."""
        queries = (self.batch, self.heads, self.seq_len, self.head_dim)
        keys = (self.batch, self.n_kv_heads, self.n_keys, self.head_dim)
        draw = _Draw(self, device)
        return AttentionInputs(q=draw(queries), k=draw(keys), v=draw(keys), grad_output=draw(queries))


def _ramp(top: int) -> int:
    """1 + 2 + … + top, 0 for a negative top."""
    return top * (top + 1) // 2 if top > 0 else 0


class _Draw:
    """Draws tensors one after another from the problem's seed."""

    def __init__(self, problem: AttentionProblem, device: str) -> None:
        import torch

        self.problem, self.device = problem, device
        self.dtype: torch.dtype = getattr(torch, problem.dtype)
        self.generator = torch.Generator(device).manual_seed(problem.seed)

    def __call__(self, shape: tuple[int, ...]) -> Tensor:
        import torch

        sample = torch.randn if self.problem.distribution == "randn" else torch.rand
        # Drawn in float32 and rounded, so that every dtype sees the same numbers.
        return sample(shape, generator=self.generator, device=self.device).to(self.dtype)


AXES: Mapping[str, Any] = {
    ("pass" if f.name == "pass_" else f.name): f.type for f in fields(AttentionProblem)
}
CHOICES: Mapping[str, tuple[str, ...]] = {
    "alignment": get_args(Alignment), "pass": get_args(Pass), "distribution": get_args(Distribution),
    "dtype": tuple(DTYPES),
}  # fmt: skip
