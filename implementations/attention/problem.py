"""The attention problem: shapes, dtype, masks and pass; its inputs, useful FLOPs and bytes.

Layouts are (batch, heads, length, head_dim). Query head h reads key/value head h // (heads // kv_heads),
the interleaved repeat of grouped-query attention. Packed sequences of `lengths` lie one after another
along the length, in a batch of 1.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from implementations.attention._faults import fault
from implementations.attention._pairs import Band

if TYPE_CHECKING:
    from torch import Tensor

    from implementations.registry import Reason, Target

Alignment = Literal["top_left", "bottom_right"]
Pass = Literal["forward", "backward", "forward_backward", "decode"]
Distribution = Literal["randn", "uniform", "ar1", "activations"]
Mask = Literal["none", "boolean", "additive", "padding"]

#: The spellings people use -> torch's name.
DTYPES: Mapping[str, str] = {
    "fp16": "float16", "float16": "float16", "half": "float16",
    "bf16": "bfloat16", "bfloat16": "bfloat16",
    "fp32": "float32", "float32": "float32",
    "fp64": "float64", "float64": "float64",
}  # fmt: skip
ITEMSIZE: Mapping[str, int] = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}

#: FLOPs of each pass in units of the forward's: the backward recomputes QKᵀ and does four more products.
PASS_FLOPS: Mapping[str, float] = {
    "forward": 1.0, "backward": 2.5, "forward_backward": 3.5, "decode": 1.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """q (batch, heads, seq_len, head_dim); k, v (batch, kv_heads, kv_len, head_dim).

    grad_output  of q's shape
    mask  boolean, broadcastable to (batch, heads, seq_len, kv_len), True where a query may look
    bias  of q's dtype, broadcastable likewise, added to the scaled scores; no gradient is taken by it
    new_k, new_v  decoding: (batch, kv_heads, seq_len, head_dim), the tokens that k and v, the cache, end with
    """

    q: Tensor
    k: Tensor
    v: Tensor
    grad_output: Tensor
    mask: Tensor | None = None
    bias: Tensor | None = None
    new_k: Tensor | None = None
    new_v: Tensor | None = None

    @property
    def differentiable(self) -> tuple[Tensor, Tensor, Tensor]:
        """The tensors a backward pass differentiates by."""
        return self.q, self.k, self.v

    def advance(self) -> None:
        """Append the new tokens: copy them to the end of the cache, which holds the same values already.

        So decoding again and again does the same work on the same numbers. Raises ValueError without any.
        """
        if self.new_k is None or self.new_v is None:
            raise ValueError("pass: only inputs drawn for decode have new tokens to append")
        for cache, new in ((self.k, self.new_k), (self.v, self.new_v)):
            cache[:, :, -new.shape[2] :].copy_(new)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionProblem:
    """One attention computation. `kv_len` and `kv_heads` default to `seq_len` and `heads`.

    alignment  of the causal rule and the window: query i stands at key i, or the last query at the last key
    window     a query attends the keys nearer than this to where it stands (with causal: of those before it)
    mask       what `inputs()` draws besides: a boolean or additive one, or padding keys on the left
    lengths    "100+37+512": packed sequences; attention, causal or not, stays inside each of them
    pass_      decode is a forward pass of `seq_len` new tokens, appended to a cache of kv_len, causal
    input_scale  multiplies q and k
    distribution  ar1: neighbouring tokens are alike (0.98), and so are a query and its own key (0.9);
               activations: Q, K and V of a trained encoder on real text (implementations/pretrained)
    layer      of the encoder that activations are taken from, from 0; None for other distributions

    Raises ValueError, beginning with the axis at fault, for sizes below 1, indivisible heads and
    combinations that mean nothing.
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
    window: int | None = None
    mask: Mask = "none"
    lengths: str | None = None
    pass_: Pass = "forward"
    distribution: Distribution = "randn"
    layer: int | None = None
    input_scale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kv_heads", self.heads if self.kv_heads is None else self.kv_heads)
        object.__setattr__(self, "kv_len", self.seq_len if self.kv_len is None else self.kv_len)
        object.__setattr__(self, "input_scale", float(self.input_scale))
        if self.pass_ == "decode":
            object.__setattr__(self, "causal", True)
            object.__setattr__(self, "alignment", "bottom_right")
        if self.distribution != "activations":
            object.__setattr__(self, "layer", None)
        if found := fault(self, ITEMSIZE):
            raise ValueError(found)
        unaligned = not self.causal and self.window is None
        if unaligned or self.seq_len == self.kv_len:  # both alignments are the same rule
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
        """Query i stands at key i + offset: 0 for top-left, kv_len − seq_len for bottom-right."""
        return self.n_keys - self.seq_len if self.alignment == "bottom_right" else 0

    @property
    def needs_gradients(self) -> bool:
        """Whether the pass goes backward."""
        return self.pass_ not in ("forward", "decode")

    @property
    def cu_seqlens(self) -> tuple[int, ...] | None:
        """Where packed sequences begin, and their total: (0, 100, 137, 649); None without `lengths`."""
        if self.lengths is None:
            return None
        return tuple(itertools.accumulate(map(int, self.lengths.split("+")), initial=0))

    @property
    def sequences(self) -> tuple[Band, ...]:
        """The causal rule and the window over each packed sequence, or over the one there is."""
        if (starts := self.cu_seqlens) is None:
            return (Band(self.seq_len, self.n_keys, self.causal_offset, self.causal, self.window),)
        lengths = [end - start for start, end in itertools.pairwise(starts)]
        return tuple(Band(n, n, 0, self.causal, self.window) for n in lengths)

    @property
    def origin(self) -> str:
        """Where the inputs come from, in words, if they are not drawn at random."""
        if self.distribution != "activations" or self.layer is None:
            return ""
        from implementations.pretrained.activations import described

        return described(self.layer, self.seq_len, self.heads)

    def beyond_causal(self) -> Mapping[str, str]:
        """What is asked for besides the causal rule: axis -> in words. `beyond` tells what is not taken."""
        asked: dict[str, str] = {}
        if self.window is not None:
            asked["window"] = f"a sliding window of {self.window} keys"
        if self.lengths is not None:
            asked["lengths"] = "packed sequences of several lengths"
        if self.mask != "none":
            asked[self.mask] = {
                "boolean": "a boolean mask", "additive": "an additive mask", "padding": "padded keys",
            }[self.mask]  # fmt: skip
        return asked

    def beyond(self, *taken: str) -> str | None:
        """The reason of an implementation that takes no other of these axes (of `mask`: no other value)."""
        untaken = [words for axis, words in self.beyond_causal().items() if axis not in taken]
        return f"it does not take {' or '.join(untaken)}" if untaken else None

    def attended_pairs(self) -> int:
        """Exact number of (query, key) pairs per head that causal rule, window and lengths let through.

        The pairs that a drawn mask hides are not taken off.
        """
        return sum(band.pairs() for band in self.sequences)

    def flops(self) -> int:
        """2 products × 2 FLOPs × head_dim per attended pair; backward 2.5 × that (FlashAttention-2).

        Of a drawn mask, boolean or padding, every pair counts: kernels that take one compute them all, and
        how many it hides is chance.
        """
        forward = 4 * self.batch * self.heads * self.attended_pairs() * self.head_dim
        return int(PASS_FLOPS[self.pass_] * forward)

    def min_bytes(self) -> int:
        """Q, K, V and the mask read, O written once; backward reads O and dO as well and writes dQ, dK, dV.

        decode reads the new keys and values and writes them to the cache besides.
        """
        queries = self.batch * self.heads * self.seq_len * self.head_dim
        keys = self.batch * self.n_kv_heads * self.n_keys * self.head_dim
        new = self.batch * self.n_kv_heads * self.seq_len * self.head_dim
        forward = 2 * queries + 2 * keys
        backward = 4 * queries + 4 * keys
        elements = {
            "forward": forward,
            "backward": backward,
            "forward_backward": forward + backward,
            "decode": forward + 4 * new,
        }
        reads = 2 if self.pass_ == "forward_backward" else 1
        return elements[self.pass_] * ITEMSIZE[self.dtype] + reads * self._mask_bytes()

    def _mask_bytes(self) -> int:
        pairs = self.seq_len * self.n_keys
        return {
            "none": 0,
            "boolean": self.batch * pairs,
            "additive": self.heads * pairs * ITEMSIZE[self.dtype],
            "padding": self.batch * self.n_keys,
        }[self.mask]

    def variables(self) -> dict[str, int]:
        """n, d of the complexity table; keys m, window w (all keys without one), heads and batch."""
        return {"n": self.seq_len, "m": self.n_keys, "w": self.window or self.n_keys, "d": self.head_dim,
                "heads": self.heads, "batch": self.batch}  # fmt: skip

    @classmethod
    def from_axes(cls, axes: Mapping[str, Any]) -> Self:
        """Build from suite axes: "pass" for `pass_`, dtypes in any of their usual spellings.

        With `lengths`, seq_len is their sum and may be left out.
        """
        values = {("pass_" if key == "pass" else key): value for key, value in axes.items()}
        if "dtype" in values:
            values["dtype"] = DTYPES.get(values["dtype"], values["dtype"])
        if values.get("lengths") is not None and "seq_len" not in values:
            values["seq_len"] = sum(map(int, re.findall(r"\d+", str(values["lengths"]))))
        return cls(**values)

    def axes(self) -> dict[str, str | int | float | bool | None]:
        """The problem as data."""
        return {("pass" if key == "pass_" else key): value for key, value in asdict(self).items()}

    def inputs(self, device: str) -> AttentionInputs:
        """Draw q, k, v, the output's gradient and the mask from the problem's distribution and seed."""
        from implementations.attention._draw import Draw

        draw = Draw(self, device)
        q, k, v = draw.queries_keys_values()
        new = slice(self.n_keys - self.seq_len, None)
        decoding = self.pass_ == "decode"
        return AttentionInputs(
            q=q,
            k=k,
            v=v,
            grad_output=draw.grad_output(),
            mask=draw.mask(),
            bias=draw.bias(),
            new_k=k[:, :, new].clone() if decoding else None,
            new_v=v[:, :, new].clone() if decoding else None,
        )


def takes(*axes: str) -> Callable[[AttentionProblem, Target], Reason]:
    """The `supports` of an implementation that takes only these of window, lengths and the values of mask."""

    def supports(problem: AttentionProblem, target: Target) -> Reason:
        return problem.beyond(*axes)

    return supports
