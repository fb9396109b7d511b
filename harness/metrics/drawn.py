"""What the inputs of a case must hold: drawn anew to fill them, and to see that nobody changed them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from harness.counting.eager import tensors_of


def decoys(problem: Any, device: str) -> Any:
    """Inputs of the same shapes from another seed: whoever keeps an answer to them is found out later."""
    return replace(problem, seed=problem.seed ^ 1).inputs(device)


def fill(inputs: Any, drawn: Any) -> None:
    """Write what was drawn into the very tensors that bound passes and captured graphs hold.

    Through `.data`: a graph that was built on these numbers stays good for its backward pass.
    """
    for tensor, truth in zip(tensors_of(inputs), tensors_of(drawn), strict=True):
        tensor.data.copy_(truth)


def changed(inputs: Any, drawn: Any) -> bool:
    """Whether the inputs hold anything else than what was drawn."""
    pairs = zip(tensors_of(inputs), tensors_of(drawn), strict=True)
    return not all(torch.equal(tensor.detach(), truth) for tensor, truth in pairs)
