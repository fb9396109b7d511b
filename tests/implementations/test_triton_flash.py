"""Triton flash attention against float64, in a process of its own whose Triton interprets its kernels.

This file is both the tests and, run as a program, that process: it computes every case and prints JSON.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from implementations.attention.problem import Alignment, AttentionProblem
from implementations.registry import Target, load, lookup

if TYPE_CHECKING:
    from torch import Tensor

ROOT = Path(__file__).parents[2]
NAMES = ("out", "dq", "dk", "dv")


@dataclass(frozen=True)
class Case:
    """One comparison. `guard` places q, k, v inside larger buffers of NaN; `v_transposed` stores v with
    its length innermost; `channels` zeroes q and k below that channel; `descriptors` reads through them."""

    n: int
    m: int = 0
    d: int = 64
    heads: int = 1
    kv_heads: int = 1
    causal: bool = False
    alignment: Alignment = "bottom_right"
    dtype: str = "float32"
    guard: bool = False
    v_transposed: bool = False
    channels: int = 0
    descriptors: bool = False
    batch: int = 1

    def __str__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return "-".join(f"{name}={value}" for name, value in given.items())

    @property
    def problem(self) -> AttentionProblem:
        return AttentionProblem(
            seq_len=self.n, kv_len=self.m or self.n, head_dim=self.d, heads=self.heads, batch=self.batch,
            kv_heads=self.kv_heads, causal=self.causal, alignment=self.alignment, dtype=self.dtype,
            pass_="forward_backward", seed=self.n + self.d,
        )  # fmt: skip


LENGTHS = [Case(n, causal=causal, d=32) for n in (1, 15, 17, 63, 65, 129) for causal in (False, True)]
HEAD_DIMS = [Case(33, 37, d=d, causal=True) for d in (16, 24, 40, 72, 80, 96, 128, 160, 256)]
RECTANGLES = [
    Case(n, m, d=16, heads=2, kv_heads=1, causal=True, alignment=alignment, batch=2)
    for n, m in ((2, 5), (5, 2), (1, 7), (70, 130), (130, 70))
    for alignment in get_args(Alignment)
]
LAYOUTS = [
    Case(17, 65, d=40, heads=6, kv_heads=2, causal=True, batch=2),
    Case(65, 129, d=64, heads=6, kv_heads=2, guard=True, batch=2),
    Case(129, 65, d=40, heads=2, kv_heads=1, causal=True, guard=True),
    Case(65, 65, d=64, causal=True, v_transposed=True),
    Case(129, d=128, channels=64),
    Case(65, 129, d=64, heads=6, kv_heads=2, causal=True, descriptors=True, batch=2),
    Case(129, 65, d=80, heads=2, descriptors=True, guard=True),
]
DRIFT = [
    Case(256, d=d, causal=causal, dtype=dtype)
    for dtype in ("float32", "float16", "bfloat16")
    for d in (64, 128)
    for causal in (False, True)
]
CASES = {str(case): case for case in (*LENGTHS, *HEAD_DIMS, *RECTANGLES, *LAYOUTS, *DRIFT)}


# ------------------------------------------------------------------------------------ the child process


def truth(problem: AttentionProblem, q: Tensor, k: Tensor, v: Tensor, d_out: Tensor) -> list[Tensor]:
    """Output and gradients in float64 from the textbook formulas, row by row free of masked keys."""
    import torch

    q, k, v, d_out = (x.detach().double() for x in (q, k, v, d_out))
    k, v = (x.repeat_interleave(problem.group_size, 1) for x in (k, v))
    scores = q @ k.mT * problem.scale
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool)
    if problem.causal:
        offset = problem.n_keys - problem.seq_len if problem.alignment == "bottom_right" else 0
        seen = torch.arange(problem.n_keys)[None] <= torch.arange(problem.seq_len)[:, None] + offset
    top = scores.masked_fill(~seen, -1e300).amax(-1, keepdim=True)
    weights = torch.where(seen, (scores - top).exp(), 0.0)
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    d_weights = d_out @ v.mT
    d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True)) * problem.scale
    per_kv_head = (problem.batch, problem.n_kv_heads, problem.group_size, problem.n_keys, problem.head_dim)
    dk, dv = d_scores.mT @ q, weights.mT @ d_out
    return [weights @ v, d_scores @ k, dk.view(per_kv_head).sum(2), dv.view(per_kv_head).sum(2)]


def placed(tensor: Tensor, case: Case) -> tuple[Tensor, Tensor]:
    """The tensor inside a larger buffer of NaN, and that buffer."""
    import torch

    b, h, n, d = tensor.shape
    buffer = torch.full((b + 1, h + 1, n + 80, d + 16), math.nan, dtype=tensor.dtype)
    inside = buffer[1:, 1:, 40 : 40 + n, 8 : 8 + d]
    inside.copy_(tensor)
    return inside, buffer


def run(case: Case) -> dict[str, Any]:
    """Errors of this project's and of PyTorch's attention, both against float64."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from implementations.attention.problem import AttentionInputs

    problem = case.problem
    drawn = problem.inputs("cpu")
    q, k, v, d_out = drawn.q, drawn.k, drawn.v, drawn.grad_output
    if case.channels:
        q[..., : case.channels] = 0
        k[..., : case.channels] = 0
    expected = truth(problem, q, k, v, d_out)

    def gradients(attend: Any, tensors: list[Tensor]) -> list[Tensor]:
        leaves = [x.detach().requires_grad_() for x in tensors]
        out = attend(*leaves)
        return [out.detach(), *torch.autograd.grad(out, leaves, d_out)]

    tensors = [placed(x, case)[0] for x in (q, k, v)] if case.guard else [q, k, v]
    if case.v_transposed:
        tensors[2] = v.mT.contiguous().mT
    attend = lookup("triton_flash").prepare(problem)
    ours = gradients(lambda q, k, v: attend(AttentionInputs(q, k, v, d_out)), tensors)
    mask = None
    if problem.causal:
        mask = torch.ones(problem.seq_len, problem.n_keys, dtype=torch.bool).tril(problem.causal_offset)
    theirs = gradients(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, mask, enable_gqa=problem.group_size > 1),
        [q, k, v],
    )
    blind = [] if mask is None else [int(i) for i in (~mask.any(-1)).nonzero()]
    return {
        "finite": all(bool(x.isfinite().all()) for x in ours),
        "blind_rows": max((float(x[:, :, blind].abs().max()) for x in ours[:2] if blind), default=0.0),
        "ours": [error(a, b) for a, b in zip(ours, expected, strict=True)],
        "theirs": [error(a, b) for a, b in zip(theirs, expected, strict=True)],
        "uniform": error(v.mean(2, keepdim=True).expand(v.shape), expected[0]) if case.channels else 0.0,
    }


def error(ours: Tensor, expected: Tensor) -> float:
    """‖ours − expected‖ / ‖expected‖, or the norm itself where nothing but zeros is expected."""
    norm = float(expected.norm())
    return float((ours - expected).norm()) / (norm if norm > 1e-6 else 1.0)


def guarded_stores() -> bool:
    """Whether outputs and gradients written into the middle of NaN buffers leave the NaN around them."""
    import torch

    from implementations.attention import _flash_launch as launch

    written: list[Tensor] = []
    empty = torch.empty

    def guarded(shape: Any, **options: Any) -> Tensor:
        middle = torch.full((math.prod(shape) + 8192,), math.nan, dtype=options["dtype"])
        written.append(middle)
        return middle[4096:-4096].view(shape)

    problem = Case(65, 33, d=40, heads=2, causal=True).problem
    inputs = problem.inputs("cpu")
    torch.empty = guarded  # type: ignore[assignment]
    try:
        attention = launch.Attention(problem.scale, True, problem.causal_offset)
        q, k, v = inputs.differentiable
        out, log_sum_exp = launch.forward(q, k, v, attention)
        launch.backward(inputs.grad_output, q, k, v, out, log_sum_exp, attention)
    finally:
        torch.empty = empty
    edges = all(bool(x[:4096].isnan().all() and x[-4096:].isnan().all()) for x in written)
    return edges and len(written) == 6 and all(not bool(x[4096:-4096].isnan().any()) for x in written)


def grids() -> tuple[list[int], str]:
    """The grid of 70,000 heads, and what is said of more programs than a grid holds."""
    import torch

    from implementations.attention import _flash_launch as launch
    from implementations.registry import Unsupported

    def grid(heads: int, seq_len: int) -> list[int]:
        q = torch.zeros(1, 1, 1, 16).expand(1, heads, seq_len, 16)
        started = launch.Launch("forward", q, q, launch.Attention(0.25), streamed=(q, q))
        return list(started.rows(seq_len, heads, "BLOCK_M")({"BLOCK_M": 64}))

    try:
        reason = str(grid(70_000, 64 * 40_000))
    except Unsupported as raised:
        reason = str(raised)
    return grid(70_000, 65), reason


def child() -> dict[str, Any]:
    """Everything that the tests look at."""
    import torch

    from implementations.attention import _flash_launch as launch
    from implementations.attention._flash_tiles import INTERPRETED

    torch.set_num_threads(1)
    load("attention")
    repaired = importlib.util.find_spec("harness.counting.interpreter") is not None
    if repaired:
        from harness.counting.interpreter import install_repairs

        install_repairs()
    found: dict[str, Any] = {
        "guarded_stores": guarded_stores(), "offset": offset_of(70_000, 65_536), "grids": grids(),
    }  # fmt: skip
    for name, case in CASES.items():
        launch.INTERPRETED = replace(INTERPRETED, descriptors=case.descriptors)  # type: ignore[attr-defined]
        if repaired or case.dtype != "bfloat16":
            found[name] = run(case)
    return found


if __name__ == "__main__":
    import triton
    import triton.language as tl

    from implementations.attention._flash_kernels import element_offset

    @triton.jit  # type: ignore[untyped-decorator]
    def store_offset(OUT: Any, index: Any, stride: Any) -> None:
        tl.store(OUT, element_offset(index, stride))

    def offset_of(index: int, stride: int) -> int:
        """What the kernels' offset helper computes in Triton's own integer arithmetic."""
        import torch

        out = torch.zeros(1, dtype=torch.int64)
        store_offset[(1,)](out, index, stride)
        return int(out)

    print(json.dumps(child()))
    sys.exit()


# --------------------------------------------------------------------------------------------- the tests


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What the child process found. One BLAS thread: the interpreter's small products only lose by more."""
    environment = {
        **os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-W", "error", __file__],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("name", list(CASES))
def test_output_and_gradients_match_float64(found: dict[str, Any], name: str) -> None:
    if name not in found:
        pytest.skip("needs the harness's repair of bfloat16 in the interpreter")
    limit = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}[CASES[name].dtype]
    assert found[name]["finite"]
    assert dict(zip(NAMES, found[name]["ours"], strict=True)) == pytest.approx(
        dict.fromkeys(NAMES, 0.0), abs=limit
    )


@pytest.mark.parametrize("case", DRIFT, ids=str)
def test_errors_are_at_most_a_fifth_above_those_of_pytorch(found: dict[str, Any], case: Case) -> None:
    if str(case) not in found:
        pytest.skip("needs the harness's repair of bfloat16 in the interpreter")
    ours, theirs = found[str(case)]["ours"], found[str(case)]["theirs"]
    ratios = {name: a / b for name, a, b in zip(NAMES, ours, theirs, strict=True)}
    assert max(ratios.values()) <= 1.2, ratios


@pytest.mark.parametrize("case", RECTANGLES, ids=str)
def test_rows_that_see_no_key_are_exactly_zero(found: dict[str, Any], case: Case) -> None:
    assert found[str(case)]["blind_rows"] == 0.0


def test_upper_channels_count(found: dict[str, Any]) -> None:
    """A kernel that reads only the first 64 channels sees uniform attention here."""
    case = next(case for case in LAYOUTS if case.channels)
    assert found[str(case)]["ours"][0] < 1e-6
    assert found[str(case)]["uniform"] > 0.1


def test_nothing_is_stored_outside_the_tensors(found: dict[str, Any]) -> None:
    assert found["guarded_stores"]


def test_any_number_of_heads_fits_the_grid(found: dict[str, Any]) -> None:
    """Only a grid's first axis may be longer than 65,535."""
    grid, reason = found["grids"]
    assert grid == [140_000]
    assert "2,800,000,000" in reason


def test_offsets_are_64_bit(found: dict[str, Any]) -> None:
    assert found["offset"] == 4_587_520_000


def test_reasons_are_words() -> None:
    load("attention")
    flash = lookup("triton_flash")
    gpu, cpu, interpreted = Target("cuda", (9, 0)), Target("cpu"), Target("cpu", interpreted=True)
    plain = AttentionProblem(seq_len=64)
    assert flash.reason_against(plain, gpu) is None
    assert flash.reason_against(plain, interpreted) is None
    assert "interpreter" in str(flash.reason_against(plain, cpu))
    assert "8.0" in str(flash.reason_against(plain, Target("cuda", (7, 5))))
    assert "256" in str(flash.reason_against(AttentionProblem(seq_len=64, head_dim=257), gpu))
    assert "float32" in str(flash.reason_against(AttentionProblem(seq_len=64, dtype="float64"), gpu))


def test_without_triton_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    load("attention")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert lookup("triton_flash").available(Target("cuda", (9, 0))) == "Triton is not installed"


def test_importing_the_implementation_does_not_import_triton() -> None:
    code = "import sys, implementations.attention.triton_flash; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
