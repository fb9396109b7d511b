"""§3: scores, scaling and softmax. Statistics of normal draws against what theory says of them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from scipy.stats import norm
from torch import Tensor

from harness.verify.claim import Curve, Figure, Finding, at_least, below, between, claim

#: Head dimensions of the sweeps, and keys per query.
DIMENSIONS = (16, 32, 64, 128, 256, 512, 1024)
KEYS = 128
DRAWS = 100_000
SWEPT_DRAWS = 20_000
#: How improbable a draw must be to count against a claim, over all its tests together.
LEVEL = 0.001


def dot_products(d_k: int, draws: int = DRAWS) -> Tensor:
    """(draws,) products q·k of standard normal vectors in float64."""
    q, k = (torch.randn(draws, d_k) for _ in range(2))
    return (q * k).sum(-1, dtype=torch.float64)


def allowed_deviation(d_k: int, draws: int, tests: int = 1) -> float:
    """Half-width of the interval that s²/σ² of q·k leaves with probability LEVEL over so many tests.

    A product of two standard normals has fourth moment 9, so q·k has an excess kurtosis of 6/d_k and
    Var(s²) = σ⁴·(2 + 6/d_k)/n (the variance of a sample variance, e.g. Casella & Berger, §7.3).
    """
    z = norm.ppf(1 - LEVEL / (2 * tests))
    return float(z * math.sqrt((2 + 6 / d_k) / draws))


@claim("§3", "Unscaled, the variance of q·k at d_k = 64 is 64")
def variance_at_64() -> Finding:
    """An interval test: chance alone leaves the interval once in a thousand seeds."""
    spread = 64 * allowed_deviation(64, DRAWS)
    bound = between(64 - spread, 64 + spread)
    return Finding(float(dot_products(64).var()), bound, f"sample variance of {DRAWS:,} products q·k")


@claim("§3", "Var(q·k) = d_k at every d_k from 16 to 1024")
def variance_is_d_k() -> Finding:
    """The worst of the sweep, in units of what chance allows."""
    worst = max(_deviation(float(dot_products(d, SWEPT_DRAWS).var()) / d, d) for d in DIMENSIONS)
    return Finding(worst, below(1.0), f"largest deviation over {len(DIMENSIONS)} d_k; chance allows 1")


@claim("§3", "Divided by √d_k, the variance of the scores is 1")
def scaled_variance_is_one() -> Finding:
    """The scores of the product's own attention, not the formula: the log of ratios of its weights."""
    from implementations.transformer import scaled_dot_product_attention

    worst = 0.0
    for d_k in DIMENSIONS:
        # Two keys, one of them 0: the log-odds of the weights are the scaled score of the other.
        q, k = (torch.randn(1, SWEPT_DRAWS, 1, d_k, dtype=torch.float64) for _ in range(2))
        keys = torch.cat([k, torch.zeros_like(k)], dim=2)
        _, weights = scaled_dot_product_attention(q, keys, keys, return_weights=True)
        scores = (weights[..., 0] / weights[..., 1]).log()
        worst = max(worst, _deviation(float(scores.var()), d_k))
    return Finding(worst, below(1.0), f"largest deviation over {len(DIMENSIONS)} d_k; chance allows 1")


def _deviation(ratio: float, d_k: int) -> float:
    """How far a variance, over what it should be, is from 1, in units of what chance allows in the sweep."""
    return abs(ratio - 1) / allowed_deviation(d_k, SWEPT_DRAWS, len(DIMENSIONS))


@claim(
    "§3",
    "The magnitude of q·k grows as √d_k",
    document="loose",
    care="The document lets dot products 'grow in magnitude proportional to d_k', each term contributing "
    "'~1 in expectation'. A term has expectation 0 and variance 1: the variance is proportional to d_k, the "
    "magnitude to its square root, which is what the division by √d_k undoes.",
)
def magnitude_grows_as_root() -> Finding:
    """The exponent of the root mean square over the sweep."""
    rms = [float(dot_products(d, SWEPT_DRAWS).square().mean().sqrt()) for d in DIMENSIONS]
    exponent = _slope([math.log(d) for d in DIMENSIONS], [math.log(r) for r in rms])
    curve = Curve("root mean square of q·k", tuple(map(float, DIMENSIONS)), tuple(rms))
    figure = Figure("Magnitude of dot products", "d_k", "root mean square", (curve,), log_y=True)
    return Finding(exponent, between(0.49, 0.51), "slope of ln rms(q·k) in ln d_k", (figure,))


def _slope(xs: list[float], ys: list[float]) -> float:
    x, y = (torch.tensor(values, dtype=torch.float64) for values in (xs, ys))
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


@claim("§3", "At d_k = 64 unscaled scores range over something like [−40, 40]")
def range_at_64() -> Finding:
    """The largest of the scores of 512 queries and 512 keys."""
    scores = torch.randn(512, 64) @ torch.randn(512, 64).mT
    return Finding(float(scores.abs().max()), between(30, 50), "max |q·k| over 512 × 512 pairs")


def saturation() -> Mapping[str, Mapping[int, tuple[float, float, float]]]:
    """For scaled and unscaled scores: d_k -> (entropy / ln keys, largest weight, gradient norm) of softmax.

    Means over the rows of entropy and largest weight; the median over rows of the Frobenius norm of
    ∂softmax/∂scores, diag(a) − a·aᵀ. The scores are those of KEYS normal queries and keys.
    """
    found: dict[str, dict[int, tuple[float, float, float]]] = {"scaled": {}, "unscaled": {}}
    for d_k in DIMENSIONS:
        scores = (torch.randn(KEYS, d_k) @ torch.randn(KEYS, d_k).mT).double()
        for name, divisor in (("scaled", math.sqrt(d_k)), ("unscaled", 1.0)):
            a = (scores / divisor).softmax(-1)
            entropy = -(torch.special.xlogy(a, a)).sum(-1).mean() / math.log(KEYS)
            squares = a.square().sum(-1)
            jacobian = (squares - 2 * a.pow(3).sum(-1) + squares.square()).clamp_min(0).sqrt()
            found[name][d_k] = (float(entropy), float(a.amax(-1).mean()), float(jacobian.median()))
    return found


def _curves(title: str, y_label: str, place: int, log_y: bool = False) -> Figure:
    found = saturation()
    curves = tuple(
        Curve(f"{name} scores", tuple(map(float, by_d)), tuple(seen[place] for seen in by_d.values()))
        for name, by_d in found.items()
    )
    return Figure(title, "d_k", y_label, curves, log_y)


@claim("§3", "Unscaled, softmax saturates: most weight goes to one position (d_k = 64)")
def saturates() -> Finding:
    """The mean over rows of the largest weight."""
    figure = _curves("Largest attention weight of a row", "mean largest weight", 1)
    by_d = dict(zip(figure.curves[1].xs, figure.curves[1].ys, strict=True))
    return Finding(by_d[64.0], at_least(0.5), f"mean largest weight of {KEYS} keys", (figure,))


@claim("§3", "Unscaled, the gradients of softmax vanish as d_k grows to 1024")
def gradients_vanish() -> Finding:
    """How far the gradient falls below that of scaled scores at the widest heads."""
    figure = _curves("Gradient of softmax", "median ‖∂softmax‖", 2, log_y=True)
    scaled, unscaled = (curve.ys[-1] for curve in figure.curves)
    return Finding(unscaled / scaled, below(0.05), "‖∂softmax‖ unscaled over scaled, median row", (figure,))


@claim("§3", "Scaled, the entropy of the weights does not depend on d_k")
def scaled_entropy_is_steady() -> Finding:
    """The largest relative difference of entropies over the sweep."""
    figure = _curves("Entropy of attention weights", "mean entropy / ln keys", 0)
    entropies = figure.curves[0].ys
    spread = (max(entropies) - min(entropies)) / max(entropies)
    return Finding(spread, below(0.05), "spread of the entropy, d_k 16 to 1024", (figure,))
