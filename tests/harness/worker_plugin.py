"""Implementations that do right, wrong and worse: what a user's file may do to the worker."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from implementations.registry import Unsupported, implementation

Attend = Callable[[Any], Tensor]

#: Every tensor that a call held when it failed.
HELD: list[weakref.ref[Tensor]] = []


def plain(inputs: Any) -> Tensor:
    scores = inputs.q @ inputs.k.mT / inputs.q.shape[-1] ** 0.5
    found: Tensor = scores.softmax(-1) @ inputs.v
    return found


def register(attend: Attend, exact: bool = True) -> None:
    """Under the function's own name."""
    implementation(attend.__name__, operation="attention", exact=exact, laws={"time": "n^2*d"})(
        lambda problem: attend
    )


def right(inputs: Any) -> Tensor:
    return plain(inputs)


def wrong(inputs: Any) -> Tensor:
    return 1.01 * plain(inputs)


def rough(inputs: Any) -> Tensor:
    return 1.01 * plain(inputs)


def raises(inputs: Any) -> Tensor:
    raise RuntimeError("seven stages do not fit")


def declines(inputs: Any) -> Tensor:
    raise Unsupported("no such length")


def not_a_number(inputs: Any) -> Tensor:
    return plain(inputs) * float("nan")


def greedy(inputs: Any) -> Tensor:
    """Asks for a petabyte, holding a copy of the scores."""
    scores = inputs.q @ inputs.k.mT
    HELD.append(weakref.ref(scores))
    petabyte: Tensor = torch.empty(2**50, dtype=torch.uint8) + scores.sum()
    return petabyte


def greedy_on_cuda(inputs: Any) -> Tensor:
    scores = inputs.q @ inputs.k.mT
    HELD.append(weakref.ref(scores))
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7.00 TiB")


def witness(inputs: Any) -> Tensor:
    """Right, unless a tensor of a failed call is still alive."""
    alive = sum(ref() is not None for ref in HELD)
    if alive or not HELD:
        raise AssertionError(f"{alive} of {len(HELD)} tensors of failed calls are alive")
    return plain(inputs)


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        found: Tensor = scores.softmax(-1) @ v
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        return tuple(2 * torch.ones_like(tensor) for tensor in ctx.saved_tensors)


def wrong_gradient(inputs: Any) -> Tensor:
    found: Tensor = _WrongGradient.apply(inputs.q, inputs.k, inputs.v)  # type: ignore[no-untyped-call]
    return found


def changes_its_inputs(inputs: Any) -> Tensor:
    """Right about what it leaves behind: nothing."""
    inputs.v.data.zero_()
    return torch.zeros_like(inputs.q)


KEPT: dict[int, Tensor] = {}


def keeps_its_answer(inputs: Any) -> Tensor:
    return KEPT.setdefault(inputs.q.data_ptr(), plain(inputs))


def widens(inputs: Any) -> Tensor:
    return plain(inputs).double()


for exact in (right, wrong, raises, declines, not_a_number, greedy, greedy_on_cuda, witness, wrong_gradient,
              changes_its_inputs, keeps_its_answer, widens):  # fmt: skip
    register(exact)
register(rough, exact=False)


@implementation("declines_at_once", operation="attention", exact=True, laws={"time": "n^2*d"})
def declines_at_once(problem: Any) -> Attend:
    """Meets what it cannot do while it prepares."""
    raise Unsupported("no such head_dim")


@implementation(
    "elsewhere",
    operation="attention", exact=True, laws={"time": "n^2*d"},
    available=lambda target: None if target.device == "cuda" else "needs a GPU",
)  # fmt: skip
def elsewhere(problem: Any) -> Attend:
    """For a GPU alone."""
    return right
