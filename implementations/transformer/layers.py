"""Encoder and decoder layers: attention and feed-forward, each with a residual and a LayerNorm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from torch import Tensor, nn

from implementations.transformer.attention import MultiHeadAttention
from implementations.transformer.cache import KeyValueCache
from implementations.transformer.feedforward import Activation, FeedForward
from implementations.transformer.positions import RotaryPositions

Norm = Literal["pre", "post"]


class Sublayer(nn.Module):
    """The residual and the LayerNorm around a sublayer.

    pre: x + f(LayerNorm(x)); post: LayerNorm(x + f(x)) (the document's §6).
    Raises ValueError for another norm.
    """

    def __init__(self, d_model: int, norm: Norm, dropout: float, eps: float) -> None:
        super().__init__()
        if norm not in get_args(Norm):
            raise ValueError(f"norm: {norm!r} is not one of {', '.join(get_args(Norm))}")
        self.pre, self.norm, self.dropout = norm == "pre", nn.LayerNorm(d_model, eps=eps), nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(batch, seq_len, d_model) → the same shape."""
        if self.pre:
            done: Tensor = x + self.dropout(sublayer(self.norm(x)))
        else:
            done = self.norm(x + self.dropout(sublayer(x)))
        return done


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward; with `causal` the layer of a GPT.

    attention  the name of any attention of the suite
    dropout    of each sublayer's output, as in the document; the attention weights keep theirs
    positions  rotates queries and keys; None for none
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        *,
        norm: Norm = "pre",
        activation: Activation = "relu",
        attention: str = "sdpa_flash",
        causal: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        norm_eps: float = 1e-5,
        positions: RotaryPositions | None = None,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            d_model, heads, attention=attention, causal=causal, bias=bias, positions=positions
        )
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation, bias=bias)
        self.attention_residual = Sublayer(d_model, norm, dropout, norm_eps)
        self.feed_forward_residual = Sublayer(d_model, norm, dropout, norm_eps)

    def forward(self, x: Tensor, *, mask: Tensor | None = None, cache: KeyValueCache | None = None) -> Tensor:
        """(batch, seq_len, d_model) → the same shape; mask and cache as in MultiHeadAttention."""
        x = self.attention_residual(x, lambda normed: self.attention(normed, mask=mask, cache=cache))
        done: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return done


@dataclass(slots=True)
class LayerCache:
    """What a decoder layer remembers: keys and values of its own tokens, and of the encoder's output."""

    own: KeyValueCache = field(default_factory=KeyValueCache)
    memory: KeyValueCache = field(default_factory=KeyValueCache)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention that reads the encoder's output, then feed-forward.

    The arguments are those of EncoderLayer; positions rotate the self-attention only.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        *,
        norm: Norm = "pre",
        activation: Activation = "relu",
        attention: str = "sdpa_flash",
        bias: bool = True,
        dropout: float = 0.0,
        norm_eps: float = 1e-5,
        positions: RotaryPositions | None = None,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(
            d_model, heads, attention=attention, causal=True, bias=bias, positions=positions
        )
        self.cross_attention = MultiHeadAttention(d_model, heads, attention=attention, bias=bias)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation, bias=bias)
        self.self_attention_residual = Sublayer(d_model, norm, dropout, norm_eps)
        self.cross_attention_residual = Sublayer(d_model, norm, dropout, norm_eps)
        self.feed_forward_residual = Sublayer(d_model, norm, dropout, norm_eps)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """(batch, seq_len, d_model) → the same shape; memory (batch, source_len, d_model).

        memory_mask: boolean, broadcastable to (batch, heads, seq_len, source_len), True where a token may
        look. With a cache, x holds the new tokens only, and memory is read once.
        """
        own, read = (None, None) if cache is None else (cache.own, cache.memory)
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, mask=mask, cache=own))
        x = self.cross_attention_residual(
            x, lambda y: self.cross_attention(y, memory, mask=memory_mask, cache=read)
        )
        done: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return done
