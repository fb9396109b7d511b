"""§7: who sees whom: causal masks, generation with a cache, the encoder, and the decoder that reads it."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.verify.claim import Finding, above, at_least, below, claim, exactly
from harness.verify.claims.section_1_recurrence import reached

D_MODEL, HEADS, D_FF, LENGTH, DEPTH = 32, 4, 64, 12, 2
VOCABULARY = 29
#: Exact attentions of the suite that run on every CPU.
ATTENTIONS = ("naive", "sdpa_math", "sdpa_flash")


def _decoder(attention: str = "sdpa_flash", *, reads_memory: bool = False) -> torch.nn.Module:
    from implementations.transformer import Decoder

    return Decoder(DEPTH, D_MODEL, HEADS, D_FF, reads_memory=reads_memory, attention=attention)


@claim("§7", "Changing later tokens leaves the decoder's earlier outputs bit-identical")
def causal_to_the_bit() -> Finding:
    """Every place of change, several attentions plugged in; the changed token itself must change."""
    worst, silent = 0.0, 0
    with torch.no_grad():
        for attention in ATTENTIONS:
            decoder, x = _decoder(attention), torch.randn(1, LENGTH, D_MODEL)
            before = decoder(x)
            for place in range(1, LENGTH):
                changed = x.clone()
                changed[:, place:] = torch.randn(1, LENGTH - place, D_MODEL)
                after = decoder(changed)
                worst = max(worst, float((after - before)[:, :place].abs().max()))
                silent += bool(torch.equal(after[:, place], before[:, place]))
    number = worst if not silent else float("nan")
    return Finding(number, exactly(0), f"max |Δ| before the change; {', '.join(ATTENTIONS)}")


@claim("§7", "The causal mask makes A_ij = 0 for j > i")
def no_weight_on_the_future() -> Finding:
    """The largest weight above the diagonal, exactly."""
    from implementations.transformer import MultiHeadAttention

    module = MultiHeadAttention(D_MODEL, HEADS, causal=True)
    with torch.no_grad():
        _, weights = module.with_weights(torch.randn(2, LENGTH, D_MODEL))
    return Finding(float(weights.triu(1).abs().max()), exactly(0), "largest A_ij with j > i, 4 heads")


@claim(
    "§7",
    "A token attends to itself and the tokens before it",
    document="loose",
    care="'Each token can only attend to previous tokens' leaves out the token itself: the mask hides j > i, "
    "and the first token, which has none before it, attends to itself alone.",
)
def sees_itself() -> Finding:
    """The smallest weight on or below the diagonal; of the first token the weight on itself is 1."""
    from implementations.transformer import MultiHeadAttention

    module = MultiHeadAttention(D_MODEL, HEADS, causal=True)
    with torch.no_grad():
        _, weights = module.with_weights(torch.randn(2, LENGTH, D_MODEL))
    rows, columns = torch.tril_indices(LENGTH, LENGTH)
    first = float(weights[:, :, 0, 0].min())
    words = f"smallest A_ij with j ≤ i; of token 1 on itself {first:g}"
    return Finding(float(weights[:, :, rows, columns].min()) if first == 1 else 0.0, above(0), words)


def _language_model(positions: bool = True) -> torch.nn.Module:
    from implementations.transformer import Decoder, LanguageModel, RotaryPositions

    rotary = RotaryPositions(D_MODEL // HEADS) if positions else None
    decoder = Decoder(DEPTH, D_MODEL, HEADS, D_FF, reads_memory=False, positions=rotary)
    return LanguageModel(VOCABULARY, D_MODEL, decoder)


@claim("§7", "Decoding step by step with a cache equals the full pass")
def cache_equals_full_pass() -> Finding:
    """Scores of every step, float32, with rotary positions."""
    model = _language_model()
    tokens = torch.randint(VOCABULARY, (2, LENGTH))
    with torch.no_grad():
        full = model(tokens)
        caches = model.decoder.new_caches()  # type: ignore[union-attr, operator]
        steps = [model(tokens[:, step : step + 1], caches=caches) for step in range(LENGTH)]
    worst = float((torch.cat(steps, 1) - full).abs().max())
    return Finding(worst, below(1e-5), "max |Δ| of the scores, float32, 12 steps, 2 layers")


@claim("§7", "Greedy generation with a cache gives the tokens of generation without")
def same_tokens() -> Finding:
    """Tokens that differ, of 20 new ones."""
    from implementations.transformer import LanguageModel, greedy_generate

    model = _language_model()
    assert isinstance(model, LanguageModel)
    prompt = torch.randint(VOCABULARY, (2, 3))
    with_cache, without = (greedy_generate(model, prompt, 20, use_cache=used) for used in (True, False))
    differing = int((with_cache != without).sum())
    return Finding(differing, exactly(0), f"differing tokens of {without[:, 3:].numel()}")


@claim("§7", "The decoder makes token t + 1 from tokens 1 … t only")
def next_from_the_past() -> Finding:
    """The largest gradient of an output by an input after it, and the smallest by one up to it."""
    decoder = _decoder("naive").double()
    found = reached(decoder, torch.randn(1, LENGTH, D_MODEL, dtype=torch.float64))
    past = float(found[torch.ones_like(found).tril() > 0].min())
    number = float(found.triu(1).max()) if past > 0 else float("nan")
    return Finding(number, exactly(0), f"largest ∂output_i/∂x_j, j > i; smallest for j ≤ i {past:.2g}")


@claim("§7", "The encoder is bidirectional: each token sees those before and after it")
def encoder_sees_all() -> Finding:
    """The share of pairs with a gradient, one layer, in float64."""
    from implementations.transformer import Encoder

    encoder = Encoder(1, D_MODEL, HEADS, D_FF, attention="naive").double()
    found = reached(encoder, torch.randn(1, LENGTH, D_MODEL, dtype=torch.float64))
    return Finding(float((found > 0).double().mean()), exactly(1), "share of pairs with ∂output_i/∂x_j ≠ 0")


def _memory_gradient() -> Tensor:
    """(LENGTH, 5): ‖∂ output token / ∂ memory token‖ of one decoder layer."""
    from implementations.transformer import DecoderLayer

    layer = DecoderLayer(D_MODEL, HEADS, D_FF, attention="naive").double()
    x = torch.randn(1, LENGTH, D_MODEL, dtype=torch.float64)
    return reached(lambda memory: layer(x, memory), torch.randn(1, 5, D_MODEL, dtype=torch.float64))


@claim("§7", "Cross-attention reads the encoder: every output sees every source token, unmasked")
def cross_attention_reads() -> Finding:
    """The share of (output, source) pairs with a gradient."""
    share = float((_memory_gradient() > 0).double().mean())
    return Finding(share, exactly(1), "share of pairs with ∂output_i/∂source_j ≠ 0")


@claim("§7", "The source reaches the target through the encoder: bidirectionally read, causally written")
def encoder_decoder() -> Finding:
    """Changing the last source token changes the first output; changing a later target token does not."""
    from implementations.transformer import Decoder, Encoder, EncoderDecoder

    model = EncoderDecoder(Encoder(DEPTH, D_MODEL, HEADS, D_FF), Decoder(DEPTH, D_MODEL, HEADS, D_FF))
    source, target = torch.randn(1, 7, D_MODEL), torch.randn(1, LENGTH, D_MODEL)
    other_source, other_target = source.clone(), target.clone()
    other_source[:, -1] = torch.randn(D_MODEL)  # a LayerNorm would not see a constant added
    other_target[:, -1] = torch.randn(D_MODEL)
    with torch.no_grad():
        first = model(source, target)[:, 0]
        by_source = float((model(other_source, target)[:, 0] - first).abs().max())
        by_target = float((model(source, other_target)[:, 0] - first).abs().max())
    number = by_source if by_target == 0 else float("nan")
    return Finding(
        number, at_least(1e-4), f"change of output 1 by the last source token; by the target {by_target:g}"
    )


@claim("§7", "A decoder layer has three sublayers: causal self-attention, cross-attention, feed-forward")
def three_sublayers() -> Finding:
    """How many of the three change the output when their last matrix is set to 0, one at a time."""
    from implementations.transformer import DecoderLayer

    layer = DecoderLayer(D_MODEL, HEADS, D_FF)
    x, memory = torch.randn(1, LENGTH, D_MODEL), torch.randn(1, 5, D_MODEL)
    acting = 0
    with torch.no_grad():
        whole = layer(x, memory)
        for last in (layer.self_attention.output, layer.cross_attention.output, layer.feed_forward.contract):
            kept = last.weight.clone()
            last.weight.zero_()
            acting += not torch.allclose(layer(x, memory), whole, atol=1e-3)
            last.weight.copy_(kept)
    return Finding(acting, exactly(3), "sublayers without which the output differs")
