"""Any attention of the suite as a function of plain tensors, by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from implementations import registry
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Target, Unsupported

Attend = Callable[[AttentionInputs], Tensor]
#: Shapes whose prepared functions are kept: the steps of a generation are all different.
MOST_KEPT = 64


class PluggedAttention:
    """An implementation of the suite, called with q, k, v; it prepares itself once for each shape.

    Raises registry.UnknownName, which carries the nearest name, for a name that the suite has not.
    """

    def __init__(self, name: str) -> None:
        registry.load("attention")
        self.name, self._implementation = name, registry.lookup(name)
        self._prepared: dict[tuple[Any, ...], Attend] = {}

    def __reduce__(self) -> tuple[type[PluggedAttention], tuple[str]]:
        """Copies and pickles hold the name: prepared functions belong to one process."""
        return type(self), (self.name,)

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Tensor | None = None
    ) -> Tensor:
        """The output, of q's shape.

        q (batch, heads, seq_len, head_dim); k, v (batch, kv_heads, kv_len, head_dim). causal: the last query
        stands at the last key. mask: boolean, broadcastable to (batch, heads, seq_len, kv_len), True where a
        query may look. Raises registry.Unsupported with the reason where the implementation cannot do it.
        """
        kind = "none" if mask is None else ("padding" if mask.shape[-2] == 1 else "boolean")
        backward = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
        key = (q.shape, k.shape, q.dtype, q.device, causal, kind, backward)
        attend = self._prepared.get(key)
        if attend is None:
            attend = self._prepare(q, k, causal, kind, backward)
            if not isinstance(q, FakeTensor):  # what is drawn for fake tensors is fake itself
                self._keep(key, attend)
        return attend(AttentionInputs(q=q, k=k, v=v, grad_output=q, mask=mask))

    def _prepare(self, q: Tensor, k: Tensor, causal: bool, kind: Any, backward: bool) -> Attend:
        batch, heads, seq_len, head_dim = q.shape
        problem = AttentionProblem(
            seq_len=seq_len, batch=batch, heads=heads, kv_heads=k.shape[1], head_dim=head_dim,
            kv_len=k.shape[2], dtype=str(q.dtype).removeprefix("torch."), causal=causal, mask=kind,
            pass_="forward_backward" if backward else "forward",
        )  # fmt: skip
        reason = self._implementation.reason_against(problem, self._target(q.device))
        if reason:
            raise Unsupported(f"{self.name}: {reason}")
        return self._implementation.prepare(problem)

    def _target(self, device: torch.device) -> Target:
        capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
        interpreting = os.environ.get("TRITON_INTERPRET") == "1"
        interpreted = interpreting and self._implementation.runs_interpreted(device.type)
        return Target(device.type, capability, interpreted)

    def _keep(self, key: tuple[Any, ...], attend: Attend) -> None:
        if len(self._prepared) >= MOST_KEPT:
            self._prepared.clear()
        self._prepared[key] = attend
