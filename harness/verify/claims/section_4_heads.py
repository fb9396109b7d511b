"""§4: multi-head attention: against PyTorch's, head by head, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from harness.verify.claim import Finding, below, claim, exactly
from harness.verify.counted import counts

#: The document's own example.
BATCH, SEQ_LEN, D_MODEL, HEADS, SEED = 2, 10, 64, 4, 42


@claim("§4", "MultiHeadAttention equals torch.nn.MultiheadAttention with the same weights")
def equals_pytorch() -> Finding:
    """The check of the document's §8, printed as it prints it, at its sizes and from its seed."""
    from implementations.transformer import MultiHeadAttention

    torch.manual_seed(SEED)
    x = torch.randn(BATCH, SEQ_LEN, D_MODEL)
    ours = MultiHeadAttention(D_MODEL, HEADS, bias=False, attention="naive")
    theirs = torch.nn.MultiheadAttention(D_MODEL, HEADS, bias=False, batch_first=True)
    with torch.no_grad():
        # Copied here and not by the product's own loader, so that both would have to be wrong alike.
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        difference = float((ours(x) - theirs(x, x, x, need_weights=False)[0]).abs().max())
    printed = [f"Max absolute difference: {difference:.2e}"]
    if difference < 1e-5:
        printed.append("PASS — implementations are numerically equivalent.")
    else:
        printed.append("FAIL — outputs diverge.")
    return Finding(difference, below(1e-5), "max |Δ|: batch 2, seq 10, d_model 64, 4 heads, seed 42",
                   printed=tuple(printed))  # fmt: skip


@claim("§4", "MultiHead = Concat(head_1, …, head_h)·W_O, each head with its own projections")
def heads_one_by_one() -> Finding:
    """Each head computed by itself in float64 from its columns of W_Q, W_K and W_V."""
    from implementations.transformer import MultiHeadAttention

    module = MultiHeadAttention(D_MODEL, HEADS, attention="naive", bias=False).double()
    x = torch.randn(BATCH, SEQ_LEN, D_MODEL, dtype=torch.float64)
    heads = []
    with torch.no_grad():
        for rows in torch.arange(D_MODEL).chunk(HEADS):
            q, k, v = (x @ part.weight[rows].mT for part in (module.query, module.key, module.value))
            heads.append((q @ k.mT * len(rows) ** -0.5).softmax(-1) @ v)
        expected = torch.cat(heads, -1) @ module.output.weight.mT
        difference = float((module(x) - expected).abs().max())
    return Finding(difference, below(1e-12), "max |Δ| from heads computed one by one, float64")


@claim("§4", "The heads' outputs are added up: W_O mixes them, Σ head_i·W_O_i")
def heads_add_up() -> Finding:
    """Zeroing all columns of W_O but those of one head, and adding what is left, gives the whole."""
    from implementations.transformer import MultiHeadAttention

    module = MultiHeadAttention(D_MODEL, HEADS, attention="naive", bias=False).double()
    x = torch.randn(BATCH, SEQ_LEN, D_MODEL, dtype=torch.float64)
    with torch.no_grad():
        whole, weight = module(x), module.output.weight.clone()
        parts = torch.zeros_like(whole)
        for columns in torch.arange(D_MODEL).chunk(HEADS):
            module.output.weight.zero_()
            module.output.weight[:, columns] = weight[:, columns]
            parts += module(x)
    return Finding(float((whole - parts).abs().max()), below(1e-12), "max |Δ| of the sum over heads, float64")


def _heads(heads: int) -> Callable[[Mapping[str, int]], Callable[[], object]]:
    def make(sizes: Mapping[str, int]) -> Callable[[], object]:
        from implementations.transformer import MultiHeadAttention

        module = MultiHeadAttention(768, heads, attention="naive")
        x = torch.randn(1, sizes["n"], 768)

        def call() -> object:
            with torch.no_grad():
                return module(x)

        return call

    return make


@claim(
    "§4",
    "h heads of width d_model/h cost as much as one head of full width",
    document="loose",
    care="Of matrix products it is exact, and the document says 'comparable'. The softmax is not: every head "
    "has n² weights of its own, so h heads hold and exponentiate h times as many.",
)
def heads_cost_as_one() -> Finding:
    """FLOPs of 12 heads over those of one at d_model 768, n = 512."""
    twelve, one = (counts(_heads(heads), {"n": 512}) for heads in (12, 1))
    more = twelve.exponentials / one.exponentials
    return Finding(
        twelve.flops / one.flops, exactly(1), f"FLOPs of 12 heads over one; exponentials {more:g} times"
    )


@claim("§4", "BERT-base: 768 channels in 12 heads make d_k = d_v = 64")
def bert_base() -> Finding:
    """The width of the queries, keys and values that the module makes."""
    from implementations.transformer import MultiHeadAttention

    projected = MultiHeadAttention(768, 12).project(torch.randn(1, 3, 768))
    widths = {tensor.shape[-1] for tensor in projected}
    number = widths.pop() if len(widths) == 1 else float("nan")
    return Finding(number, exactly(64), "channels of q, k and v in each of 12 heads")
