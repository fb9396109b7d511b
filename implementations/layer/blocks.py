"""Encoder layers around attentions of the suite, and PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.hidden_states import HiddenStates
from implementations.layer.problem import LayerProblem
from implementations.registry import Reason, Target, implementation
from implementations.transformer.names import PLUGGED, Plugged, refused

if TYPE_CHECKING:
    from torch import Tensor

Run = Callable[[HiddenStates], "Tensor"]
#: Our weights -> torch's; its layer has the three projections in one matrix.
TORCH_NAMES = {
    "attention.output": "self_attn.out_proj",
    "feed_forward.expand": "linear1",
    "feed_forward.contract": "linear2",
    "attention_residual.norm": "norm1",
    "feed_forward_residual.norm": "norm2",
}
PACKED = ("query", "key", "value")
TIME = "batch*n^2*d_model + batch*n*d_model^2"


def _register(plugged: Plugged) -> None:
    time = "batch*n*d_model^2" if plugged.linear else TIME

    def prepare(problem: LayerProblem) -> Run:
        from implementations.transformer import EncoderLayer
        from implementations.transformer.bound import Bound

        return Bound(
            lambda: EncoderLayer(
                problem.d_model, problem.heads, problem.width_inside, attention=plugged.attention,
                norm=problem.norm, activation=problem.activation, causal=problem.causal,
            )
        )  # fmt: skip

    prepare.__doc__ = f"Encoder layer around {plugged.attention}: the suite's own transformer's."
    implementation(
        f"layer_{plugged.short}",
        operation="layer",
        exact=plugged.exact,
        laws={"time": time, "memory": plugged.memory, "depth": plugged.depth},
        available=plugged.available,
        supports=refused(plugged),
    )(prepare)


for _plugged in PLUGGED:
    _register(_plugged)


def _plain(problem: LayerProblem, target: Target) -> Reason:
    return "it is given no mask here, so that it is not causal" if problem.causal else None


@implementation(
    "layer_torch",
    operation="layer",
    exact=True,
    laws={"time": TIME, "memory": "batch*n*d_model", "depth": "1"},
    supports=_plain,
)
def layer_torch(problem: LayerProblem) -> Run:
    """torch.nn.TransformerEncoderLayer, fused when no gradient is taken; W_Q, W_K, W_V are packed first."""
    import torch
    from torch import nn

    from implementations.transformer.bound import Bound

    layer = Bound(
        lambda: nn.TransformerEncoderLayer(
            problem.d_model, problem.heads, problem.width_inside, dropout=0.0, batch_first=True,
            activation=problem.activation, norm_first=problem.norm == "pre",
        )
    )  # fmt: skip

    def run(inputs: HiddenStates) -> Tensor:
        given = inputs.weights
        weights = {
            f"self_attn.in_proj_{kind}": torch.cat([given[f"attention.{name}.{kind}"] for name in PACKED])
            for kind in ("weight", "bias")
        }
        for ours, theirs in TORCH_NAMES.items():
            weights |= {f"{theirs}.{kind}": given[f"{ours}.{kind}"] for kind in ("weight", "bias")}
        done: Tensor = layer(HiddenStates(inputs.x, weights, inputs.grad_output))
        return done

    return run
