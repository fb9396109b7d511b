"""Who is incorrect, who is only an approximation, and what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.metrics.accuracy import accuracy, allowed_error
from harness.metrics.registry import metrics
from harness.metrics.trial import Trial
from harness.passes import bind
from harness.types import Case, Result, Status
from implementations.attention.problem import AttentionProblem
from implementations.operation import Errors, operation
from implementations.registry import load, lookup

from .fakes import FakeDevice, trial

EPS = torch.finfo(torch.float32).eps
GOOD = Errors("output", True, 1e-5, 2e-5, 1e-5)
BAD = Errors("output", True, 3e-5, 9e-5, 1e-5)
BROKEN = Errors("output", False, None, None, 1e-5)


def judged(*errors: Errors, exact: bool = True) -> Any:
    one = trial(errors=errors, exact=exact)
    accuracy([one], FakeDevice())
    return one.result


def test_a_right_result_records_its_errors() -> None:
    result = judged(GOOD)
    assert result.status is Status.OK
    values = {name: found.value for name, found in result.metrics.items()}
    assert values == {"error": 1e-5, "max_abs_error": 2e-5, "error_ratio": 1.0}


@pytest.mark.parametrize("name", ["q", "grad_q"])
def test_gradients_are_recorded_by_name(name: str) -> None:
    result = judged(GOOD, replace(GOOD, name=name))
    assert {"grad_q_error", "grad_q_max_abs_error", "grad_q_error_ratio"} < set(result.metrics)
    (known,) = metrics(["accuracy"])
    assert set(result.metrics) <= set(known.quantities)


def test_an_exact_implementation_over_twice_the_naive_error_is_incorrect_with_figures() -> None:
    result = judged(BAD)
    assert result.status is Status.INCORRECT
    for figure in ("3.00e-05", "2.00e-05", "1.00e-05", "float32"):
        assert figure in result.reason
    assert result.metrics["error_ratio"].value == pytest.approx(3.0), "the evidence stays"


def test_a_wrong_gradient_is_incorrect() -> None:
    result = judged(GOOD, replace(BAD, name="k"), replace(BROKEN, name="v"))
    assert result.status is Status.INCORRECT
    assert "gradient by k is off" in result.reason
    assert "gradient by v is not finite" in result.reason


def test_a_few_roundings_are_always_allowed() -> None:
    assert judged(Errors("output", True, 32.9 * EPS, 0.1, EPS / 10)).status is Status.OK
    assert judged(Errors("output", True, 33.1 * EPS, 0.1, EPS / 10)).status is Status.INCORRECT


def test_without_a_yardstick_roundings_decide() -> None:
    unknown = Errors("output", True, 0.0, 0.0, None)
    assert allowed_error(unknown, "bfloat16") == 2**-7 + 32 * EPS
    assert allowed_error(unknown, "float64") == 33 * torch.finfo(torch.float64).eps
    result = judged(Errors("output", True, 1.0, 1.0, None))
    assert result.status is Status.INCORRECT
    assert "plain formula" not in result.reason
    assert "error_ratio" not in result.metrics


@pytest.mark.parametrize("exact", [True, False])
def test_nan_is_always_incorrect(exact: bool) -> None:
    result = judged(BROKEN, exact=exact)
    assert (result.status, result.reason) == (Status.INCORRECT, "the output is not finite")
    assert "error" not in result.metrics, "a failure is never a number"


def test_an_approximation_is_labelled_and_never_incorrect_for_approximating() -> None:
    result = judged(Errors("output", True, 0.9, 1.0, 1e-6), exact=False)
    assert result.status is Status.OK
    assert result.notes["accuracy"].startswith("approximation")


FLOOR_ERROR = Errors("output", True, 0.5, 1.0, 1e-6)


def floored(*trials: Any) -> list[dict[str, float]]:
    for one in trials:
        one.operation = replace(one.operation, floor="mean")
    accuracy(list(trials), FakeDevice())
    return [{name: found.value for name, found in one.result.metrics.items()} for one in trials]


def test_an_approximation_is_measured_against_the_floor_beside_it() -> None:
    """The floor's own row decides; the floor and exact implementations have no such figure."""
    near = trial("near", errors=[replace(FLOOR_ERROR, relative=0.2)], exact=False)
    found, mean, exact = floored(
        near, trial("mean", errors=[FLOOR_ERROR], exact=False), trial("exact", errors=[GOOD])
    )
    assert found["error_over_floor"] == pytest.approx(0.4)
    assert found["error"] == 0.2
    assert "error_over_floor" not in mean
    assert "error_over_floor" not in exact


def test_a_floor_without_error_gives_no_figure() -> None:
    near = trial("near", errors=[replace(FLOOR_ERROR, relative=0.2)], exact=False)
    found, _ = floored(near, trial("mean", errors=[replace(FLOOR_ERROR, relative=0.0)], exact=False))
    assert "error_over_floor" not in found


@pytest.mark.parametrize("pass_", ["forward", "forward_backward"])
def test_without_a_row_of_its_own_the_floor_is_called(pass_: str) -> None:
    """On real attention: the figure equals the quotient of what two rows would have had."""
    problem = AttentionProblem(seq_len=64, heads=2, head_dim=16, pass_=pass_)  # type: ignore[arg-type]
    load("attention")

    def of(*names: str) -> Any:
        inputs, trials = problem.inputs("cpu"), []
        for name in names:
            known = lookup(name)
            bound = bind(pass_, known.prepare(problem), inputs)
            case = Case(name, "attention", "cpu", problem.axes())
            trials.append(
                Trial(case, operation("attention"), known, problem, False, Result(case, Status.OK),
                      inputs=inputs, call=bound.call, outputs=bound.outputs)
            )  # fmt: skip
        accuracy(trials, FakeDevice())
        return [one.result.metrics for one in trials]

    (alone,), (beside, mean) = of("linear_elu"), of("linear_elu", "uniform")
    tensors = ("", "grad_q_", "grad_k_", "grad_v_") if pass_ == "forward_backward" else ("",)
    for tensor in tensors:
        over = alone[f"{tensor}error_over_floor"].value
        assert over == beside[f"{tensor}error_over_floor"].value
        assert over == pytest.approx(beside[f"{tensor}error"].value / mean[f"{tensor}error"].value)


def test_what_a_call_raises_is_its_status() -> None:
    bad, good = trial("bad", call=lambda: 1 // 0, errors=[GOOD]), trial("good", errors=[GOOD])
    accuracy([bad, good], FakeDevice())
    assert bad.result.status is Status.ERROR
    assert "ZeroDivisionError during accuracy" in bad.result.reason
    assert good.alive


@dataclass
class _Choosing:
    """An operation that judges the first row alone."""

    seen: list[list[float]]
    floor: str = ""

    def judged_inputs(self, problem: Any, inputs: Any) -> Any:
        kept = torch.zeros_like(inputs.grad_output)
        kept[0] = inputs.grad_output[0]
        return SimpleNamespace(grad_output=kept)

    def judge(self, problem: Any, inputs: Any, output: Any, gradients: Any) -> Iterator[Errors]:
        self.seen.append(inputs.grad_output.tolist())
        return iter((GOOD,))


def test_a_sampled_gradient_is_sent_back_and_then_restored() -> None:
    one = trial()
    gradient = torch.tensor([1.0, 2.0])
    one.inputs = SimpleNamespace(grad_output=gradient)
    one.problem.pass_ = "forward_backward"
    choosing = _Choosing([])
    one.operation = choosing  # type: ignore[assignment]

    def outputs() -> tuple[Any, tuple[Any, ...]]:
        choosing.seen.append(gradient.tolist())
        return torch.zeros(1), ()

    one.outputs = outputs
    accuracy([one], FakeDevice())
    assert choosing.seen == [[1.0, 0.0], [1.0, 0.0]]
    assert gradient.tolist() == [1.0, 2.0]
    one.problem.pass_ = "forward"
    accuracy([one], FakeDevice())
    assert choosing.seen[-1] == [1.0, 2.0]
