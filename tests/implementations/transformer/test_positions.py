"""What positions promise: their formula, uniqueness, and what the angles of rotations depend on."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from implementations.transformer import (
    LearnedPositions,
    MultiHeadAttention,
    RotaryPositions,
    SinusoidalPositions,
)


def test_sinusoids_are_those_of_the_document() -> None:
    table = SinusoidalPositions(8).table(50)
    for position in (0, 1, 7, 49):
        for i in range(4):
            angle = position / 10000 ** (2 * i / 8)
            assert table[position, 2 * i] == pytest.approx(math.sin(angle), abs=1e-14)
            assert table[position, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-14)


def test_sinusoids_are_added_and_go_on_from_a_start() -> None:
    positions, x = SinusoidalPositions(16), torch.randn(2, 9, 16, dtype=torch.float64)
    torch.testing.assert_close(positions(x), x + positions.table(9))
    torch.testing.assert_close(positions(x, 100), x + positions.table(109)[100:])
    assert positions(x.float()).dtype == torch.float32


def test_learned_positions_refuse_what_they_never_learned() -> None:
    positions, x = LearnedPositions(12, 8), torch.randn(1, 12, 8)
    torch.testing.assert_close(positions(x), x + positions.embedding.weight)
    torch.testing.assert_close(positions(x[:, :2], 10), x[:, :2] + positions.embedding.weight[10:])
    with pytest.raises(ValueError, match=r"position 12 .* max_seq_len is 12"):
        positions(torch.randn(1, 13, 8))
    with pytest.raises(ValueError, match="position 12"):
        positions(x[:, :3], 10)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 3000), st.sampled_from([2, 8, 64]))
def test_rotations_keep_norms_and_see_offsets_only(m: int, n: int, shift: int, width: int) -> None:
    generator = torch.Generator().manual_seed(m + n)
    q, k = (torch.randn(1, 1, 1, width, generator=generator, dtype=torch.float64) for _ in range(2))
    rotary = RotaryPositions(width)
    dot = (rotary.rotate(q, m) * rotary.rotate(k, n)).sum()
    moved = (rotary.rotate(q, m + shift) * rotary.rotate(k, n + shift)).sum()
    torch.testing.assert_close(moved, dot, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(rotary.rotate(q, m).norm(), q.norm())


def test_rotations_are_products_of_complex_numbers() -> None:
    q, k = (torch.randn(2, 3, 5, 8, dtype=torch.float64) for _ in range(2))
    angles = torch.outer(torch.arange(5.0).double() + 7, 10000.0 ** (-torch.arange(0, 8, 2).double() / 8))
    turn = torch.polar(torch.ones_like(angles), angles)
    for found, given_ in zip(RotaryPositions(8)(q, k, 7), (q, k), strict=True):
        expected = torch.view_as_real(torch.view_as_complex(given_.reshape(2, 3, 5, 4, 2)) * turn).flatten(-2)
        torch.testing.assert_close(found, expected)


def test_rotated_attention_sees_offsets_only() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(16, 2, positions=RotaryPositions(8)).double()
    x = torch.randn(1, 6, 16, dtype=torch.float64)
    assert attention.positions is not None
    still = attention(x)
    rotate = attention.positions.rotate
    attention.positions.rotate = lambda heads, start=0: rotate(heads, start + 500)  # type: ignore[method-assign]
    torch.testing.assert_close(attention(x), still, atol=1e-10, rtol=1e-9)
    attention.positions = None
    assert (attention(x) - still).abs().max() > 1e-3


@pytest.mark.parametrize("made", [SinusoidalPositions, RotaryPositions])
@pytest.mark.parametrize("width", [0, 7])
def test_channels_come_in_pairs(made: type, width: int) -> None:
    with pytest.raises(ValueError, match="even"):
        made(width)
