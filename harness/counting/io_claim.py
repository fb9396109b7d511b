"""The IO claim of flash attention as an identity: O(n²) arithmetic with traffic that on-chip memory divides.

Dao et al. 2022, theorem 2: O(n²d²/M) bytes with M bytes of on-chip memory. For a kernel that holds a tile of
queries and streams keys and values, both sides are exact, so nothing is fitted.
"""

from __future__ import annotations

from fractions import Fraction


def on_chip_bytes(block_m: int, block_n: int, head_dim: int, itemsize: int) -> int:
    """M: what a program holds. The tile of queries, its fp32 output and scores, and a tile of K and of V."""
    held = block_m * (head_dim * (itemsize + 4) + 4 * block_n)
    return held + 2 * block_n * head_dim * itemsize


def key_value_bytes(seq_len: int, block_m: int, head_dim: int, itemsize: int) -> int:
    """K and V requested per head, not causal, seq_len a multiple of the tiles: 2·n²·d·b / BM."""
    return 2 * seq_len * seq_len * head_dim * itemsize // block_m


def claimed_constant(block_m: int, block_n: int, head_dim: int, itemsize: int) -> Fraction:
    """K/V bytes · M / (n²·d²): 2b(b+4) + 8b·BN/d + 4b²·BN/BM, whatever n is."""
    b = itemsize
    return 2 * b * (b + 4) + Fraction(8 * b * block_n, head_dim) + Fraction(4 * b * b * block_n, block_m)


def measured_constant(
    key_value_bytes_counted: int, seq_len: int, block_m: int, block_n: int, head_dim: int, itemsize: int
) -> Fraction:
    """The same from counted bytes of one head; the claim holds when the two are equal."""
    on_chip = on_chip_bytes(block_m, block_n, head_dim, itemsize)
    return Fraction(key_value_bytes_counted * on_chip, (seq_len * head_dim) ** 2)


def naive_bytes(seq_len: int, head_dim: int, itemsize: int) -> int:
    """Naive attention's traffic per head beside it: 4u + 6·n·d·b, with u = n²·b.

    It scales q before the product; scaling the scores instead would be 6u + 4·n·d·b.
    """
    return 4 * seq_len * seq_len * itemsize + 6 * seq_len * head_dim * itemsize
