"""Multi-head attention around attentions of the suite, and PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.hidden_states import HiddenStates
from implementations.multi_head.problem import MultiHeadProblem
from implementations.registry import implementation
from implementations.transformer.names import PLUGGED, Plugged, refused

if TYPE_CHECKING:
    from torch import Tensor

Run = Callable[[HiddenStates], "Tensor"]
TIME = "batch*n^2*d_model + batch*n*d_model^2"


def _register(plugged: Plugged) -> None:
    time = "batch*n*d_model^2" if plugged.linear else TIME

    def prepare(problem: MultiHeadProblem) -> Run:
        from implementations.transformer import MultiHeadAttention
        from implementations.transformer.bound import Bound

        return Bound(
            lambda: MultiHeadAttention(
                problem.d_model, problem.heads, attention=plugged.attention, causal=problem.causal
            )
        )

    prepare.__doc__ = f"Projections and heads around {plugged.attention}: the suite's own transformer's."
    implementation(
        f"multi_head_{plugged.short}",
        operation="multi_head",
        exact=plugged.exact,
        laws={"time": time, "memory": plugged.memory, "depth": plugged.depth},
        available=plugged.available,
        supports=refused(plugged),
    )(prepare)


for _plugged in PLUGGED:
    _register(_plugged)


@implementation(
    "multi_head_torch",
    operation="multi_head",
    exact=True,
    laws={"time": TIME, "memory": "batch*n*d_model", "depth": "1"},
)
def multi_head_torch(problem: MultiHeadProblem) -> Run:
    """torch.nn.functional.multi_head_attention_forward, which chooses its attention itself."""
    import torch
    from torch.nn.functional import multi_head_attention_forward

    def run(inputs: HiddenStates) -> Tensor:
        w = inputs.weights
        hidden = None
        if problem.causal:
            n = problem.seq_len
            hidden = torch.ones(n, n, dtype=torch.bool, device=inputs.x.device).triu(1)
        bias = torch.cat([w[f"{name}.bias"] for name in ("query", "key", "value")])
        x = inputs.x.transpose(0, 1)
        done, _ = multi_head_attention_forward(
            x, x, x, problem.d_model, problem.heads, None, bias, None, None, False, 0.0,
            w["output.weight"], w["output.bias"], training=False, need_weights=False, attn_mask=hidden,
            is_causal=problem.causal, use_separate_proj_weight=True, q_proj_weight=w["query.weight"],
            k_proj_weight=w["key.weight"], v_proj_weight=w["value.weight"],
        )  # fmt: skip
        return done.transpose(0, 1)

    return run
