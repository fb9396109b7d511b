"""Step-by-step decoding with a cache is the full pass; greedy generation is an argmax over and over."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from implementations.transformer import (
    Decoder,
    Encoder,
    EncoderDecoder,
    KeyValueCache,
    LanguageModel,
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    greedy_generate,
)

POSITIONS = ("sinusoidal", "learned", "rotary")


def model(kind: str, reads_memory: bool, attention: str = "sdpa_flash") -> LanguageModel:
    torch.manual_seed(1)
    added = {"sinusoidal": SinusoidalPositions(16), "learned": LearnedPositions(40, 16)}.get(kind)
    rotary = RotaryPositions(8) if kind == "rotary" else None
    decoder = Decoder(2, 16, 2, 32, reads_memory=reads_memory, positions=rotary, attention=attention)
    return LanguageModel(11, 16, decoder, added).double()


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("reads_memory", [False, True])
@pytest.mark.parametrize("attention", ["naive", "sdpa_flash"])
def test_steps_with_a_cache_are_the_full_pass(kind: str, reads_memory: bool, attention: str) -> None:
    net = model(kind, reads_memory, attention)
    tokens = torch.randint(11, (2, 20))
    memory = torch.randn(2, 7, 16).double() if reads_memory else None
    caches = net.decoder.new_caches()
    with torch.no_grad():
        parts = [net(tokens[:, :9], memory, caches=caches)]
        parts += [net(tokens[:, [step]], memory, caches=caches) for step in range(9, 20)]
        torch.testing.assert_close(torch.cat(parts, 1), net(tokens, memory))


def test_several_tokens_at_once_follow_a_cache() -> None:
    net, tokens = model("rotary", False, "naive"), torch.randint(11, (2, 20))
    caches = net.decoder.new_caches()
    with torch.no_grad():
        parts = [net(part, caches=caches) for part in tokens.split([5, 8, 7], 1)]
        torch.testing.assert_close(torch.cat(parts, 1), net(tokens))


@pytest.mark.parametrize("reads_memory", [False, True])
def test_greedy_tokens_are_the_most_probable(reads_memory: bool) -> None:
    net = model("sinusoidal", reads_memory)
    memory = torch.randn(3, 7, 16).double() if reads_memory else None
    prompt = torch.randint(11, (3, 4))
    found = greedy_generate(net, prompt, 12, memory=memory)
    assert found.shape == (3, 16)
    assert torch.equal(found, greedy_generate(net, prompt, 12, memory=memory, use_cache=False))
    with torch.no_grad():
        assert torch.equal(found[:, 4:], net(found, memory).argmax(-1)[:, 3:-1])


class Counting(nn.Module):
    """Says that the token after t is t + 1."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = Decoder(1, 4, 1, 4, reads_memory=False)

    def forward(self, tokens: Tensor, memory: Tensor | None = None, *, caches: object = None) -> Tensor:
        return torch.nn.functional.one_hot(tokens + 1, 20).double()


def test_generation_ends_and_fills() -> None:
    prompt = torch.tensor([[1, 2], [6, 7]])
    found = greedy_generate(Counting(), prompt, 12, end=9)  # type: ignore[arg-type]
    assert found.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 9], [6, 7, 8, 9, 9, 9, 9, 9, 9]]
    with pytest.raises(ValueError, match="prompt"):
        greedy_generate(Counting(), prompt[:, :0], 1)  # type: ignore[arg-type]
    assert torch.equal(greedy_generate(Counting(), prompt, 0), prompt)  # type: ignore[arg-type]


def test_earlier_outputs_do_not_see_later_tokens_and_the_encoder_sees_all() -> None:
    net, tokens = model("rotary", False), torch.randint(11, (1, 12))
    changed = tokens.clone()
    changed[:, 8:] = (changed[:, 8:] + 1) % 11
    assert torch.equal(net(tokens)[:, :8], net(changed)[:, :8])
    encoder, x = Encoder(1, 16, 2, 32).double(), torch.randn(1, 12, 16).double()
    y = x.clone()
    y[:, -1] *= -1
    assert (encoder(x) - encoder(y)).abs().amax(-1).min() > 1e-6


def test_the_decoder_reads_the_encoder_but_no_padding() -> None:
    torch.manual_seed(0)
    whole = EncoderDecoder(Encoder(1, 16, 2, 32), Decoder(1, 16, 2, 32)).double()
    source, target = torch.randn(2, 9, 16).double(), torch.randn(2, 5, 16).double()
    mask = (torch.arange(9) < 6).expand(2, 1, 1, 9)
    changed = source.clone()
    changed[:, 6:] = 0
    close = torch.testing.assert_close
    close(whole(source, target, source_mask=mask), whole(changed, target, source_mask=mask))
    close(whole(source, target, source_mask=mask), whole(source[:, :6], target))
    assert (whole(source, target) - whole(changed, target)).abs().max() > 1e-3
    with pytest.raises(ValueError, match="memory"):
        whole.decoder(target)
    with pytest.raises(ValueError, match="memory"):
        model("rotary", False)(torch.zeros(1, 3, dtype=torch.long), source)


def test_a_cache_hands_out_views_that_stay_as_they_are() -> None:
    cache, tokens = KeyValueCache(), torch.randn(2, 3, 30, 4)
    held = [cache.append(part, -part)[0] for part in tokens.split([5, 1, 1, 20, 3], 2)]
    for keys in held:
        torch.testing.assert_close(keys, tokens[:, :, : keys.shape[2]])
    assert len(cache) == 30
    torch.testing.assert_close(cache.held()[1], -tokens)
    with pytest.raises(ValueError, match="own for every layer"):
        cache.append(tokens[:1], tokens[:1])
    with pytest.raises(ValueError, match="nothing yet"):
        KeyValueCache().held()
