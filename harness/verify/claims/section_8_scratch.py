"""§8: what the document's own code leaves open."""

from __future__ import annotations

import torch

from harness.verify.claim import Finding, below, claim, exactly


@claim("§8", "A mask hides what is 0 in it: the output is that of the keys that are left")
def mask_hides() -> Finding:
    """Attention with masked keys against attention over the other keys alone, in float64."""
    from implementations.transformer import scaled_dot_product_attention

    q, k, v = (torch.randn(2, 3, 7, 8, dtype=torch.float64) for _ in range(3))
    seen = torch.tensor([True, False, True, True, False, True, False])
    masked = scaled_dot_product_attention(q, k, v, mask=seen.expand(7, 7))
    alone = scaled_dot_product_attention(q, k[:, :, seen], v[:, :, seen])
    return Finding(float((masked - alone).abs().max()), below(1e-12), "max |Δ| from attention without them")


@claim(
    "§8",
    "A query that may look nowhere gets the output 0 and finite gradients",
    document="wrong",
    care="The document's code fills its row with −∞, and softmax makes NaN of it, in the output and in every "
    "gradient. Padding on the left of a causal sequence does that.",
)
def blind_rows() -> Finding:
    """What is not 0 or not finite: elements of the blind row's output and of all gradients."""
    from implementations.transformer import scaled_dot_product_attention

    q, k, v = (torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3))
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    mask[0] = False
    output = scaled_dot_product_attention(q, k, v, mask=mask)
    gradients = torch.autograd.grad(output.sum(), (q, k, v))
    wrong = int((output[:, :, 0] != 0).sum()) + sum(int((~g.isfinite()).sum()) for g in (output, *gradients))
    return Finding(wrong, exactly(0), "elements that are not 0, or not finite")


@claim("§8", "d_model that heads do not divide is refused, in words")
def heads_divide() -> Finding:
    """The document's `assert`, as an error that names the sizes."""
    from implementations.transformer import MultiHeadAttention

    refused = 0
    for d_model, heads in ((10, 3), (64, 5), (8, 16)):
        try:
            MultiHeadAttention(d_model, heads)
        except ValueError as error:
            refused += str(d_model) in str(error)
    return Finding(refused, exactly(3), "refused of 3 that do not divide")
