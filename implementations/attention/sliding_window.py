"""Attention to what is near: the oldest approximation, and the one that is deployed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from implementations.attention.problem import AttentionInputs, AttentionProblem, takes
from implementations.registry import implementation

if TYPE_CHECKING:
    from torch import Tensor

#: Keys before a query and, without the causal rule, as many after it, its own included.
WINDOW = 256
#: `sliding_window:64` and so on.
OTHERS = (64, 128, 512, 1024)


def _prepare(problem: AttentionProblem, window: int = WINDOW) -> Callable[[AttentionInputs], Tensor]:
    from implementations.attention._blocks import narrowed, windowed_attention

    seen = narrowed(problem, window)

    def attend(inputs: AttentionInputs) -> Tensor:
        return windowed_attention(seen, inputs)

    return attend


@implementation(
    "sliding_window",
    operation="attention",
    exact=False,
    laws={
        "time": "batch*heads*n*d",
        "memory": "batch*heads*n*d",
        "bytes": "batch*heads*n + batch*heads*n*d",
    },
    supports=takes("padding", "window", "lengths"),
    variants={str(window): functools.partial(_prepare, window=window) for window in OTHERS},
)
def sliding_window(problem: AttentionProblem) -> Callable[[AttentionInputs], Tensor]:
    """Softmax over the 256 nearest keys alone (Beltagy et al. 2020, Longformer), in blocks.

    What a problem with `window` = w asks of everyone, and exact implementations then compute, is here the
    approximation: of a problem without one it computes the answer to the same problem with a window of 256
    (`sliding_window:64` of 64 …), in time n·w·d. Of a problem with a smaller window it is exact.
    """
    return _prepare(problem)
