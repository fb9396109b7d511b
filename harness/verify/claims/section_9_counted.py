"""§9: the rows of the complexity table, and what is said beneath it, by exact counting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from harness.counting.certificates import Certificate
from harness.counting.certifying import certify_eager
from harness.counting.polynomial import Sizes
from harness.verify.claim import Finding, claim, exactly
from harness.verify.counted import certified, misfits

#: Where attention is counted: multiples of the chunks of linear attention, and lengths of long contexts.
LENGTHS = (1024, 2048, 3072, 4096, 8192, 131_072)
#: Linear attention is many operators for each chunk: shorter.
CHUNKED = (1024, 1536, 2048, 3072, 4096)
WIDTHS = (16, 32, 48, 64)
#: Where layers are counted; their width is four heads.
TOKENS, MODELS = (256, 512, 768, 1024, 2048), (32, 64, 96, 128)


def certificates(
    name: str, variables: Sequence[str], lengths: Sequence[int] = LENGTHS
) -> dict[str, Certificate]:
    """Quantity -> its exact count, of an implementation on one head of float32."""
    from implementations.attention.problem import AttentionProblem
    from implementations.registry import load, lookup

    load("attention")
    problem = AttentionProblem(seq_len=lengths[0], heads=1, head_dim=64)
    sizes = {variable: lengths if variable == "n" else WIDTHS for variable in variables}
    found = certify_eager(lookup(name), problem, sizes)
    return {one.quantity: one for one in found if isinstance(one, Certificate)}


def attention(name: str, quantity: str, variables: Sequence[str] = ("n", "d")) -> Certificate:
    """One exact count. Raises KeyError where it is no polynomial."""
    return certificates(name, variables)[quantity]


def growth(found: Certificate, law: Sequence[Sizes], words: str) -> Finding:
    """How many terms of an exact count are not those of a law: none, where the row is right."""
    domain = f", {found.domain}" if found.domain else ""
    return Finding(misfits(found.polynomial, law), exactly(0), f"{words} = {found.polynomial}{domain}")


@claim("§9", "Attention scores: time O(n²·d_k), counted: no other term")
def scores_time() -> Finding:
    """FLOPs of the plain formula over n and d."""
    return growth(attention("naive", "flops"), [(2, 1)], "FLOPs of plain attention")


@claim("§9", "Attention scores: space O(n²), counted: no other term")
def scores_space() -> Finding:
    """Peak storage of the plain formula."""
    return growth(attention("naive", "peak_bytes"), [(2, 0)], "peak bytes of plain attention")


def _feed_forward(sizes: Mapping[str, int]) -> Callable[[], object]:
    from implementations.transformer import FeedForward

    module = FeedForward(sizes["d_model"], sizes["d_ff"], activation="relu")
    x = torch.randn(1, sizes["n"], sizes["d_model"])
    return _without_gradients(module, x)


def _without_gradients(module: torch.nn.Module, x: torch.Tensor) -> Callable[[], object]:
    def call() -> object:
        with torch.no_grad():
            return module(x)

    return call


@claim(
    "§9",
    "Feed-forward: time O(n·d_model·d_ff) for n tokens, counted",
    document="loose",
    care="The row is called 'FFN per token' and holds for all n tokens together; one token costs "
    "O(d_model·d_ff).",
)
def feed_forward_time() -> Finding:
    """FLOPs over n, d_model and d_ff: two products."""
    sizes = {"n": TOKENS[:4], "d_model": MODELS[:3], "d_ff": (64, 128, 192)}
    return growth(certified(_feed_forward, "flops", sizes), [(1, 1, 1)], "FLOPs")


@claim("§9", "Feed-forward: space O(n·d_ff), counted: what is inside, and the output, which is smaller")
def feed_forward_space() -> Finding:
    """Peak storage beyond input and weights, d_ff being larger than d_model."""
    sizes = {"n": TOKENS[:4], "d_model": MODELS[:3], "d_ff": (256, 512, 768)}
    return growth(certified(_feed_forward, "peak_bytes", sizes), [(1, 0, 1), (1, 1, 0)], "peak bytes")


def _layer(attention_name: str) -> Callable[[Mapping[str, int]], Callable[[], object]]:
    def make(sizes: Mapping[str, int]) -> Callable[[], object]:
        from implementations.transformer import EncoderLayer

        d_model = sizes["d_model"]
        module = EncoderLayer(d_model, 4, 4 * d_model, attention=attention_name).eval()
        return _without_gradients(module, torch.randn(1, sizes["n"], d_model))

    return make


@claim("§9", "Full layer: time O(n²·d_model + n·d_model²), counted: both terms and no other")
def layer_time() -> Finding:
    """FLOPs of an encoder layer of four heads and d_ff = 4·d_model; the terms are equal at n = 6·d_model."""
    sizes = {"n": TOKENS, "d_model": MODELS}
    return growth(certified(_layer("naive"), "flops", sizes), [(2, 1), (1, 2)], "FLOPs, d_ff = 4·d_model,")


@claim(
    "§9",
    "Full layer: space O(n² + n·d_model), counted, at a fixed number of heads",
    document="loose",
    care="Each head has its own n² weights: the space is O(heads·n² + n·d_model), and with heads of fixed "
    "width, d_model/64 of them, O(n²·d_model/64 + n·d_model). Flash attention has no n² at all.",
)
def layer_space() -> Finding:
    """Peak storage of an encoder layer with the plain formula inside, of four heads."""
    sizes = {"n": TOKENS, "d_model": MODELS}
    found = certified(_layer("naive"), "peak_bytes", sizes)
    return growth(found, [(2, 0), (1, 1)], "peak bytes, 4 heads,")


@claim("§9", "FlashAttention does the same O(n²) computation: FLOPs as plain attention")
def flash_computes_the_same() -> Finding:
    """The ratio of two exact counts at 131,072 tokens."""
    flash, plain = (attention(name, "flops", ("n",)).polynomial for name in ("sdpa_flash", "naive"))
    size = (LENGTHS[-1],)
    return Finding(float(flash.at(size) / plain.at(size)), exactly(1), f"flash {flash}, plain {plain}")


@claim("§9", "FlashAttention moves O(n·d) bytes between its operators and holds O(n·d): no n²")
def flash_moves_little() -> Finding:
    """The powers of n of bytes and peak storage."""
    moved, held = (attention("sdpa_flash", quantity, ("n",)) for quantity in ("bytes", "peak_bytes"))
    power = max(moved.exponent(), held.exponent())
    return Finding(power, exactly(1), f"bytes {moved.polynomial}; peak bytes {held.polynomial} (d = 64)")


@claim(
    "§9",
    "Linear attention is O(n), time and space",
    document="loose",
    care="Linear attention with φ = elu + 1 does not 'approximate the softmax': it replaces exp(q·k) by "
    "φ(q)·φ(k), another function. Performer's random features approximate it.",
)
def linear_is_linear() -> Finding:
    """The largest power of n among its FLOPs, bytes and peak storage."""
    found = certificates("linear_elu", ("n",), CHUNKED)
    flops, held = found["flops"], found["peak_bytes"]
    power = max(one.exponent() for one in (flops, held, found["bytes"]))
    return Finding(power, exactly(1), f"FLOPs {flops.polynomial}, peak bytes {held.polynomial} (d = 64)")
