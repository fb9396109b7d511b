"""What most people get wrong: weights are similarities and no explanations; they are good for diagnosis."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.verify.claim import Finding, above, below, between, claim, exactly
from implementations.attention.diagnosis import diagnose


def _attention(n: int, d_k: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """q·scale, k and v of one head in float64."""
    q, k, v = (torch.randn(1, 1, n, d_k, dtype=torch.float64) for _ in range(3))
    return q * scale, k, v


@claim("Wrong", "Attention is similarity-weighted retrieval: a query that matches one key gets its value")
def retrieves() -> Finding:
    """Orthogonal keys, each query one of them, sharp: what comes back against the value of that key."""
    from implementations.transformer import scaled_dot_product_attention

    keys, values = torch.eye(16, dtype=torch.float64)[None, None], torch.randn(1, 1, 16, 8).double()
    order = torch.randperm(16)
    found = scaled_dot_product_attention(200 * keys[:, :, order], keys, values)
    return Finding(
        float((found - values[:, :, order]).abs().max()), below(1e-12), "max |Δ| from the values asked for"
    )


@claim("Wrong", "The weights do not follow from the output: other weights give the same")
def weights_are_not_identifiable() -> Finding:
    """Rows of A moved along the null space of [V, 1] (Brunner et al. 2020, §3): still distributions.

    With more keys than d_v + 1 such directions exist. The number is how far the weights move, in total
    variation, while the output stays within 1e-12.
    """
    from implementations.transformer import scaled_dot_product_attention

    q, k, v = _attention(64, 16)
    output, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
    constraints = torch.cat([v[0, 0], torch.ones(64, 1, dtype=torch.float64)], 1)
    null = torch.linalg.qr(constraints, mode="complete").Q[:, constraints.shape[1] :]
    a = weights[0, 0]
    step = torch.randn(64, null.shape[1], dtype=torch.float64) @ null.mT
    room = torch.where(step < 0, a / -step, torch.inf).amin(1, keepdim=True)  # until a weight reaches 0
    other = a + 0.99 * room * step
    moved = float((other - a).abs().sum(1).mean() / 2)
    off = float((other @ v[0, 0] - output[0, 0]).abs().max())
    legal = off < 1e-12 and float(other.min()) >= 0 and float((other.sum(1) - 1).abs().max()) < 1e-12
    return Finding(
        moved if legal else float("nan"), above(0.01), f"mean total variation; outputs differ by {off:.1g}"
    )


@claim("Wrong", "Heads only make sense together: values and W_O can be exchanged without a trace")
def heads_are_not_unique() -> Finding:
    """W_V turned by any matrix and W_O by its inverse: all values change, the output does not."""
    from implementations.transformer import MultiHeadAttention

    module = MultiHeadAttention(32, 4, attention="naive", bias=False).double()
    x = torch.randn(1, 10, 32, dtype=torch.float64)
    with torch.no_grad():
        before, values = module(x), module.value(x)
        for rows in torch.arange(32).chunk(4):
            turn = torch.randn(8, 8, dtype=torch.float64) + 3 * torch.eye(8, dtype=torch.float64)
            module.value.weight[rows] = turn @ module.value.weight[rows]
            module.output.weight[:, rows] = module.output.weight[:, rows] @ torch.linalg.inv(turn)
        off, moved = float((module(x) - before).abs().max()), float((module.value(x) - values).norm())
    relative = moved / float(values.norm())
    return Finding(
        off if relative > 0.5 else float("nan"),
        below(1e-10),
        f"max |Δ| of the output; values moved {relative:.0%}",
    )


@claim("Wrong", "Diagnosis: a head whose queries all look at one key, such as [CLS], is found collapsed")
def finds_collapse() -> Finding:
    """Heads with and without a key that every query matches: how many of eight are diagnosed rightly."""
    from implementations.transformer import scaled_dot_product_attention

    right = 0
    for head in range(8):
        q, k, v = _attention(64, 32)
        if head % 2:
            k[:, :, 0] = 0
            q, k = (
                torch.cat([q, q.new_full((1, 1, 64, 1), 30)], -1),
                torch.cat([k, k.new_zeros(1, 1, 64, 1)], -1),
            )
            k[:, :, 0, -1] = 3
        _, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
        (found,) = diagnose(weights)
        right += found.collapsed == bool(head % 2) and (not head % 2 or found.most_attended == 0)
    return Finding(right, exactly(8), "heads of 8 diagnosed rightly (4 collapsed onto key 0)")


@claim("Wrong", "Diagnosis: heads at their start attend almost uniformly")
def starts_uniform() -> Finding:
    """The lowest entropy of eight untrained heads; 1 is uniform. A diagnosis, not an explanation."""
    from implementations.transformer import MultiHeadAttention

    module = MultiHeadAttention(64, 8)
    with torch.no_grad():
        _, weights = module.with_weights(torch.randn(4, 64, 64))
    found = diagnose(weights)
    words = f"lowest entropy / ln n of 8 heads; largest weight {max(one.top_mass for one in found):.2g}"
    return Finding(min(one.entropy for one in found), between(0.9, 1), words)
