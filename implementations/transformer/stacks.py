"""Stacks of layers: encoder, decoder, both together, and a model of language on a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from implementations.transformer.layers import DecoderLayer, EncoderLayer, LayerCache


class Positions(Protocol):
    """Sinusoidal or learned positions: added to tokens of which the first stands at `start`."""

    def __call__(self, x: Tensor, start: int = 0) -> Tensor:
        """(batch, seq_len, d_model) → the same shape."""


def _final(d_model: int, layer: dict[str, Any]) -> nn.Module:
    """Pre-norm leaves the residual stream unnormalised: a LayerNorm ends the stack. Post-norm has one."""
    if layer.get("norm", "pre") == "post":
        return nn.Identity()
    return nn.LayerNorm(d_model, eps=layer.get("norm_eps", 1e-5))


class Encoder(nn.Module):
    """`depth` encoder layers, every token seeing all (BERT); `layer` are the arguments of EncoderLayer."""

    def __init__(self, depth: int, d_model: int, heads: int, d_ff: int, **layer: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(d_model, heads, d_ff, **layer) for _ in range(depth))
        self.final = _final(d_model, layer)

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """(batch, seq_len, d_model) → the same shape; mask as in MultiHeadAttention."""
        for layer in self.layers:
            x = layer(x, mask=mask)
        done: Tensor = self.final(x)
        return done


class Decoder(nn.Module):
    """`depth` layers in which a token sees itself and those before it.

    reads_memory  False for the decoder of a GPT, which has no encoder to look at
    `layer` are the arguments of DecoderLayer.
    """

    def __init__(
        self, depth: int, d_model: int, heads: int, d_ff: int, *, reads_memory: bool = True, **layer: Any
    ) -> None:
        super().__init__()
        self.reads_memory = reads_memory
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, heads, d_ff, **layer)
            if reads_memory
            else EncoderLayer(d_model, heads, d_ff, causal=True, **layer)
            for _ in range(depth)
        )
        self.final = _final(d_model, layer)

    def new_caches(self) -> list[LayerCache]:
        """Empty caches, one for each layer."""
        return [LayerCache() for _ in self.layers]

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        caches: Sequence[LayerCache] | None = None,
    ) -> Tensor:
        """(batch, seq_len, d_model) → the same shape; memory (batch, source_len, d_model).

        With caches x holds the new tokens only. Raises ValueError where memory is missing or not read.
        """
        if self.reads_memory is not (memory is not None):
            missing = "reads an encoder's output: give it memory" if self.reads_memory else "reads no memory"
            raise ValueError(f"memory: this decoder {missing}")
        for place, layer in enumerate(self.layers):
            cache = None if caches is None else caches[place]
            if memory is None:
                x = layer(x, mask=mask, cache=None if cache is None else cache.own)
            else:
                x = layer(x, memory, mask=mask, memory_mask=memory_mask, cache=cache)
        done: Tensor = self.final(x)
        return done


class EncoderDecoder(nn.Module):
    """The original transformer: the decoder reads what the encoder made of the source."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """source (batch, source_len, d_model), target (batch, seq_len, d_model) → target's shape.

        Masks are boolean, True where a token may look, broadcastable to (batch, heads, …, …_len); the
        source's rules the cross-attention too, so it is one line for all queries: (batch, 1, 1, source_len).
        """
        memory = self.encoder(source, mask=source_mask)
        done: Tensor = self.decoder(target, memory, mask=target_mask, memory_mask=source_mask)
        return done


class LanguageModel(nn.Module):
    """Tokens → scores of the next token: embedding, positions, decoder, and a linear layer.

    positions  added to the embeddings; None where the decoder's attention rotates, or for none
    """

    def __init__(
        self, vocabulary: int, d_model: int, decoder: Decoder, positions: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.embedding, self.positions, self.decoder = nn.Embedding(vocabulary, d_model), positions, decoder
        self.scores = nn.Linear(d_model, vocabulary, bias=False)

    def forward(
        self,
        tokens: Tensor,
        memory: Tensor | None = None,
        *,
        caches: Sequence[LayerCache] | None = None,
    ) -> Tensor:
        """tokens (batch, seq_len), whole numbers → (batch, seq_len, vocabulary).

        With caches, `tokens` are those that follow the ones already in them.
        """
        x = self.embedding(tokens)
        if self.positions is not None:
            x = self.positions(x, len(caches[0].own) if caches else 0)
        scored: Tensor = self.scores(self.decoder(x, memory, caches=caches))
        return scored
