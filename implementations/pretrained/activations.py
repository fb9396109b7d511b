"""Q, K and V of a trained encoder on real text: what attention is given in practice, layer by layer.

Up to 512 tokens, the longest that the model has positions for, a sequence is one stretch of the text, encoded
at its own length. A longer one is tiled: stretches of 512 tokens, each encoded by itself, laid one after
another. Stretches follow each other in the text and begin again at its start when it ends; since its length
is no multiple of a stretch, no two are alike until the text has gone round many times. Within a tiled
sequence queries meet keys of other stretches that they never met in the model.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import resources

import torch
from torch import Tensor

from implementations.pretrained import minilm
from implementations.transformer import EncoderLayer

TEXT = "declaration_of_independence.txt"
#: [CLS] and [SEP] stand around every stretch.
AROUND = 2
#: Seeds begin this many tokens apart: a prime, so that they differ.
APART = 131


def drawn(layer: int, *, batch: int, heads: int, seq_len: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v of the first heads of a layer, each (batch, heads, seq_len, 32), float32 on the CPU.

    The seed says where in the text the first stretch begins; the items of a batch take the following ones.
    Raises minilm.MissingWeights.
    """
    length = max(min(seq_len, minilm.MAX_LENGTH), AROUND + 1)
    pieces = math.ceil(seq_len / length)
    parts = []
    for item in range(batch):
        found = [stretch(layer, length, _start(seed, item * pieces + i, length)) for i in range(pieces)]
        parts.append([torch.cat(piece, 1)[:heads, :seq_len] for piece in zip(*found, strict=True)])
    q, k, v = (torch.stack(items) for items in zip(*parts, strict=True))
    return q, k, v


def _start(seed: int, place: int, length: int) -> int:
    return (seed * APART + place * (length - AROUND)) % len(words())


@lru_cache(maxsize=1)
def words() -> tuple[int, ...]:
    """The text as token numbers, without [CLS] and [SEP]."""
    text = resources.files("implementations.pretrained").joinpath(TEXT).read_text("utf-8")
    return tuple(minilm.tokenizer().encode(text, add_special_tokens=False).ids)


@lru_cache(maxsize=1)
def _model() -> minilm.SentenceEncoder:
    return minilm.load()


@lru_cache(maxsize=64)
def stretch(layer: int, length: int, start: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v (12, length, 32) of one layer on `length` tokens of the text, [CLS] and [SEP] among them."""
    model, text, tokenizer = _model(), words(), minilm.tokenizer()
    inner = [text[(start + i) % len(text)] for i in range(length - AROUND)]
    ends = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    with torch.no_grad():
        x = model.start(torch.tensor([[ends[0], *inner, ends[1]]]))
        for before in model.encoder.layers[:layer]:
            x = before(x)
        chosen = model.encoder.layers[layer]
        assert isinstance(chosen, EncoderLayer)
        q, k, v = chosen.attention.project(x)
    return q[0].contiguous(), k[0].contiguous(), v[0].contiguous()


def described(layer: int, seq_len: int, heads: int) -> str:
    """What is drawn, in words for a row."""
    pieces = math.ceil(seq_len / minilm.MAX_LENGTH)
    tiled = (
        f"; {pieces} stretches of {minilm.MAX_LENGTH} tokens, each encoded by itself, laid one after another"
        if pieces > 1
        else f"; {seq_len} tokens encoded together"
    )
    return (
        f"Q, K and V of heads 1 to {heads} of layer {layer} (of 0 to {minilm.LAYERS - 1}) of {minilm.NAME} "
        f"on English prose (the Declaration of Independence){tiled}"
    )
