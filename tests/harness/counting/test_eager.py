"""Eager counts against hand-counted programs and closed forms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.counting.eager import TooManyOperators, count
from harness.counting.formulas import NoFormula, causal_pairs

QKV = tuple[Tensor, Tensor, Tensor]


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The formula, scaled before the product; nothing but the chain keeps the scores alive."""
    return torch.softmax((q * 0.125) @ k.transpose(-1, -2), -1) @ v


def plain_causal(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(((q * 0.125) @ k.transpose(-1, -2)).masked_fill(mask, -math.inf), -1) @ v


def qkv(heads: int, n: int, d: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> QKV:
    q, k, v = (torch.randn(1, heads, n, d, dtype=dtype).requires_grad_(grad) for _ in range(3))
    return q, k, v


def in_mode(fake: bool, body: Callable[[], Any]) -> Any:
    if not fake:
        return body()
    with FakeTensorMode():
        return body()


fakes = pytest.mark.parametrize("fake", [False, True], ids=["real", "fake"])
sizes = given(
    heads=st.integers(1, 3),
    n=st.integers(2, 40),
    d=st.sampled_from([1, 8, 16, 40]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)


@fakes
@settings(max_examples=25, deadline=None)
@sizes
def test_naive_forward_closed_form(fake: bool, heads: int, n: int, d: int, dtype: torch.dtype) -> None:
    def body() -> None:
        q, k, v = qkv(heads, n, d, dtype)
        counts = count(lambda: plain(q, k, v), (q, k, v))
        b = dtype.itemsize
        u, row = heads * n * n * b, heads * n * d * b
        assert counts.flops == 4 * heads * n * n * d
        # q scaled (2 rows); product (2 rows + u); softmax (2u); product (u + 2 rows)
        assert counts.bytes == 4 * u + 6 * row
        assert counts.exponentials == heads * n * n
        assert counts.depth == 4
        # the scaled q lives through the first product; scores and probabilities through the softmax
        assert counts.peak_bytes == max(2 * u, u + row)

    in_mode(fake, body)


@fakes
def test_naive_causal_peak_is_three_squares_where_the_mask_is_filled(fake: bool) -> None:
    def body() -> None:
        q, k, v = qkv(2, 64, 8)
        mask = torch.ones(64, 64, dtype=torch.bool)

        def scaled_after() -> Tensor:
            scores = (q @ k.transpose(-1, -2)).masked_fill(mask, -math.inf)
            return torch.softmax(scores, -1) @ v

        u = 2 * 64 * 64 * 4
        assert count(lambda: plain_causal(q, k, v, mask), (q, k, v, mask)).peak_bytes == 2 * u
        assert count(scaled_after, (q, k, v, mask)).peak_bytes == 2 * u + 2 * 64 * 8 * 4

    in_mode(fake, body)


@fakes
@settings(max_examples=15, deadline=None)
@sizes
def test_naive_forward_and_backward_closed_form(
    fake: bool, heads: int, n: int, d: int, dtype: torch.dtype
) -> None:
    def body() -> None:
        q, k, v = qkv(heads, n, d, dtype, grad=True)
        seed = torch.empty_like(q, requires_grad=False)
        counts = count(lambda: torch.autograd.grad(plain(q, k, v), (q, k, v), seed), (q, k, v, seed))
        b = dtype.itemsize
        u, row = heads * n * n * b, heads * n * d * b
        assert counts.flops == 12 * heads * n * n * d  # two products forward, four backward: none recomputed
        # softmax backward holds P, dP and dS, beside the output, dV and the saved scaled q
        assert counts.peak_bytes == max(3 * u + 3 * row, u + 5 * row)

    in_mode(fake, body)


def test_million_tokens_come_from_fake_tensors_at_once() -> None:
    n, d = 1 << 20, 64
    with FakeTensorMode():
        q, k, v = qkv(4, n, d)
        start = time.process_time()
        counts = count(lambda: plain(q, k, v), (q, k, v))
        seconds = time.process_time() - start
    assert counts.peak_bytes == 2 * 4 * n * n * 4  # 35.2 TB
    assert counts.flops == 4 * 4 * n * n * d
    assert seconds < 0.5


@fakes
def test_cpu_flash_is_not_zero(fake: bool) -> None:
    def body() -> None:
        q, k, v = qkv(12, 64, 64)
        counts = count(lambda: F.scaled_dot_product_attention(q, k, v), (q, k, v))
        assert counts.flops == 12_582_912
        assert counts.exponentials == 12 * 64 * 64
        assert [op.name for op in counts.ops] == ["aten._scaled_dot_product_flash_attention_for_cpu.default"]
        # output and log-sum-exp; the kernel's workspace is invisible
        assert counts.peak_bytes == counts.bytes_written == 12 * 64 * 64 * 4 + 12 * 64 * 4
        assert counts.bytes_read == 3 * 12 * 64 * 64 * 4

    in_mode(fake, body)


@fakes
@pytest.mark.parametrize("causal", [False, True])
def test_cpu_flash_forward_backward(fake: bool, causal: bool) -> None:
    def body() -> None:
        q, k, v = qkv(2, 40, 16, grad=True)

        def call() -> object:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return torch.autograd.grad(out, (q, k, v), out)

        pairs = 2 * (40 * 41 // 2 if causal else 40 * 40)
        counts = count(call, (q, k, v))
        assert counts.flops == 4 * pairs * 16 + 10 * pairs * 16
        assert counts.exponentials == 2 * pairs

    in_mode(fake, body)


@given(n=st.integers(1, 30), m=st.integers(1, 30))
def test_causal_pairs(n: int, m: int) -> None:
    assert causal_pairs(n, m) == int(torch.ones(n, m).tril().sum())


def test_inference_mode_decomposes_what_arrives_whole() -> None:
    q, k, v = qkv(2, 16, 8)
    with torch.inference_mode():
        counts = count(lambda: F.scaled_dot_product_attention(q, k, v), (q, k, v))
    assert counts.flops == 4 * 2 * 16 * 16 * 8


def test_grouped_heads_count_the_query_heads() -> None:
    q, k, v = qkv(6, 16, 8)
    counts = count(lambda: F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True), (q, k, v))
    assert counts.flops == 4 * 6 * 16 * 16 * 8


def test_attention_without_a_formula_is_an_error() -> None:
    library = torch.library.Library("attnbench_test", "FRAGMENT")
    library.define("my_attention(Tensor x) -> Tensor")
    library.impl("my_attention", lambda x: x.clone(), "CPU")
    with pytest.raises(NoFormula, match=r"attnbench_test\.my_attention"):
        count(lambda: torch.ops.attnbench_test.my_attention(torch.ones(2)))


@fakes
def test_views_and_in_place_operators_allocate_nothing(fake: bool) -> None:
    def body() -> None:
        x = torch.ones(8, 16)
        counts = count(lambda: x.view(16, 8).t()[2:].add_(1).mul_(2), x)
        assert counts.peak_bytes == 0
        assert (counts.bytes_read, counts.bytes_written) == (2 * 6 * 16 * 4, 2 * 6 * 16 * 4)

    in_mode(fake, body)


@fakes
def test_traffic_rules(fake: bool) -> None:
    def body() -> None:
        x, index = torch.ones(100, 4), torch.zeros(3, dtype=torch.int64)

        def kb(call: Callable[[], object]) -> tuple[int, int]:
            counts = count(call, (x, index))
            return counts.bytes_read, counts.bytes_written

        assert kb(lambda: x * x) == (1600, 1600)  # one operand, read once
        assert kb(lambda: x + x[:1].expand(100, 4)) == (1600 + 16, 1600)  # broadcast: distinct bytes
        assert kb(lambda: x.zero_()) == (0, 1600)
        assert kb(lambda: torch.zeros_like(x)) == (0, 1600)
        assert kb(lambda: x[:50].copy_(x[50:])) == (800, 800)
        assert kb(lambda: x[index]) == (3 * 8 + 3 * 16, 3 * 16)
        assert kb(lambda: torch.empty(100)) == (0, 0)
        assert kb(lambda: torch.add(x, 1, out=x)) == (1600, 1600)
        assert kb(lambda: x.t().contiguous().view(20, 20)) == (1600, 1600)
        window = x.flatten().as_strided((199, 4), (2, 1))  # overlapping: 400 elements, not 796
        assert kb(lambda: window.sum()) == (1600, 4)

    in_mode(fake, body)


def test_matrix_vector_and_fourier_formulas() -> None:
    a, x = torch.ones(8, 16), torch.ones(16)
    assert count(lambda: a @ x).flops == 2 * 8 * 16
    assert count(lambda: torch.dot(x, x)).flops == 2 * 16
    assert count(lambda: torch.fft.fft(torch.ones(16, dtype=torch.complex64))).flops == 5 * 16 * 4
    assert count(lambda: torch.fft.rfft(torch.ones(3, 16))).flops == 3 * 5 * 16 * 4 // 2


def test_backward_alone_has_its_graph_alive_but_not_its_work() -> None:
    x = torch.ones(1000, requires_grad=True)
    kept: list[Tensor] = []

    def gradient() -> Tensor:
        if not kept:
            kept.append(x.exp())  # saves its result
        return torch.autograd.grad(kept[0], x, x.detach(), retain_graph=True)[0]

    counts = count(gradient, x, first=gradient)
    assert counts.exponentials == 0
    assert (counts.bytes_read, counts.bytes_written) == (8000, 4000)
    assert counts.peak_bytes == 8000  # the saved result and the gradient


def test_set_up_tensors_and_literals() -> None:
    features = torch.ones(64)
    assert count(lambda: features + 1).peak_bytes == 256  # features existed before
    assert count(lambda: torch.tensor([1.0, 2.0])).peak_bytes == 8  # made within


def test_depth_is_the_longest_chain() -> None:
    x = torch.ones(4)
    assert count(lambda: (x + 1) * (x + 2)).depth == 2
    assert count(lambda: ((x + 1) + 1).view(2, 2) + 1).depth == 3


def test_the_limit_on_operators() -> None:
    x = torch.ones(1)
    with pytest.raises(TooManyOperators, match="more than 10 operator calls"):
        count(lambda: [x + 1 for _ in range(11)], max_calls=10)


def test_counting_changes_nothing() -> None:
    q, k, v = qkv(2, 16, 8)
    before = [t.clone() for t in (q, k, v)]
    counted: list[Tensor] = []
    count(lambda: counted.append(plain(q, k, v)), (q, k, v))
    assert torch.equal(counted[0], plain(q, k, v))
    assert all(torch.equal(a, b) for a, b in zip(before, (q, k, v), strict=True))


Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["new", "copy", "view", "inplace", "drop"]), st.integers(0, 9), st.integers(1, 50)
    ),
    max_size=30,
)


@given(steps)
def test_live_storage_against_a_simulation(program: list[Step]) -> None:
    """Random allocations, views, in-place operators and drops against reference counting by hand."""
    now = peak = 0
    owners: list[list[int]] = []  # per tensor: [storage bytes], shared by its views

    def allocate(size: int) -> None:
        nonlocal now, peak
        owners.append([4 * size])
        now = sum({id(o): o[0] for o in owners}.values())
        peak = max(peak, now)

    for step, which, size in program:
        if step == "new":
            allocate(size)
        elif owners and step == "copy":
            allocate(owners[which % len(owners)][0] // 4)
        elif owners and step == "view":
            owners.append(owners[which % len(owners)])
        elif owners and step == "drop":
            owners.pop(which % len(owners))

    def call() -> None:
        tensors: list[Tensor] = []
        for step, which, size in program:
            if step == "new":
                tensors.append(torch.zeros(size))
            elif tensors and step == "copy":
                tensors.append(tensors[which % len(tensors)] + 1)
            elif tensors and step == "view":
                tensors.append(tensors[which % len(tensors)].view(-1, 1)[:, 0])
            elif tensors and step == "inplace":
                tensors[which % len(tensors)].add_(1)
            elif tensors and step == "drop":
                tensors.pop(which % len(tensors))

    assert count(call).peak_bytes == peak
