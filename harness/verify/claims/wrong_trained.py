"""What most people get wrong, on trained weights (an optional extra): heads differ; a diagnosis says how."""

from __future__ import annotations

import statistics

from harness.verify.claim import Curve, Figure, Finding, Unavailable, at_least, claim
from implementations.attention.diagnosis import HeadDiagnosis, diagnose

TOKENS = 128


def _diagnosed() -> list[list[HeadDiagnosis]]:
    """Each head of each layer of the trained encoder on real text. Raises Unavailable without the weights."""
    from implementations.pretrained import activations, minilm
    from implementations.transformer import scaled_dot_product_attention

    if reason := minilm.missing():
        raise Unavailable(reason)
    found = []
    for layer in range(minilm.LAYERS):
        q, k, v = activations.drawn(layer, batch=2, heads=minilm.HEADS, seq_len=TOKENS, seed=0)
        _, weights = scaled_dot_product_attention(q, k, v, return_weights=True)
        found.append(diagnose(weights))
    return found


@claim(
    "Wrong",
    "Diagnosis of a trained encoder: its heads differ widely in entropy",
    document="loose",
    care="That heads 'learn to specialize' (§4) is seen here as a difference in entropy between the heads of "
    "all-MiniLM-L6-v2. It is a diagnosis: it does not tell what a head is for, nor explain an output.",
)
def heads_differ() -> Finding:
    """The range of the entropy over all heads of all layers, with the heads that are collapsed."""
    found = _diagnosed()
    entropies = [one.entropy for layer in found for one in layer]
    collapsed = sum(one.collapsed for layer in found for one in layer)
    first = min(sum(one.most_attended == 0 for one in layer) for layer in found)
    curves = (
        _curve("largest of a layer", [max(one.entropy for one in layer) for layer in found]),
        _curve("median", [statistics.median(one.entropy for one in layer) for layer in found]),
        _curve("smallest of a layer", [min(one.entropy for one in layer) for layer in found]),
    )
    figure = Figure("Entropy of the heads of a trained encoder", "layer, from 1", "entropy / ln n", curves)
    words = (
        f"range over {len(entropies)} heads; {collapsed} collapsed; [CLS] leads in at least {first} a layer"
    )
    return Finding(max(entropies) - min(entropies), at_least(0.2), words, (figure,))


def _curve(name: str, values: list[float]) -> Curve:
    return Curve(name, tuple(float(layer) for layer in range(1, len(values) + 1)), tuple(values))
