"""Recurrent networks: the suite's own loop, and PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.hidden_states import HiddenStates
from implementations.recurrent.problem import RecurrentProblem
from implementations.registry import Reason, Target, implementation

if TYPE_CHECKING:
    from torch import Tensor

Run = Callable[[HiddenStates], "Tensor"]
#: A chain: as long as the sequence, whatever the hardware.
LAWS = {"time": "batch*n*d_model^2", "memory": "batch*n*d_model", "depth": "n"}


def _rnn_only(problem: RecurrentProblem, target: Target) -> Reason:
    return "it has no gates" if problem.cell != "rnn" else None


@implementation("rnn_loop", operation="recurrent", exact=True, laws=LAWS, supports=_rnn_only)
def rnn_loop(problem: RecurrentProblem) -> Run:
    """h_t = tanh(W_x·x_t + W_h·h_(t−1) + b), one product a token: the suite's own."""
    from implementations.transformer import RecurrentNetwork
    from implementations.transformer.bound import Bound

    network = Bound(lambda: RecurrentNetwork(problem.d_model, problem.d_model))

    def run(inputs: HiddenStates) -> Tensor:
        states: Tensor = network(inputs)[0]
        return states

    return run


@implementation("rnn_torch", operation="recurrent", exact=True, laws=LAWS)
def rnn_torch(problem: RecurrentProblem) -> Run:
    """torch.nn.RNN or torch.nn.GRU."""
    from torch import nn

    from implementations.transformer.bound import Bound

    kind = {"rnn": nn.RNN, "gru": nn.GRU}[problem.cell]
    network = Bound(lambda: kind(problem.d_model, problem.d_model, batch_first=True))
    names = {"input": "ih_l0", "recurrence": "hh_l0"}
    parts = [
        (f"{part}.{kind}", f"{kind}_{name}") for part, name in names.items() for kind in ("weight", "bias")
    ]

    def run(inputs: HiddenStates) -> Tensor:
        weights = {theirs: inputs.weights[ours] for ours, theirs in parts}
        states: Tensor = network(HiddenStates(inputs.x, weights, inputs.grad_output))[0]
        return states

    return run
