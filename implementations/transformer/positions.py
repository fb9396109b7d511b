"""Where a token stands: sinusoids or learned vectors added to it, or rotations of queries and keys."""

from __future__ import annotations

import torch
from torch import Tensor, nn

#: The longest wavelength over 2π, of sinusoids and of rotations.
BASE = 10_000.0


def frequencies(width: int, base: float = BASE) -> Tensor:
    """(width/2,) float64: base^(−2i/width), the angle that one step turns channel pair i."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def _even(width: int, name: str) -> int:
    if width < 2 or width % 2:
        raise ValueError(f"{name}: positions come in pairs of channels; {width} is not an even number")
    return width


class SinusoidalPositions(nn.Module):
    """PE(pos, 2i) = sin(pos/10000^(2i/d_model)), PE(pos, 2i+1) = cos(…), added to the tokens.

    Vaswani et al. 2017, section 3.5. Any position has one: nothing bounds the length.
    Raises ValueError for an odd d_model.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = _even(d_model, "d_model")

    def table(self, length: int, start: int = 0) -> Tensor:
        """(length, d_model) float64: the encodings of positions start, start + 1, …"""
        angles = torch.outer(
            torch.arange(start, start + length, dtype=torch.float64), frequencies(self.d_model)
        )
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x (batch, seq_len, d_model) with the encodings added; its first token stands at `start`."""
        return x + self.table(x.shape[-2], start).to(x)


class LearnedPositions(nn.Module):
    """A trained vector for each of max_seq_len positions (GPT-2, BERT), added to the tokens."""

    def __init__(self, max_seq_len: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(max_seq_len, d_model)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x (batch, seq_len, d_model) with the vectors added; its first token stands at `start`.

        Raises ValueError beyond max_seq_len: nothing was learned there.
        """
        end, most = start + x.shape[-2], self.embedding.num_embeddings
        if end > most:
            raise ValueError(
                f"position {end - 1} has no learned vector: max_seq_len is {most}; shorten the sequence, "
                "or use sinusoidal or rotary positions"
            )
        return x + self.embedding.weight[start:end]


class RotaryPositions(nn.Module):
    """Turns each pair of channels (2i, 2i+1) of a query or key by pos·base^(−2i/head_dim).

    Su et al. 2021, equation 34: neighbouring channels are a pair. (LLaMA's code pairs channel i with
    i + head_dim/2, the same up to an order of the channels.) Raises ValueError for an odd head_dim.
    """

    def __init__(self, head_dim: int, base: float = BASE) -> None:
        super().__init__()
        self.head_dim, self.base = _even(head_dim, "head_dim"), base

    def rotate(self, heads: Tensor, start: int = 0) -> Tensor:
        """(batch, heads, seq_len, head_dim), rotated; its first token stands at `start`.

        Angles are float64, the rotation is in the tensor's own dtype.
        """
        places = torch.arange(start, start + heads.shape[-2], dtype=torch.float64, device=heads.device)
        angles = torch.outer(places, frequencies(self.head_dim, self.base).to(heads.device))
        cos, sin = angles.cos().to(heads), angles.sin().to(heads)
        even, odd = heads[..., 0::2], heads[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def forward(self, q: Tensor, k: Tensor, start: int = 0) -> tuple[Tensor, Tensor]:
        """Queries and keys of the same tokens, both rotated."""
        return self.rotate(q, start), self.rotate(k, start)
