"""The attentions that blocks are measured with, and what each makes of a block. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from implementations.attention.problem import AttentionProblem
from implementations.registry import Reason, Target, load, lookup


@dataclass(frozen=True, slots=True)
class Plugged:
    """An attention in a block.

    short   how the block is called after it
    linear  whether its time and memory grow with n, not n²
    memory  the law of the block's peak
    depth   that of its longest chain of operators: sums over keys go chunk by chunk
    """

    short: str
    attention: str
    exact: bool = True
    linear: bool = False
    memory: str = "batch*n*d_model"
    depth: str = "1"

    def available(self, target: Target) -> Reason:
        """Why its attention cannot run there, or None."""
        load("attention")
        return lookup(self.attention).available(target)


SQUARE = "batch*heads*n^2 + batch*n*d_model"
PLUGGED = (
    Plugged("naive", "naive", memory=SQUARE),
    Plugged("math", "sdpa_math", memory=SQUARE),
    Plugged("flash", "sdpa_flash"),
    Plugged("efficient", "sdpa_efficient"),
    Plugged("cudnn", "sdpa_cudnn"),
    Plugged("linear", "linear_elu", exact=False, linear=True, depth="n"),
)


def refused(plugged: Plugged) -> Callable[[Any, Target], Reason]:
    """The `supports` of a block: what its attention says of the problem inside."""

    def supports(problem: Any, target: Target) -> Reason:
        load("attention")
        inside = AttentionProblem(
            seq_len=problem.seq_len, batch=problem.batch, heads=problem.heads, causal=problem.causal,
            head_dim=problem.d_model // problem.heads, dtype=problem.dtype, pass_=problem.pass_,
        )  # fmt: skip
        reason = lookup(plugged.attention).supports(inside, target)
        return f"{plugged.attention}: {reason}" if reason else None

    return supports
