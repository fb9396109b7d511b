"""Run in a process with TRITON_INTERPRET=1: compares the flash kernels with float64 and prints JSON.

Not collected by pytest: `test_triton_flash.py` runs it once and reports what it found.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import triton
import triton.language as tl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from harness.counting.interpreter import count, install_repairs
from implementations.attention import _flash_decode as decode
from implementations.attention import _flash_launch as launch
from implementations.attention._flash_arguments import Attention, Mask
from implementations.attention._flash_autograd import flash_attention, flash_attention_with_log_sum_exp
from implementations.attention._flash_loads import element_offset
from implementations.attention._flash_tiles import INTERPRETED, Tile
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Unsupported, load, lookup

#: Run as a script: the folder is on the path.
cases: Any = importlib.import_module("flash_cases")
Found = dict[str, Any]


@contextmanager
def interpreted_tile(tile: Tile) -> Iterator[None]:
    """Let the interpreter run that tile."""
    before, vars(launch)["INTERPRETED"] = vars(launch)["INTERPRETED"], tile
    try:
        yield
    finally:
        vars(launch)["INTERPRETED"] = before


def ours(problem: AttentionProblem, inputs: AttentionInputs) -> list[Tensor]:
    """Output and gradients of the implementation as users call it."""
    leaves = [x.detach().requires_grad_() for x in inputs.differentiable]
    q, k, v = leaves
    out = lookup("triton_flash").prepare(problem)(replace(inputs, q=q, k=k, v=v))
    return [out.detach(), *torch.autograd.grad(out, leaves, inputs.grad_output)]


def error(result: Tensor, expected: Tensor) -> float:
    """‖result − expected‖ / ‖expected‖, or the norm itself where nothing but zeros is expected."""
    norm = float(expected.norm())
    return float((result - expected).norm()) / (norm if norm > 1e-6 else 1.0)


def run(case: Any) -> Found:
    """Errors of this project's and of PyTorch's attention, both against float64."""
    problem, inputs = case.problem, cases.drawn(case)
    seen = cases.visible(problem, inputs)
    expected = cases.truth(problem, inputs, seen)
    results: list[Tensor] = []
    with interpreted_tile(replace(INTERPRETED, descriptors=case.descriptors)):
        counts = count(lambda: results.extend(ours(problem, inputs)))
    blind = ~seen.any(-1)
    average = inputs.v.mean(2, keepdim=True).expand(inputs.v.shape)
    return {
        "finite": all(bool(x.isfinite().all()) for x in results),
        "blind_rows": int(blind.sum()),
        "blind_values": max(float(x[blind].abs().sum()) for x in results[:2]),
        "ours": [error(a, b) for a, b in zip(results, expected, strict=True)],
        "theirs": [error(a, b) for a, b in zip(cases.theirs(problem, inputs, seen), expected, strict=True)],
        "uniform": error(average, expected[0]) if case.channels else 0.0,
        "kernels": counts.kernels,
    }


def guarded_stores() -> bool:
    """Whether outputs and gradients written into the middle of NaN buffers leave the NaN around them."""
    written: list[Tensor] = []
    empty = torch.empty

    def guarded(shape: Any, **options: Any) -> Tensor:
        middle = torch.full((math.prod(shape) + 8192,), math.nan, dtype=options["dtype"])
        written.append(middle)
        return middle[4096:-4096].view(shape)

    problem = cases.Case(65, 33, d=40, heads=2, causal=True).problem
    inputs = problem.inputs("cpu")
    torch.empty = guarded  # type: ignore[assignment]
    try:
        attention = Attention(problem.scale, True, problem.causal_offset)
        q, k, v = inputs.differentiable
        out, log_sum_exp = launch.forward(q, k, v, attention)
        launch.backward(inputs.grad_output, q, k, v, out, log_sum_exp, attention)
    finally:
        torch.empty = empty
    edges = all(bool(x[:4096].isnan().all() and x[-4096:].isnan().all()) for x in written)
    return edges and len(written) == 6 and all(not bool(x[4096:-4096].isnan().any()) for x in written)


def grids() -> tuple[list[int], str]:
    """The grid of 70,000 heads, and what is said of more programs than a grid holds."""

    def grid(heads: int, seq_len: int) -> list[int]:
        q = torch.zeros(1, 1, 1, 16).expand(1, heads, seq_len, 16)
        started = launch.Launch("forward", q, q, Attention(0.25), Mask(), streamed=(q, q))
        return list(started.rows(seq_len, heads, "BLOCK_M")({"BLOCK_M": 64}))

    try:
        reason = str(grid(70_000, 64 * 40_000))
    except Unsupported as raised:
        reason = str(raised)
    return grid(70_000, 65), reason


@triton.jit  # type: ignore[untyped-decorator]
def store_offset(OUT: Any, index: Any, stride: Any) -> None:
    """The kernels' offset helper in Triton's own integer arithmetic."""
    tl.store(OUT, element_offset(index, stride))


def offset(index: int, stride: int) -> int:
    out = torch.zeros(1, dtype=torch.int64)
    store_offset[(1,)](out, index, stride)
    return int(out)


def neighbours() -> list[bool]:
    """Whether the first of two packed sequences stays as it is, bit for bit, when the other is all NaN."""
    problem = AttentionProblem(seq_len=100, heads=1, head_dim=16, lengths="37+63", pass_="forward_backward")
    inputs = problem.inputs("cpu")
    clean = ours(problem, inputs)
    for tensor in (*inputs.differentiable, inputs.grad_output):
        tensor[:, :, 37:] = math.nan
    return [
        torch.equal(a[:, :, :37], b[:, :, :37]) for a, b in zip(clean, ours(problem, inputs), strict=True)
    ]


def log_sum_exp_of_split_keys() -> float:
    """Largest distance of the merged log-sum-exp from that of the scores."""
    problem = AttentionProblem(seq_len=2, kv_len=700, heads=2, kv_heads=1, head_dim=16)
    inputs = problem.inputs("cpu")
    _, found = flash_attention_with_log_sum_exp(*inputs.differentiable, Attention(problem.scale))
    scores = inputs.q.double() @ inputs.k.double().mT * problem.scale
    return float((found - scores.logsumexp(-1)).abs().max())


def refusals() -> dict[str, str]:
    """What is said of masks that are not taken."""
    q = torch.zeros(1, 1, 4, 16)
    bias = torch.zeros(4, 4, requires_grad=True)
    said: dict[str, str] = {}
    calls: dict[str, Callable[[], object]] = {
        "gradient": lambda: flash_attention(q, q, q, Attention(0.25), bias),
        "shape": lambda: flash_attention(q, q, q, Attention(0.25), torch.zeros(3, 4)),
        "window": lambda: Attention(0.25, window_offset=-3),
        "both": lambda: lookup("triton_flash").prepare(AttentionProblem(seq_len=4, head_dim=16))(
            AttentionInputs(q, q, q, q, bias.detach() > 0, bias.detach())
        ),
    }
    for name, call in calls.items():
        try:
            call()
        except (Unsupported, ValueError) as raised:
            said[name] = str(raised)
    return said


@st.composite
def arbitrary_cases(draw: st.DrawFn) -> Any:
    """Any shape and rule, in small."""
    n, kv_heads = draw(st.integers(1, 40)), draw(st.integers(1, 2))
    lengths = draw(st.none() | st.lists(st.integers(1, 20), min_size=1, max_size=3))
    masks = ("none",) if lengths else ("none", "boolean", "additive", "padding")
    return cases.Case(
        sum(lengths) if lengths else n,
        0 if lengths else draw(st.just(n) | st.integers(1, 70)),
        d=draw(st.sampled_from([16, 24, 40, 64, 72])), heads=kv_heads * draw(st.integers(1, 3)),
        kv_heads=kv_heads, causal=draw(st.booleans()), window=draw(st.none() | st.integers(1, 40)),
        alignment=draw(st.sampled_from(["top_left", "bottom_right"])),
        lengths="+".join(map(str, lengths)) if lengths else None, mask=draw(st.sampled_from(masks)),
    )  # fmt: skip


@settings(max_examples=20, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(case=arbitrary_cases(), m=st.sampled_from([16, 32]), n=st.sampled_from([16, 32]),
       split=st.booleans())  # fmt: skip
def any_case_is_right(case: Any, m: int, n: int, split: bool) -> None:
    """Tiles of any two sizes, keys split or not: error of float32's rounding, and 0 where nothing is seen."""
    problem, inputs = case.problem, cases.drawn(case)
    seen = cases.visible(problem, inputs)
    before, vars(decode)["LEAST_KEYS"] = decode.LEAST_KEYS, 1 if split else 10**9
    try:
        with interpreted_tile(Tile(m, n, 4, 1)):
            results = ours(problem, inputs)
    finally:
        vars(decode)["LEAST_KEYS"] = before
    for result, right in zip(results, cases.truth(problem, inputs, seen), strict=True):
        # A row that sees one key has no gradient by q but that of rounding: an absolute floor.
        torch.testing.assert_close(result.double(), right, rtol=1e-4, atol=2e-5)
    assert not results[0][~seen.any(-1)].any()
    assert not results[1][~seen.any(-1)].any()


def property_holds() -> str:
    """Empty, or what Hypothesis found."""
    try:
        any_case_is_right()
    except BaseException as failure:
        return "\n".join([repr(failure), *getattr(failure, "__notes__", [])])
    return ""


def main() -> None:
    torch.set_num_threads(1)
    load("attention")
    install_repairs()
    found: Found = {
        "guarded_stores": guarded_stores(), "offset": offset(70_000, 65_536), "grids": grids(),
        "neighbours": neighbours(), "log_sum_exp": log_sum_exp_of_split_keys(), "refusals": refusals(),
        "property": property_holds(),
    }  # fmt: skip
    print(json.dumps(found | {name: run(case) for name, case in cases.CASES.items()}))


if __name__ == "__main__":
    main()
