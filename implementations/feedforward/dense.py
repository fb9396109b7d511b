"""Feed-forward networks on PyTorch's matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.feedforward.problem import FeedForwardProblem
from implementations.hidden_states import HiddenStates
from implementations.registry import implementation

if TYPE_CHECKING:
    from torch import Tensor

Run = Callable[[HiddenStates], "Tensor"]
TIME = "batch*n*d_model*d_ff"
BYTES = "batch*n*d_model + batch*n*d_ff + d_model*d_ff"
#: Tokens that the chunked network holds inside at once.
CHUNK = 256


@implementation(
    "ffn",
    operation="feedforward",
    exact=True,
    laws={"time": TIME, "memory": "batch*n*d_ff", "bytes": BYTES, "depth": "1"},
)
def ffn(problem: FeedForwardProblem) -> Run:
    """act(x·W_1 + b_1)·W_2 + b_2 as a module of linear layers: the suite's own transformer's."""
    from implementations.transformer import FeedForward
    from implementations.transformer.bound import Bound

    return Bound(lambda: FeedForward(problem.d_model, problem.d_ff, activation=problem.activation))


@implementation(
    "ffn_plain",
    operation="feedforward",
    exact=True,
    laws={"time": TIME, "memory": "batch*n*d_ff", "bytes": BYTES, "depth": "1"},
)
def ffn_plain(problem: FeedForwardProblem) -> Run:
    """The same operator by operator: each product, bias and activation writes a tensor of its own."""
    from torch.nn.functional import gelu, silu

    def run(inputs: HiddenStates) -> Tensor:
        w = inputs.weights
        inside = inputs.x @ w["expand.weight"].mT + w["expand.bias"]
        if problem.activation == "swiglu":
            inside = silu(inside) * (inputs.x @ w["gate.weight"].mT + w["gate.bias"])
        else:
            inside = inside.relu() if problem.activation == "relu" else gelu(inside)
        return inside @ w["contract.weight"].mT + w["contract.bias"]

    return run


@implementation(
    "ffn_chunked",
    operation="feedforward",
    exact=True,
    laws={"time": TIME, "memory": "batch*n*d_model"},
)
def ffn_chunked(problem: FeedForwardProblem) -> Run:
    """256 tokens at a time: no token needs another, so that n·d_ff never exists at once (forward only)."""
    from implementations.transformer import FeedForward
    from implementations.transformer.bound import Bound

    whole = Bound(lambda: FeedForward(problem.d_model, problem.d_ff, activation=problem.activation))

    def run(inputs: HiddenStates) -> Tensor:
        import torch

        tokens = inputs.x.flatten(0, 1)
        done = torch.empty_like(tokens)
        for start in range(0, len(tokens), CHUNK):
            some = slice(start, start + CHUNK)
            done[some] = whole(HiddenStates(tokens[some], inputs.weights, inputs.grad_output))
        return done.view_as(inputs.x)

    return run
