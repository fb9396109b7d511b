"""A module whose weights are tensors that come with each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from implementations.hidden_states import HiddenStates


class Bound:
    """Calls a module with the weights of its inputs, which stand under the names of its `state_dict`.

    They are put in place once: the tensors of a measured case stay the same. Gradients reach them.
    """

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        with torch.device("meta"):  # its own weights are never used: none are drawn
            self._module = make().eval()
        self._held: dict[str, Tensor] | None = None

    def __call__(self, inputs: HiddenStates) -> Any:
        """The module's output for x."""
        if self._held is not inputs.weights:
            self._place(inputs.weights)
        return self._module(inputs.x)

    def _place(self, weights: dict[str, Tensor]) -> None:
        for name, tensor in weights.items():
            owner, _, leaf = name.rpartition(".")
            self._module.get_submodule(owner)._parameters[leaf] = tensor  # type: ignore[assignment]
        left = [name for name, tensor in self._module.named_parameters() if tensor.is_meta]
        if left:
            raise ValueError(f"no weights were given for {', '.join(left)}")
        self._held = weights
