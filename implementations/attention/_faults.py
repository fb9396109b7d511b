"""What a problem can get wrong, in words that begin with the axis at fault."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from implementations.attention.problem import AttentionProblem

#: The encoder that activations come from (implementations/pretrained/minilm.py), known without loading it.
ENCODER_LAYERS, ENCODER_HEADS, ENCODER_HEAD_DIM = 6, 12, 32


def fault(problem: AttentionProblem, dtypes: Collection[str]) -> str | None:
    """What is wrong with a problem, beginning with the axis at fault, or None."""
    for name in ("seq_len", "batch", "heads", "kv_heads", "head_dim", "kv_len", "window"):
        size = getattr(problem, name)
        if size is not None and size < 1:
            return f"{name}: must be at least 1, got {size}"
    if problem.heads % problem.n_kv_heads:
        return (
            f"kv_heads: {problem.heads} query heads are not divisible by {problem.kv_heads} "
            "key/value heads; use a divisor of heads"
        )
    if problem.dtype not in dtypes:
        return f"dtype: {problem.dtype!r} is not one of {', '.join(dtypes)}"
    if not math.isfinite(problem.input_scale):
        return f"input_scale: must be a finite number, got {problem.input_scale}"
    if problem.distribution == "ar1" and problem.seq_len != problem.n_keys:
        return (
            "distribution: ar1 draws each query from the key of its token; it needs kv_len equal to seq_len"
        )
    if problem.distribution == "activations" and (found := _fault_of_activations(problem)):
        return found
    if problem.pass_ == "decode" and problem.seq_len > problem.n_keys:
        return (
            f"kv_len: the cache of {problem.n_keys} is to hold the {problem.seq_len} new tokens as well; "
            "use a kv_len of at least seq_len"
        )
    return None if problem.lengths is None else _fault_of_lengths(problem)


def _fault_of_activations(problem: AttentionProblem) -> str | None:
    if problem.layer is None or not 0 <= problem.layer < ENCODER_LAYERS:
        return (
            f"layer: activations are those of one layer of an encoder, 0 to {ENCODER_LAYERS - 1}, "
            f"not {problem.layer}; give it as an axis, as in layer: [0, 3, 5]"
        )
    if problem.head_dim != ENCODER_HEAD_DIM:
        return (
            f"head_dim: activations have {ENCODER_HEAD_DIM} channels in each head, not {problem.head_dim}; "
            f"use head_dim: {ENCODER_HEAD_DIM}"
        )
    if problem.heads > ENCODER_HEADS:
        return f"heads: activations have {ENCODER_HEADS} heads, not {problem.heads}; use as many at most"
    if problem.n_kv_heads != problem.heads:
        return "kv_heads: activations have a key and a value for each query head; leave kv_heads out"
    if problem.seq_len != problem.n_keys:
        return "kv_len: activations have a query and a key for each token; leave kv_len out"
    return None


def _fault_of_lengths(problem: AttentionProblem) -> str | None:
    lengths = str(problem.lengths)
    if not re.fullmatch(r"[1-9][0-9]*(\+[1-9][0-9]*)*", lengths):
        return f"lengths: write whole numbers from 1 joined by +, as in 100+37+512, not {lengths!r}"
    total = sum(map(int, lengths.split("+")))
    if (problem.seq_len, problem.n_keys) != (total, total):
        return f"lengths: {lengths} are {total} tokens; leave seq_len and kv_len out"
    if problem.batch != 1:
        return f"lengths: packed sequences lie in one row; use a batch of 1, not {problem.batch}"
    if problem.pass_ == "decode":
        return "lengths: decode has one cache of one length; leave lengths out"
    if problem.mask != "none":
        return "lengths: packed sequences have no padding and no mask besides; use a mask of none"
    return None
