"""The suite's encoder layer beside torch.nn.TransformerEncoderLayer, on one thread without gradients.

    make bench ARGS="-k layer"      # the ratio to the faster of each group is in parentheses
    python benchmarks/bench_layer.py      # ratios of CPU time, both in turns

In `make test` each case runs once, without timing.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import nn

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from implementations.transformer import EncoderLayer, copy_encoder_layer

#: (tokens, d_model, heads); d_ff = 4·d_model.
SHAPES = [(64, 128, 2), (128, 384, 12), (128, 768, 12), (256, 512, 8), (512, 256, 4), (512, 768, 12)]
ROUNDS = 25


def layers(d_model: int, heads: int) -> dict[str, nn.Module]:
    """Ours and torch's with the same weights, sdpa_flash inside ours."""
    theirs = nn.TransformerEncoderLayer(
        d_model, heads, 4 * d_model, dropout=0.0, batch_first=True, norm_first=True
    )
    ours = EncoderLayer(d_model, heads, 4 * d_model)
    copy_encoder_layer(ours, theirs)
    return {"ours": ours.eval(), "torch": theirs.eval()}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["ours", "torch"])
def test_layer_forward(benchmark: BenchmarkFixture, name: str, shape: tuple[int, int, int]) -> None:
    """One forward pass."""
    torch.set_num_threads(1)
    tokens, d_model, heads = shape
    layer, x = layers(d_model, heads)[name], torch.randn(1, tokens, d_model)
    benchmark.group = f"layer: n={tokens}, d_model={d_model}, {heads} heads"
    with torch.inference_mode():
        benchmark(layer, x)


def ratio(tokens: int, d_model: int, heads: int) -> float:
    """CPU time of ours over torch's: medians of calls in turns."""
    from harness.devices.cpu import Cpu

    device, x = Cpu(threads=1), torch.randn(1, tokens, d_model)
    pair = layers(d_model, heads)
    with torch.inference_mode():
        timers = {name: device.timer(partial(layer, x)) for name, layer in pair.items()}
        taken: dict[str, list[float]] = {name: [] for name in timers}
        for _ in range(ROUNDS):
            for name, timer in timers.items():
                taken[name].append(timer.sample()[device.judged])
    ours, theirs = (sorted(taken[name])[ROUNDS // 4] for name in ("ours", "torch"))
    return ours / theirs


if __name__ == "__main__":
    for shape in SHAPES:
        print(f"n={shape[0]}, d_model={shape[1]}, {shape[2]} heads: {ratio(*shape):.3f}")
