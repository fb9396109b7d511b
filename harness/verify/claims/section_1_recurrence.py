"""§1: what recurrence costs: a chain of dependent operations, and a state of fixed size."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from harness.counting.certificates import certify
from harness.counting.eager import count
from harness.counting.polynomial import Sizes
from harness.verify.claim import Curve, Figure, Finding, at_least, at_most, below, claim, exactly
from harness.verify.counted import certified, counts

LENGTHS = (8, 16, 32, 48, 96)
WIDTH = 16


def _recurrence(sizes: Mapping[str, int]) -> Callable[[], object]:
    from implementations.transformer import RecurrentNetwork

    return _quietly(RecurrentNetwork(WIDTH, WIDTH), torch.randn(1, sizes["n"], WIDTH))


def _attention(sizes: Mapping[str, int]) -> Callable[[], object]:
    from implementations.transformer import MultiHeadAttention

    return _quietly(MultiHeadAttention(WIDTH, 2, attention="naive"), torch.randn(1, sizes["n"], WIDTH))


def _quietly(module: torch.nn.Module, x: Tensor) -> Callable[[], object]:
    def call() -> object:
        with torch.no_grad():
            return module(x)

    return call


@claim("§1", "Recurrence is a chain of dependent operations that grows linearly: a·n + b")
def recurrence_is_a_chain() -> Finding:
    """The power of n in the longest chain of the traced graph."""
    found = certified(_recurrence, "depth", {"n": LENGTHS})
    return Finding(found.exponent(), exactly(1), f"longest chain of operations = {found.polynomial}")


@claim("§1", "A sequence of length 512 takes at least 512 operations one after another")
def chain_of_512() -> Finding:
    """The longest chain at n = 512."""
    depth = counts(_recurrence, {"n": 512}).depth
    return Finding(depth, at_least(512), "longest chain of the recurrence at n = 512, counted")


@claim("§1", "Attention is a chain of the same length for every n")
def attention_is_constant() -> Finding:
    """The power of n in the longest chain of multi-head attention."""
    found = certified(_attention, "depth", {"n": LENGTHS})
    return Finding(
        found.exponent(), exactly(0), f"longest chain of multi-head attention = {found.polynomial}"
    )


def reached(output: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """(outputs, tokens): ‖∂output/∂x‖ of each output token by each input token; output: (1, n, d) → same."""
    jacobian: Tensor = torch.autograd.functional.jacobian(output, x)  # (1, n, d, 1, n, d)
    return jacobian[0, :, :, 0].pow(2).sum((1, 3)).sqrt()


@claim("§1", "In one attention layer every token reaches every other directly")
def everyone_reaches_everyone() -> Finding:
    """The share of (output, input) pairs with a gradient, in float64."""
    from implementations.transformer import MultiHeadAttention

    module = MultiHeadAttention(WIDTH, 2, attention="naive").double()
    found = reached(module, torch.randn(1, 24, WIDTH, dtype=torch.float64))
    return Finding(float((found > 0).double().mean()), exactly(1), "share of pairs with ∂output/∂input ≠ 0")


@claim("§1", "The state that recurrence hands on has the same size for every n")
def state_is_constant() -> Finding:
    """How many sizes the state has over the lengths."""
    from implementations.transformer import RecurrentNetwork

    module = RecurrentNetwork(WIDTH, 32)
    sizes = {module(torch.randn(1, n, WIDTH))[1].numel() for n in LENGTHS}
    held = ", ".join(map(str, sorted(sizes)))
    return Finding(len(sizes), exactly(1), f"different sizes over n = 8 to 96; numbers held: {held}")


@claim("§1", "The bottleneck: all that later tokens see of earlier ones passes through the state")
def bottleneck() -> Finding:
    """Rank of ∂(eight later outputs)/∂(40 earlier inputs), beside that of attention, which has no state."""
    from implementations.transformer import MultiHeadAttention, RecurrentNetwork

    recurrent, attention = RecurrentNetwork(WIDTH, WIDTH), MultiHeadAttention(WIDTH, 2, attention="naive")
    x = torch.randn(1, 48, WIDTH, dtype=torch.float64)
    recurrent, attention = recurrent.double(), attention.double()
    ranks = [_rank(lambda inputs: recurrent(inputs)[0], x, 40), _rank(attention, x, 40)]
    words = f"rank over {40 * WIDTH} inputs, state of {WIDTH}; attention {ranks[1]}"
    return Finding(ranks[0], at_most(WIDTH), words)


def _rank(module: Callable[[Tensor], Tensor], x: Tensor, early: int) -> int:
    """The rank of what tokens from `early` on make of those before."""

    def later(first: Tensor) -> Tensor:
        return module(torch.cat([first, x[:, early:]], 1))[:, early:]

    jacobian = torch.autograd.functional.jacobian(later, x[:, :early], vectorize=True)
    return int(torch.linalg.matrix_rank(jacobian.reshape((x.shape[1] - early) * WIDTH, -1)))


@claim(
    "§1",
    "What token 12 does to the state at token 400 is lost in an untrained RNN",
    document="loose",
    care="To the document the state 'literally cannot hold enough information' to connect position 400 to "
    "position 12. 512 numbers can hold one token; what is lost is its influence, which fades with "
    "the distance unless training (or a gate) keeps it. Attention has no such distance.",
)
def influence_fades() -> Finding:
    """‖∂h_400/∂x_12‖ over ‖∂h_400/∂x_400‖, beside the same of attention."""
    from implementations.transformer import MultiHeadAttention, RecurrentNetwork

    x = torch.randn(1, 400, WIDTH, dtype=torch.float64)
    recurrent, attention = (
        RecurrentNetwork(WIDTH, WIDTH).double(),
        MultiHeadAttention(WIDTH, 2, attention="naive").double(),
    )
    by_rnn = _influence(lambda inputs: recurrent(inputs)[1], x)
    by_attention = _influence(lambda inputs: attention(inputs)[:, -1], x)
    places = tuple(float(400 - place) for place in range(0, 400, 4))
    curves = tuple(
        Curve(name, places, tuple(float(found[place] / found[-1]) for place in range(0, 400, 4)))
        for name, found in (("recurrence", by_rnn), ("attention", by_attention))
    )
    figure = Figure("Influence of a token on the last output", "tokens back", "‖∂‖ over the last token's",
                    curves, log_y=True)  # fmt: skip
    far = f"attention {float(by_attention[11] / by_attention[-1]):.2g}"
    return Finding(float(by_rnn[11] / by_rnn[-1]), below(1e-6), f"relative influence over 388 steps; {far}",
                   (figure,))  # fmt: skip


def _influence(last: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """(n,): ‖∂last/∂x_t‖ of each token; last: (1, n, d) → (1, width)."""
    jacobian: Tensor = torch.autograd.functional.jacobian(last, x)
    return jacobian.pow(2).sum((0, 1, 2, 4)).sqrt()


@claim(
    "§1",
    "Generation stays sequential: each token needs the one before it",
    document="loose",
    care="'Parallelism is fully restored' and 'processes all tokens simultaneously' hold for reading and for "
    "training; a decoder that generates n tokens is a chain of n steps again.",
)
def generation_is_a_chain() -> Finding:
    """The power of the steps in the longest chain of greedy generation, traced as it runs."""
    from implementations.transformer import Decoder, LanguageModel, greedy_generate

    model = LanguageModel(11, WIDTH, Decoder(1, WIDTH, 2, WIDTH, reads_memory=False, attention="naive"))
    prompt = torch.zeros(1, 1, dtype=torch.long)

    def depth(n: int) -> int:
        return count(lambda: greedy_generate(model, prompt, n, use_cache=False)).depth

    depths: dict[Sizes, int] = {(n,): depth(n) for n in (4, 8, 12, 16, 24)}
    found = certify("", "depth", "1", ["n"], depths)
    return Finding(found.exponent(), exactly(1), f"longest chain for n new tokens = {found.polynomial}")
