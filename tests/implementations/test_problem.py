"""The attention problem: pairs counted against pairs spelled out, what is drawn, and what means nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from implementations.attention import _masks as masks
from implementations.attention.problem import ITEMSIZE, AttentionInputs, AttentionProblem, takes
from implementations.registry import Target

SpelledOut = Callable[[AttentionProblem, AttentionInputs, tuple[int, int, int]], list[int]]

SIZES = st.integers(1, 9)
RECTANGLES = st.fixed_dictionaries({
    "seq_len": SIZES, "kv_len": SIZES, "causal": st.booleans(),
    "alignment": st.sampled_from(["top_left", "bottom_right"]), "window": st.none() | st.integers(1, 12),
})  # fmt: skip
PACKED = st.fixed_dictionaries({
    "lengths": st.lists(SIZES, min_size=1, max_size=4).map(lambda sizes: "+".join(map(str, sizes))),
    "causal": st.booleans(), "window": st.none() | st.integers(1, 12),
})  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(axes=RECTANGLES | PACKED)
def test_rules_are_what_they_are_when_spelled_out(spelled_out: SpelledOut, axes: dict[str, Any]) -> None:
    """Pairs, the boolean matrix, and the two short cuts, against a loop over every row."""
    problem = AttentionProblem.from_axes({"heads": 1, "head_dim": 1} | axes)
    inputs = problem.inputs("cpu")
    rows = [spelled_out(problem, inputs, (0, 0, row)) for row in range(problem.seq_len)]
    assert problem.attended_pairs() == sum(map(len, rows))
    everything = all(len(row) == problem.n_keys for row in rows)
    assert masks.sees_everything(problem) == everything
    assert masks.may_have_blind_rows(problem, inputs) == any(not row for row in rows)
    allowed = masks.allowed_pairs(problem, inputs)
    if allowed is None:
        assert everything
    else:
        assert [torch.nonzero(row).flatten().tolist() for row in allowed] == rows


def test_pairs_of_long_problems_need_no_matrix() -> None:
    n = 1 << 24
    assert AttentionProblem(seq_len=n, causal=True).attended_pairs() == n * (n + 1) // 2
    assert AttentionProblem(seq_len=n, causal=True, window=4).attended_pairs() == 4 * n - 6
    packed = AttentionProblem.from_axes({"lengths": f"{n}+{n}", "causal": True})
    assert packed.attended_pairs() == n * (n + 1)


@settings(max_examples=200, deadline=None)
@given(RECTANGLES | PACKED, st.sampled_from(["none", "boolean", "additive", "padding"]), st.floats(0.1, 4))
def test_axes_give_the_problem_back(axes: dict[str, Any], mask: str, scale: float) -> None:
    mask = "none" if "lengths" in axes else mask
    problem = AttentionProblem.from_axes(axes | {"mask": mask, "input_scale": scale, "dtype": "bf16"})
    assert AttentionProblem.from_axes(problem.axes()) == problem


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"seq_len": 8, "window": 0}, "window: must be at least 1, got 0"),
        ({"lengths": "3+0"}, "lengths: write whole numbers from 1"),
        ({"lengths": "three"}, "seq_len: must be at least 1"),
        ({"lengths": "3+4", "seq_len": 8}, "lengths: 3.4 are 7 tokens"),
        ({"lengths": "3+4", "kv_len": 8}, "lengths: 3.4 are 7 tokens"),
        ({"lengths": "3+4", "batch": 2}, "lengths: packed sequences lie in one row"),
        ({"lengths": "3+4", "mask": "padding"}, "lengths: packed sequences have no padding"),
        ({"lengths": "3+4", "pass": "decode"}, "lengths: decode has one cache"),
        ({"seq_len": 9, "kv_len": 8, "pass": "decode"}, "kv_len: the cache of 8"),
        ({"seq_len": 8, "kv_len": 9, "distribution": "ar1"}, "distribution: ar1 draws each query"),
        ({"seq_len": 8, "input_scale": math.inf}, "input_scale: must be a finite number"),
    ],
    ids=str,
)
def test_what_means_nothing_is_said(axes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        AttentionProblem.from_axes(axes)


def test_lengths_are_offsets() -> None:
    problem = AttentionProblem.from_axes({"lengths": "100+37+512"})
    assert problem.seq_len == problem.kv_len == 649
    assert problem.cu_seqlens == (0, 100, 137, 649)
    assert AttentionProblem(seq_len=8).cu_seqlens is None


def test_the_same_numbers_with_and_without_a_mask() -> None:
    plain = AttentionProblem(seq_len=16, batch=3)
    for mask in ("boolean", "additive", "padding"):
        drawn = AttentionProblem.from_axes(plain.axes() | {"mask": mask}).inputs("cpu")
        assert torch.equal(drawn.q, plain.inputs("cpu").q)
        assert torch.equal(drawn.grad_output, plain.inputs("cpu").grad_output)


def test_a_boolean_mask_lets_most_pairs_through_and_blinds_a_few_rows() -> None:
    problem = AttentionProblem(seq_len=200, kv_len=150, batch=2, mask="boolean", seed=3)
    mask = problem.inputs("cpu").mask
    assert mask is not None
    assert mask.shape == (2, 1, 200, 150)
    seen = mask.any(-1)
    assert ((~seen).sum((1, 2)) >= 1).all()
    assert ((~seen).sum((1, 2)) <= 3).all()
    assert mask[seen].double().mean() == pytest.approx(0.9, abs=0.01)
    other = replace(problem, seed=4).inputs("cpu").mask
    assert other is not None
    assert not torch.equal(mask, other)


def test_padding_is_on_the_left_of_all_but_the_first_item() -> None:
    mask = AttentionProblem(seq_len=7, kv_len=11, batch=40, mask="padding").inputs("cpu").mask
    assert mask is not None
    assert mask.shape == (40, 1, 1, 11)
    padded = (~mask).sum(-1).flatten()
    assert padded[0] == 0
    assert 0 < padded.max() < 5.5
    assert all(
        mask[item, 0, 0].tolist() == [False] * int(p) + [True] * (11 - int(p))
        for item, p in enumerate(padded)
    )


def test_an_additive_mask_is_of_the_dtype_and_costs_its_bytes() -> None:
    problem = AttentionProblem(seq_len=64, kv_len=32, dtype="bfloat16", mask="additive", heads=2)
    bias = problem.inputs("cpu").bias
    assert bias is not None
    assert bias.shape == (1, 2, 64, 32)
    assert bias.dtype is torch.bfloat16
    assert float(bias.float().std()) == pytest.approx(1, abs=0.05)
    plain = replace(problem, mask="none")
    assert problem.min_bytes() - plain.min_bytes() == 2 * 64 * 32 * 2
    twice = replace(problem, pass_="forward_backward").min_bytes()
    assert twice - replace(plain, pass_="forward_backward").min_bytes() == 2 * 2 * 64 * 32 * 2


def test_a_scale_is_of_queries_and_keys_alone() -> None:
    plain = AttentionProblem(seq_len=8)
    one, three = plain.inputs("cpu"), replace(plain, input_scale=3.0).inputs("cpu")
    assert torch.equal(three.q, one.q * 3)
    assert torch.equal(three.k, one.k * 3)
    assert torch.equal(three.v, one.v)
    assert torch.equal(three.grad_output, one.grad_output)


def test_neighbouring_tokens_are_correlated_and_stationary() -> None:
    problem = AttentionProblem(seq_len=3000, heads=4, kv_heads=2, head_dim=64, distribution="ar1")
    inputs = problem.inputs("cpu")
    for x in (inputs.k, inputs.v):
        assert float((x[:, :, 1:] * x[:, :, :-1]).mean()) == pytest.approx(0.98, abs=0.03)
        assert float((x[:, :, 100:] * x[:, :, :-100]).mean()) == pytest.approx(0.98**100, abs=0.03)
        assert float(x[:, :, :8].square().mean()) == pytest.approx(1, abs=0.25)
        noise = x[:, :, 1:] - 0.98 * x[:, :, :-1]
        assert float(noise.std()) == pytest.approx(math.sqrt(1 - 0.98**2), rel=0.01)
    repeated = inputs.k.repeat_interleave(2, 1)
    assert float((inputs.q * repeated).mean()) == pytest.approx(0.9, abs=0.03)
    assert float((inputs.q - 0.9 * repeated).std()) == pytest.approx(math.sqrt(0.19), rel=0.01)
    assert abs(float((inputs.v * inputs.k).mean())) < 0.05


def test_decoding_appends_what_the_cache_ends_with() -> None:
    problem = AttentionProblem(seq_len=2, kv_len=9, heads=4, kv_heads=2, head_dim=8, pass_="decode")
    assert problem.causal
    assert problem.alignment == "bottom_right"
    inputs = problem.inputs("cpu")
    before = inputs.k.clone(), inputs.v.clone()
    assert inputs.new_k is not None
    assert inputs.new_k.shape == (1, 2, 2, 8)
    inputs.advance()
    assert torch.equal(inputs.k, before[0])
    assert torch.equal(inputs.v, before[1])
    inputs.k[:, :, -2:] = 0
    inputs.advance()
    assert torch.equal(inputs.k, before[0])
    elements = 2 * 4 * 2 * 8 + 2 * 2 * 9 * 8 + 4 * 2 * 2 * 8
    assert problem.min_bytes() == elements * ITEMSIZE["float32"]
    assert problem.flops() == 4 * 4 * 8 * (8 + 9)
    with pytest.raises(ValueError, match=r"^pass: only inputs drawn for decode"):
        AttentionProblem(seq_len=2).inputs("cpu").advance()


def test_what_an_implementation_does_not_take_is_said_in_words() -> None:
    windowed = AttentionProblem(seq_len=8, window=3, mask="padding")
    assert windowed.beyond() == "it does not take a sliding window of 3 keys or padded keys"
    assert windowed.beyond("window") == "it does not take padded keys"
    assert windowed.beyond("window", "padding") is None
    assert AttentionProblem(seq_len=8, causal=True).beyond() is None
    assert takes("window")(windowed, Target("cpu")) == "it does not take padded keys"
