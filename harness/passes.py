"""Turning an implementation's function into the pass that is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Run = Callable[[Any], Tensor]
Outputs = tuple[Tensor, tuple[Tensor, ...]]


@dataclass(frozen=True, slots=True)
class Pass:
    """call      what is timed: one pass, its result dropped
    outputs   one pass, returning the output and the gradients (none for a forward pass)"""

    call: Callable[[], object]
    outputs: Callable[[], Outputs]


def bind(pass_: str, run: Run, inputs: Any) -> Pass:
    """The pass of a function over inputs.

    forward           the function under no_grad
    forward_backward  the function, then the gradients by the differentiable inputs
    backward          the gradients alone; the graph is built by the first call and kept
    decode            under no_grad, `inputs.advance()` appends the new tokens, then the function
    """
    if pass_ == "decode":
        return Pass(lambda: _decode(run, inputs), lambda: (_decode(run, inputs), ()))
    if pass_ == "forward":
        return Pass(lambda: _forward(run, inputs), lambda: (_forward(run, inputs), ()))
    for tensor in inputs.differentiable:
        tensor.requires_grad_(True)

    def forward_backward() -> Outputs:
        output = run(inputs)
        return output.detach(), _gradients(output, inputs, keep=False)

    if pass_ == "forward_backward":
        return Pass(forward_backward, forward_backward)
    return Pass(_Backward(run, inputs), forward_backward)


def _forward(run: Run, inputs: Any) -> Tensor:
    with torch.no_grad():
        return run(inputs)


def _decode(run: Run, inputs: Any) -> Tensor:
    with torch.no_grad():
        inputs.advance()
        return run(inputs)


class _Backward:
    """The backward pass alone, over a graph that the first call builds."""

    def __init__(self, run: Run, inputs: Any) -> None:
        self.run, self.inputs = run, inputs
        self.output: Tensor | None = None

    def __call__(self) -> tuple[Tensor, ...]:
        if self.output is None:
            self.output = self.run(self.inputs)
        return _gradients(self.output, self.inputs, keep=True)


def _gradients(output: Tensor, inputs: Any, *, keep: bool) -> tuple[Tensor, ...]:
    gradients: tuple[Tensor, ...] = torch.autograd.grad(
        output, inputs.differentiable, inputs.grad_output, retain_graph=keep
    )
    return gradients
