"""Which ATen operators a call really runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class _Spy(TorchDispatchMode):
    """Collects the names of dispatched operators in order, once each."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[f"{func.namespace}::{func._opname}"] = None
        return func(*args, **(kwargs or {}))


def operators(call: Callable[[], object]) -> tuple[str, ...]:
    """The operators of one call, in order, once each, e.g. ("aten::bmm", "aten::_softmax")."""
    with _Spy() as spy:
        call()
    return tuple(spy.names)
