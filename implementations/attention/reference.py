"""The float64 truth of attention, and how far an output is from it.

The truth is computed from the inputs as they are, that is as rounded to the tested dtype: what is judged is
the arithmetic, not the rounding of the inputs. Where seq_len × kv_len is too much work, rows are sampled:
always the first, the last and those at the edges of tiles, the others at random. Gradients by k and v need
every row, so `judged_inputs` sends a gradient back from the sampled rows alone: then they too are exact.
"""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.operation import Errors

if TYPE_CHECKING:
    from torch import Tensor

#: (query, key) pairs over all heads that one judgement may cost: about a second of float64.
PAIRS_BUDGET = {"cpu": 2**22, "cuda": 2**27}
FEWEST_ROWS = 32
TILES = (16, 32, 64, 128)
#: Packed sequences whose first and last rows are always judged.
MOST_SEQUENCES = 16


def sampled_rows(problem: AttentionProblem, device: str) -> tuple[list[int], list[float]]:
    """The query rows that are judged and how many rows each stands for (they sum to seq_len)."""
    n = problem.seq_len
    per_row = problem.batch * problem.heads * problem.n_keys
    room = max(PAIRS_BUDGET.get(device, PAIRS_BUDGET["cpu"]) // per_row, FEWEST_ROWS)
    if room >= n:
        return list(range(n)), [1.0] * n
    edges = _edges(problem)
    others = sorted(set(range(n)) - edges)
    drawn = set(random.Random(problem.seed).sample(others, max(room - len(edges), 8)))
    weight = len(others) / len(drawn)
    rows = sorted(edges | drawn)
    return rows, [1.0 if row in edges else weight for row in rows]


def _edges(problem: AttentionProblem) -> set[int]:
    """The outermost rows, and those beside edges: of the first and last tile, a window, a packed sequence."""
    n = problem.seq_len
    edges = {0, 1, n - 2, n - 1}
    for start in (problem.cu_seqlens or ())[:MOST_SEQUENCES]:
        edges |= {start - 1, start}
    if problem.window is not None:
        first = problem.window - problem.causal_offset  # the first row whose window leaves out key 0
        edges |= {first - 1, first}
    for tile in TILES:
        for edge in (tile, (n - 1) // tile * tile):
            edges |= {edge - 1, edge}
    return {row for row in edges if 0 <= row < n}


def judged_inputs(problem: AttentionProblem, inputs: AttentionInputs) -> AttentionInputs:
    """The inputs to call an implementation with before `judge`: grad_output is 0 outside the sampled rows."""
    import torch

    rows, _ = sampled_rows(problem, inputs.q.device.type)
    if len(rows) == problem.seq_len:
        return inputs
    kept = torch.zeros_like(inputs.grad_output)
    kept[:, :, rows] = inputs.grad_output[:, :, rows]
    return dataclasses.replace(inputs, grad_output=kept)


def judge(
    problem: AttentionProblem,
    inputs: AttentionInputs,
    output: Tensor,
    gradients: tuple[Tensor, ...] = (),
) -> tuple[Errors, ...]:
    """Errors named "output" and, where gradients are given, "q", "k" and "v".

    output (batch, heads, seq_len, head_dim); gradients of the shapes of q, k, v. Where rows are sampled,
    gradients by k and v are judged only when they come from `judged_inputs`.
    `Errors.naive` is None in float64, where the plain formula is the truth itself.
    Raises ValueError for tensors of other shapes.
    """
    from implementations.attention import _truth

    rows, weights = sampled_rows(problem, inputs.q.device.type)
    tested = dict(zip(("output", "q", "k", "v"), (output, *gradients), strict=False))
    _check_shapes(inputs, tested)
    if gradients and not _sent_from(inputs, rows):
        del tested["k"], tested["v"]
    tallies = {
        name: _truth.Tally(
            bool(tensor.isfinite().all()), inputs.v if name == "output" else inputs.grad_output
        )
        for name, tensor in tested.items()
    }
    for part in _truth.parts(problem, inputs, tested, rows):
        truth = _truth.evaluate(part, "float64")
        naive = _truth.evaluate(part, problem.dtype) if problem.dtype != "float64" else {}
        for name, tally in tallies.items():
            by_row = weights if name in ("output", "q") else None
            tally.add(part.tested[name], truth[name], naive.get(name), by_row)
    return tuple(tally.errors(name) for name, tally in tallies.items())


def _check_shapes(inputs: AttentionInputs, tested: dict[str, Tensor]) -> None:
    wanted = {"output": inputs.q, "q": inputs.q, "k": inputs.k, "v": inputs.v}
    for name, tensor in tested.items():
        if tensor.shape != wanted[name].shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, not {tuple(wanted[name].shape)}")


def _sent_from(inputs: AttentionInputs, rows: list[int]) -> bool:
    """Whether grad_output is 0 outside these rows."""
    others = inputs.grad_output.ne(0).any(-1).any(0).any(0)
    others[rows] = False
    return not bool(others.any())
