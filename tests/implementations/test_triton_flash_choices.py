"""Where Triton flash attention runs, and which form of it is chosen: nothing here runs a kernel."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from implementations.attention._flash_arguments import Attention, Mask, addressing
from implementations.attention.problem import AttentionProblem
from implementations.registry import Target, load, lookup

ROOT = Path(__file__).parents[2]
load("attention")


def test_reasons_are_words() -> None:
    flash = lookup("triton_flash")
    gpu, cpu, interpreted = Target("cuda", (9, 0)), Target("cpu"), Target("cpu", interpreted=True)
    plain = AttentionProblem(seq_len=64)
    assert flash.reason_against(plain, gpu) is None
    assert flash.reason_against(plain, interpreted) is None
    assert "interpreter" in str(flash.reason_against(plain, cpu))
    assert "8.0" in str(flash.reason_against(plain, Target("cuda", (7, 5))))
    assert "256" in str(flash.reason_against(AttentionProblem(seq_len=64, head_dim=257), gpu))
    assert "float32" in str(flash.reason_against(AttentionProblem(seq_len=64, dtype="float64"), gpu))


def test_without_triton_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert lookup("triton_flash").available(Target("cuda", (9, 0))) == "Triton is not installed"


def test_importing_the_implementation_does_not_import_triton() -> None:
    code = "import sys, implementations.attention.triton_flash; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@given(
    q_len=st.integers(1, 50), kv_len=st.integers(1, 50), offset=st.integers(-60, 60),
    window=st.none() | st.integers(1, 60), causal=st.booleans(),
)  # fmt: skip
def test_keys_seen_are_those_of_the_rules(
    q_len: int, kv_len: int, offset: int, window: int | None, causal: bool
) -> None:
    if window is not None and not causal:
        return
    first = None if window is None else offset - window + 1
    attention = Attention(1.0, causal, offset, window_offset=first)
    seen = [j for i in range(q_len) for j in range(kv_len)
            if (not causal or j <= i + offset) and (first is None or j >= i + first)]  # fmt: skip
    begin, end = attention.keys_seen(q_len, kv_len)
    assert (begin, end) == (min(seen), max(seen) + 1) if seen else begin == end or begin >= kv_len


def test_masks_are_read_where_they_lie() -> None:
    """Broadcast, a mask is not copied: its repeated dimensions have stride 0."""
    q, k = torch.zeros(2, 4, 8, 16), torch.zeros(2, 2, 32, 16)
    padding = Mask.of(torch.ones(2, 1, 1, 32, dtype=torch.bool), q, k)
    assert (padding.kind, padding.strides, padding.differs_by_row) == ("boolean", (32, 0, 0, 1), False)
    line = torch.zeros(32)
    bias = Mask.of(line, q, k)
    assert bias.values is not None
    assert (bias.kind, bias.strides) == ("additive", (0, 0, 0, 1))
    assert bias.values.data_ptr() == line.data_ptr()
    assert Mask.of(None, q, k).kind == "none"


def test_huge_strides_are_addressed_in_64_bits() -> None:
    tensor = torch.zeros(16).as_strided((1, 1, 1, 16), (1, 1, 2**24 + 1, 1))
    assert addressing((tensor,)) == {"WIDE": True, "EIGHTS": False}
    assert not addressing((torch.zeros(1, 1, 8, 16),))["WIDE"]
    assert addressing((torch.zeros(1, 1, 8, 16),), Mask("additive", tensor))["WIDE"]


SPLITS = """
from implementations.attention._flash_decode import KEY_UNIT, LEAST_KEYS, split_of
for keys in (256, 300, 4096, 100_000, 1_048_576):
    for heads in (1, 8, 1000):
        for processors in (8, 132):
            split = split_of(keys, heads, processors)
            assert split.chunk % KEY_UNIT == 0
            assert (split.count - 1) * split.chunk < keys <= split.count * split.chunk
            assert split.count == 1 or split.chunk >= LEAST_KEYS
            assert heads < 2 * processors or split.count == 1
assert split_of(1_048_576, 8, 132).count == 33
"""


def test_keys_are_split_to_fill_the_chip() -> None:
    """In a process of its own: what decides imports Triton."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", SPLITS], cwd=ROOT, env={**os.environ}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
