"""Run in a process with TRITON_INTERPRET=1: what one more tile costs each flash kernel.

Arguments are tiles as "64x32x128": queries × keys × head_dim. Prints one JSON object: tile -> kernel -> what
a further tile of the streamed side adds, in FLOPs and in bytes of the two tensors it streams.
"""

from __future__ import annotations

import json
import sys

from harness import passes
from harness.counting.interpreter import InterpreterCounts, count, install_repairs
from implementations.attention._flash_tiles import STREAMED, Kind
from implementations.attention.problem import AttentionProblem, Pass
from implementations.registry import load, lookup


def counted(problem: AttentionProblem, m: int, n: int) -> InterpreterCounts:
    bound = passes.bind(
        problem.pass_, lookup(f"triton_flash:{m}x{n}").prepare(problem), problem.inputs("cpu")
    )
    if problem.pass_ == "backward":
        bound.call()  # builds the graph
    return count(bound.call)


def one_more(m: int, n: int, d: int, pass_: Pass) -> InterpreterCounts:
    """Counts with two tiles of keys less those with one; the queries are one tile."""
    one, two = (
        AttentionProblem(seq_len=m, kv_len=keys, heads=1, head_dim=d, dtype="float16", pass_=pass_)
        for keys in (n, 2 * n)
    )
    return difference(counted(two, m, n), counted(one, m, n))


def difference(more: InterpreterCounts, less: InterpreterCounts) -> InterpreterCounts:
    loads = {name: size - less.load_bytes.get(name, 0) for name, size in more.load_bytes.items()}
    fields = {name: getattr(more, name) for name in InterpreterCounts.__dataclass_fields__}
    return InterpreterCounts(**{**fields, "load_bytes": loads, "dot_flops": more.dot_flops - less.dot_flops})


def tile(m: int, n: int, d: int) -> dict[Kind, tuple[int, int]]:
    forward, backward = one_more(m, n, d, "forward"), one_more(m, n, d, "backward")
    streamed = sum(forward.load_bytes[name] for name in STREAMED["forward"])
    # A further tile of keys is one more step of the kernel that owns queries, and one program of the other,
    # which takes a single step: 3 and 4 of the 7 products that the two kernels issue for a tile.
    products = backward.dot_flops // 7
    keys = sum(backward.load_bytes[name] for name in STREAMED["keys"])
    return {
        "forward": (forward.dot_flops, streamed),
        "queries": (3 * products, streamed),
        "keys": (4 * products, keys),
    }


if __name__ == "__main__":
    install_repairs()
    load("attention")
    shapes = {text: tuple(map(int, text.split("x"))) for text in sys.argv[1:]}
    print(json.dumps({text: tile(*shape) for text, shape in shapes.items()}))
