"""§9: the rows of the complexity table by the clock: the exponent that CPU times of a short sweep have.

Counting proves the law; this shows that the machine obeys it. The bounds leave room for what a processor's
caches and a busy machine do to an exponent over a 16-fold sweep (docs/complexity.md, "The verdict").
"""

from __future__ import annotations

import torch

from harness.verify.claim import Finding, between, claim
from harness.verify.measured import Call, figure, mean_exponent, sweep, words

SIZES = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
#: By how much an exponent may be off.
SLACK = 0.3


def _attention(name: str, n: int) -> Call:
    from implementations.attention.problem import AttentionProblem
    from implementations.registry import load, lookup

    load("attention")
    problem = AttentionProblem(seq_len=n, heads=1, head_dim=64)
    attend, inputs = lookup(name).prepare(problem), problem.inputs("cpu")
    return lambda: attend(inputs)


def _exponent(calls: dict[int, Call], law: str, low: float, high: float, title: str) -> Finding:
    fit = sweep(calls)
    found = f"mean exponent over {SIZES[-1] // SIZES[0]}×; {words(fit, law)}"
    return Finding(mean_exponent(fit), between(low - SLACK, high + SLACK), found, (figure(fit, title),))


@claim("§9", "Attention scores: CPU time grows as n²", measured=True)
def scores_time() -> Finding:
    """Plain attention of one head."""
    calls = {n: _attention("naive", n) for n in SIZES}
    return _exponent(calls, "n^2", 2, 2, "CPU time of plain attention, d = 64")


@claim("§9", "FlashAttention: CPU time still grows as n²", measured=True)
def flash_time() -> Finding:
    """PyTorch's flash attention of one head."""
    calls = {n: _attention("sdpa_flash", n) for n in SIZES}
    return _exponent(calls, "n^2", 2, 2, "CPU time of flash attention, d = 64")


@claim("§9", "Linear attention: CPU time grows as n", measured=True)
def linear_time() -> Finding:
    """φ = elu + 1, one head."""
    calls = {n: _attention("linear_elu", n) for n in SIZES}
    return _exponent(calls, "n", 1, 1, "CPU time of linear attention, d = 64")


@claim("§9", "Feed-forward: CPU time grows as n", measured=True)
def feed_forward_time() -> Finding:
    """128 channels, 512 inside."""
    from implementations.transformer import FeedForward

    module = FeedForward(128, 512, activation="relu")
    inputs = {n: torch.randn(1, n, 128) for n in SIZES}
    calls: dict[int, Call] = {n: _call(module, x) for n, x in inputs.items()}
    return _exponent(calls, "n", 1, 1, "CPU time of a feed-forward network, d_model = 128")


def _call(module: torch.nn.Module, x: torch.Tensor) -> Call:
    return lambda: module(x)


@claim("§9", "Full layer: CPU time grows between n and n²", measured=True)
def layer_time() -> Finding:
    """128 channels, two heads: n²·d_model + n·d_model², which are equal at some hundreds of tokens."""
    from implementations.transformer import EncoderLayer

    module = EncoderLayer(128, 2, 512, attention="naive").eval()
    calls = {n: _call(module, torch.randn(1, n, 128)) for n in SIZES}
    return _exponent(calls, "n^2", 1, 2, "CPU time of an encoder layer, d_model = 128")
