"""§5: attention without positions, sinusoids, learned vectors and rotations."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from harness.verify.claim import Finding, above, at_least, at_most, below, claim, exactly

LENGTH, D_MODEL, HEADS = 12, 32, 4
#: A difference that no rounding makes.
VISIBLE = 1e-3


def _shuffled() -> tuple[Tensor, Tensor]:
    """(1, n, d) in float64, and a permutation that moves every token."""
    return torch.randn(1, LENGTH, D_MODEL, dtype=torch.float64), torch.arange(LENGTH).roll(5)


def _off(module: nn.Module, encode: nn.Module | None = None) -> tuple[float, float]:
    """max |f(Px) − P·f(x)| (equivariance) and max |f(Px) − f(x)| (invariance); positions stay in place."""
    x, order = _shuffled()
    module = module.double()

    def f(tokens: Tensor) -> Tensor:
        out: Tensor = module(tokens if encode is None else encode.double()(tokens))
        return out

    with torch.no_grad():
        moved, still = f(x[:, order]), f(x)
    return float((moved - still[:, order]).abs().max()), float((moved - still).abs().max())


@claim(
    "§5",
    "Attention is permutation-equivariant: shuffled tokens give the shuffled output",
    document="wrong",
    care="The document calls it 'permutation-invariant'. The output does change: it is shuffled as the input "
    "is, which is equivariance. Only what is pooled over all tokens is invariant.",
)
def equivariant() -> Finding:
    """In float64; the literal claim's figure stands beside it."""
    from implementations.transformer import MultiHeadAttention

    equivariance, invariance = _off(MultiHeadAttention(D_MODEL, HEADS))
    return Finding(
        equivariance, below(1e-12), f"max |f(Px) − P·f(x)|; max |f(Px) − f(x)| is {invariance:.2g}"
    )


@claim("§5", "Sinusoidal positions break the equivariance")
def sinusoids_break_it() -> Finding:
    """The same with positions added."""
    from implementations.transformer import MultiHeadAttention, SinusoidalPositions

    off, _ = _off(MultiHeadAttention(D_MODEL, HEADS), SinusoidalPositions(D_MODEL))
    return Finding(off, above(VISIBLE), "max |f(Px) − P·f(x)| with positions added")


@claim("§5", "Learned positions break the equivariance")
def learned_break_it() -> Finding:
    """The same with a vector for each position."""
    from implementations.transformer import LearnedPositions, MultiHeadAttention

    off, _ = _off(MultiHeadAttention(D_MODEL, HEADS), LearnedPositions(LENGTH, D_MODEL))
    return Finding(off, above(VISIBLE), "max |f(Px) − P·f(x)| with positions added")


@claim("§5", "Rotary positions break the equivariance")
def rotary_breaks_it() -> Finding:
    """The same with rotated queries and keys."""
    from implementations.transformer import MultiHeadAttention, RotaryPositions

    rotary = RotaryPositions(D_MODEL // HEADS)
    off, _ = _off(MultiHeadAttention(D_MODEL, HEADS, positions=rotary))
    return Finding(off, above(VISIBLE), "max |f(Px) − P·f(x)| with rotated q and k")


def encodings(length: int, start: int = 0, d_model: int = D_MODEL) -> Tensor:
    """(length, d_model): what the module adds to tokens that are 0, in float64."""
    from implementations.transformer import SinusoidalPositions

    tokens = torch.zeros(1, length, d_model, dtype=torch.float64)
    added: Tensor = SinusoidalPositions(d_model)(tokens, start)
    return added[0]


@claim("§5", "PE(pos, 2i) = sin(pos/10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same")
def formula() -> Finding:
    """Each element against Python's math."""
    table = encodings(64)
    worst = 0.0
    for pos in range(64):
        for i in range(D_MODEL // 2):
            angle = pos / 10_000 ** (2 * i / D_MODEL)
            worst = max(worst, abs(float(table[pos, 2 * i]) - math.sin(angle)))
            worst = max(worst, abs(float(table[pos, 2 * i + 1]) - math.cos(angle)))
    return Finding(worst, below(1e-12), "max |Δ| over 64 positions and 32 channels, float64")


@claim("§5", "PE(pos + k) = R(k)·PE(pos): one linear map for each offset, whatever the position")
def offsets_are_linear() -> Finding:
    """R(k) in closed form: each pair of channels is turned by k/10000^(2i/d_model)."""
    table = encodings(512)
    rates = torch.tensor([10_000 ** (-2 * i / D_MODEL) for i in range(D_MODEL // 2)], dtype=torch.float64)
    worst = 0.0
    for k in (1, 7, 100):
        cos, sin = (k * rates).cos(), (k * rates).sin()
        turn = torch.zeros(D_MODEL, D_MODEL, dtype=torch.float64)
        for i in range(D_MODEL // 2):  # sin(a + b) = cos b·sin a + sin b·cos a, and likewise the cosine
            block = torch.tensor([[cos[i], sin[i]], [-sin[i], cos[i]]], dtype=torch.float64)
            turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
        worst = max(worst, float((table[:-k] @ turn.mT - table[k:]).abs().max()))
    return Finding(worst, below(1e-10), "max |Δ| for k = 1, 7, 100 over 512 positions")


@claim("§5", "Distinct positions have distinct encodings")
def distinct() -> Finding:
    """The smallest distance of two positions; it depends on their offset alone, as the linear map says."""
    table = encodings(8192)
    nearest = float((table[1:] - table[0]).norm(dim=1).min())
    return Finding(nearest, above(0.1), "smallest ‖PE(i) − PE(j)‖ among 8,192 positions")


@claim(
    "§5",
    "Sinusoids exist at any position, also beyond those of training",
    document="loose",
    care="'It generalizes to sequence lengths longer than those seen during training' is true of the "
    "encoding, which is defined everywhere; a trained model need not work there, and (Press et al. 2022) "
    "does not.",
)
def sinusoids_go_on() -> Finding:
    """A million positions on, the encoding is still of norm √(d_model/2)."""
    norms = encodings(64, start=1_000_000).norm(dim=1)
    off = float((norms - math.sqrt(D_MODEL / 2)).abs().max())
    return Finding(off, below(1e-10), "largest error of the norm at positions from 1,000,000")


@claim("§5", "Learned positions do not go beyond max_seq_len: the module refuses, in words")
def learned_refuse() -> Finding:
    """How many of three sequences that do not fit are refused, one that fits being taken."""
    from implementations.transformer import LearnedPositions

    module = LearnedPositions(16, D_MODEL)
    module(torch.zeros(1, 16, D_MODEL))
    refused = 0
    for length, start in ((17, 0), (1, 16), (64, 0)):
        try:
            module(torch.zeros(1, length, D_MODEL), start)
        except ValueError as error:
            refused += "16" in str(error)
    return Finding(refused, exactly(3), "refused of 3 that exceed max_seq_len = 16")


def _rotated(vector: Tensor, place: int) -> Tensor:
    from implementations.transformer import RotaryPositions

    return RotaryPositions(vector.shape[-1]).rotate(vector[None, None, None], place)[0, 0, 0]


@claim("§5", "RoPE: q_m·k_n depends on the offset m − n alone")
def rotary_is_relative() -> Finding:
    """The largest difference of the product over shifts of both positions, over ‖q‖‖k‖."""
    q, k = torch.randn(2, 64, dtype=torch.float64)
    scale, worst = float(q.norm() * k.norm()), 0.0
    for offset in (0, 1, 9, 200):
        products = [float(_rotated(q, s + offset) @ _rotated(k, s)) for s in (0, 1, 50, 4000)]
        worst = max(worst, (max(products) - min(products)) / scale)
    return Finding(worst, below(1e-10), "spread over shifts to 4,000, relative, float64")


@claim("§5", "RoPE: another offset is another product")
def rotary_tells_offsets_apart() -> Finding:
    """The smallest difference of the products of neighbouring offsets, over ‖q‖‖k‖."""
    q, k = torch.randn(2, 64, dtype=torch.float64)
    products = torch.stack([_rotated(q, offset) @ _rotated(k, 0) for offset in range(16)])
    spread = float((products.max() - products.min()) / (q.norm() * k.norm()))
    return Finding(spread, at_least(0.01), "spread over offsets 0 to 15, relative")


@claim("§5", "RoPE keeps norms: it rotates")
def rotary_keeps_norms() -> Finding:
    """The largest relative change of a norm."""
    q = torch.randn(64, dtype=torch.float64)
    worst = max(abs(float(_rotated(q, place).norm() / q.norm()) - 1) for place in (0, 1, 77, 100_000))
    return Finding(worst, at_most(1e-12), "largest relative change of ‖q‖, positions to 100,000")
