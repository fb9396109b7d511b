"""Each SDPA name runs one backend, proven by the operators that torch dispatches, or says why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Target, Unsupported, load, lookup

load("attention")
CPU, H200 = Target("cpu"), Target("cuda", (9, 0))
FLASH_OPERATOR = "aten._scaled_dot_product_flash_attention_for_cpu.default"


class Spy(TorchDispatchMode):
    """Notes the operators that reach a backend."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def operators(name: str, problem: AttentionProblem, inputs: AttentionInputs) -> list[str]:
    function = lookup(name).prepare(problem)
    spy = Spy()
    with spy, torch.no_grad():
        function(inputs)
    return spy.seen


def masked(problem: AttentionProblem) -> AttentionInputs:
    mask = torch.ones(problem.seq_len, problem.n_keys, dtype=torch.bool)
    mask[3] = False
    return replace(problem.inputs("cpu"), mask=mask)


def drawn(problem: AttentionProblem) -> AttentionInputs:
    return problem.inputs("cpu")


@pytest.mark.parametrize("draw", [drawn, masked])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("n", [8, 300])
def test_one_backend_and_no_other(
    n: int,
    kv_heads: int,
    causal: bool,
    dtype: str,
    draw: Callable[[AttentionProblem], AttentionInputs],
) -> None:
    problem = AttentionProblem(seq_len=n, heads=4, kv_heads=kv_heads, head_dim=16, causal=causal, dtype=dtype)
    flash = operators("sdpa_flash", problem, draw(problem))
    assert FLASH_OPERATOR in flash
    assert not any("softmax" in name for name in flash)
    math = operators("sdpa_math", problem, draw(problem))
    assert "aten._safe_softmax.default" in math
    assert not any("flash" in name for name in math)


def test_math_runs_where_torch_would_choose_flash() -> None:
    """The spy is not blind: left to itself, torch takes flash for the same tensors."""
    inputs = AttentionProblem(seq_len=8).inputs("cpu")
    spy = Spy()
    with spy:
        torch.nn.functional.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v)
    assert FLASH_OPERATOR in spy.seen


def transposed(tensor: Tensor) -> Tensor:
    return tensor.mT.contiguous().mT


def test_flash_refuses_what_torch_would_give_to_math() -> None:
    problem = AttentionProblem(seq_len=8, head_dim=16)
    inputs = problem.inputs("cpu")
    flash = lookup("sdpa_flash").prepare(problem)
    refused = {
        "q has an inner stride": replace(inputs, q=transposed(inputs.q)),
        "k has an inner stride": replace(inputs, k=transposed(inputs.k)),
        "v has an inner stride": replace(inputs, v=transposed(inputs.v)),
        "v has 8 channels": replace(inputs, v=inputs.v[..., :8].contiguous()),
        "no gradient by the mask": replace(inputs, mask=torch.zeros(8, 8, requires_grad=True)),
        "FLASH_ATTENTION: no gradient by": replace(inputs, bias=torch.zeros(8, 8, requires_grad=True)),
    }
    for words, given in refused.items():
        with pytest.raises(Unsupported, match=words):
            flash(given)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch warns of its reasons, once a process
def test_what_only_torch_knows_is_still_a_reason() -> None:
    """Whatever else makes torch refuse the one backend becomes words, not an error or another backend."""
    problem = AttentionProblem(seq_len=8)
    for name in ("sdpa_efficient", "sdpa_cudnn"):
        with pytest.raises(Unsupported, match="torch has no"):
            lookup(name).prepare(problem)(problem.inputs("cpu"))


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [
        ("sdpa_efficient", CPU, "CUDA only"),
        ("sdpa_cudnn", CPU, "CUDA only"),
        ("sdpa_flash", Target("cuda", (7, 5)), "compute capability 8.0"),
        ("sdpa_cudnn", Target("cuda", (7, 5)), "compute capability 8.0"),
        ("sdpa_efficient", Target("cuda", (3, 7)), "compute capability 5.0"),
    ],
)
def test_where_a_backend_does_not_exist(name: str, target: Target, words: str) -> None:
    reason = lookup(name).available(target)
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize(
    ("name", "axes", "words"),
    [
        ("sdpa_flash", {"dtype": "float32"}, "float16 and bfloat16"),
        ("sdpa_flash", {"dtype": "float16", "head_dim": 320}, "256"),
        ("sdpa_flash", {"dtype": "float16", "kv_len": 9, "causal": True}, "equal to kv_len"),
        ("sdpa_flash", {"dtype": "float16", "window": 4}, "on CUDA it does not take a sliding window of 4"),
        ("sdpa_flash", {"dtype": "float16", "mask": "additive"}, "on CUDA it does not take an additive mask"),
        ("sdpa_efficient", {"dtype": "float64"}, "float16, bfloat16 and float32"),
        ("sdpa_efficient", {"dtype": "float16", "head_dim": 20}, "multiple of 16 bytes"),
        ("sdpa_efficient", {"kv_heads": 2}, "shared key/value heads"),
        ("sdpa_efficient", {"kv_len": 9, "causal": True}, "top-left"),
        ("sdpa_cudnn", {"dtype": "float32"}, "float16 and bfloat16"),
        ("sdpa_cudnn", {"dtype": "float16", "head_dim": 264}, "up to 256"),
        ("sdpa_cudnn", {"dtype": "float16", "kv_len": 9, "causal": True}, "top-left"),
    ],
)
def test_what_a_cuda_backend_does_not_take(name: str, axes: dict[str, Any], words: str) -> None:
    reason = lookup(name).reason_against(AttentionProblem(seq_len=8, **axes), H200)
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize("name", ["sdpa_flash", "sdpa_efficient", "sdpa_cudnn"])
def test_what_a_cuda_backend_takes(name: str) -> None:
    found = lookup(name)
    decode = {"pass": "decode", "seq_len": 1, "kv_len": 64}
    for axes in ({}, {"causal": True}, {"causal": True, "seq_len": 1}, {"head_dim": 128}, decode):
        problem = AttentionProblem.from_axes({"seq_len": 64, "dtype": "bfloat16", **axes})
        assert found.reason_against(problem, H200) is None


def test_flash_has_one_alignment() -> None:
    flash = lookup("sdpa_flash")
    problem = AttentionProblem(seq_len=2, kv_len=5, causal=True)
    assert flash.supports(replace(problem, alignment="top_left"), CPU) is None
    reason = flash.supports(problem, CPU)
    assert reason is not None
    assert "top-left" in reason
    assert flash.supports(AttentionProblem(seq_len=1, kv_len=7, causal=True), CPU) is None
