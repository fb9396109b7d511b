"""The plain formula, evaluated in any dtype over blocks of bounded size, and the tally of errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from implementations.attention import _masks as masks
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.operation import Errors

#: (query, key) pairs evaluated at once: some ten such matrices of float64 are alive, 80 MB.
BLOCK_PAIRS = 2**20
#: A truth this much smaller than what it is summed from is nothing but its own rounding.
NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class Part:
    """Some key/value heads, all sampled rows of the query heads that share them.

    q, grad (heads, group, rows, head_dim), grad None without gradients; k, v (heads, kv_len, head_dim);
    allowed (heads or 1, group or 1, rows, kv_len) or None; bias (heads, group, rows, kv_len) or None;
    tested: the tensors judged, likewise cut.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    grad: Tensor | None
    allowed: Tensor | None
    bias: Tensor | None
    scale: float
    tested: Mapping[str, Tensor]

    @property
    def rows_at_once(self) -> int:
        """Rows whose block of pairs keeps within bounds."""
        heads, group, rows, _ = self.q.shape
        return max(1, min(rows, BLOCK_PAIRS // (heads * group * self.k.shape[1])))


def parts(
    problem: AttentionProblem,
    inputs: AttentionInputs,
    tested: Mapping[str, Tensor],
    rows: Sequence[int],
) -> Iterator[Part]:
    """Cut a problem into parts of bounded size."""
    index = torch.tensor(rows, device=inputs.q.device)
    cut = _Cut(problem, index)
    by_row = {name: cut.queries(tensor) for name, tensor in tested.items() if name in ("output", "q")}
    by_key = {name: cut.keys(tensor) for name, tensor in tested.items() if name in ("k", "v")}
    q, grad = cut.queries(inputs.q), cut.queries(inputs.grad_output) if len(tested) > 1 else None
    k, v = cut.keys(inputs.k), cut.keys(inputs.v)
    allowed = cut.allowed(inputs)
    bias = None if inputs.bias is None else cut.pairs(inputs.bias)
    total = problem.batch * problem.n_kv_heads
    step = max(1, BLOCK_PAIRS // (problem.group_size * min(len(rows), 64) * problem.n_keys))
    for start in range(0, total, step):
        some = slice(start, start + step)
        yield Part(
            q=q[some],
            k=k[some],
            v=v[some],
            grad=None if grad is None else grad[some],
            allowed=allowed if allowed is None or allowed.shape[0] == 1 else allowed[some],
            bias=None if bias is None else bias[some],
            scale=problem.scale,
            tested={name: tensor[some] for name, tensor in (by_row | by_key).items()},
        )


@dataclass(frozen=True, slots=True)
class _Cut:
    """Lays tensors out by key/value head: (batch · kv_heads, group, rows, ...)."""

    problem: AttentionProblem
    rows: Tensor

    def queries(self, tensor: Tensor) -> Tensor:
        chosen = tensor.detach().index_select(2, self.rows)
        return chosen.reshape(-1, self.problem.group_size, *chosen.shape[2:])

    def keys(self, tensor: Tensor) -> Tensor:
        return tensor.detach().flatten(0, 1)

    def allowed(self, inputs: AttentionInputs) -> Tensor | None:
        ruled = masks.rule(self.problem, self.rows)
        if inputs.mask is None:
            return None if ruled is None else ruled[None, None]
        mask = self.pairs(inputs.mask)
        return mask if ruled is None else mask & ruled

    def pairs(self, tensor: Tensor) -> Tensor:
        """What is broadcastable over all pairs, of the rows."""
        problem = self.problem
        return self.queries(tensor.expand(problem.batch, problem.heads, problem.seq_len, problem.n_keys))


def evaluate(part: Part, dtype: str) -> dict[str, Tensor]:
    """The output and, where the part has a gradient, those by q, k and v of the formula in a dtype.

    Those by k and v are summed over the blocks of rows in float64, so that only the formula's own rounding
    shows.
    """
    kind: torch.dtype = getattr(torch, dtype)
    blocks = [_block(part, start, kind) for start in range(0, part.q.shape[2], part.rows_at_once)]
    found = {"output": torch.cat([block[0] for block in blocks], 2)}
    if part.grad is not None:
        found["q"] = torch.cat([block[1] for block in blocks], 2)
        for place, name in ((2, "k"), (3, "v")):
            found[name] = sum((block[place].double() for block in blocks[1:]), blocks[0][place].double())
    return found


def _block(part: Part, start: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """The output of some rows and, where the part has a gradient, those by q, k and v."""
    some = slice(start, start + part.rows_at_once)
    q, k, v = (tensor.to(dtype) for tensor in (part.q[:, :, some], part.k, part.v))
    allowed = None if part.allowed is None else part.allowed[:, :, some]
    bias = None if part.bias is None else part.bias[:, :, some].to(dtype)
    if part.grad is None:
        with torch.no_grad():
            return (_formula(q, k, v, allowed, bias, part.scale),)
    q, k, v = leaves = tuple(tensor.detach().requires_grad_(True) for tensor in (q, k, v))
    with torch.enable_grad():
        output = _formula(q, k, v, allowed, bias, part.scale)
    return output.detach(), *torch.autograd.grad(output, leaves, part.grad[:, :, some].to(dtype))


def _formula(
    q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, bias: Tensor | None, scale: float
) -> Tensor:
    """softmax(QKᵀ·scale + bias)·V; q (heads, group, rows, head_dim), k, v (heads, kv_len, head_dim)."""
    return (_weights(q, k, allowed, bias, scale).flatten(1, 2) @ v).view(q.shape)


def _weights(q: Tensor, k: Tensor, allowed: Tensor | None, bias: Tensor | None, scale: float) -> Tensor:
    """softmax(QKᵀ·scale + bias), 0 in rows that may attend to nothing: (heads, group, rows, kv_len)."""
    scores = ((q * scale).flatten(1, 2) @ k.mT).view(*q.shape[:3], -1)
    if bias is not None:
        scores = scores + bias
    if allowed is None:
        return scores.softmax(-1)
    opened, blind = masks.open_blind_rows(allowed)
    return scores.masked_fill(~opened, float("-inf")).softmax(-1).masked_fill(blind, 0)


def attention_weights(problem: AttentionProblem, inputs: AttentionInputs, rows: Sequence[int]) -> Tensor:
    """The exact weights of some rows in float64: (batch, heads, rows, kv_len)."""
    found = [
        _weights(part.q.double(), part.k.double(), part.allowed, part.bias, part.scale)
        for part in parts(problem, inputs, {}, rows)
    ]
    return torch.cat(found).view(problem.batch, problem.heads, len(rows), problem.n_keys)


class Tally:
    """Sums squared errors over parts; a row may stand for several.

    `source` is what the judged tensor is a weighted sum of. Where the truth cancels to nothing (with one key
    there is nothing to choose, and no gradient by q and k) errors are relative to the source instead.
    """

    def __init__(self, finite: bool, source: Tensor) -> None:
        self.finite, self.source = finite, source
        self.wrong = self.true = self.naive = self.largest = 0.0
        self.yardstick = False

    def add(self, tested: Tensor, truth: Tensor, naive: Tensor | None, weights: list[float] | None) -> None:
        """Add tensors of the same shape; weights are those of the rows, the last dimension but one."""
        weight = torch.ones((), dtype=torch.float64, device=truth.device)
        if weights is not None:
            weight = torch.tensor(weights, dtype=torch.float64, device=truth.device)[:, None]
        self.true += float((truth.square() * weight).sum())
        if naive is not None:
            self.yardstick = True
            self.naive += float(((naive.double() - truth).square() * weight).sum())
        if self.finite:
            difference = tested.double() - truth
            self.wrong += float((difference.square() * weight).sum())
            self.largest = max(self.largest, float(difference.abs().max()))

    def errors(self, name: str) -> Errors:
        """The errors so far."""
        size = self._size()
        usable = self.yardstick and math.isfinite(self.naive)
        return Errors(
            name=name,
            finite=self.finite,
            relative=math.sqrt(self.wrong) / size if self.finite else None,
            max_abs=self.largest if self.finite else None,
            naive=math.sqrt(self.naive) / size if usable else None,
        )

    def _size(self) -> float:
        true, source = (
            math.sqrt(self.true),
            float(torch.linalg.vector_norm(self.source.detach(), dtype=torch.float64)),
        )
        return true if true > NOTHING * source else source or 1.0
