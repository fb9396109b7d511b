"""sliding_window is exact attention of the same problem with a window, whatever its blocks cut through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from implementations.attention import _blocks
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Unsupported, load, lookup

Results = tuple[Tensor, tuple[Tensor, ...]]
Runner = Callable[[str, AttentionProblem, AttentionInputs], "Results | None"]
Oracle = Callable[[AttentionProblem, AttentionInputs], Results]
Distance = Callable[[Tensor, Tensor], float]

load("attention")


@pytest.mark.parametrize(
    "axes",
    [
        {"seq_len": 150},
        {"seq_len": 150, "causal": True},
        {"seq_len": 70, "kv_len": 150, "heads": 4, "kv_heads": 2, "causal": True},
        {"seq_len": 150, "kv_len": 70, "causal": True},
        {"seq_len": 150, "kv_len": 40, "alignment": "top_left"},
        {"seq_len": 90, "mask": "padding", "batch": 2, "causal": True},
        {"seq_len": 90, "mask": "padding", "batch": 2, "heads": 4, "kv_heads": 2},
        {"lengths": "70+13+7"},
        {"lengths": "70+13+7", "causal": True},
    ],
    ids=str,
)
def test_equals_the_oracle_with_a_window(
    axes: dict[str, Any], run: Runner, oracle: Oracle, distance: Distance
) -> None:
    """The oracle loops over rows and spells out which keys each sees."""
    problem = AttentionProblem.from_axes({"heads": 2, "head_dim": 8, "pass": "forward_backward"} | axes)
    inputs = problem.inputs("cpu")
    results = run("sliding_window:64", problem, inputs)
    truth = oracle(replace(problem, window=64), inputs)
    assert results is not None
    for found, true in zip((results[0], *results[1]), (truth[0], *truth[1]), strict=True):
        assert distance(found, true) < 2e-6


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    window=st.integers(1, 70),
    block=st.integers(1, 40),
    causal=st.booleans(),
    alignment=st.sampled_from(["top_left", "bottom_right"]),
)
def test_any_block_and_any_window_give_what_naive_gives(
    sizes: tuple[int, int], window: int, block: int, causal: bool, alignment: Any
) -> None:
    problem = AttentionProblem(
        seq_len=sizes[0], kv_len=sizes[1], heads=1, head_dim=4, causal=causal, alignment=alignment,
        window=window, dtype="float64",
    )  # fmt: skip
    inputs = problem.inputs("cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(_blocks.BLOCK, "cpu", block)
        found = _blocks.windowed_attention(problem, inputs)
    assert torch.allclose(found, lookup("naive").prepare(problem)(inputs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_a_window_as_wide_as_the_sequence_is_exact(causal: bool, run: Runner, distance: Distance) -> None:
    problem = AttentionProblem(seq_len=256, heads=2, head_dim=16, causal=causal)
    inputs = problem.inputs("cpu")
    found, exact = run("sliding_window", problem, inputs), run("naive", problem, inputs)
    assert found is not None
    assert exact is not None
    assert distance(found[0], exact[0]) < 1e-6


def test_the_smaller_of_two_windows_holds(run: Runner, distance: Distance) -> None:
    problem = AttentionProblem(seq_len=300, heads=2, head_dim=16, window=20)
    inputs = problem.inputs("cpu")
    found, exact = run("sliding_window:64", problem, inputs), run("naive", problem, inputs)
    assert found is not None
    assert exact is not None
    assert distance(found[0], exact[0]) < 1e-6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_rounds_only_what_goes_in_and_out(
    dtype: str, run: Runner, oracle: Oracle, distance: Distance
) -> None:
    problem = AttentionProblem(seq_len=80, heads=1, head_dim=16, dtype=dtype)
    inputs = problem.inputs("cpu")
    found = run("sliding_window:64", problem, inputs)
    assert found is not None
    rounding = torch.finfo(getattr(torch, dtype)).eps / 2
    assert distance(found[0], oracle(replace(problem, window=64), inputs)[0]) < rounding


def test_a_mask_that_is_no_padding_is_refused() -> None:
    problem = AttentionProblem(seq_len=8, heads=2, head_dim=16)
    inputs = replace(problem.inputs("cpu"), mask=torch.ones(8, 8, dtype=torch.bool))
    with pytest.raises(Unsupported, match="padding of keys"):
        lookup("sliding_window").prepare(problem)(inputs)
