"""Run in a process with TRITON_INTERPRET=1: counts of the suite's flash kernel against the mask itself.

The oracle knows nothing of the kernel's loops: a tile of the score matrix is computed where the mask lets a
single pair of it through, and then asks for its rows of K and V, two products and an exponential a score.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace

import torch

from harness.counting.interpreter import InterpreterCounts, count, install_repairs
from implementations.attention import _flash_launch as launch
from implementations.attention._flash_tiles import INTERPRETED, block_d
from implementations.attention.problem import ITEMSIZE, AttentionProblem
from implementations.registry import load, lookup


@dataclass(frozen=True)
class Expected:
    load: dict[str, int]
    store: dict[str, int]
    dot_flops: int
    exp2: int


def expected(problem: AttentionProblem, block_m: int, block_n: int) -> Expected:
    b, d, wide = ITEMSIZE[problem.dtype], problem.head_dim, block_d(problem.head_dim)
    n, m = problem.seq_len, problem.n_keys
    allowed = torch.ones(n, m, dtype=torch.bool)
    if problem.causal:
        allowed = torch.ones(n, m, dtype=torch.bool).tril(problem.causal_offset)
    key_rows = tiles = 0
    for row in range(0, n, block_m):
        for column in range(0, m, block_n):
            if allowed[row : row + block_m, column : column + block_n].any():
                tiles += 1
                key_rows += min(block_n, m - column)
    heads = problem.batch * problem.heads
    return Expected(
        load={name: size for name, size in
              {"Q": heads * n * d * b, "K": heads * key_rows * d * b, "V": heads * key_rows * d * b}.items()
              if size},
        store={"OUT": heads * n * d * b, "LOG_SUM_EXP": heads * n * 4},
        dot_flops=heads * tiles * 4 * block_m * block_n * wide,
        exp2=heads * tiles * (block_m * block_n + block_m),
    )  # fmt: skip


def compare(problem: AttentionProblem, block_m: int, block_n: int) -> None:
    vars(launch)["INTERPRETED"] = replace(INTERPRETED, m=block_m, n=block_n)
    inputs = problem.inputs("cpu")
    attend = lookup("triton_flash").prepare(problem)
    with torch.no_grad():
        counts = count(lambda: attend(inputs))
    right = expected(problem, block_m, block_n)
    assert counts.load_bytes == right.load, (counts.load_bytes, right)
    assert counts.store_bytes == right.store, (counts.store_bytes, right)
    assert counts.dot_flops == right.dot_flops, (counts.dot_flops, right)
    assert counts.elementwise.get("exp2", 0) == right.exp2, (counts.elementwise, right)
    if not problem.causal and problem.seq_len % block_m == 0 == problem.n_keys % block_n:
        closed_forms(problem, block_m, counts)


def closed_forms(problem: AttentionProblem, block_m: int, counts: InterpreterCounts) -> None:
    """Per head, n a multiple of the tiles: load n·d·b + 2·n·m·d·b/BM, store n·d·b + 4n, FLOPs 4·n·m·d."""
    b, d, n, m = ITEMSIZE[problem.dtype], problem.head_dim, problem.seq_len, problem.n_keys
    heads = problem.batch * problem.heads
    assert counts.bytes_loaded == heads * (n * d * b + 2 * n * m * d * b // block_m)
    assert counts.bytes_stored == heads * (n * d * b + 4 * n)
    if d == block_d(d):
        assert counts.dot_flops == heads * 4 * n * m * d


def draw(rng: random.Random) -> tuple[AttentionProblem, int, int]:
    block_m, block_n = rng.choice([16, 32, 64]), rng.choice([16, 32, 64])
    aligned = rng.random() < 0.4
    n = block_m * rng.randint(1, 4) if aligned else rng.randint(1, 150)
    m = block_n * rng.randint(1, 4) if aligned else rng.choice([n, rng.randint(1, 150)])
    kv_heads = rng.choice([1, 2])
    problem = AttentionProblem(
        seq_len=n, kv_len=m, batch=rng.choice([1, 2]), heads=kv_heads * rng.choice([1, 2]), kv_heads=kv_heads,
        head_dim=rng.choice([16, 32, 40, 64]), dtype=rng.choice(["float16", "bfloat16", "float32"]),
        causal=rng.random() < 0.5, alignment=rng.choice(["top_left", "bottom_right"]),
    )  # fmt: skip
    return problem, block_m, block_n


def main(configurations: int) -> None:
    install_repairs()
    load("attention")
    rng = random.Random(20220527)
    for _ in range(configurations):
        problem, block_m, block_n = draw(rng)
        try:
            compare(problem, block_m, block_n)
        except BaseException as error:
            print("FAILED", problem, block_m, block_n, repr(error))
    print("ok", configurations, "configurations")


if __name__ == "__main__":
    main(int(sys.argv[1]))
