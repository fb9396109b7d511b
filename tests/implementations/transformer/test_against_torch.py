"""The blocks against PyTorch's own with the same weights, in float64: only another formula differs."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from implementations.registry import UnknownName, Unsupported
from implementations.transformer import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    MultiHeadAttention,
    RecurrentNetwork,
    copy_attention,
    copy_decoder_layer,
    copy_encoder_layer,
    copy_recurrent,
    scaled_dot_product_attention,
)
from implementations.transformer.layers import Norm

EXACT = ["naive", "sdpa_math", "sdpa_flash"]


@pytest.fixture(autouse=True)
def _doubles() -> object:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-10)


def torch_attention(bias: bool) -> nn.MultiheadAttention:
    made = nn.MultiheadAttention(64, 4, bias=bias, batch_first=True)
    if bias:  # torch starts them at 0, where a wrong order of them would not show
        nn.init.normal_(made.in_proj_bias)
        nn.init.normal_(made.out_proj.bias)
    return made


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("attention", EXACT)
def test_multi_head_attention(bias: bool, causal: bool, attention: str) -> None:
    theirs = torch_attention(bias)
    ours = MultiHeadAttention(64, 4, attention=attention, causal=causal, bias=bias)
    copy_attention(ours, theirs)
    x = torch.randn(2, 10, 64)
    hidden = torch.ones(10, 10, dtype=torch.bool).triu(1) if causal else None
    expected, weights = theirs(x, x, x, attn_mask=hidden, average_attn_weights=False)
    close(ours(x), expected)
    close(ours.with_weights(x)[0], expected)
    close(ours.with_weights(x)[1], weights)


@pytest.mark.parametrize("attention", EXACT)
def test_padded_keys_and_context(attention: str) -> None:
    theirs, ours = torch_attention(True), MultiHeadAttention(64, 4, attention=attention)
    copy_attention(ours, theirs)
    x, context = torch.randn(2, 5, 64), torch.randn(2, 9, 64)
    padded = torch.arange(9) >= torch.tensor([[9], [6]])  # the last keys of the second item
    expected, _ = theirs(x, context, context, key_padding_mask=padded)
    close(ours(x, context, mask=~padded[:, None, None]), expected)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer_and_its_gradients(norm: Norm, activation: str) -> None:
    theirs = nn.TransformerEncoderLayer(
        64, 4, 96, dropout=0, activation=activation, batch_first=True, norm_first=norm == "pre"
    )
    ours = EncoderLayer(64, 4, 96, norm=norm, activation=activation)  # type: ignore[arg-type]
    for tensor in theirs.parameters():
        nn.init.normal_(tensor, std=0.3)
    copy_encoder_layer(ours, theirs)
    x, y = torch.randn(2, 10, 64, requires_grad=True), torch.randn(2, 10, 64)
    close(ours(x), theirs(x))
    close(*(torch.autograd.grad((layer(x) * y).sum(), x)[0] for layer in (ours, theirs)))
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_decoder_layer(norm: Norm) -> None:
    theirs = nn.TransformerDecoderLayer(64, 4, 96, dropout=0, batch_first=True, norm_first=norm == "pre")
    ours = DecoderLayer(64, 4, 96, norm=norm)
    for tensor in theirs.parameters():
        nn.init.normal_(tensor, std=0.3)
    copy_decoder_layer(ours, theirs)
    x, memory = torch.randn(2, 7, 64), torch.randn(2, 11, 64)
    later = torch.ones(7, 7, dtype=torch.bool).triu(1)
    close(ours(x, memory), theirs(x, memory, tgt_mask=later))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_stacks(norm: Norm) -> None:
    pre = norm == "pre"
    kind: dict[str, Any] = {"dropout": 0, "batch_first": True, "norm_first": pre}
    last = nn.LayerNorm(32) if pre else None
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 2, 48, **kind), 3, last, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 2, 48, **kind), 3, copy.deepcopy(last))
    ours_in, ours_out = Encoder(3, 32, 2, 48, norm=norm), Decoder(3, 32, 2, 48, norm=norm)
    for tensor in (*encoder.parameters(), *decoder.parameters()):
        nn.init.normal_(tensor, std=0.3)
    for a, b in zip(ours_in.layers, encoder.layers, strict=True):
        copy_encoder_layer(a, b)  # type: ignore[arg-type]
    for a, b in zip(ours_out.layers, decoder.layers, strict=True):
        copy_decoder_layer(a, b)  # type: ignore[arg-type]
    if encoder.norm is not None and decoder.norm is not None:
        ours_in.final.load_state_dict(encoder.norm.state_dict())
        ours_out.final.load_state_dict(decoder.norm.state_dict())
    x, y = torch.randn(2, 9, 32), torch.randn(2, 6, 32)
    memory = encoder(x)
    close(ours_in(x), memory)
    later = torch.ones(6, 6, dtype=torch.bool).triu(1)
    close(ours_out(y, memory), decoder(y, memory, tgt_mask=later))


@pytest.mark.parametrize("bias", [False, True])
def test_recurrent_network(bias: bool) -> None:
    theirs, ours = nn.RNN(12, 20, bias=bias, batch_first=True), RecurrentNetwork(12, 20, bias=bias)
    copy_recurrent(ours, theirs)
    x, start = torch.randn(3, 17, 12), torch.randn(3, 20)
    states, last = theirs(x, start[None])
    found, end = ours(x, start)
    close(found, states)
    close(end, last[0])
    close(ours(x)[0], theirs(x)[0])


def test_a_recurrence_goes_on_from_its_state() -> None:
    network, x = RecurrentNetwork(8, 8), torch.randn(2, 20, 8)
    first, state = network(x[:, :12])
    close(torch.cat([first, network(x[:, 12:], state)[0]], 1), network(x)[0])


@pytest.mark.parametrize("source", [
    nn.RNN(4, 4, num_layers=2), nn.RNN(4, 4, bidirectional=True), nn.RNN(4, 4, nonlinearity="relu")
])  # fmt: skip
def test_another_recurrence_is_refused(source: nn.RNN) -> None:
    with pytest.raises(ValueError, match="one layer"):
        copy_recurrent(RecurrentNetwork(4, 4), source)


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="bias"):
        copy_attention(MultiHeadAttention(64, 4, bias=False), torch_attention(True))
    with pytest.raises(ValueError, match="width"):
        copy_attention(MultiHeadAttention(64, 4), nn.MultiheadAttention(64, 4, kdim=32))


def test_attention_by_name() -> None:
    with pytest.raises(UnknownName, match="sdpa_flash"):
        MultiHeadAttention(64, 4, attention="sdpa_flsh")
    with pytest.raises(Unsupported, match="sdpa_cudnn: torch has"):
        MultiHeadAttention(64, 4, attention="sdpa_cudnn")(torch.randn(1, 4, 64))
    with pytest.raises(ValueError, match=r"heads.*64"):
        MultiHeadAttention(64, 5)


def test_layers_can_be_copied_and_pickled() -> None:
    layer, x = EncoderLayer(16, 2, 32), torch.randn(1, 6, 16)
    expected = layer(x)  # so that a function is prepared, which no pickle holds
    close(copy.deepcopy(layer)(x), expected)
    close(pickle.loads(pickle.dumps(layer))(x), expected)


def test_a_query_that_sees_nothing_is_0_with_finite_gradients() -> None:
    q, k, v = (torch.randn(1, 1, 4, 8, requires_grad=True) for _ in range(3))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    output, weights = scaled_dot_product_attention(q, k, v, mask=mask, return_weights=True)
    assert not output[0, 0, 2].any()
    assert not weights[0, 0, 2].any()
    for gradient in torch.autograd.grad(output.sum(), (q, k, v)):
        assert gradient.isfinite().all()
