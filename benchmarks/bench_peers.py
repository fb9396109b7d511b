"""Linear attention beside the public packages, as ratios of CPU time in one run on one thread.

    pip install --no-build-isolation -e '.[peers]'
    make bench ARGS="-k peers"      # pytest-benchmark's table, then ours against theirs and what is wanted

float32, batch 1, 8 heads, head_dim 64, 4,096 tokens. A peer that is not installed is skipped with the reason;
pytorch-fast-transformers compiles C++ while it installs. In `make test` each case runs once, without timing.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import load, lookup

load("attention")

Attend = Callable[[AttentionInputs], Callable[[], Tensor]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """An implementation of ours beside a peer.

    peer    the inputs, laid out and prepared as the peer takes them -> its call, not timed but for that
    back    the peer's output -> (batch, heads, length, head_dim), or None where both draw their own features
    wanted  by how much ours is to be faster at least
    """

    ours: str
    causal: bool
    module: str
    peer: Attend
    back: Callable[[Tensor], Tensor] | None
    wanted: float
    rounds: int = 15


def elu_features(x: Tensor) -> Tensor:
    """As the packages write it."""
    return torch.nn.functional.elu(x) + 1


def fla_naive_chunk(inputs: AttentionInputs) -> Callable[[], Tensor]:
    """flash-linear-attention's chunks in PyTorch: (batch, length, heads, head_dim)."""
    run: Any = importlib.import_module("fla.ops.linear_attn.naive").naive_chunk_linear_attn
    q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in inputs.differentiable)
    return lambda: run(elu_features(q), elu_features(k), v, normalize=True)


def idiap_causal(inputs: AttentionInputs) -> Callable[[], Tensor]:
    """pytorch-fast-transformers' CausalLinearAttention: its compiled product and its normaliser."""
    product: Any = importlib.import_module("fast_transformers.causal_product").causal_dot_product
    q, k, v = inputs.differentiable

    def run() -> Tensor:
        phi_q, phi_k = elu_features(q), elu_features(k)
        normaliser = 1 / (torch.einsum("nhli,nhli->nhl", phi_q, phi_k.cumsum(2)) + 1e-6)
        found: Tensor = product(phi_q, phi_k, v) * normaliser[..., None]
        return found

    return run


def performer_pytorch(inputs: AttentionInputs) -> Callable[[], Tensor]:
    """performer-pytorch's FastAttention with as many features, causal without its CUDA extension."""
    attention: Any = importlib.import_module("performer_pytorch").FastAttention
    width = inputs.q.shape[-1]
    fast = attention(width, nb_features=4 * width, causal=True)
    return lambda: fast(*inputs.differentiable)


def sdpa_flash(inputs: AttentionInputs) -> Callable[[], Tensor]:
    """PyTorch's own flash attention, exact."""
    attend = lookup("sdpa_flash").prepare(AttentionProblem(seq_len=inputs.q.shape[2], heads=8))
    return lambda: attend(inputs)


def same(output: Tensor) -> Tensor:
    """The layout is ours."""
    return output


def turned(output: Tensor) -> Tensor:
    """(batch, length, heads, head_dim) -> ours."""
    return output.transpose(1, 2)


COMPARISONS = {
    "fla naive chunk": Comparison("linear_elu", True, "fla", fla_naive_chunk, turned, 2.0),
    "idiap compiled": Comparison("linear_elu", True, "fast_transformers", idiap_causal, same, 1.5),
    "performer-pytorch": Comparison("performer", True, "performer_pytorch", performer_pytorch, None, 20.0, 4),
    "sdpa_flash": Comparison("linear_elu", False, "torch", sdpa_flash, None, 15.0, 7),
}
#: Comparison -> side -> CPU time in seconds, the 0.2 quantile: what a busy machine disturbs least.
Found = dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Iterator[Found]:
    """Filled by the cases; printed as ratios at the end, where both sides were timed."""
    times: Found = {}
    yield times
    plugin: Any = request.config.pluginmanager.getplugin
    with plugin("capturemanager").global_and_fixture_disabled():
        for peer, sides in times.items():
            if len(sides) == 2:
                known, ratio = COMPARISONS[peer], sides["theirs"] / sides["ours"]
                words = f"{known.ours} beside {peer}: {ratio:.1f} × faster (wanted: {known.wanted:g} ×)"
                plugin("terminalreporter").write_line("\n" + words)


def problem_of(comparison: Comparison) -> AttentionProblem:
    """4,096 tokens."""
    return AttentionProblem(seq_len=4096, heads=8, head_dim=64, causal=comparison.causal)


def call_of(comparison: Comparison, side: str, inputs: AttentionInputs) -> Callable[[], Tensor]:
    """What is timed."""
    if side == "theirs":
        return comparison.peer(inputs)
    attend = lookup(comparison.ours).prepare(problem_of(comparison))
    return lambda: attend(inputs)


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize(
    "side", ["theirs", "ours"]
)  # one right after the other: they share the machine's mood
@pytest.mark.parametrize("peer", COMPARISONS)
def test_forward(benchmark: BenchmarkFixture, peer: str, side: str, found: Found) -> None:
    """One forward pass, with the feature map and the normaliser, by CPU time."""
    comparison = COMPARISONS[peer]
    pytest.importorskip(comparison.module, reason=f"{peer} is not installed: pip install '.[peers]'")
    torch.set_num_threads(1)
    inputs = problem_of(comparison).inputs("cpu")
    benchmark.group = f"{comparison.ours} beside {peer}"
    with torch.no_grad():
        call = call_of(comparison, side, inputs)
        timed: Any = benchmark
        timed._timer = time.process_time
        timed.pedantic(call, rounds=comparison.rounds, warmup_rounds=1)
    if benchmark.stats is not None:
        times = sorted(benchmark.stats.stats.data)
        found.setdefault(peer, {})[side] = times[len(times) // 5]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("peer", [name for name, known in COMPARISONS.items() if known.back])
def test_the_answers_agree(peer: str) -> None:
    """No speed without correctness: the same formula, so the same output."""
    comparison = COMPARISONS[peer]
    pytest.importorskip(comparison.module, reason=f"{peer} is not installed: pip install '.[peers]'")
    assert comparison.back is not None
    inputs = problem_of(comparison).inputs("cpu")
    with torch.no_grad():
        ours, theirs = (call_of(comparison, side, inputs)() for side in ("ours", "theirs"))
    assert (comparison.back(theirs) - ours).norm() < 1e-4 * ours.norm()
