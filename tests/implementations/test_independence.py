"""What must not matter: later tokens, padding, the neighbours in the batch. Every exact implementation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import implementations, load

Results = tuple[Tensor, tuple[Tensor, ...]]
Runner = Callable[[str, AttentionProblem, AttentionInputs], "Results | None"]

load("attention")
#: What is interpreted or compiled is asked the same in tests of its own.
EXACT = [
    found.name
    for found in implementations("attention")
    if found.exact and not found.interpreted_on and found.name != "flex"
]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("axes", [{}, {"window": 7}, {"lengths": "20+13"}], ids=str)
def test_later_tokens_change_no_earlier_output(name: str, axes: dict[str, Any], run: Runner) -> None:
    """To the last bit: a key scaled ×8 and a value replaced are seen by the last query alone."""
    sizes = {} if "lengths" in axes else {"seq_len": 33}
    problem = AttentionProblem.from_axes({"heads": 2, "head_dim": 16, "causal": True} | sizes | axes)
    inputs = problem.inputs("cpu")
    k, v = inputs.k.clone(), inputs.v.clone()
    k[:, :, -1] *= 8
    v[:, :, -1] = 100
    before, after = run(name, problem, inputs), run(name, problem, replace(inputs, k=k, v=v))
    if before is not None and after is not None:
        assert torch.equal(before[0][:, :, :-1], after[0][:, :, :-1])
        assert not torch.equal(before[0][:, :, -1], after[0][:, :, -1])


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("causal", [False, True])
def test_padding_of_any_content_is_no_key(name: str, causal: bool, run: Runner) -> None:
    """3 pads on the left, filled with large numbers, leave the other 14 tokens as they are without them."""
    axes: dict[str, Any] = {"heads": 2, "head_dim": 16, "causal": causal}
    padded = AttentionProblem(seq_len=17, mask="padding", **axes)
    plain = AttentionProblem(seq_len=14, **axes)
    inputs = replace(padded.inputs("cpu"), mask=(torch.arange(17) >= 3)[None, None, None])
    for tensor in (inputs.q, inputs.k, inputs.v):
        tensor[:, :, :3] *= 1000
    q, k, v, grad = (tensor[:, :, 3:] for tensor in (*inputs.differentiable, inputs.grad_output))
    alone = run(name, plain, AttentionInputs(q=q.clone(), k=k.clone(), v=v.clone(), grad_output=grad.clone()))
    found = run(name, padded, inputs)
    assert alone is None or found is None or (found[0][:, :, 3:] - alone[0]).abs().max() < 1e-5


@pytest.mark.parametrize("name", EXACT)
def test_items_of_a_batch_do_not_know_of_each_other(name: str, run: Runner) -> None:
    """Item 0 alone, and beside an item whose keys are 100 ×."""
    both = AttentionProblem(seq_len=33, batch=2, heads=2, head_dim=16)
    inputs = both.inputs("cpu")
    inputs.k[1] *= 100
    first = AttentionInputs(*(t[:1] for t in (*inputs.differentiable, inputs.grad_output)))
    together, alone = run(name, both, inputs), run(name, replace(both, batch=1), first)
    assert together is None or alone is None or (together[0][:1] - alone[0]).abs().max() < 1e-6


@pytest.mark.parametrize("name", EXACT)
def test_packed_sequences_do_not_know_of_each_other(name: str, run: Runner) -> None:
    """Each part of a packed row is what it is as a sequence of its own."""
    axes: dict[str, Any] = {"heads": 4, "kv_heads": 2, "head_dim": 16, "causal": True}
    packed = AttentionProblem.from_axes({"lengths": "20+13", **axes})
    inputs = packed.inputs("cpu")
    inputs.k[:, :, :20] *= 50
    found = run(name, packed, inputs)
    tail = AttentionInputs(*(t[:, :, 20:].clone() for t in (*inputs.differentiable, inputs.grad_output)))
    alone = run(name, AttentionProblem(seq_len=13, **axes), tail)
    assert found is None or alone is None or (found[0][:, :, 20:] - alone[0]).abs().max() < 1e-6
