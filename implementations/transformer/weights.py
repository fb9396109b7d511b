"""Copying trained weights from torch's own modules, so that both compute the same."""

from __future__ import annotations

import torch
from torch import nn

from implementations.transformer.attention import MultiHeadAttention
from implementations.transformer.feedforward import FeedForward
from implementations.transformer.layers import DecoderLayer, EncoderLayer
from implementations.transformer.recurrent import RecurrentNetwork


@torch.no_grad()
def copy_attention(target: MultiHeadAttention, source: nn.MultiheadAttention) -> None:
    """From torch's multi-head attention, whose three projections are packed into one matrix.

    Raises ValueError where one has biases and the other not, or keys of another width.
    """
    if source.in_proj_weight is None:
        raise ValueError("torch's attention has keys or values of another width (kdim, vdim); ours has not")
    parts = (target.query, target.key, target.value)
    for part, weight in zip(parts, source.in_proj_weight.chunk(3), strict=True):
        part.weight.copy_(weight)
    packed = source.in_proj_bias
    if (packed is None) is not (target.query.bias is None):
        raise ValueError("bias: one of the two attentions has biases and the other not; make them alike")
    if packed is not None:
        for part, bias in zip(parts, packed.chunk(3), strict=True):
            part.bias.copy_(bias)
    target.output.load_state_dict(source.out_proj.state_dict())


def copy_encoder_layer(target: EncoderLayer, source: nn.TransformerEncoderLayer) -> None:
    """From torch's encoder layer."""
    copy_attention(target.attention, source.self_attn)
    _copy_feed_forward(target.feed_forward, source)
    target.attention_residual.norm.load_state_dict(source.norm1.state_dict())
    target.feed_forward_residual.norm.load_state_dict(source.norm2.state_dict())


def copy_decoder_layer(target: DecoderLayer, source: nn.TransformerDecoderLayer) -> None:
    """From torch's decoder layer."""
    copy_attention(target.self_attention, source.self_attn)
    copy_attention(target.cross_attention, source.multihead_attn)
    _copy_feed_forward(target.feed_forward, source)
    target.self_attention_residual.norm.load_state_dict(source.norm1.state_dict())
    target.cross_attention_residual.norm.load_state_dict(source.norm2.state_dict())
    target.feed_forward_residual.norm.load_state_dict(source.norm3.state_dict())


def _copy_feed_forward(
    target: FeedForward, source: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
) -> None:
    target.expand.load_state_dict(source.linear1.state_dict())
    target.contract.load_state_dict(source.linear2.state_dict())


def copy_recurrent(target: RecurrentNetwork, source: nn.RNN) -> None:
    """From torch's RNN of one layer and direction with tanh. Raises ValueError for another."""
    if (source.num_layers, source.bidirectional, source.nonlinearity) != (1, False, "tanh"):
        raise ValueError("only an RNN of one layer, one direction and tanh has the same form")
    given = source.state_dict()
    for part, suffix in ((target.input, "ih_l0"), (target.recurrence, "hh_l0")):
        part.load_state_dict(
            {name: given[f"{name}_{suffix}"] for name in ("weight", "bias") if f"{name}_{suffix}" in given}
        )
