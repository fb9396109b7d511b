"""The operations beside attention: every implementation against float64, counts against closed forms."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from harness import passes
from harness.counting.formulas import NoFormula
from harness.counting.predict import Untraceable, follow
from harness.metrics.drawn import changed
from implementations.operation import Operation, operation, operation_names
from implementations.registry import Implementation, Target, implementations, load, lookup

OPERATIONS = [name for name in operation_names() if name != "attention"]
HERE = Target("cpu")
#: Settings that change what is computed.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "feedforward": [{"activation": "gelu", "d_ff": 40}, {"activation": "swiglu", "d_ff": 40}],
    "multi_head": [{"causal": True}, {"heads": 1}, {"heads": 8}],
    "layer": [{"norm": "post"}, {"activation": "gelu", "d_ff": 24}, {"causal": True}],
    "recurrent": [{"cell": "gru"}],
}
PLAIN_HEADS = ("multi_head_naive", "multi_head_math")
PASSES = ["forward", "backward", "forward_backward"]


def members() -> list[tuple[str, str]]:
    for name in OPERATIONS:
        load(name)
    return [(name, known.name) for name in OPERATIONS for known in implementations(name)]


def problem_of(name: str, **axes: Any) -> Any:
    return operation(name).problem.from_axes({"seq_len": 37, "batch": 2, "d_model": 32} | axes)


def runs(known: Implementation, problem: Any) -> bool:
    return known.reason_against(problem, HERE) is None


def test_a_folder_without_a_problem_is_no_operation() -> None:
    assert set(operation_names()) == {"attention", "feedforward", "layer", "multi_head", "recurrent"}


@pytest.mark.parametrize(("name", "implementation"), members())
@pytest.mark.parametrize("pass_", PASSES)
def test_exact_ones_agree_with_float64(name: str, implementation: str, pass_: str) -> None:
    known, found = lookup(implementation), operation(name)
    judged = 0
    for setting in [{}, *SETTINGS[name]]:
        problem = problem_of(name, dtype="float64", **{"pass": pass_}, **setting)
        if not runs(known, problem):
            assert known.reason_against(problem, HERE)
            continue
        inputs = problem.inputs("cpu")
        output, gradients = passes.bind(pass_, known.prepare(problem), inputs).outputs()
        errors = found.judge(problem, inputs, output, gradients)
        wanted = ["output"] if pass_ == "forward" else ["output", "x", "weights"]
        assert [one.name for one in errors] == wanted
        assert all(one.finite and one.relative is not None for one in errors)
        if known.exact:
            assert max(one.relative or 0 for one in errors) < 1e-12, setting
        judged += 1
    assert judged or known.available(HERE)


@pytest.mark.parametrize("name", OPERATIONS)
def test_problems_are_data(name: str) -> None:
    for setting in [{}, *SETTINGS[name]]:
        problem = problem_of(name, **setting)
        assert type(problem).from_axes(problem.axes()) == problem
        assert {"pass", "dtype", "seed", *operation(name).variables.values()} <= set(problem.axes())
        assert set(problem.variables()) == set(operation(name).variables)
        inputs = problem.inputs("cpu")
        assert not changed(inputs, problem.inputs("cpu"))
        assert changed(inputs, dataclasses.replace(problem, seed=1).inputs("cpu"))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    ("axis", "value"), [("seq_len", 0), ("d_model", -1), ("batch", 0), ("dtype", "float8")]
)
def test_faults_name_the_axis(name: str, axis: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{axis}: "):
        problem_of(name, **{axis: value})


@pytest.mark.parametrize("name", ["multi_head", "layer"])
def test_heads_divide_the_width(name: str) -> None:
    with pytest.raises(ValueError, match=r"^heads: 5 heads do not divide"):
        problem_of(name, heads=5)


@pytest.mark.parametrize(("name", "implementation"), members())
@pytest.mark.parametrize("pass_", ["forward", "forward_backward"])
def test_counted_flops_are_the_useful_ones(name: str, implementation: str, pass_: str) -> None:
    """An independent count: operator by operator, where nothing is masked and no attention is recomputed."""
    known = lookup(implementation)
    problem = problem_of(name, **{"pass": pass_})
    if not known.exact or not runs(known, problem):
        return
    if implementation == "layer_torch":  # its first call is forward, and fused
        with pytest.raises(Untraceable, match="transformer_encoder_layer"):
            follow(known, problem)
        return
    counted, useful = follow(known, problem).counts.flops, problem.flops()
    if pass_ != "forward" and implementation in ("layer_naive", "layer_math", *PLAIN_HEADS):
        useful -= (
            problem.attention_flops() * 0.5 / 3.5
        )  # the plain formula recomputes no scores: ×3, not ×3.5
    if pass_ != "forward" and name == "recurrent":
        useful -= 2 * problem.batch * problem.d_model**2  # nothing asks for the gradient by the first state
    assert counted == useful


def test_a_fused_layer_has_no_formula() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    from harness.counting.eager import count

    with torch.no_grad(), pytest.raises(NoFormula, match="transformer"):
        count(lambda: layer(torch.randn(1, 4, 8)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_least_bytes_are_those_of_the_tensors(name: str) -> None:
    problem = problem_of(name, dtype="float16")
    inputs = problem.inputs("cpu")
    read = sum(tensor.nbytes for tensor in inputs.differentiable)
    assert problem.min_bytes() == read + inputs.grad_output.nbytes
    both = dataclasses.replace(problem, pass_="forward_backward").min_bytes()
    assert both > dataclasses.replace(problem, pass_="backward").min_bytes() > problem.min_bytes()


def spoiled(known: Operation, problem: Any, exact: Implementation, factor: float) -> float:
    inputs = problem.inputs("cpu")
    output, _ = passes.bind("forward", exact.prepare(problem), inputs).outputs()
    output = output.clone()
    output[:, -1] *= factor
    (error,) = known.judge(problem, inputs, output, ())
    assert error.relative is not None
    return error.relative


@pytest.mark.parametrize(("name", "exact"), [
    ("feedforward", "ffn"), ("layer", "layer_flash"), ("multi_head", "multi_head_flash"),
    ("recurrent", "rnn_loop"),
])  # fmt: skip
def test_a_wrong_token_is_seen(name: str, exact: str) -> None:
    problem = problem_of(name)
    assert spoiled(operation(name), problem, lookup(exact), 1.0) < 1e-6
    assert spoiled(operation(name), problem, lookup(exact), 1.5) > 1e-2


def test_long_sequences_are_judged_by_sampled_tokens_with_exact_gradients() -> None:
    problem = problem_of("multi_head", seq_len=1200, heads=4, **{"pass": "forward_backward"})
    found, known = operation("multi_head"), lookup("multi_head_flash")
    inputs = found.judged_inputs(problem, problem.inputs("cpu"))
    silent = (inputs.grad_output == 0).all(-1).all(0)
    assert 100 < int(silent.sum()) < 1199
    assert not silent[[0, -1]].any()
    output, gradients = passes.bind("forward_backward", known.prepare(problem), inputs).outputs()
    for one in found.judge(problem, inputs, output, gradients):
        assert one.relative is not None
        assert one.relative < 1e-5


def test_results_of_another_shape_are_refused() -> None:
    problem = problem_of("feedforward")
    inputs = problem.inputs("cpu")
    with pytest.raises(ValueError, match="shape"):
        operation("feedforward").judge(problem, inputs, inputs.x[:, :-1], ())
