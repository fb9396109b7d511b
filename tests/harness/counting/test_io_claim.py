"""The identity behind the IO claim, in rational arithmetic; counts are checked in interpreted_flash.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.counting.io_claim import claimed_constant, key_value_bytes, measured_constant, naive_bytes
from harness.counting.predict import trace
from implementations.attention.problem import AttentionProblem
from implementations.registry import load, lookup

blocks = st.sampled_from([16, 32, 64, 128, 256])


@given(blocks, blocks, st.sampled_from([16, 64, 128, 256]), st.sampled_from([2, 4]), st.integers(1, 64))
def test_traffic_times_memory_does_not_depend_on_n(m: int, n: int, d: int, b: int, tiles: int) -> None:
    seq_len = 256 * tiles
    counted = key_value_bytes(seq_len, m, d, b)
    assert measured_constant(counted, seq_len, m, n, d, b) == claimed_constant(m, n, d, b)


def test_naive_moves_what_is_counted() -> None:
    load("attention")
    for head_dim, dtype, size in ((64, "float16", 2), (16, "float32", 4)):
        problem = AttentionProblem(seq_len=4096, heads=1, head_dim=head_dim, dtype=dtype)
        assert trace(lookup("naive"), problem).bytes == naive_bytes(4096, head_dim, size)
