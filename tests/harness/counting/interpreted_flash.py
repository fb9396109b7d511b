"""Run in a process with TRITON_INTERPRET=1: counts of the suite's flash kernel against the mask itself.

The oracle knows nothing of the kernel's loops: a tile of the score matrix is computed where the mask lets a
single pair of it through, and then asks for its rows of K and V, two products and an exponential a score.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace

import torch

from harness import passes
from harness.counting import io_claim
from harness.counting.interpreter import InterpreterCounts, count, install_repairs
from implementations.attention import _flash_launch as launch
from implementations.attention._flash_tiles import INTERPRETED, block_d
from implementations.attention.problem import ITEMSIZE, AttentionProblem, Pass
from implementations.registry import load, lookup


@dataclass(frozen=True)
class Expected:
    """Bytes by the kernels' argument names, FLOPs and exponentials."""

    load: dict[str, int]
    store: dict[str, int]
    dot_flops: int
    exp2: int


@dataclass(frozen=True)
class Tiles:
    """Tiles that the mask lets a pair through, over batch and query heads; rows summed over those tiles."""

    tiles: int
    query_rows: int
    key_rows: int


def touched_tiles(problem: AttentionProblem, block_m: int, block_n: int) -> Tiles:
    n, m = problem.seq_len, problem.n_keys
    allowed = torch.ones(n, m, dtype=torch.bool)
    if problem.causal:
        allowed = allowed.tril(problem.causal_offset)
    corners = [
        (row, column)
        for row in range(0, n, block_m)
        for column in range(0, m, block_n)
        if allowed[row : row + block_m, column : column + block_n].any()
    ]
    heads = problem.batch * problem.heads
    return Tiles(
        heads * len(corners),
        heads * sum(min(block_m, n - row) for row, _ in corners),
        heads * sum(min(block_n, m - column) for _, column in corners),
    )


def forward(problem: AttentionProblem, block_m: int, block_n: int) -> Expected:
    seen = touched_tiles(problem, block_m, block_n)
    row = problem.head_dim * ITEMSIZE[problem.dtype]
    queries = problem.batch * problem.heads * problem.seq_len
    return Expected(
        load=nonzero(Q=queries * row, K=seen.key_rows * row, V=seen.key_rows * row),
        store={"OUT": queries * row, "LOG_SUM_EXP": queries * 4},
        dot_flops=seen.tiles * 4 * block_m * block_n * block_d(problem.head_dim),
        exp2=seen.tiles * (block_m * block_n + block_m),
    )


def backward(problem: AttentionProblem, block_m: int, block_n: int) -> Expected:
    """delta, then a kernel that owns keys (4 products a tile), then one that owns queries (3)."""
    seen = touched_tiles(problem, block_m, block_n)
    row = problem.head_dim * ITEMSIZE[problem.dtype]
    queries = problem.batch * problem.heads * problem.seq_len
    keys = problem.batch * problem.n_kv_heads * problem.n_keys
    statistics = 4 * (seen.query_rows + queries)
    return Expected(
        load=nonzero(
            OUT=queries * row,
            D_OUT=(queries + seen.query_rows + queries) * row,
            Q=(seen.query_rows + queries) * row,
            K=(keys + seen.key_rows) * row,
            V=(keys + seen.key_rows) * row,
            LOG_SUM_EXP=statistics,
            DELTA=statistics,
        ),
        store={"DELTA": queries * 4, "DK": keys * row, "DV": keys * row, "DQ": queries * row},
        dot_flops=seen.tiles * 14 * block_m * block_n * block_d(problem.head_dim),
        exp2=seen.tiles * 2 * block_m * block_n,
    )


def nonzero(**sizes: int) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if size}


def compare(problem: AttentionProblem, block_m: int, block_n: int) -> None:
    vars(launch)["INTERPRETED"] = replace(INTERPRETED, m=block_m, n=block_n)
    bound = passes.bind(problem.pass_, lookup("triton_flash").prepare(problem), problem.inputs("cpu"))
    if problem.pass_ == "backward":
        bound.call()  # builds the graph
    counts = count(bound.call)
    right = (backward if problem.pass_ == "backward" else forward)(problem, block_m, block_n)
    found = Expected(dict(counts.load_bytes), dict(counts.store_bytes), counts.dot_flops, counts.exponentials)
    assert found == right, (found, right)
    whole = problem.seq_len % block_m == 0 == problem.n_keys % block_n
    if problem.pass_ == "forward" and not problem.causal and whole:
        closed_forms(problem, block_m, block_n, counts)


def closed_forms(problem: AttentionProblem, block_m: int, block_n: int, counts: InterpreterCounts) -> None:
    """Per head, n a multiple of the tiles: load n·d·b + 2·n·m·d·b/BM, store n·d·b + 4n, FLOPs 4·n·m·d."""
    b, d, n, m = ITEMSIZE[problem.dtype], problem.head_dim, problem.seq_len, problem.n_keys
    heads = problem.batch * problem.heads
    assert counts.bytes_loaded == heads * (n * d * b + 2 * n * m * d * b // block_m)
    assert counts.bytes_stored == heads * (n * d * b + 4 * n)
    if d == block_d(d):
        assert counts.dot_flops == heads * 4 * n * m * d
    if n == m:
        keys_and_values = (counts.load_bytes["K"] + counts.load_bytes["V"]) // heads
        assert keys_and_values == io_claim.key_value_bytes(n, block_m, d, b)
        tile = (block_m, block_n, d, b)
        assert io_claim.measured_constant(keys_and_values, n, *tile) == io_claim.claimed_constant(*tile)


def draw(rng: random.Random, pass_: Pass) -> tuple[AttentionProblem, int, int]:
    block_m, block_n = rng.choice([16, 32, 64]), rng.choice([16, 32, 64])
    aligned = rng.random() < 0.4
    n = block_m * rng.randint(1, 4) if aligned else rng.randint(1, 150)
    m = block_n * rng.randint(1, 4) if aligned else rng.choice([n, rng.randint(1, 150)])
    kv_heads = rng.choice([1, 2])
    problem = AttentionProblem(
        seq_len=n, kv_len=m, batch=rng.choice([1, 2]), heads=kv_heads * rng.choice([1, 2]), kv_heads=kv_heads,
        head_dim=rng.choice([16, 32, 40, 64]), dtype=rng.choice(["float16", "bfloat16", "float32"]),
        causal=rng.random() < 0.5, alignment=rng.choice(["top_left", "bottom_right"]), pass_=pass_,
    )  # fmt: skip
    return problem, block_m, block_n


def main(forwards: int, backwards: int) -> None:
    install_repairs()
    load("attention")
    rng = random.Random(20220527)
    for number in range(forwards + backwards):
        problem, block_m, block_n = draw(rng, "forward" if number < forwards else "backward")
        try:
            compare(problem, block_m, block_n)
        except BaseException as error:
            print("FAILED", problem, block_m, block_n, repr(error))
    print("ok", forwards, "forward", backwards, "backward")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
