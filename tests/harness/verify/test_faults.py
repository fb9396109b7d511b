"""A claim that cannot fail says nothing: each fault that is put into the modules makes its claims FAIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import implementations.transformer as blocks
from harness.verify.checking import FAIL, Verdict, check
from harness.verify.claim import claims
from implementations.transformer import attention, layers
from implementations.transformer.plugged import PluggedAttention

Patch = Callable[[pytest.MonkeyPatch], None]
TRUE_SDPA = attention.scaled_dot_product_attention


def everywhere(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    monkeypatch.setattr(attention, "scaled_dot_product_attention", function)
    monkeypatch.setattr(blocks, "scaled_dot_product_attention", function)


def wrong_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divides by d_k instead of √d_k."""

    def fault(q: Tensor, k: Tensor, v: Tensor, **more: Any) -> Any:
        return TRUE_SDPA(q / q.shape[-1] ** 0.5, k, v, **more)

    everywhere(monkeypatch, fault)


def no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(q: Tensor, k: Tensor, v: Tensor, *, mask: Any = None, causal: bool = False, **more: Any) -> Any:
        return TRUE_SDPA(q, k, v, **more)

    everywhere(monkeypatch, fault)


def nan_of_blind_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The document's own code."""

    def fault(q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor, **more: Any) -> Tensor:
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, float("-inf"))
        output: Tensor = scores.softmax(-1) @ v
        return output

    everywhere(monkeypatch, fault)


def not_causal(monkeypatch: pytest.MonkeyPatch) -> None:
    def sees_all(
        self: Any, q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Any = None
    ) -> Tensor:
        return TRUE_SDPA(q, k, v, mask=mask)

    monkeypatch.setattr(PluggedAttention, "__call__", sees_all)


def heads_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        blocks.MultiHeadAttention,
        "concatenate_heads",
        lambda self, heads: heads.flip(1).transpose(1, 2).flatten(-2),
    )


def no_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(self: Any, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return sublayer(self.norm(x)) if self.pre else self.norm(sublayer(x))

    monkeypatch.setattr(layers.Sublayer, "forward", fault)


def norms_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(self: Any, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.norm(x + sublayer(x)) if self.pre else x + sublayer(self.norm(x))

    monkeypatch.setattr(layers.Sublayer, "forward", fault)


def tokens_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed-forward network that looks at a neighbour."""
    inside = blocks.FeedForward._inside
    monkeypatch.setattr(blocks.FeedForward, "_inside", lambda self, x: inside(self, x + 0.1 * x.roll(1, -2)))


def sinusoids_of_twice_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    table = blocks.SinusoidalPositions.table
    monkeypatch.setattr(
        blocks.SinusoidalPositions, "table", lambda self, length, start=0: table(self, 2 * length, start)[::2]
    )


def no_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (blocks.SinusoidalPositions, blocks.LearnedPositions):
        monkeypatch.setattr(kind, "forward", lambda self, x, start=0: x)
    monkeypatch.setattr(blocks.RotaryPositions, "rotate", lambda self, heads, start=0: heads)


def rotates_queries_by_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    rotate = blocks.RotaryPositions.rotate
    monkeypatch.setattr(
        blocks.RotaryPositions, "rotate", lambda self, heads, start=0: rotate(self, heads, start * start)
    )


def cache_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the latest token is remembered."""
    held = blocks.KeyValueCache.held
    monkeypatch.setattr(blocks.KeyValueCache, "held", lambda self: tuple(t[:, :, -1:] for t in held(self)))


def memory_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = blocks.DecoderLayer.forward
    monkeypatch.setattr(
        blocks.DecoderLayer,
        "forward",
        lambda self, x, memory, **more: forward(self, x, torch.zeros_like(memory), **more),
    )


def recurrence_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token starts afresh: no chain."""

    def fault(self: Any, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        states = torch.tanh(self.input(x))
        return states, states[:, -1]

    monkeypatch.setattr(blocks.RecurrentNetwork, "forward", fault)


def feed_forward_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the work of one product: FLOPs that are no longer the row's law."""
    forward = blocks.FeedForward.forward

    def fault(self: nn.Module, x: Tensor) -> Tensor:
        return forward(self, x) + 0 * (x @ x.mT).sum()  # type: ignore[arg-type]

    monkeypatch.setattr(blocks.FeedForward, "forward", fault)


CASES: list[tuple[Patch, tuple[str, ...]]] = [
    (wrong_scale, ("equals PyTorch's scaled_dot", "Divided by √d_k")),
    (no_mask, ("A_ij = 0 for j > i", "A mask hides", "equals PyTorch's scaled_dot")),
    (nan_of_blind_rows, ("may look nowhere",)),
    (not_causal, ("bit-identical", "makes token t + 1", "with a cache equals", "TransformerDecoderLayer")),
    (heads_mixed_up, ("torch.nn.MultiheadAttention", "MultiHead = Concat")),
    (no_residual, ("TransformerEncoderLayer", "survives 48 layers", "identity")),
    (norms_swapped, ("TransformerEncoderLayer", "TransformerDecoderLayer", "FFN(LayerNorm(x))")),
    (tokens_mixed, ("acts on each token alone",)),
    (sinusoids_of_twice_the_rate, ("PE(pos, 2i) =", "one linear map")),
    (no_positions, ("Sinusoidal positions break", "Learned positions break", "Rotary positions break",
                    "Distinct positions", "another offset")),
    (rotates_queries_by_their_square, ("depends on the offset",)),
    (cache_forgets, ("with a cache equals", "Greedy generation")),
    (memory_unread, ("Cross-attention reads", "reaches the target")),
    (recurrence_cut, ("chain of dependent operations", "length 512")),
    (feed_forward_twice, ("Feed-forward: time O(n·d_model·d_ff) for",)),
]  # fmt: skip


@pytest.mark.parametrize(("patch", "parts"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_is_found(patch: Patch, parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch)
    for part in parts:
        (one,) = (c for c in claims() if part in c.text and not c.measured)
        found = check(one)
        assert isinstance(found, Verdict)
        assert found.verdict == FAIL, f"{one.text}: {found.number} still is {found.bound}"
