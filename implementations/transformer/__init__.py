"""The transformer of the reference document, block by block; no operation: its operations are beside it."""

from implementations.transformer.attention import MultiHeadAttention, scaled_dot_product_attention
from implementations.transformer.cache import KeyValueCache
from implementations.transformer.feedforward import FeedForward
from implementations.transformer.generation import greedy_generate
from implementations.transformer.layers import DecoderLayer, EncoderLayer, LayerCache
from implementations.transformer.positions import (
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
)
from implementations.transformer.recurrent import RecurrentNetwork
from implementations.transformer.stacks import Decoder, Encoder, EncoderDecoder, LanguageModel
from implementations.transformer.weights import (
    copy_attention,
    copy_decoder_layer,
    copy_encoder_layer,
    copy_recurrent,
)

__all__ = [
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderDecoder",
    "EncoderLayer",
    "FeedForward",
    "KeyValueCache",
    "LanguageModel",
    "LayerCache",
    "LearnedPositions",
    "MultiHeadAttention",
    "RecurrentNetwork",
    "RotaryPositions",
    "SinusoidalPositions",
    "copy_attention",
    "copy_decoder_layer",
    "copy_encoder_layer",
    "copy_recurrent",
    "greedy_generate",
    "scaled_dot_product_attention",
]
