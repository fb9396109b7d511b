"""The flash-attn packages, which no test machine has: a stand-in checks what it is called with.

The stand-in computes what the packages' documentation says, in their own layout and with plain loops; from
the documentation and not from the code under test it takes what a window and an alignment mean.
"""

from __future__ import annotations

import importlib.machinery
import itertools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.passes import bind
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Target, load, lookup

load("attention")
Results = tuple[Tensor, tuple[Tensor, ...]]
Oracle = Callable[[AttentionProblem, AttentionInputs], Results]
Distance = Callable[[Tensor, Tensor], float]

MODULES = {"flash_attn": "flash_attn", "flash_attn_3": "flash_attn_interface"}
H200 = Target("cuda", (9, 0))


def documented(
    q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool, window: tuple[int, int]
) -> Tensor:
    """(length, heads, head_dim) of one item: aligned bottom-right, a window inclusive at both ends, and −1
    for none; a row that sees nothing is 0."""
    rows = []
    shift = len(k) - len(q)
    for i in range(len(q)):
        keys = [j for j in range(len(k)) if not causal or j <= i + shift]
        keys = [j for j in keys if window[0] < 0 or j >= i + shift - window[0]]
        keys = [j for j in keys if window[1] < 0 or j <= i + shift + window[1]]
        shared = [h // (q.shape[1] // k.shape[1]) for h in range(q.shape[1])]
        if not keys:
            rows.append(torch.zeros_like(q[i]))
            continue
        scores = torch.einsum("hd,jhd->hj", q[i].float(), k[keys][:, shared].float()) * scale
        rows.append(torch.einsum("hj,jhd->hd", scores.softmax(-1), v[keys][:, shared].float()).to(q.dtype))
    return torch.stack(rows)


class StandIn(ModuleType):
    """The functions of a package; notes which was called."""

    def __init__(self, name: str, answers_pairs: bool) -> None:
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None)
        self.answers_pairs = answers_pairs
        self.called: list[str] = []

    def _items(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> Any:
        assert set(options) == {"softmax_scale", "causal", "window_size"}
        assert q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
        rule = options["softmax_scale"], options["causal"], options["window_size"]
        output = torch.stack([documented(*item, *rule) for item in zip(q, k, v, strict=True)])
        return (output, None) if self.answers_pairs else output

    def flash_attn_func(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
        self.called.append("plain")
        return self._items(q, k, v, options)

    def flash_attn_with_kvcache(self, q: Tensor, k_cache: Tensor, v_cache: Tensor, **options: Any) -> Any:
        self.called.append("cached")
        return self._items(q, k_cache, v_cache, options)

    def flash_attn_varlen_func(
        self, q: Tensor, k: Tensor, v: Tensor, q_starts: Tensor, k_starts: Tensor, q_most: int, k_most: int,
        **options: Any,
    ) -> Any:  # fmt: skip
        self.called.append("packed")
        assert q.dim() == 3
        assert q_starts.dtype == k_starts.dtype == torch.int32
        ends = q_starts.tolist()
        assert ends[0] == 0
        assert ends[-1] == len(q)
        lengths = [end - start for start, end in itertools.pairwise(ends)]
        assert q_most == k_most == max(lengths)
        split = [tensor.split(lengths) for tensor in (q, k, v)]
        parts = [self._items(a[None], b[None], c[None], options) for a, b, c in zip(*split, strict=True)]
        joined = torch.cat([(part[0] if self.answers_pairs else part)[0] for part in parts])
        return (joined, None) if self.answers_pairs else joined


@pytest.fixture(params=MODULES)
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, StandIn]:
    """An implementation whose package is there."""
    name = str(request.param)
    module = StandIn(MODULES[name], answers_pairs=name == "flash_attn_3")
    monkeypatch.setitem(sys.modules, MODULES[name], module)
    return name, module


@pytest.mark.parametrize(
    ("axes", "form"),
    [
        ({"seq_len": 9, "batch": 2}, "plain"),
        ({"seq_len": 9, "heads": 4, "kv_heads": 2, "causal": True}, "plain"),
        ({"seq_len": 5, "kv_len": 2, "causal": True}, "plain"),
        ({"seq_len": 4, "kv_len": 9, "window": 3}, "plain"),
        ({"seq_len": 4, "kv_len": 9, "window": 3, "causal": True}, "plain"),
        ({"lengths": "5+1+7"}, "packed"),
        ({"lengths": "5+1+7", "causal": True, "window": 2, "heads": 4, "kv_heads": 2}, "packed"),
    ],
    ids=str,
)
def test_computes_the_problem_by_the_form_for_it(
    axes: dict[str, Any], form: str, installed: tuple[str, StandIn], oracle: Oracle, distance: Distance
) -> None:
    name, module = installed
    problem = AttentionProblem.from_axes(
        {"heads": 2, "head_dim": 16, "dtype": "float16", "pass": "forward_backward"} | axes
    )
    assert lookup(name).reason_against(problem, H200) is None
    inputs = problem.inputs("cpu")
    truth = oracle(problem, inputs)
    output, gradients = bind("forward_backward", lookup(name).prepare(problem), inputs).outputs()
    assert module.called == [form]
    assert output.shape == inputs.q.shape
    for found, true in zip((output, *gradients), (truth[0], *truth[1]), strict=True):
        assert distance(found, true) < 2e-3


@pytest.mark.parametrize("axes", [{"seq_len": 1}, {"seq_len": 3}, {"seq_len": 1, "window": 4}], ids=str)
def test_decodes_by_the_cached_form(
    axes: dict[str, Any], installed: tuple[str, StandIn], oracle: Oracle, distance: Distance
) -> None:
    name, module = installed
    problem = AttentionProblem.from_axes(
        axes | {"kv_len": 9, "heads": 4, "kv_heads": 2, "head_dim": 16, "dtype": "bfloat16", "pass": "decode"}
    )
    assert lookup(name).reason_against(problem, H200) is None
    inputs = problem.inputs("cpu")
    output, _ = bind("decode", lookup(name).prepare(problem), inputs).outputs()
    assert module.called == ["cached"]
    assert distance(output, oracle(problem, inputs)[0]) < 1e-2


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"dtype": "float32"}, "float16 and bfloat16"),
        ({"head_dim": 264}, "more than the 256"),
        ({"kv_len": 9, "causal": True, "alignment": "top_left"}, "bottom-right"),
        ({"kv_len": 9, "window": 2, "alignment": "top_left"}, "bottom-right"),
        ({"mask": "padding"}, "padded keys"),
        ({"mask": "additive"}, "an additive mask"),
    ],
    ids=str,
)
def test_what_the_kernels_do_not_take(
    axes: dict[str, Any], words: str, installed: tuple[str, StandIn]
) -> None:
    problem = AttentionProblem.from_axes({"seq_len": 8, "dtype": "float16"} | axes)
    reason = lookup(installed[0]).reason_against(problem, H200)
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize(
    ("name", "title"), [("flash_attn", "FlashAttention-2"), ("flash_attn_3", "FlashAttention-3")]
)
def test_what_is_missing_is_named(name: str, title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    reason = lookup(name).available(H200)
    assert reason == f"{title} is not installed: there is no module {MODULES[name]}"


def test_each_needs_its_gpu(installed: tuple[str, StandIn]) -> None:
    found = lookup(installed[0])
    for target, words in {Target("cpu"): "CUDA only", Target("cuda", (7, 5)): "compute capability"}.items():
        assert words in str(found.available(target))
    blackwell = found.available(Target("cuda", (10, 0)))
    assert (blackwell is None) == (installed[0] == "flash_attn")
    assert found.available(Target("cuda")) is None
