"""The float64 truth of an encoder layer, for the rows that are judged."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from implementations.feedforward.reference import feed_forward
from implementations.hidden_states import HiddenStates, judge
from implementations.layer.problem import LayerProblem
from implementations.multi_head.reference import multi_head, rows_of
from implementations.operation import Errors

EPS = 1e-5


def layer_norm(x: Tensor, weights: Mapping[str, Tensor], part: str) -> Tensor:
    """(x − mean)/√(variance + ε)·γ + β over the channels (Ba et al. 2016)."""
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + EPS).sqrt()
    return scaled * weights[f"{part}_residual.norm.weight"] + weights[f"{part}_residual.norm.bias"]


def encoder_layer(x: Tensor, weights: Mapping[str, Tensor], rows: Tensor, problem: LayerProblem) -> Tensor:
    """(batch, rows, d_model): attention, then feed-forward, each with its residual and LayerNorm."""
    inner = {
        name.removeprefix("feed_forward."): tensor
        for name, tensor in weights.items()
        if name.startswith("feed_forward.")
    }

    def attend(y: Tensor) -> Tensor:
        return multi_head(y, weights, rows, problem.heads, problem.causal, "attention.")

    if problem.norm == "pre":
        x = x[:, rows] + attend(layer_norm(x, weights, "attention"))
        return x + feed_forward(layer_norm(x, weights, "feed_forward"), inner, problem.activation)
    x = layer_norm(x[:, rows] + attend(x), weights, "attention")
    return layer_norm(x + feed_forward(x, inner, problem.activation), weights, "feed_forward")


def judged(
    problem: LayerProblem, inputs: HiddenStates, output: Tensor, gradients: tuple[Tensor, ...]
) -> tuple[Errors, ...]:
    """Errors of the judged rows."""

    def formula(x: Tensor, weights: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        return encoder_layer(x, weights, rows, problem)

    return judge(problem, inputs, output, gradients, formula, rows_of(problem))
