"""Forward, backward and both, against gradients worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from harness.passes import bind


@dataclass(frozen=True)
class Inputs:
    x: Tensor
    y: Tensor
    grad_output: Tensor

    @property
    def differentiable(self) -> tuple[Tensor, ...]:
        return self.x, self.y


@pytest.fixture
def inputs() -> Inputs:
    return Inputs(torch.tensor([2.0, 3.0]), torch.tensor([5.0, 7.0]), torch.tensor([1.0, 10.0]))


class Counted:
    """x·y, counting how often it ran."""

    runs = 0

    def __call__(self, inputs: Inputs) -> Tensor:
        self.runs += 1
        return inputs.x * inputs.y


def test_forward_builds_no_graph(inputs: Inputs) -> None:
    run = Counted()
    output, gradients = bind("forward", run, inputs).outputs()
    assert output.tolist() == [10.0, 21.0]
    assert gradients == ()
    assert not output.requires_grad


def test_decoding_appends_before_it_attends_and_builds_no_graph() -> None:
    order: list[str] = []

    class Cached(Inputs):
        def advance(self) -> None:
            order.append("append")

    def run(inputs: Inputs) -> Tensor:
        order.append("attend")
        return inputs.x * inputs.y

    x, y = torch.tensor([2.0], requires_grad=True), torch.tensor([5.0])
    bound = bind("decode", run, Cached(x, y, torch.tensor([1.0])))
    output, gradients = bound.outputs()
    bound.call()
    assert order == ["append", "attend"] * 2
    assert output.tolist() == [10.0]
    assert not output.requires_grad
    assert gradients == ()


@pytest.mark.parametrize("pass_", ["backward", "forward_backward"])
def test_gradients(inputs: Inputs, pass_: str) -> None:
    output, (by_x, by_y) = bind(pass_, Counted(), inputs).outputs()
    assert output.tolist() == [10.0, 21.0]
    assert not output.requires_grad
    assert by_x.tolist() == [5.0, 70.0]
    assert by_y.tolist() == [2.0, 30.0]
    assert inputs.x.grad is None  # nothing accumulates from call to call


def test_what_is_timed(inputs: Inputs) -> None:
    runs = {"forward": 3, "forward_backward": 3, "backward": 1}  # backward alone keeps its graph
    for pass_, expected in runs.items():
        run = Counted()
        call = bind(pass_, run, inputs).call
        for _ in range(3):
            call()
        assert run.runs == expected
