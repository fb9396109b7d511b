"""§6: gradients over depth 1 … 48, with and without residuals, pre-norm and post-norm, untrained weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.verify.claim import Curve, Figure, Finding, above, at_least, below, between, claim

DEPTHS = (1, 2, 4, 8, 12, 24, 48)
D_MODEL, HEADS, LENGTH, BATCH = 32, 4, 16, 2
Step = Callable[[Any, Tensor], Tensor]


def _layer(layer: Any, x: Tensor) -> Tensor:
    done: Tensor = layer(x)
    return done


def _bare(layer: Any, x: Tensor) -> Tensor:
    """Without residuals and without norms."""
    done: Tensor = layer.feed_forward(layer.attention(x))
    return done


def _normalised(layer: Any, x: Tensor) -> Tensor:
    """Without residuals, with the norms before each sublayer."""
    x = layer.attention(layer.attention_residual.norm(x))
    done: Tensor = layer.feed_forward(layer.feed_forward_residual.norm(x))
    return done


def _no_norm(layer: Any, x: Tensor) -> Tensor:
    """With residuals, without norms."""
    x = x + layer.attention(x)
    done: Tensor = x + layer.feed_forward(x)
    return done


#: Name of a kind of stack -> the norm that its layers have, and how a layer is applied.
KINDS: dict[str, tuple[Any, Step]] = {
    "pre-norm": ("pre", _layer),
    "post-norm": ("post", _layer),
    "no residuals, no norms": ("pre", _bare),
    "no residuals, norms": ("pre", _normalised),
    "residuals, no norms": ("pre", _no_norm),
}


@dataclass(frozen=True, slots=True)
class Depth:
    """At one depth: norms of the gradient at the input and by the last layer's weights, and of the stream.

    at_input   ‖∂loss/∂x‖ over ‖∂loss/∂output‖
    last       ‖∂loss/∂(weights of the last layer)‖ over ‖∂loss/∂output‖
    stream     root mean square over tokens of ‖output‖, before the last LayerNorm
    """

    at_input: float
    last: float
    stream: float


def over_depth(kind: str) -> dict[int, Depth]:
    """The first layers of one stack of float64 with weights as they start; loss = ⟨output, noise⟩.

    Pre-norm stacks end in a LayerNorm, as they do in use.
    """
    from implementations.transformer import EncoderLayer

    norm, step = KINDS[kind]
    layers = [
        EncoderLayer(D_MODEL, HEADS, 4 * D_MODEL, norm=norm, attention="naive").double()
        for _ in range(DEPTHS[-1])
    ]
    x = torch.randn(BATCH, LENGTH, D_MODEL, dtype=torch.float64, requires_grad=True)
    noise = torch.randn_like(x)
    found, y = {}, x
    for depth, layer in enumerate(layers, start=1):
        y = step(layer, y)
        if depth in DEPTHS:
            end = torch.nn.functional.layer_norm(y, (D_MODEL,)) if kind == "pre-norm" else y
            found[depth] = _depth((end * noise).sum(), x, list(layer.parameters()), y, float(noise.norm()))
    return found


def _depth(loss: Tensor, x: Tensor, last: list[Tensor], stream: Tensor, scale: float) -> Depth:
    at_input, *by_last = torch.autograd.grad(loss, [x, *last], retain_graph=True, allow_unused=True)
    weights = sum(float(g.square().sum()) for g in by_last if g is not None)
    size = float(stream.detach().square().sum(-1).mean().sqrt())
    return Depth(float(at_input.norm()) / scale, weights**0.5 / scale, size)


def _drawn(title: str, y_label: str, pick: Callable[[Depth], float], *kinds: str) -> Figure:
    curves = []
    for kind in kinds:
        found = over_depth(kind)
        curves.append(Curve(kind, tuple(map(float, found)), tuple(pick(one) for one in found.values())))
    return Figure(title, "layers", y_label, tuple(curves), log_y=True)


def _at(figure: Figure, curve: int, depth: int) -> float:
    drawn = figure.curves[curve]
    return drawn.ys[drawn.xs.index(depth)]


@claim(
    "§6",
    "Without residuals (and norms) the gradient vanishes over 12 layers",
    document="loose",
    care="It holds for layers without LayerNorm. Where the LayerNorms stay and only the residuals go, the "
    "gradient at the input falls, but does not vanish: its figure stands beside the claim.",
)
def vanishes() -> Finding:
    """‖gradient at the input‖ at 12 layers over that at 1."""
    kinds = ("no residuals, no norms", "no residuals, norms", "pre-norm", "post-norm", "residuals, no norms")
    figure = _drawn("Gradient at the input over depth", "‖∂loss/∂x‖", lambda one: one.at_input, *kinds)
    ratio, normed = (_at(figure, curve, 12) / _at(figure, curve, 1) for curve in (0, 1))
    return Finding(ratio, below(1e-3), f"gradient at 12 layers over 1; with norms {normed:.2g}", (figure,))


@claim("§6", "With residuals (pre-norm) the gradient survives 48 layers")
def survives() -> Finding:
    """‖gradient at the input‖ at 48 layers over that at 1."""
    found = over_depth("pre-norm")
    return Finding(found[48].at_input / found[1].at_input, between(0.1, 10), "gradient at 48 layers over 1")


@claim(
    "§6",
    "Post-norm: the gradient at the input shrinks with depth, further than pre-norm's",
    document="wrong",
    care="The document says that post-norm lets 'gradient magnitudes grow unchecked through the residual "
    "stream'. At the start of training the gradient at the input shrinks with depth, because each LayerNorm "
    "divides what the residual hands on. Post-norm is harder to train for another reason: the next claim.",
)
def post_norm_shrinks() -> Finding:
    """How much of the gradient 48 post-norm layers keep, over what 48 pre-norm layers keep."""
    post, pre = (over_depth(kind) for kind in ("post-norm", "pre-norm"))
    kept = [found[48].at_input / found[1].at_input for found in (post, pre)]
    return Finding(
        kept[0] / kept[1], below(0.8), f"kept over 48 layers: post {kept[0]:.2g}, pre {kept[1]:.2g}"
    )


@claim("§6", "Post-norm: the last layers' gradients are larger than pre-norm's (why it needs a warm-up)")
def post_norm_is_large_at_the_end() -> Finding:
    """‖∂loss/∂(weights of layer 48)‖, post-norm over pre-norm (Xiong et al. 2020, theorem 1)."""
    post, pre = (over_depth(kind)[48].last for kind in ("post-norm", "pre-norm"))
    return Finding(post / pre, above(1.5), "gradient by the weights of layer 48, post over pre")


@claim(
    "§6",
    "The residual stream grows with depth in pre-norm, and not in post-norm",
    document="loose",
    care="'The residual stream remains unnormalized' is right of pre-norm; what grows unchecked is this "
    "stream, not the gradient, and in pre-norm, not in post-norm.",
)
def stream_grows() -> Finding:
    """‖stream‖ at 48 layers over that at 1, pre-norm; post-norm beside it."""
    kinds = ("pre-norm", "post-norm")
    figure = _drawn("Residual stream over depth", "‖stream‖ of a token", lambda one: one.stream, *kinds)
    grown, still = (_at(figure, curve, 48) / _at(figure, curve, 1) for curve in (0, 1))
    words = f"pre-norm, 48 layers over 1; post-norm {still:.3g}"
    return Finding(grown if abs(still - 1) < 0.01 else float("nan"), at_least(1.5), words, (figure,))
