"""§6: the layer against PyTorch's, LayerNorm, the feed-forward network and its share of the parameters."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from harness.verify.claim import Finding, above, below, claim, exactly
from harness.verify.claims.section_1_recurrence import reached

if TYPE_CHECKING:
    from implementations.transformer import EncoderLayer, FeedForward

D_MODEL, HEADS, D_FF, LENGTH = 32, 4, 128, 9
Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu", "swiglu"]
NORMS: tuple[Norm, ...] = ("pre", "post")
ACTIVATIONS: tuple[Activation, ...] = ("relu", "gelu", "swiglu")


def _disturbed(module: nn.Module) -> None:
    """Weights that all differ from their defaults: LayerNorms of 1 and 0 would hide an exchange."""
    for parameter in module.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)


@claim("§6", "The encoder layer equals torch.nn.TransformerEncoderLayer, pre-norm and post-norm")
def encoder_layer() -> Finding:
    """Both norms, ReLU and GELU, in training mode, so that PyTorch takes no shortcut."""
    from implementations.transformer import EncoderLayer, copy_encoder_layer

    worst = 0.0
    for norm, activation in product(NORMS, ACTIVATIONS[:2]):
        theirs = nn.TransformerEncoderLayer(
            D_MODEL, HEADS, D_FF, 0.0, activation, batch_first=True, norm_first=norm == "pre"
        )
        _disturbed(theirs)
        ours = EncoderLayer(D_MODEL, HEADS, D_FF, norm=norm, activation=activation)
        copy_encoder_layer(ours, theirs)
        x = torch.randn(2, LENGTH, D_MODEL)
        worst = max(worst, float((ours(x) - theirs(x)).detach().abs().max()))
    return Finding(worst, below(1e-5), "max |Δ|: pre and post norm, ReLU and GELU")


@claim("§6", "The decoder layer equals torch.nn.TransformerDecoderLayer, pre-norm and post-norm")
def decoder_layer() -> Finding:
    """Causal self-attention, cross-attention over a memory of another length, feed-forward."""
    from implementations.transformer import DecoderLayer, copy_decoder_layer

    worst = 0.0
    hidden = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    for norm in NORMS:
        theirs = nn.TransformerDecoderLayer(
            D_MODEL, HEADS, D_FF, 0.0, batch_first=True, norm_first=norm == "pre"
        )
        _disturbed(theirs)
        ours = DecoderLayer(D_MODEL, HEADS, D_FF, norm=norm)
        copy_decoder_layer(ours, theirs)
        x, memory = torch.randn(2, LENGTH, D_MODEL), torch.randn(2, 5, D_MODEL)
        worst = max(worst, float((ours(x, memory) - theirs(x, memory, tgt_mask=hidden)).detach().abs().max()))
    return Finding(worst, below(1e-5), "max |Δ|: pre and post norm, memory of another length")


def _layer(norm: Norm) -> EncoderLayer:
    from implementations.transformer import EncoderLayer

    return EncoderLayer(D_MODEL, HEADS, D_FF, norm=norm, attention="naive").double()


@claim("§6", "x = x + Attention(LayerNorm(x)); x = x + FFN(LayerNorm(x)); post-norm: LayerNorm(x + f(x))")
def written_out() -> Finding:
    """The two lines of the document, written out around the layer's own sublayers in float64."""
    worst = 0.0
    x = torch.randn(2, LENGTH, D_MODEL, dtype=torch.float64)
    for norm in NORMS:
        layer = _layer(norm)
        _disturbed(layer)
        norms = [layer.attention_residual.norm, layer.feed_forward_residual.norm]
        expected = x
        for sublayer, layer_norm in zip((layer.attention, layer.feed_forward), norms, strict=True):
            if norm == "pre":
                expected = expected + sublayer(_normalised(expected, layer_norm))
            else:
                expected = _normalised(expected + sublayer(expected), layer_norm)
        worst = max(worst, float((layer(x) - expected).detach().abs().max()))
    return Finding(worst, below(1e-12), "max |Δ|, float64, pre and post norm")


def _normalised(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """(x − mean)/√(variance + ε)·γ + β over the features of each token, written out."""
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def _feed_forward(activation: Activation = "relu") -> FeedForward:
    from implementations.transformer import FeedForward

    return FeedForward(D_MODEL, D_FF, activation=activation).double()


@claim("§6", "FFN(x) = max(0, x·W_1 + b_1)·W_2 + b_2")
def feed_forward_formula() -> Finding:
    """Written out in numpy."""
    module = _feed_forward()
    x = torch.randn(LENGTH, D_MODEL, dtype=torch.float64)
    expand, contract = module.expand, module.contract
    w1, b1, w2, b2 = (
        parameter.detach().numpy()
        for parameter in (expand.weight, expand.bias, contract.weight, contract.bias)
    )
    expected = (x.numpy() @ w1.T + b1).clip(min=0) @ w2.T + b2
    worst = float((module(x).detach() - torch.from_numpy(expected)).abs().max())
    return Finding(worst, below(1e-12), "max |Δ| from numpy, float64")


@claim("§6", "The feed-forward network acts on each token alone")
def feed_forward_is_local() -> Finding:
    """The largest gradient of a token's output by another token: 0, for each activation."""
    worst = 0.0
    for activation in ACTIVATIONS:
        x = torch.randn(1, 6, D_MODEL, dtype=torch.float64)
        found = reached(_feed_forward(activation), x)
        worst = max(worst, float(found.fill_diagonal_(0).max()))
    return Finding(worst, exactly(0), "largest ∂output/∂(another token), three activations")


def _cut_off(layer: EncoderLayer) -> None:
    """Let attention and feed-forward add nothing."""
    for part in (layer.attention.output, layer.feed_forward.contract):
        nn.init.zeros_(part.weight)
        nn.init.zeros_(part.bias)


@claim("§6", "LayerNorm normalises each token by itself")
def layer_norm_is_local() -> Finding:
    """What reaches a token of a layer whose attention and feed-forward are cut off: itself alone."""
    layer = _layer("post")
    _cut_off(layer)
    found = reached(layer, torch.randn(1, 6, D_MODEL, dtype=torch.float64))
    return Finding(float(found.fill_diagonal_(0).max()), exactly(0), "largest ∂output/∂(another token)")


@claim(
    "§6",
    "8·d² of a layer's 12·d² weights, 2/3, lie in the feed-forward network",
    document="loose",
    care="Exact for the matrices of a layer with d_ff = 4·d; biases and LayerNorms shift the third digit. "
    "It is not 'of transformer parameters': embeddings come on top (in BERT-base they leave the "
    "feed-forward networks 52 % of the whole), and SwiGLU has a third matrix.",
)
def share_of_parameters() -> Finding:
    """Elements of the matrices of a layer of d_model 768, counted."""
    from implementations.transformer import EncoderLayer

    layer = EncoderLayer(768, 12, 4 * 768)
    inside, whole = (
        sum(p.numel() for p in module.parameters() if p.dim() == 2) for module in (layer.feed_forward, layer)
    )
    everything = sum(p.numel() for p in layer.feed_forward.parameters()) / sum(
        p.numel() for p in layer.parameters()
    )
    words = f"{inside:,} of {whole:,} = {inside / 768**2:g}·d² of {whole / 768**2:g}·d²"
    return Finding(inside / whole, exactly(2 / 3), f"{words}; with biases and norms {everything:.4f}")


@claim("§6", "The residual hands x on unchanged: a layer whose sublayers are 0 is the identity")
def residual_is_identity() -> Finding:
    """Pre-norm, both sublayers' last matrices set to 0; else the layer changes x."""
    layer = _layer("pre")
    x = torch.randn(1, LENGTH, D_MODEL, dtype=torch.float64)
    changed = float((layer(x) - x).detach().abs().max())
    _cut_off(layer)
    left = float((layer(x) - x).detach().abs().max())
    return Finding(left, exactly(0), f"max |layer(x) − x|; {changed:.2g} with its sublayers")


@claim("§6", "SwiGLU, GELU and ReLU are three different networks of the same form")
def activations_differ() -> Finding:
    """The smallest difference between two activations with the same W_1 and W_2."""
    outputs = []
    x = torch.randn(LENGTH, D_MODEL, dtype=torch.float64)
    for activation in ACTIVATIONS:
        torch.manual_seed(0)
        outputs.append(_feed_forward(activation)(x))
    pairs = ((0, 1), (0, 2), (1, 2))
    nearest = min(float((outputs[a] - outputs[b]).detach().abs().max()) for a, b in pairs)
    return Finding(nearest, above(1e-3), "smallest max |Δ| between two activations")
