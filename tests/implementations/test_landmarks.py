"""Segment means and the pseudo-inverse, and the two methods that are made of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from implementations.attention._landmarks import pseudo_inverse, segment_means
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import load

Results = tuple[Tensor, tuple[Tensor, ...]]
Runner = Callable[[str, AttentionProblem, AttentionInputs], "Results | None"]
Distance = Callable[[Tensor, Tensor], float]

load("attention")


def spelled_out(tokens: Tensor, segments: int) -> Tensor:
    """The mean of every segment of one sequence (length, channels), token by token."""
    length = len(tokens)
    segments = min(segments, length)
    held: list[list[Tensor]] = [[] for _ in range(segments)]
    for place, token in enumerate(tokens):
        held[place * segments // length].append(token)
    return torch.stack([torch.stack(part).mean(0) for part in held])


@pytest.mark.parametrize("length", [1, 5, 8, 9, 64, 100])
@pytest.mark.parametrize("segments", [1, 4, 8, 64])
def test_segment_means_with_and_without_padding(length: int, segments: int) -> None:
    """Padded tokens are as if they were not there, wherever they are."""
    generator = torch.Generator().manual_seed(length)
    tokens = torch.randn(length, 3, dtype=torch.float64, generator=generator)
    whole, _ = segment_means(tokens, None, segments)
    assert torch.allclose(whole, spelled_out(tokens, segments), rtol=1e-12)
    present = torch.rand(length, 1, generator=generator) < 0.7
    means, held = segment_means(tokens, present, segments)
    assert held is not None
    kept = tokens[present[:, 0]]
    assert int(held.sum()) == min(segments, len(kept))
    if len(kept):
        assert torch.allclose(means[held[:, 0]], spelled_out(kept, segments), rtol=1e-12)
    assert (means[~held[:, 0]] == 0).all()


def test_pseudo_inverse_converges_for_a_matrix_that_has_an_inverse() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(3, 16, 16, dtype=torch.float64, generator=generator)
    matrix = (5 * torch.eye(16, dtype=torch.float64) + noise * 0.3).softmax(-1)
    unit = torch.eye(16, dtype=torch.float64)
    assert (pseudo_inverse(matrix) @ matrix - unit).abs().max() < 1e-4
    assert (pseudo_inverse(matrix) - torch.linalg.pinv(matrix)).norm() < 1e-4 * torch.linalg.pinv(
        matrix
    ).norm()


def test_pseudo_inverse_of_a_matrix_does_not_depend_on_its_neighbours() -> None:
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(2, 8, 8, dtype=torch.float64, generator=generator).softmax(-1)
    matrices[1] *= 100
    assert torch.equal(pseudo_inverse(matrices)[0], pseudo_inverse(matrices[:1])[0])


def test_pseudo_inverse_of_nothing_is_nothing() -> None:
    assert (pseudo_inverse(torch.zeros(2, 4, 4)) == 0).all()


@pytest.mark.parametrize("n", [512, 700])
def test_nystrom_is_right_where_tokens_repeat(n: int, run: Runner, distance: Distance) -> None:
    """Of 64 different tokens, each repeated within its segment, the landmarks are the tokens themselves."""
    problem = AttentionProblem(seq_len=n, heads=2, head_dim=64, input_scale=2.0)
    inputs = problem.inputs("cpu")
    segment = torch.arange(n) * 64 // n
    for tensor in (inputs.q, inputs.k):
        tensor.copy_(tensor[:, :, :64][:, :, segment])
    found, exact = run("nystrom", problem, inputs), run("naive", problem, inputs)
    assert found is not None
    assert exact is not None
    assert distance(found[0], exact[0]) < 2e-2


def test_linformer_is_exact_while_there_is_nothing_to_average(run: Runner, distance: Distance) -> None:
    problem = AttentionProblem(seq_len=300, kv_len=256, heads=2, head_dim=16)
    inputs = problem.inputs("cpu")
    found, exact = run("linformer_mean", problem, inputs), run("naive", problem, inputs)
    assert found is not None
    assert exact is not None
    assert distance(found[0], exact[0]) < 1e-6


def test_linformer_attends_to_means(run: Runner, distance: Distance) -> None:
    problem = AttentionProblem(seq_len=70, kv_len=512, heads=4, kv_heads=2, head_dim=16)
    inputs = problem.inputs("cpu")
    found = run("linformer_mean", problem, inputs)
    k, v = (t.double().view(1, 2, 256, 2, 16).mean(3).repeat_interleave(2, 1) for t in (inputs.k, inputs.v))
    right = (inputs.q.double() @ k.mT / 4).softmax(-1) @ v
    assert found is not None
    assert distance(found[0], right) < 1e-6
